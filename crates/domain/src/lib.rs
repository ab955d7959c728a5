//! The types and rules of obey: what a session is, which commands it accepts, what can happen in it and what
//! must happen next. Performs nothing: no I/O, no clock, no randomness, no protocol. Every other crate builds
//! on this one.

pub mod agent;
pub mod answer;
pub mod author;
pub mod budget;
pub mod caller_environment;
pub mod command;
pub mod containment;
pub mod error;
pub mod event;
pub mod git_command;
pub mod id;
pub mod limits;
pub mod machine;
pub mod notice;
pub mod orchestration;
pub mod overview;
pub mod permission;
pub mod price;
pub mod queue;
pub mod redact;
pub mod request;
pub mod resources;
pub mod session;
pub mod shared_budget;
pub mod state;
pub mod time;
pub mod tools;
pub mod turn;
pub mod usage;
pub mod worker;

pub use agent::{AgentEvent, AgentInput, Exit};
pub use budget::{Budget, Spending};
pub use command::{Command, QueueCommand, StopMode, WhenBusy};
pub use containment::{AgentNetwork, Containment};
pub use error::{Error, ErrorCode, ErrorKind};
pub use event::{Event, EventKind};
pub use id::{CallId, CampaignId, QueueEntryId, RequestId, SessionId, TurnId};
pub use machine::{Decided, Effect, Fork, Input, Machine, StopStep, Timer};
pub use permission::{Decision, Mode};
pub use redact::{Originals, Redact};
pub use resources::{Resource, ResourceLimits};
pub use session::{LaunchPolicy, ProviderKind, SYSTEM_PROMPT_CAPABILITY, SessionSpec, Status, Timeouts};
pub use state::State;
pub use time::Timestamp;
pub use usage::Usage;

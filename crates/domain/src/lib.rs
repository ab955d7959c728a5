//! The types and rules of obey: what a session is, which commands it accepts, what can happen in it and what
//! must happen next. Performs nothing: no I/O, no clock, no randomness, no protocol. Every other crate builds
//! on this one.

pub mod agent;
pub mod command;
pub mod containment;
pub mod error;
pub mod event;
pub mod git_command;
pub mod id;
pub mod limits;
pub mod machine;
pub mod permission;
pub mod redact;
pub mod request;
pub mod resources;
pub mod session;
pub mod state;
pub mod time;
pub mod tools;
pub mod turn;
pub mod usage;

pub use agent::{AgentEvent, AgentInput, Exit};
pub use command::{Command, StopMode, WhenBusy};
pub use containment::{AgentNetwork, Containment};
pub use error::{Error, ErrorCode, ErrorKind};
pub use event::{Event, EventKind};
pub use id::{CallId, CampaignId, RequestId, SessionId, TurnId};
pub use machine::{Decided, Effect, Input, Machine, StopStep, Timer};
pub use permission::{Decision, Mode};
pub use redact::{Originals, Redact};
pub use resources::{Resource, ResourceLimits};
pub use session::{LaunchPolicy, ProviderKind, SessionSpec, Status, Timeouts};
pub use state::State;
pub use time::Timestamp;
pub use usage::Usage;

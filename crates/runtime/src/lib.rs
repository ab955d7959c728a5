//! Running sessions: supervisor, session actors, the journal, workers and worktrees. Owns everything stateful. Knows no
//! client protocol and no particular agent; those plug in through `agent-port`.

pub mod bridge;
pub mod collections;
pub mod execute;
pub mod grants;
mod helper_process;
pub mod journal;
pub mod limits;
pub mod permissions;
pub mod project_files;
pub mod retention;
pub mod session;
pub mod shared_budgets;
pub mod supervisor;
pub mod workers;
pub mod worktree;

// Parts of the runtime that are crates of their own, under the names they have here.
pub use ::containment;
use ::git;
pub use ::history;
pub use ::overview;
pub use ::settings;
pub use agent_process as process;
pub use campaigns::{campaign, client_keys, environments, records};
pub use host::trace;
pub use session::{Applied, SessionHandle, Snapshot};
pub use supervisor::{BegunSession, ImportedSession, ListedConversation, NewSession, Supervisor};

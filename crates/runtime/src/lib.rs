//! Sessions running: supervisor, session actors, the journal and its store, agent processes, campaigns.
//! Everything stateful lives here. Knows no protocol and no single agent; those plug into `agent-port`.

pub mod bridge;
pub mod campaign;
pub mod containment;
pub mod environments;
pub mod execute;
mod git;
pub mod grants;
mod helper_process;
pub mod journal;
pub mod limits;
pub mod permissions;
pub mod process;
pub mod retention;
pub mod session;
pub mod settings;
pub mod supervisor;
pub mod worktree;

pub use session::{Applied, SessionHandle, Snapshot};
pub use supervisor::{NewSession, Supervisor};

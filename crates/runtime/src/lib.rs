//! Running sessions: supervisor, session actors, the journal, agent processes, campaigns. Owns everything
//! stateful. Knows no client protocol and no particular agent; those plug in through `agent-port`.

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

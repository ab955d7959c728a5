//! Sessions running: supervisor, session actors, the journal and its store, agent processes, campaigns.
//! Everything stateful lives here. Knows no protocol and no single agent; those plug into `provider`.

pub mod audit;
pub mod bridge;
pub mod campaign;
pub mod clock;
pub mod containment;
pub mod environment;
pub mod environments;
pub mod execute;
pub mod failpoint;
mod git;
pub mod grants;
pub mod helper_process;
mod ids;
pub mod journal;
pub mod limits;
pub mod permissions;
pub mod process;
pub mod project_file;
pub mod provider;
pub mod retention;
pub mod session;
pub mod settings;
pub mod store;
pub mod supervisor;
pub mod toolbox;
pub mod worktree;

pub use ids::session as new_session_id;
pub use session::{Applied, SessionHandle, Snapshot};
pub use supervisor::{NewSession, Supervisor};

/// Returns the user this daemon runs as.
#[allow(unsafe_code)]
pub fn own_uid() -> u32 {
    // SAFETY: geteuid takes nothing, touches nothing and cannot fail.
    unsafe { libc::geteuid() }
}

//! What every crate needs from the machine: the clock, new ids, the daemon's own user, safe reads of a
//! repository's files, process trees, and the failpoints for tests. Knows no session, no store and no
//! protocol.

pub mod clock;
pub mod end_signal;
pub mod failpoint;
pub mod ids;
pub mod limits;
pub mod machine;
pub mod metric;
pub mod process_look;
pub mod process_tree;
pub mod project_file;
pub mod trace;
mod user_name;

pub use ids::session as new_session_id;
pub use user_name::own_user_name;

/// Returns the user this daemon runs as.
#[allow(unsafe_code)]
pub fn own_uid() -> u32 {
    // SAFETY: geteuid takes nothing, touches nothing and cannot fail.
    unsafe { libc::geteuid() }
}

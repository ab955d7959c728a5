//! The shim: the small process that holds one agent, so that the agent outlives the daemon. It spools the
//! agent's output to disk, feeds its stdin, reaps its tree and keeps its exit status. The daemon uses the
//! formats published here (`frame`, `record`, `spool`, `proc_table`, `ancestry`) to talk to it. Must not know
//! what an agent prints, what a session is, or any async runtime.

mod agent;
pub mod ancestry;
mod args;
mod confine;
mod control;
pub mod frame;
pub mod group_name;
mod hold;
mod home;
mod input;
mod launch;
pub mod limits;
pub mod proc_table;
pub mod record;
pub mod spool;
mod sys;
#[cfg(test)]
mod tests;

use std::ffi::OsString;

pub use home::{LOCK_NAME, SOCKET_NAME};
pub use launch::PROCESS_NAME;
pub use spool::Position;

/// Runs `obey shim …` and returns the exit code. `args` are the words after `shim`.
///
/// Must be called before the program has started any thread, because it forks. The caller exits with the
/// returned code without running anything else.
pub fn enter(args: impl IntoIterator<Item = OsString>) -> i32 {
    launch::run(args::Args::parse(args))
}

//! `betcode.v1` from outside: conversations as its clients have them. `talk` is such a client; the other files are what
//! conversations promise.

mod bad_input;
mod compaction;
mod conversations;
mod faithful;
mod machines;
mod permissions;
mod python;
mod reconnecting;
mod servers;
mod sessions;
pub(crate) mod settings;
mod sharing;
mod strangers;
pub(crate) mod talk;
mod worktrees;

//! `betcode.v1` from outside: conversations as its clients have them. `talk` is such a client; the other files are what
//! conversations promise.

mod bad_input;
mod compaction;
mod conversations;
mod node;
mod permissions;
mod python;
mod reconnecting;
mod servers;
mod sessions;
mod settings;
mod sharing;
mod talk;
mod worktrees;

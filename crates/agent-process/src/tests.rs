//! Tests with real agent processes. The test binary is its own shim: see `reexec`.

mod basics;
mod crashes;
mod damage;
mod disk;
mod endings;
mod fencing;
mod large;
mod lines;
mod reconnect;
pub(crate) mod reexec;
mod sending;
pub(crate) mod support;

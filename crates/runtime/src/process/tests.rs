//! Tests of agent processes with real ones. The test binary is its own shim: see `reexec`.

mod basics;
mod crashes;
mod disk;
mod endings;
mod fencing;
mod large;
mod lines;
pub(crate) mod reexec;
mod sending;
pub(crate) mod support;

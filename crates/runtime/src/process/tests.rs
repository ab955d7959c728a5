//! Tests of agent processes with real ones. The test binary is its own shim: see `reexec`.

mod basics;
pub(crate) mod reexec;
pub(crate) mod support;

//! Tests of the shim: its formats byte by byte, damaged spools, and the process itself over a raw socket.
//! How the daemon uses it is tested in `agent-process`.

mod format;
mod hold;
mod race;
mod raw;
mod reading;
mod reexec;

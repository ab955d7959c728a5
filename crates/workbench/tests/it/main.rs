//! The workbench from outside: its rules against the corpus, its scrubber against any chunking, its sandbox against
//! probes that try to get out of it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod sandbox;
mod scrub;
mod tools;

//! The workbench from outside: its rules against the corpus, its scrubber against any chunking, its tools in the sandbox.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod scrub;
mod tools;

//! The workbench from outside: its tools in the sandbox.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod tools;

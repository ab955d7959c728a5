//! The providers from outside: what they say and hear, over the port they implement.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test that cannot go on says so by failing"
)]

mod claude_golden;
mod claude_live;
mod claude_reference;
mod claude_session;
mod scripted_process;
mod support;

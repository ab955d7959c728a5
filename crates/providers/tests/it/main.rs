//! The providers from outside: what they send and receive, through the port they implement.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test that cannot go on says so by failing"
)]

mod acp_reference;
mod claude_golden;
mod claude_live;
mod claude_reference;
mod codex_golden;
mod codex_live;
mod codex_reference;
mod openai_live;
mod recording;
mod scripted_process;
mod session;
mod suite;
mod support;

//! Whole commands against a small daemon in the test's own process, over a real Unix socket.

mod answering;
mod commands;
mod fake;
mod sending;
mod world;

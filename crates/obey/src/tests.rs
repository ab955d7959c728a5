//! Whole commands against a small daemon in the test's own process, over a real Unix socket.

mod answering;
mod commands;
#[path = "../tests/it/fake.rs"]
mod fake;
#[path = "../tests/it/fake_daemon.rs"]
mod fake_daemon;
#[path = "../tests/it/fake_services.rs"]
mod fake_services;
mod sending;
mod world;

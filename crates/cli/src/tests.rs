//! Whole commands against a small daemon in the test's own process, over a real Unix socket.

mod answering;
mod commands;
#[path = "../../obey/tests/it/fake.rs"]
mod fake;
#[path = "../../obey/tests/it/fake_daemon.rs"]
mod fake_daemon;
#[path = "../../obey/tests/it/fake_overview.rs"]
mod fake_overview;
#[path = "../../obey/tests/it/fake_services.rs"]
mod fake_services;
mod sending;
mod world;

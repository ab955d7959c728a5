//! The program itself, run as people run it: exit codes, both streams, closed pipes, a real terminal, Ctrl-C,
//! starting the daemon.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on ends")]

#[path = "it/acp_library.rs"]
mod acp_library;
#[path = "it/doctor.rs"]
mod doctor;
#[path = "it/doctor_faults.rs"]
mod doctor_faults;
#[path = "it/fake.rs"]
#[allow(dead_code, reason = "shared with the tests of the functions, which use the rest")]
mod fake;
#[path = "it/fake_daemon.rs"]
mod fake_daemon;
#[path = "it/fake_overview.rs"]
mod fake_overview;
#[path = "it/fake_services.rs"]
mod fake_services;
#[path = "it/program.rs"]
mod program;
#[path = "it/service.rs"]
mod service;
#[path = "it/terminal.rs"]
mod terminal;

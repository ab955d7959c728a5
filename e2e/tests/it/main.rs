//! The end-to-end tests, one binary. Each module is one subject; `real_…` modules run real agents.

mod claude_driver;
mod faults;
mod local;
mod python_client;
mod real_claude_direct;
mod sessions;
mod stage;
mod upgrade;

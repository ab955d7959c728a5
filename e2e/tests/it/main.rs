//! The end-to-end tests, one binary. Each module is one subject; `real_…` modules run real agents.

#![allow(clippy::print_stdout, reason = "tests say what they skip and which seed they use")]

mod acp;
mod agents;
mod background_workers;
mod bad_agents;
mod betcode;
mod boundary;
mod claude_driver;
mod codex_driver;
mod contextd;
mod everyday;
mod faults;
mod forge;
mod local;
mod mcp;
mod openai;
mod page;
mod python_client;
mod real_acp;
mod real_claude;
mod real_claude_direct;
mod real_codex;
mod real_codex_direct;
mod real_openclaw;
mod relay;
mod release;
mod roz;
mod service;
mod sessions;
mod stage;
mod suite;
mod upgrade;
mod workers;

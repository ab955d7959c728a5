//! The `obey` program. Checks its first argument before anything else: a shim, a sandbox stage, a scripted
//! agent and an agent's notify program must start without threads, an async runtime or a command-line parser.
//! Everything else is the command line.

mod answers;
mod app;
mod args;
mod autostart;
mod client;
mod commands;
mod config;
mod console;
mod conversation;
mod daemon;
mod events;
mod exit;
mod failure;
mod feed;
mod format;
mod holder;
mod inherited;
mod input;
mod json;
mod limits;
mod names;
mod nearest;
mod output;
mod paths;
mod programs;
mod render;
mod request_prompts;
mod resolve;
mod running;
mod serve;
mod table;
mod toolbox;
mod vars;
mod view;

#[cfg(test)]
mod tests;

use std::ffi::OsString;

/// The argument that makes this program the process that builds a sandbox.
const STAGE_WORD: &str = "sandbox-stage";

/// Dispatches on the first argument; anything else is the command line for people.
fn main() {
    let mut args = std::env::args_os();
    let program = args.next().unwrap_or_else(|| "obey".into());
    let rest: Vec<OsString> = args.collect();
    let code = match rest.first().and_then(|word| word.to_str()) {
        Some("shim") => shim_entry(rest.into_iter().skip(1)),
        Some("scripted-agent") => scripted_entry(),
        Some(STAGE_WORD) => sandbox::enter(&rest[1..]),
        Some(sandbox::agent::WORD) => sandbox::agent::enter(&rest[1..]),
        Some("acp-notify") => commands::forward_notification(&rest[1..]),
        _ => app::run(std::iter::once(program).chain(rest)),
    };
    std::process::exit(code);
}

/// Becomes the process that holds one agent. It forks, so no thread may exist yet.
fn shim_entry(args: impl Iterator<Item = OsString>) -> i32 {
    shim::enter(args)
}

/// Becomes the built-in agent.
fn scripted_entry() -> i32 {
    providers::scripted::run_agent(std::io::stdin(), std::io::stdout())
}

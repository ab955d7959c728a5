//! The `obey` program. Checks its first argument before anything else: a shim, a sandbox stage, a scripted
//! agent and an agent's notify program must start without threads, an async runtime or a command-line parser.
//! Everything else is the command line.

mod acp;
mod audit_file;
mod doctor;
mod limits;
mod local;
mod memory_setup;
mod paired_machines;
mod relay_commands;
mod serve;

use std::ffi::OsString;

/// Dispatches on the first argument; anything else is the command line for people.
fn main() {
    let mut args = std::env::args_os();
    let program = args.next().unwrap_or_else(|| "obey".into());
    let rest: Vec<OsString> = args.collect();
    let code = match rest.first().and_then(|word| word.to_str()) {
        Some("shim") => shim_entry(rest.into_iter().skip(1)),
        Some("scripted-agent") => scripted_entry(),
        Some(daemon::STAGE_WORD) => sandbox::enter(&rest[1..]),
        Some(sandbox::agent::WORD) => sandbox::agent::enter(&rest[1..]),
        Some("acp-notify") => acp::forward_notification(&rest[1..]),
        _ => cli::app::run(std::iter::once(program).chain(rest), &local::Local),
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

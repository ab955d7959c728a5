//! The benchmarks: `bench [SECTION…]` prints a table with the ratio to a floor measured in the same run.
//!
//! One program, five roles: the runner and its client; `floor`, the bare relay everything is compared with;
//! `tools`, a server of tools for agents that are driven directly; `scripted-agent`, the emitter that both
//! sides read from; and `shim` or `sandbox-stage`, which pass on to the real one. The last names are those by
//! which the daemon calls its own executable: see `daemon.rs`.
#![allow(clippy::print_stdout, reason = "the table is what this program is for")]

mod clock;
mod daemon;
mod direct;
mod editor;
mod emitter;
mod floor;
mod http1;
mod machine;
mod peer;
mod reader;
mod rivals;
mod sections;
mod sides;
mod stats;
mod stub_agent;
mod table;
mod talk;
mod tokens;
mod tools;

use anyhow::{Result, bail};

use table::Table;

/// Set in the measuring process, which has a session and a priority of its own.
const INNER: &str = "OBEY_BENCH_INNER";

fn main() -> std::process::ExitCode {
    match run() {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            println!("error: {error:#}");
            std::process::ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.first().map(String::as_str) {
        Some("scripted-agent") => emitter::run(),
        Some("acp-agent") => stub_agent::run(),
        Some("shim" | "sandbox-stage") => daemon::become_shim(),
        Some("floor") => floor::run(&args[1..]),
        Some("tools") => tools::serve(),
        _ if std::env::var_os(INNER).is_none() => machine::rerun(INNER),
        _ => {
            machine::go_first();
            measure(&args)
        }
    }
}

fn measure(wanted: &[String]) -> Result<()> {
    let known = || sections::ALL.iter().chain(sections::NAMED);
    if let Some(unknown) = wanted.iter().find(|name| !known().any(|(known, _)| known == name)) {
        let names: Vec<&str> = known().map(|(name, _)| *name).collect();
        bail!("there is no section {unknown}; there are {}", names.join(", "));
    }
    // One thread: a client that moves between cores would add its own wake-ups to every measurement.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut table = Table::default();
    let is_wanted = |name: &str| wanted.iter().any(|wanted| wanted == name);
    let chosen: Vec<_> = match wanted {
        [] => sections::ALL.iter().collect(),
        _ => known().filter(|(name, _)| is_wanted(name)).collect(),
    };
    for (name, run) in chosen {
        println!("\n== {name}   {}", machine::pressure());
        let before = machine::Steal::now();
        if let Err(error) = runtime.block_on(run(&mut table)) {
            println!("   {name} failed: {error:#}");
            table.failed(name);
        }
        println!("   steal during it: {:.1} %", before.percent());
    }
    println!("\n{table}");
    if table.is_sound() { Ok(()) } else { bail!("a section failed or lost something") }
}

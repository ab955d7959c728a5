//! A hostile agent for the escape suite: an ACP program that runs what its prompt says, and the probes that a shell has no
//! words for. One program plays all parts, so that a probe runs wherever the agent runs, inside the sandbox too.
//! Reports what happened; what should have happened is for the tests to know.

mod acp;
mod bystander;
mod call;
mod connection;
mod doors;
mod kernel;
mod lineage;
mod load;
mod message;
mod raw_http;

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

pub use acp::{Attempt, Batch, Outcome, Report};

/// Printed by a probe that got what it wanted.
pub const POSSIBLE: &str = "POSSIBLE";

/// Plays the part that the arguments name: without any, the agent.
pub fn play(arguments: Vec<OsString>) -> ExitCode {
    let words: Vec<String> = arguments.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match part(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("failed: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn part(words: &[&str]) -> Result<()> {
    match *words {
        [] => acp::serve(),
        ["bystander", folder] => bystander::stand(folder),
        ["call", address, method, ref fields @ ..] => call::call(address, method, fields),
        ["walk", address, session] => call::walk(address, session),
        ["grpc-web", address, method, ref fields @ ..] => raw_http::grpc_web(address, method, fields),
        ["http", address, verb, path, ref rest @ ..] => raw_http::request(address, verb, path, rest),
        ["passed", address, method, ref fields @ ..] => call::over_passed_connection(address, method, fields),
        ["pass-connection", address] => connection::connect_and_pass(address),
        ["orphan", ref command @ ..] => lineage::orphan(command),
        ["leave", ref command @ ..] => lineage::leave(command),
        ["subreaper", ref command @ ..] => lineage::subreaper(command),
        ["vanish", address, tries, path, body] => lineage::vanish(address, tries.parse()?, path, body),
        ["shim", socket] => connection::speak_to_shim(socket),
        ["listen-to", address] => connection::listen_to(address),
        ["ask", address, line] => connection::ask(address, line),
        ["kernel", probe, ref rest @ ..] => kernel::probe(probe, rest),
        ["doors"] => {
            doors::all();
            Ok(())
        }
        ["open-for-writing", ref paths @ ..] => {
            paths.iter().for_each(|path| doors::open_for_writing(path));
            Ok(())
        }
        ["set-user-bit", folder] => doors::set_user_bit(folder),
        ["capability", path] => {
            doors::capability(path);
            Ok(())
        }
        ["reach", address] => doors::reach(address),
        ["send-datagram", address] => doors::send_datagram(address),
        ["memory-of", pid, start] => kernel::memory_of(pid.parse()?, start),
        ["load", kind, ref rest @ ..] => load::load(kind, rest),
        _ => bail!("no such part: {words:?}"),
    }
}

/// Prints a line. A reader that is gone is no error.
#[allow(clippy::print_stdout, reason = "what a probe prints is its result")]
fn say(line: &str) {
    use std::io::Write as _;
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// The path of this program.
fn own_program() -> Result<std::path::PathBuf> {
    std::env::current_exe().context("this program has no path")
}

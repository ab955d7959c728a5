//! The sandbox: what commands can do, what they cannot, and that nothing is left of them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod agent;
mod ahead;
mod bombs;
mod escape;
mod git;
mod replaced;
mod running;
mod within;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use sandbox::{Command, CommandEnd, Config, Limits, Network, Output, Sandbox, Tier};

/// The example that becomes the stage, beside the tests in the build folder.
pub(crate) fn stage() -> PathBuf {
    let mut folder = std::env::current_exe().unwrap();
    folder.pop();
    folder.pop();
    folder.join("examples").join("stage")
}

pub(crate) fn config(highest: Tier) -> Config {
    let mut config = Config::new(vec![stage().into(), "sandbox-stage".into()]);
    config.highest = highest;
    config
}

pub(crate) async fn sandbox(highest: Tier) -> Sandbox {
    let sandbox = Sandbox::probe(config(highest)).await;
    println!("sandbox tier: {} (level {}), {:?}", sandbox.tier(), sandbox.tier().level(), sandbox.findings());
    sandbox
}

pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

pub(crate) fn command(root: &std::path::Path, script: &str) -> Command {
    Command {
        root: root.canonicalize().unwrap(),
        cwd: PathBuf::new(),
        argv: ["/bin/sh", "-c", script].map(OsString::from).to_vec(),
        env: Vec::new(),
        limits: Limits::default(),
        network: Network::default(),
        timeout: DEADLINE,
    }
}

pub(crate) struct Outcome {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) end: CommandEnd,
}

pub(crate) async fn run(sandbox: &Sandbox, command: Command) -> Outcome {
    let mut running = sandbox.run(command).await.unwrap();
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let collect = async {
        while let Some(output) = running.next().await {
            match output {
                Output::Stdout(chunk) => stdout.extend(chunk),
                Output::Stderr(chunk) => stderr.extend(chunk),
                Output::Ended(end) => return end,
            }
        }
        panic!("no end");
    };
    let end = tokio::time::timeout(2 * DEADLINE, collect).await.expect("the command ends");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Outcome { stdout: text(stdout), stderr: text(stderr), end }
}

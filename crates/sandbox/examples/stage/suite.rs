//! Plays the daemon: prepares the ground, locks the probes in at a tier, prints what they say and what has changed.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use sandbox::{Command, Config, Limits, Network, Output, Sandbox, Tier};

use crate::ground::Held;

pub(crate) fn run(tier: &str) -> i32 {
    block_on(locked_in(named(tier)))
}

/// Runs a command that does not end, says so, and waits to be killed.
pub(crate) fn hold(tier: &str, root: PathBuf, word: &str) -> i32 {
    let own = std::env::current_exe().unwrap();
    let mut config = Config::new(vec![own.into(), "sandbox-stage".into()]);
    config.highest = named(tier);
    let script = format!("sh -c 'sleep 600; : {word}' & wait");
    block_on(async move {
        let sandbox = Sandbox::probe(config).await;
        let argv = vec!["/bin/sh".into(), "-c".into(), script.into()];
        let mut running = sandbox.run(command(root, argv)).await.unwrap();
        println!("running");
        while running.next().await.is_some() {}
        0
    })
}

fn named(tier: &str) -> Tier {
    match tier {
        "namespaces" => Tier::Namespaces,
        _ => Tier::Landlock,
    }
}

pub(crate) fn block_on(work: impl Future<Output = i32>) -> i32 {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

pub(crate) fn command(root: PathBuf, argv: Vec<OsString>) -> Command {
    Command {
        root,
        cwd: PathBuf::new(),
        argv,
        env: Vec::new(),
        limits: Limits::default(),
        network: Network::default(),
        timeout: Duration::from_secs(60),
    }
}

/// Waits until a placeholder is taken away; one that stays is told as a change.
async fn gone(placeholder: &std::path::Path) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
    let mut ticks = tokio::time::interval(Duration::from_millis(5));
    while placeholder.exists() && tokio::time::Instant::now() < deadline {
        ticks.tick().await;
    }
}

async fn locked_in(highest: Tier) -> i32 {
    let own = std::env::current_exe().unwrap();
    let mut config = Config::new(vec![own.clone().into(), "sandbox-stage".into()]);
    config.highest = highest;
    // The program the probes are in.
    config.read_only = vec![own.parent().unwrap().to_owned()];
    let sandbox = Sandbox::probe(config).await;
    println!("tier {}", sandbox.tier());
    println!("abi {}", sandbox.findings().landlock_abi);
    for note in &sandbox.findings().notes {
        println!("note {note}");
    }
    if sandbox.tier() != highest {
        return 3;
    }
    let mut held = Held::prepare().unwrap();
    // What the attempts are made in was made ahead, as it is for most commands.
    for _ in 0..2 {
        let mut running = sandbox.run(command(held.ground.root.clone(), vec!["true".into()])).await.unwrap();
        while running.next().await.is_some() {}
    }
    let argv = vec![own.into(), "escape".into(), serde_json::to_string(&held.ground).unwrap().into()];
    let command = command(held.ground.root.clone(), argv);
    let mut running = sandbox.run(command).await.unwrap();
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    while let Some(output) = running.next().await {
        match output {
            Output::Stdout(chunk) => stdout.extend(chunk),
            Output::Stderr(chunk) => stderr.extend(chunk),
            Output::Ended(end) => println!("end {} {}", end.exit_code, end.timed_out),
        }
    }
    for line in String::from_utf8_lossy(&stdout).lines() {
        println!("probe {line}");
    }
    eprint!("{}", String::from_utf8_lossy(&stderr));
    gone(&held.ground.root.join(".gitleaks.toml")).await;
    gone(&held.ground.root.join(".git/config.worktree")).await;
    gone(&held.ground.root.join(".git/commondir")).await;
    for change in held.changes() {
        println!("changed {change}");
    }
    0
}

//! A data folder that an earlier release wrote is opened by this program: nothing in it is lost, and work goes on.
//! `e2e/tests/data/release-VERSION.tar.gz` has the folder of each release, and what `obey session log first --json` printed then.

use std::fs;
use std::os::unix::fs::DirBuilderExt as _;

use anyhow::{Context, Result, ensure};
use e2e::cli::Cli;
use e2e::daemon::Daemon;
use e2e::deadline::within;
use e2e::tools;
use e2e::world::World;
use serde_json::Value;

/// The releases whose data must still be readable.
const RELEASES: [&str; 1] = ["0.1.0"];

/// Data of an old release must not be removed for its age.
const KEPT: &str = "[retention]\nactivities_days = 36500\nevents_days = 36500\nsessions_days = 36500\n";

#[tokio::test]
async fn data_of_every_release_is_opened_with_all_that_is_in_it() -> Result<()> {
    for release in RELEASES {
        opens(release).await.with_context(|| release.to_owned())?;
    }
    Ok(())
}

async fn opens(release: &str) -> Result<()> {
    let world = World::new()?;
    fs::create_dir_all(world.path("config/obey"))?;
    fs::write(world.path("config/obey/config.toml"), KEPT)?;
    let data = world.path("data/obey");
    fs::DirBuilder::new().mode(0o700).recursive(true).create(&data)?;
    let archive = tools::repository().join(format!("e2e/tests/data/release-{release}.tar.gz"));
    let words = ["--no-same-owner", "-xzf", &archive.to_string_lossy(), "-C", &data.to_string_lossy()];
    super::run(&world, "tar", &words, world.root()).await?;
    let expected = fs::read_to_string(data.join("first.jsonl"))?;

    let mut daemon = Daemon::start(&world).await?;
    let cli = Cli::new(&world);
    let printed = cli.ok(&["session", "log", "first", "--json"]).await?.json_lines()?;
    let expected: Vec<Value> = expected.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    ensure!(printed.len() == expected.len(), "{} events, {} then", printed.len(), expected.len());
    for (now, then) in printed.iter().zip(&expected) {
        let fields = then.as_object().context("no object")?;
        // Fields may be added, never changed.
        let changed = fields.iter().find(|(name, value)| now.get(name.as_str()) != Some(value));
        ensure!(changed.is_none(), "{changed:?} in {now}");
    }
    let session = cli.json(&["session", "info", "first"]).await?;
    ensure!(session.to_string().contains("STOPPED"), "{session}");
    let campaigns = cli.json(&["campaigns"]).await?;
    ensure!(campaigns.to_string().contains("\"shop\""), "{campaigns}");
    let memory = cli.ok(&["memory", "get", "mem_1e712fca879f6fd35f3456193bda448e"]).await?;
    ensure!(memory.stdout.contains("start it with make redis"), "{memory:?}");
    // The index of the history is made again, a moment after the start.
    within("the history", async {
        while !cli.ok(&["search", "hello"]).await?.stdout.contains("hello from") {}
        anyhow::Ok(())
    })
    .await??;
    ensure!(cli.ok(&["audit", "verify"]).await?.stdout.contains("intact"), "the audit is broken");

    cli.ok(&["campaign", "add", ".", "--name", "new"]).await?;
    cli.ok(&["session", "create", "-c", "new", "-p", "scripted", "--name", "second"]).await?;
    let sent = cli.ok(&["session", "send", "second", "SCRIPT: [{\"text\":\"and on\"}]"]).await?;
    ensure!(sent.stdout.contains("and on"), "{sent:?}");
    daemon.terminate().await?;
    Ok(())
}

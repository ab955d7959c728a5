//! The workbench on the command line.

use anyhow::{Context, Result, ensure};
use e2e::cli::Cli;
use e2e::world::World;
use serde_json::Value;

use super::bench::Bench;
use crate::stage::{Agent, Stage};

fn text<'a>(value: &'a Value, name: &str) -> Result<&'a str> {
    value[name].as_str().with_context(|| format!("no {name} in {value}"))
}

#[tokio::test]
async fn commands_run_in_the_sandbox() -> Result<()> {
    let bench = Bench::start().await?;
    let cli = Cli::new(&bench.world);
    let done = cli.run(&["exec", "--sandbox", "--", "cat README.md; echo bad >&2; exit 7"]).await?;
    ensure!(done.code == Some(7), "{done:#?}");
    ensure!(done.stdout == "A project for tests.\n" && done.stderr.contains("bad\n"), "{done:#?}");
    ensure!(done.stderr.contains("(exit 7") && done.stderr.contains("[sandbox: "), "{done:#?}");
    let words = cli.ok(&["exec", "--sandbox", "--", "printf", "%s|", "a b", "it's"]).await?;
    ensure!(words.stdout.trim_end() == "a b|it's|", "{words:#?}");
    let timed = cli.run(&["exec", "--sandbox", "--timeout", "1s", "--", "sleep 600"]).await?;
    ensure!(timed.code == Some(124), "{timed:#?}");
    let refused = cli.run(&["exec", "--sandbox", "--", "git push --force"]).await?;
    ensure!(refused.code == Some(6) && refused.stderr.contains("OBEY-1041"), "{refused:#?}");
    let network = cli.run(&["exec", "--sandbox", "--", "exec 3<>/dev/tcp/127.0.0.1/50051"]).await?;
    ensure!(network.code != Some(0), "{network:#?}");
    bench.end().await
}

#[tokio::test]
async fn knowledge_is_kept_and_found_on_the_command_line() -> Result<()> {
    let bench = Bench::start().await?;
    let cli = Cli::new(&bench.world);
    let stored = cli
        .json(&[
            "memory",
            "store",
            "Pool runs empty",
            "Raise max_connections",
            "--outcome",
            "failure",
            "--tag",
            "db",
        ])
        .await?;
    let id = text(&stored, "id")?.to_owned();
    let found = cli.ok(&["memory", "search", "database connection pool"]).await?;
    ensure!(found.stdout.contains(&id) && found.stdout.contains("Pool runs empty"), "{found:#?}");
    ensure!(cli.ok(&["memory", "get", &id]).await?.stdout.contains("Raise max_connections"));
    let judged = cli.ok(&["memory", "feedback", &id, "--helpful"]).await?;
    ensure!(judged.stdout == "Confidence: 0.90\n", "{judged:#?}");
    let saved = cli.ok(&["checkpoint", "save", "half way", "--tag", "x"]).await?.stdout;
    ensure!(cli.ok(&["checkpoint", "list"]).await?.stdout.contains(saved.trim()));
    let resumed = cli.ok(&["checkpoint", "resume", saved.trim(), "--level", "full"]).await?;
    ensure!(resumed.stdout.contains("Where it stood: half way"), "{resumed:#?}");
    cli.ok(&[
        "remediation",
        "record",
        "DB down",
        "--problem",
        "connect to 127.0.0.1:1 failed",
        "--solution",
        "start it",
    ])
    .await?;
    let cure = cli.ok(&["remediation", "search", "connect to 10.0.0.1:99 failed"]).await?;
    ensure!(cure.stdout.contains("1.00  DB down: start it"), "{cure:#?}");
    let denied = cli.run(&["policy", "check", "git push --force"]).await?;
    ensure!(denied.code == Some(6) && denied.stdout.contains("instead: Use `git push"), "{denied:#?}");
    ensure!(cli.ok(&["policy", "check", "ls"]).await?.stdout.contains("Nothing stands against it."));
    ensure!(cli.ok(&["policy", "list", "--category", "repo"]).await?.stdout.contains("repo-force-push"));
    ensure!(cli.ok(&["policy", "get", "repo-force-push"]).await?.stdout.contains("refused"));
    ensure!(cli.ok(&["audit", "verify"]).await?.stdout.starts_with("intact: "));
    bench.end().await
}

#[tokio::test]
async fn skills_are_written_down_and_changed_on_the_command_line() -> Result<()> {
    let bench = Bench::start().await?;
    let cli = Cli::new(&bench.world);
    cli.ok(&["skill", "create", "release", "--description", "How", "--step", "Test", "--step", "Tag"])
        .await?;
    ensure!(cli.ok(&["skill", "list"]).await?.stdout.contains("release"));
    cli.ok(&["skill", "update", "release", "--name", "ship"]).await?;
    let shown = cli.ok(&["skill", "get", "ship"]).await?;
    ensure!(shown.stdout.contains("1. Test\n2. Tag\n"), "{shown:#?}");
    cli.ok(&["skill", "delete", "ship"]).await?;
    ensure!(cli.run(&["skill", "get", "ship"]).await?.code == Some(4));
    bench.end().await
}

#[tokio::test]
async fn doctor_names_the_sandbox_tier() -> Result<()> {
    let bench = Bench::start().await?;
    let said = Cli::new(&bench.world).run(&["doctor"]).await?;
    let line =
        said.stdout.lines().find(|line| line.contains("sandbox")).context("no line about the sandbox")?;
    ensure!(line.contains("tier 3 (namespaces)") || line.contains("tier 2 (landlock)"), "{line}");
    println!("{line}");
    bench.end().await
}

/// What cannot take effect is refused by the flag that asked for it.
#[tokio::test]
async fn an_agent_without_a_system_prompt_takes_no_character_and_no_checkpoint() -> Result<()> {
    let bench = Bench::start().await?;
    let cli = Cli::new(&bench.world);
    cli.ok(&["campaign", "add", ".", "--name", "proj"]).await?;
    cli.ok(&["agent", "create", "keeper", "--system-prompt", "You keep"]).await?;
    let saved = cli.ok(&["checkpoint", "save", "half"]).await?.stdout;
    for (flag, value) in [("--agent", "keeper"), ("--checkpoint", saved.trim())] {
        let refused = cli.run(&["session", "create", "-c", "proj", "-p", "scripted", flag, value]).await?;
        ensure!(refused.code == Some(2), "{refused:#?}");
        ensure!(
            refused.stderr.contains(&format!("{flag}: agents of scripted take no system prompt")),
            "{refused:#?}"
        );
    }
    bench.end().await
}

#[tokio::test]
async fn real_claude_starts_as_an_agent_of_the_catalogue_and_from_a_checkpoint() -> Result<()> {
    let Some(world) = World::with_claude()? else { return Ok(()) };
    let mut daemon = e2e::daemon::Daemon::start(&world).await?;
    let cli = Cli::new(&world);
    cli.ok(&["campaign", "add", ".", "--name", "proj"]).await?;
    cli.ok(&["skill", "create", "shipping", "--step", "Pack the zebra"]).await?;
    let prompt = "You are the keeper of giraffes.";
    cli.ok(&["agent", "create", "keeper", "--system-prompt", prompt, "--skill", "shipping"]).await?;
    let saved = cli.ok(&["checkpoint", "save", "the ostrich is fed"]).await?.stdout;
    let create = [
        "session",
        "create",
        "-c",
        "proj",
        "-p",
        "claude",
        "--agent",
        "keeper",
        "--checkpoint",
        saved.trim(),
        "--message",
        "who are you",
    ];
    let session = cli.json(&create).await?;
    ensure!(session["agent_name"] == "keeper", "{session}");
    cli.ok(&["session", "wait", text(&session, "id")?]).await?;
    let requests = world.model().requests();
    let sent: String = requests.iter().map(|request| request.body.to_string()).collect();
    for word in ["keeper of giraffes", "Pack the zebra", "the ostrich is fed"] {
        ensure!(sent.contains(word), "the model was not told: {word}");
    }
    cli.ok(&["session", "stop", text(&session, "id")?]).await?;
    daemon.terminate().await?;
    daemon.assert_no_descendants().await
}

#[tokio::test]
async fn a_session_of_an_agent_is_named_as_everywhere() -> Result<()> {
    let stage = Stage::open(Agent::Scripted).await?.context("the scripted agent is part of the daemon")?;
    let cli = stage.cli();
    let create = ["session", "create", "--campaign", "demo", "--provider", "scripted", "--name"];
    let id = cli.ok(&[&create[..], &["worker"]].concat()).await?.session_id()?;
    let echo = ["--", "echo", "by its name"];
    for session in ["worker", id.as_str(), &id[..20]] {
        let said = cli.ok(&[&["exec", "--sandbox", "--session", session][..], &echo].concat()).await?;
        ensure!(said.stdout.contains("by its name"), "{said:?}");
    }
    cli.ok(&["checkpoint", "save", "half way", "--session", "worker"]).await?;
    let refused = cli.run(&["checkpoint", "save", "half way", "--session", "nobody"]).await?;
    ensure!(refused.code == Some(4) && refused.stderr.contains("nobody"), "{refused:?}");
    let refused = cli.run(&[&create[..], &["worker"]].concat()).await?;
    ensure!(refused.code == Some(2) && refused.stderr.contains("worker-2"), "{refused:?}");
    stage.close().await
}

//! `obey run`, the short words beside it, and completion that knows names.

use anyhow::{Context, Result};
use e2e::cli::{Cli, Output};
use e2e::world::World;
use serde_json::{Value, json};

use crate::stage::{Agent, script, stage};

fn prompt(key: &str, steps: Value) -> String {
    script(Agent::Scripted, key, &steps)
}

fn line_of(output: &Output, name: &str) -> Option<String> {
    output
        .stdout
        .lines()
        .find_map(|line| line.strip_prefix(&format!("{name}:")))
        .map(|text| text.trim().to_owned())
}

#[tokio::test]
async fn run_registers_the_repository_starts_an_agent_and_follows_it() -> Result<()> {
    let world = World::new()?;
    let cli = Cli::new(&world);
    let text = prompt("hi", json!([{"text": "Hello from here."}]));
    let refused = cli.run(&["run", &text, "-p", "scripted"]).await?;
    assert_eq!(refused.code, Some(4), "{refused:?}");
    assert!(refused.stderr.contains("--yes"), "{refused:?}");
    assert!(refused.stderr.contains("is not registered as a campaign"), "{refused:?}");
    let unknown = cli.run(&["run", &text, "-p", "scriptd", "--yes"]).await?;
    assert_eq!(unknown.code, Some(2), "{unknown:?}");
    let campaigns = cli.json(&["campaigns"]).await?;
    assert_eq!(campaigns["campaigns"], json!([]), "nothing is registered for an agent that does not exist");
    let done = cli.ok(&["run", &text, "-p", "scripted", "--yes", "--name", "greeter"]).await?;
    assert!(line_of(&done, "Session").is_some_and(|id| id.starts_with("sess_")), "{done:?}");
    assert!(done.stderr.contains("as the campaign project."), "one word for a registered folder: {done:?}");
    let project = world.project().canonicalize()?.display().to_string();
    assert_eq!(line_of(&done, "Folder"), Some(project), "{done:?}");
    assert_eq!(line_of(&done, "Branch").as_deref(), Some("main"), "{done:?}");
    assert!(done.stdout.contains("Hello from here."), "{done:?}");
    // Registered once: nothing is asked the second time, and one object says it all.
    let again = cli.ok(&["run", &text, "-p", "scripted", "--json"]).await?.json()?;
    assert_eq!(again["branch"], "main", "{again}");
    assert!(again["session_id"].as_str().is_some_and(|id| id.starts_with("sess_")), "{again}");
    let failing = prompt("bad", json!([{"error": "broken"}]));
    let failed = cli.run(&["run", &failing, "-p", "scripted"]).await?;
    assert_eq!(failed.code, Some(7), "{failed:?}");
    cli.ok(&["stop", "--sessions"]).await?;
    Ok(())
}

#[tokio::test]
async fn run_makes_a_tree_named_after_the_prompt_and_uses_it_again() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let cli = stage.cli();
    let text = prompt("Fix the cart", json!([{"text": "done"}]));
    let first = cli.ok(&["run", &text, "-w", "-p", "scripted", "--json"]).await?.json()?;
    let branch = first["branch"].as_str().context("no branch")?.to_owned();
    assert!(branch.to_lowercase().contains("fix-the-cart"), "{first}");
    let folder = first["folder"].as_str().context("no folder")?.to_owned();
    assert_ne!(folder, stage.world.project().display().to_string(), "{first}");
    assert!(!folder.ends_with('/'), "{first}");
    let named = cli.ok(&["run", &text, "-w", "tree-b", "-p", "scripted", "--json"]).await?.json()?;
    let again = cli.ok(&["run", &text, "-w", "tree-b", "-p", "scripted", "--json"]).await?.json()?;
    assert_eq!(named["folder"], again["folder"]);
    assert_eq!(named["branch"], "tree-b", "{named}");
    stage.close().await
}

/// What `obey ps` shows of a session that nobody named says what it is about, and nothing that must not be seen.
#[tokio::test]
async fn a_session_without_a_name_is_called_after_its_prompt() -> Result<()> {
    const KEY: &str = "AKIAZ7QK3M5N6P2R4T6V";
    let stage = stage!(Agent::Scripted);
    let cli = stage.cli();
    let text = prompt("Fix the login bug in the cart", json!([{"hang": true}]));
    for name in ["fix-the-login-bug", "fix-the-login-bug-2"] {
        let made = cli.ok(&["run", &text, "-p", "scripted", "--detach", "--json"]).await?.json()?;
        assert_eq!(made["name"], name, "{made}");
    }
    let secret = prompt(&format!("use {KEY} now"), json!([{"text": "x"}]));
    let made = cli.ok(&["run", &secret, "-w", "-p", "scripted", "--json"]).await?.json()?;
    let shown = format!("{} {}", made["name"], made["branch"]).to_uppercase();
    assert!(shown.contains("USE-REDACTED") && !shown.contains(KEY), "{made}");
    let wordless = prompt("", json!([{"text": "x"}])).replace("SCRIPT", "日本語");
    let made = cli.ok(&["run", &wordless[..12], "-p", "scripted", "--detach", "--json"]).await?.json()?;
    assert!(made["name"].as_str().is_some_and(|name| name.starts_with("scripted-")), "{made}");
    let list = cli.ok(&["ps"]).await?.stdout;
    assert!(list.contains("fix-the-login-bug-2 "), "{list}");
    stage.close().await
}

#[tokio::test]
async fn without_a_named_agent_the_configured_one_runs_and_near_names_are_suggested() -> Result<()> {
    let world = World::new()?;
    let cli = Cli::new(&world);
    let none = cli.run(&["run", "hi", "--yes"]).await?;
    assert_eq!(none.code, Some(1), "{none:?}");
    assert!(none.stderr.contains("OBEY-2030") && none.stderr.contains("obey agents list"), "{none:?}");
    let near = cli.run(&["run", "hi", "-p", "gemni"]).await?;
    assert_eq!(near.code, Some(2), "{near:?}");
    assert!(near.stderr.contains("did you mean gemini?"), "{near:?}");
    cli.ok(&["stop"]).await?;
    world.set_env("OBEY_SESSIONS_DEFAULT_PROVIDER", "scripted");
    let done = cli.ok(&["run", "--yes", &prompt("x", json!([{"text": "by default"}]))]).await?;
    assert!(done.stdout.contains("by default"), "{done:?}");
    let created = cli.ok(&["session", "create"]).await?;
    assert!(created.session_id().is_ok(), "{created:?}");
    cli.ok(&["stop", "--sessions"]).await?;
    Ok(())
}

#[tokio::test]
async fn sessions_are_named_by_the_end_of_their_id_and_several_are_stopped_at_once() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let cli = stage.cli();
    let mut ids = Vec::new();
    for name in ["one", "two", "three"] {
        let made = cli.json(&["run", "-p", "scripted", "--name", name, "--detach"]).await?;
        ids.push(made["session_id"].as_str().context("no id")?.to_owned());
    }
    let end = &ids[1][ids[1].len() - 6..];
    assert_eq!(cli.json(&["session", "info", &end.to_lowercase()]).await?["id"], ids[1].as_str());
    let sent = cli.ok(&["send", end, &prompt("hi", json!([{"text": "short words"}]))]).await?;
    assert!(sent.stdout.contains("short words"), "{sent:?}");
    cli.ok(&["stop", "one", "three"]).await?;
    let listed = cli.ok(&["session", "list"]).await?.stdout;
    assert!(listed.contains("two") && !listed.contains("three"), "{listed}");
    let wrong = cli.run(&["stop", "two", "nobody"]).await?;
    assert_eq!(wrong.code, Some(4), "{wrong:?}");
    assert!(
        !cli.ok(&["session", "list"]).await?.stdout.contains("two"),
        "the others are stopped all the same"
    );
    stage.close().await
}

#[tokio::test]
async fn a_shell_completes_names_of_sessions_campaigns_and_agents() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let cli = stage.cli();
    cli.ok(&["run", "-p", "scripted", "--name", "nightly-build", "--detach"]).await?;
    let script = cli.ok(&["completions", "bash"]).await?;
    assert!(script.stdout.contains("complete"), "{script:?}");
    stage.world.set_env("COMPLETE", "fish");
    for (words, expected) in [
        (&["--", "obey", "attach", "ni"][..], "nightly-build"),
        (&["--", "obey", "session", "create", "--campaign", ""], "demo"),
        (&["--", "obey", "run", "-p", "scr"], "scripted"),
        (&["--", "obey", "expl"], "explain"),
    ] {
        let offered = cli.ok(words).await?;
        assert!(offered.stdout.contains(expected), "{words:?}: {offered:?}");
    }
    stage.world.remove_env("COMPLETE");
    stage.close().await
}

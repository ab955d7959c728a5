//! Notices: what a person is told while they look elsewhere, once per cause, and what is withdrawn.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::{Context, Result};
use e2e::deadline::{poll, within};
use e2e::world::World;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::stage::{Agent, Stage, script};

fn program(path: &Path, text: &str) -> Result<()> {
    std::fs::create_dir_all(path.parent().context("no folder")?)?;
    std::fs::write(path, format!("#!/bin/sh\n{text}\n"))?;
    Ok(std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))?)
}

/// Configures a hook that notes what it is told, and a desktop that notes what it shows.
fn configure(world: &World) -> Result<()> {
    let (hook, noted, shown) = (world.path("hook.sh"), world.path("noted"), world.path("shown"));
    program(&hook, &format!("cat >> {}", noted.display()))?;
    program(
        &world.path("desktop/notify-send"),
        &format!("echo \"show $*\" >> {}; echo 42", shown.display()),
    )?;
    program(&world.path("desktop/gdbus"), &format!("echo \"close $*\" >> {}", shown.display()))?;
    world.prepend_path(&world.path("desktop"))?;
    world.set_env("OBEY_NOTICES_HOOK", hook);
    world.set_env("OBEY_NOTICES_DONE_AFTER_SECS", "0");
    Ok(())
}

fn noted(world: &World) -> Vec<Value> {
    let text = std::fs::read_to_string(world.path("noted")).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

async fn wait_noted(world: &World, event: &str, kind: &str) -> Result<Value> {
    poll(&format!("{event} {kind}"), || {
        noted(world).into_iter().find(|notice| notice["event"] == event && notice["kind"] == kind)
    })
    .await
    .with_context(|| format!("noted: {:?}", noted(world)))
}

#[tokio::test]
async fn a_request_is_told_once_and_withdrawn_when_it_is_answered_elsewhere() -> Result<()> {
    let Some(stage) = Stage::open_with(Agent::Scripted, configure).await? else { return Ok(()) };
    let (cli, world) = (stage.cli(), &stage.world);
    let steps = json!([{"tool": "Bash", "input": {"command": "make"}, "ask": true}, {"text": "made"}]);
    let prompt = script(Agent::Scripted, "x", &steps);
    cli.ok(&["run", &prompt, "-p", "scripted", "--name", "builder", "--detach"]).await?;
    let raised = wait_noted(world, "raised", "needs_you").await?;
    assert_eq!(raised["name"], "builder", "{raised}");
    assert!(raised["text"].as_str().is_some_and(|text| text.contains("make")), "{raised}");
    // The file is there before its first line is.
    poll("the desktop's notice", || {
        let shown = std::fs::read_to_string(world.path("shown")).ok()?;
        shown.contains("builder needs you").then_some(())
    })
    .await?;
    cli.ok(&["session", "approve", "builder"]).await?;
    let withdrawn = wait_noted(world, "withdrawn", "needs_you").await?;
    assert_eq!(withdrawn["id"], raised["id"]);
    poll("the desktop's notice to be closed", || {
        let shown = std::fs::read_to_string(world.path("shown")).ok()?;
        shown.lines().any(|line| line.starts_with("close") && line.ends_with(" 42")).then_some(())
    })
    .await?;
    wait_noted(world, "raised", "done").await?;
    let raised = noted(world).iter().filter(|notice| notice["event"] == "raised").count();
    assert_eq!(raised, 2, "one for each cause: {:?}", noted(world));
    stage.close().await
}

#[tokio::test]
async fn a_failure_is_posted_to_the_webhook() -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = format!("http://{}/notices", listener.local_addr()?);
    let change = |world: &World| {
        world.set_env("OBEY_NOTICES_WEBHOOK", address.clone());
        world.set_env("OBEY_NOTICES_WEBHOOK_TOKEN_ENV", "MY_TOKEN");
        world.set_env("MY_TOKEN", "of-the-hook");
        Ok(())
    };
    let Some(stage) = Stage::open_with(Agent::Scripted, change).await? else { return Ok(()) };
    let prompt = script(Agent::Scripted, "x", &json!([{"error": "broken pipe of thought"}]));
    stage.cli().ok(&["run", &prompt, "-p", "scripted", "--name", "unlucky", "--detach"]).await?;
    let (mut stream, _) = within("a post", listener.accept()).await??;
    let mut bytes = Vec::new();
    while !String::from_utf8_lossy(&bytes).contains('}') {
        let mut piece = [0; 4096];
        let count = within("the body", stream.read(&mut piece)).await??;
        anyhow::ensure!(count > 0, "it ended early: {}", String::from_utf8_lossy(&bytes));
        bytes.extend_from_slice(&piece[..count]);
    }
    stream.write_all(b"HTTP/1.1 204 No Content\r\ncontent-length: 0\r\n\r\n").await?;
    let text = String::from_utf8_lossy(&bytes);
    assert!(text.starts_with("POST /notices"), "{text}");
    assert!(text.contains("Bearer of-the-hook"), "{text}");
    assert!(text.contains(r#""kind":"failed""#) && text.contains("unlucky"), "{text}");
    stage.close().await
}

#[tokio::test]
async fn wrong_settings_are_refused_by_name() -> Result<()> {
    let world = World::new()?;
    for (variable, value) in [
        ("OBEY_NOTICES_ON", "needs_me"),
        ("OBEY_NOTICES_HOOK", "relative/hook.sh"),
        ("OBEY_NOTICES_WEBHOOK", "ftp://example.invalid"),
    ] {
        world.set_env(variable, value);
        let refused = e2e::cli::Cli::new(&world).run(&["config", "check"]).await?;
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.stderr.contains("notices."), "{refused:?}");
        world.remove_env(variable);
    }
    Ok(())
}

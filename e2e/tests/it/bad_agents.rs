//! Programs in the place of agents that are no agents: mute, mad, dead at once, or of another version. Each is named, the
//! daemon is unharmed and no process is left.

use std::os::unix::fs::PermissionsExt as _;

use anyhow::{Context, Result};
use e2e::clients::{collect, mentions};
use serde_json::json;
use tonic::Status;
use wire::obey::local::v1 as pb;

use crate::stage::{Agent, Stage, contents, script};

/// The providers that are programs, and what a session of each is configured with.
const PROGRAMS: [(pb::SessionProvider, &str); 3] = [
    (pb::SessionProvider::ClaudeCode, "claude"),
    (pb::SessionProvider::Codex, "codex"),
    (pb::SessionProvider::Acp, "goose"),
];

/// A stage where every agent is this shell script.
async fn with_programs(script: &str) -> Result<Stage> {
    let stage = Stage::open_with(Agent::Scripted, |world| {
        let folder = world.path("programs");
        std::fs::create_dir(&folder)?;
        for (_, name) in PROGRAMS {
            write_program(&folder.join(name), script)?;
        }
        world.set_env("OPENAI_API_KEY", "dummy");
        world.prepend_path(&folder)
    });
    stage.await?.context("the scripted agent is part of the daemon")
}

fn write_program(path: &std::path::Path, script: &str) -> Result<()> {
    std::fs::write(path, format!("#!/bin/sh\n{script}\n"))?;
    Ok(std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))?)
}

fn session(stage: &Stage, provider: pb::SessionProvider, name: &str) -> pb::CreateSessionRequest {
    let mut request = stage.new_session();
    request.provider = provider.into();
    request.model = String::new();
    if provider == pb::SessionProvider::Acp {
        request.provider_config.insert("agent".into(), name.into());
    }
    request
}

/// Tries every program at once and returns how each was refused.
async fn refusals(stage: &Stage) -> Result<Vec<(&'static str, Status)>> {
    let mut trying = tokio::task::JoinSet::new();
    for (provider, name) in PROGRAMS {
        let (mut local, request) = (stage.clients.local.clone(), session(stage, provider, name));
        trying.spawn(async move { (name, local.create_session(request).await.err()) });
    }
    let mut all = Vec::new();
    while let Some(tried) = trying.join_next().await {
        let (name, status) = tried?;
        all.push((name, status.with_context(|| format!("{name}: the session was created"))?));
    }
    Ok(all)
}

/// The daemon still serves, and nothing is left of what was tried.
async fn unharmed(stage: Stage) -> Result<()> {
    let shims = || {
        let processes = stage.world.processes();
        processes.iter().filter(|process| process.command.contains(" shim ")).count()
    };
    e2e::deadline::poll("the end of every agent", || (shims() == 0).then_some(())).await?;
    let id = stage.create().await?;
    let turn = stage.turn(&id, &script(stage.agent, "fine", &json!([{"text": "fine"}]))).await?;
    assert_eq!(contents(&turn, pb::ActivityType::Completion), "fine");
    stage.close().await
}

/// Takes as long as an agent may take to be ready.
#[tokio::test]
async fn an_agent_that_says_nothing_is_given_up() -> Result<()> {
    let stage = with_programs("echo looking for the key >&2; sleep 1000 & exec tail -f /dev/null").await?;
    for (name, status) in refusals(&stage).await? {
        assert!(mentions(&status, "OBEY-2004"), "{name}: {status:?}");
        assert!(mentions(&status, "was not ready within 60 s"), "{name}: {status:?}");
        assert!(mentions(&status, "looking for the key"), "{name}: {status:?}");
    }
    unharmed(stage).await
}

#[tokio::test]
async fn an_agent_that_ends_at_its_start_says_why() -> Result<()> {
    let stage = with_programs("echo no such luck >&2; exit 3").await?;
    for (name, status) in refusals(&stage).await? {
        assert!(mentions(&status, "OBEY-2004"), "{name}: {status:?}");
        assert!(mentions(&status, "code 3") && mentions(&status, "no such luck"), "{name}: {status:?}");
    }
    unharmed(stage).await
}

#[tokio::test]
async fn an_agent_that_talks_nonsense_is_found_out() -> Result<()> {
    // Then silence, so that what is found out is the nonsense and not its amount.
    let nonsense = "i=0; while [ $i -lt 500 ]; do echo '{\"garbage\":'; echo nonsense; i=$((i+1)); done";
    let stage = with_programs(&format!("{nonsense}; exec tail -f /dev/null")).await?;
    for (name, status) in refusals(&stage).await? {
        assert!(mentions(&status, "OBEY-2004") && mentions(&status, "does not speak"), "{name}: {status:?}");
    }
    unharmed(stage).await
}

#[tokio::test]
async fn real_claude_of_another_version_is_warned_about_with_the_tested_range() -> Result<()> {
    let Some(claude) = e2e::tools::claude()? else { return Ok(()) };
    for version in ["1.9.9", "9.9.9"] {
        let other = format!("sed -u 's/\\(\"claude_code_version\":\"\\)[^\"]*/\\1{version}/'");
        let stage = with_programs(&format!("{} \"$@\" | {other}", claude.display())).await?;
        let id = stage.create_as(session(&stage, pb::SessionProvider::ClaudeCode, "claude")).await?.id;
        let told =
            |event: &serde_json::Value| event["message"].as_str().is_some_and(|text| text.contains(version));
        let notice = stage.wait_for(&id, "notice", told).await?;
        let message = notice["message"].as_str().unwrap_or_default();
        assert!(message.contains("2.1.0 up to, but not including, 2.2.0"), "{message}");
        stage.close().await?;
    }
    Ok(())
}

/// What an agent says must not keep the daemon from its own clock.
#[tokio::test]
async fn an_agent_that_never_stops_talking_does_not_outlive_its_time() -> Result<()> {
    let opened = Stage::open_with(Agent::Scripted, |world| {
        // All that was said is read before a session ends; a small spool keeps that short.
        std::fs::create_dir_all(world.path("config/obey"))?;
        Ok(std::fs::write(world.path("config/obey/config.toml"), "[retention]\nspool_max_mb = 4\n")?)
    });
    let stage = opened.await?.context("the scripted agent is part of the daemon")?;
    let mut request = stage.new_session();
    request.timeout = Some(prost_types::Duration { seconds: 2, nanos: 0 });
    let id = stage.create_as(request).await?.id;
    let flood = json!([{"flood": {"lines": 100_000_000, "text": "and another thing"}}]);
    drop(stage.send(&id, &script(Agent::Scripted, "flood", &flood)).await?);
    // A watch ends with its session.
    let watch = pb::WatchSessionRequest { session_id: id.clone() };
    collect(stage.clients.local.clone().watch_session(watch).await?.into_inner()).await?;
    let info = stage.info(&id).await?;
    assert_eq!(info.status(), pb::SessionStatus::Failed, "{info:?}");
    assert!(info.error_message.contains("OBEY-2014"), "{info:?}");
    unharmed(stage).await
}

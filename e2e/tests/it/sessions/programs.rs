//! What can be wrong with an agent's program, and what it leaves running: with the real program, changed on the way where
//! that is needed.

use anyhow::{Context, Result};
use e2e::clients::{collect, mentions};
use e2e::deadline;
use serde_json::json;
use wire::obey::local::v1::ActivityType;
use wire::obey::v1::{AnswerPermissionRequest, Decision};

use crate::stage::{Agent, Stage, contents, scenarios, script, stage};
use crate::suite::{judge, judge_refusal, unsupported};

scenarios!(
    an_interrupt_ends_a_command_and_leaves_nothing_running,
    garbage_between_its_lines_is_kept_and_harms_nothing,
    a_model_it_does_not_have_is_refused,
    a_missing_program_is_answered_with_what_to_install,
    a_version_nobody_tested_is_warned_of,
);

async fn an_interrupt_ends_a_command_and_leaves_nothing_running(agent: Agent) -> Result<()> {
    if agent == Agent::Scripted {
        // Its calls take no time.
        return unsupported(agent, "interrupt_in_tool");
    }
    let stage = stage!(agent);
    let id = stage.create().await?;
    let steps = json!([agent.asking("touch begun && sleep 4321"), {"text": "must not be said"}]);
    let turn = stage.send(&id, &script(agent, "slow", &steps)).await?;
    let request = stage.wait_for_request(&id).await?;
    let answer = AnswerPermissionRequest {
        session_id: id.clone(),
        request_id: request.id,
        decision: Decision::AllowOnce.into(),
        ..Default::default()
    };
    stage.clients.requests.clone().answer_permission(answer).await?;
    let begun = stage.world.project().join("begun");
    deadline::poll("the command", || begun.exists().then_some(())).await?;
    assert!(stage.cancel(&id).await?);
    let events = collect(turn).await?;
    assert!(!contents(&events, ActivityType::Completion).contains("must not be said"), "{events:#?}");
    let is_left = || stage.world.processes().iter().any(|process| process.command.starts_with("sleep 4321"));
    deadline::poll("the end of the command", || (!is_left()).then_some(())).await?;
    let next = stage.turn(&id, &script(agent, "next", &json!([{"text": "still here"}]))).await?;
    assert_eq!(contents(&next, ActivityType::Completion), "still here");
    judge(&stage, &id, "interrupt_in_tool").await?;
    stage.close().await
}

/// A stage whose agent's program is a script around the real one.
async fn wrapped(agent: Agent, line: &str) -> Result<Option<Stage>> {
    Stage::open_with(agent, |world| agent.program().map_or(Ok(()), |program| world.wrap(program, line))).await
}

async fn garbage_between_its_lines_is_kept_and_harms_nothing(agent: Agent) -> Result<()> {
    if !agent.is_process() {
        // It has no lines; what is wrong with an endpoint's is in `openai`.
        return unsupported(agent, "garbage");
    }
    let line = r#"echo '{"garbage": '; "$REAL" "$@" | while IFS= read -r line; do printf '%s\n' "$line"; echo 'no JSON'; done"#;
    let Some(stage) = wrapped(agent, line).await? else { return Ok(()) };
    let id = stage.create().await?;
    let steps = match agent {
        Agent::Scripted => json!([{"garbage": "{\"garbage\": "}, {"text": "all the same"}]),
        _ => json!([{"text": "all the same"}]),
    };
    let turn = stage.turn(&id, &script(agent, "one", &steps)).await?;
    assert_eq!(contents(&turn, ActivityType::Completion), "all the same");
    judge(&stage, &id, "garbage").await?;
    stage.close().await
}

async fn a_model_it_does_not_have_is_refused(agent: Agent) -> Result<()> {
    if agent == Agent::Scripted {
        return unsupported(agent, "unknown_model");
    }
    let stage = stage!(agent);
    let mut request = stage.new_session();
    request.model = "no-such-model-at-all".into();
    let status = stage.clients.local.clone().create_session(request).await.err().context("it was created")?;
    assert!(mentions(&status, "no-such-model-at-all"), "{status:?}");
    judge_refusal(agent, "unknown_model", &status)?;
    stage.close().await
}

async fn a_missing_program_is_answered_with_what_to_install(agent: Agent) -> Result<()> {
    let Some(program) = agent.program() else { return unsupported(agent, "missing_binary") };
    let nowhere = Stage::open(Agent::Scripted).await?.context("the scripted agent is part of the daemon")?;
    let stage = Stage { agent, ..nowhere };
    let status = stage
        .clients
        .local
        .clone()
        .create_session(stage.new_session())
        .await
        .err()
        .context("it was created")?;
    assert!(mentions(&status, program) && mentions(&status, "install"), "{status:?}");
    judge_refusal(agent, "missing_binary", &status)?;
    stage.close().await
}

async fn a_version_nobody_tested_is_warned_of(agent: Agent) -> Result<()> {
    if agent.program().is_none() || !agent.is_process() {
        // Its version is its own, or that of a server which cannot be changed on the way.
        return unsupported(agent, "wrong_version");
    }
    let line = format!(r#""$REAL" "$@" | sed -u '{}'"#, agent.other_version());
    let Some(stage) = wrapped(agent, &line).await? else { return Ok(()) };
    let id = stage.create().await?;
    let turn = stage.turn(&id, &script(agent, "one", &json!([{"text": "it may work"}]))).await?;
    assert_eq!(contents(&turn, ActivityType::Completion), "it may work");
    let warned = |event: &serde_json::Value| {
        event["message"].as_str().is_some_and(|said| said.contains("tested with"))
    };
    stage.wait_for(&id, "notice", warned).await?;
    judge(&stage, &id, "wrong_version").await?;
    stage.close().await
}

#[tokio::test]
#[ignore = "waits a minute: make test-all"]
async fn a_program_that_says_nothing_is_given_up_and_ended() -> Result<()> {
    let stage = Stage::open_with(Agent::Scripted, |world| {
        let folder = world.path("silent");
        std::fs::create_dir(&folder)?;
        for name in ["claude", "codex", "goose"] {
            let program = folder.join(name);
            std::fs::write(&program, "#!/bin/sh\nexec sleep 4322\n")?;
            std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
        }
        world.prepend_path(&folder)
    });
    let stage = stage.await?.context("the scripted agent is part of the daemon")?;
    let create = |agent: Agent| {
        let mut request = stage.new_session();
        request.provider = agent.provider().into();
        request
            .provider_config
            .extend(agent.config().iter().map(|(key, value)| ((*key).into(), (*value).into())));
        let mut local = stage.clients.local.clone();
        async move { local.create_session(request).await.err().context("it was created") }
    };
    let all = async { tokio::try_join!(create(Agent::Claude), create(Agent::Codex), create(Agent::Goose)) };
    // The daemon's own patience, and time to end the program.
    let patience = std::time::Duration::from_secs(100);
    let (claude, codex, goose) =
        deadline::within_time("the end of the daemon's patience", patience, all).await??;
    for status in [claude, codex, goose] {
        assert!(mentions(&status, "OBEY-2004") && mentions(&status, "60 s"), "{status:?}");
    }
    let is_left = || stage.world.processes().iter().any(|process| process.command.contains("sleep 4322"));
    deadline::poll("the end of the programs", || (!is_left()).then_some(())).await?;
    stage.close().await
}

//! What only Codex does, through the daemon: its models, its configuration, its commands that outlive an interrupt, and
//! everything that can be wrong with it at the start. What it shares with other agents is in `sessions`.

use std::os::unix::fs::PermissionsExt;

use anyhow::{Context, Result};
use e2e::deadline::poll;
use serde_json::json;
use tonic::Status;
use wire::obey::local::v1 as pb;
use wire::obey::v1 as own;

use crate::stage::{Agent, Stage, contents, of_type, script, stage};

fn mentions(status: &Status, text: &str) -> bool {
    let details = String::from_utf8_lossy(status.details()).into_owned();
    status.message().contains(text) || details.contains(text)
}

/// A request for a Codex session that keys are added to.
fn session(stage: &Stage, config: &[(&str, &str)]) -> pb::CreateSessionRequest {
    let mut request = stage.new_session();
    request.provider = pb::SessionProvider::Codex.into();
    let config = config.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    request.provider_config.extend(config);
    request
}

async fn refusal(stage: &Stage, request: pb::CreateSessionRequest) -> Result<Status> {
    let result = stage.clients.local.clone().create_session(request).await;
    result.err().context("the session was created")
}

#[tokio::test]
async fn a_model_is_one_that_codex_lists_or_its_configuration_names() -> Result<()> {
    let stage = stage!(Agent::Codex);
    let with_model = |model: &str| pb::CreateSessionRequest { model: model.into(), ..session(&stage, &[]) };
    let status = refusal(&stage, with_model("gpt-55")).await?;
    assert!(mentions(&status, "OBEY-2003") && mentions(&status, "did you mean gpt-5.5?"), "{status:?}");
    stage.world.configure_codex("review_model = \"own-model\"")?;
    let created = stage.create_as(with_model("own-model")).await?;
    assert_eq!(created.model, "own-model");
    let turn = stage.turn(&created.id, &script(Agent::Codex, "k", &json!([{"text": "own"}]))).await?;
    assert_eq!(contents(&turn, pb::ActivityType::Completion), "own");
    assert_eq!(stage.world.model().requests_for("k")[0].body["model"], "own-model");
    stage.close().await
}

#[tokio::test]
async fn a_key_of_provider_config_that_is_wrong_is_named() -> Result<()> {
    let stage = stage!(Agent::Codex);
    for (key, value) in [
        ("sandbox", "none"),
        ("approval_policy", "sometimes"),
        ("base_url", "not an address"),
        ("mcp_servers", "[]"),
        ("api_key_env", "ABSENT"),
        ("approvals_reviewer", "auto_review"),
    ] {
        let status = refusal(&stage, session(&stage, &[(key, value)])).await?;
        let named = format!("provider_config.{key}");
        assert!(mentions(&status, "OBEY-1001") && mentions(&status, &named), "{key}: {status:?}");
    }
    stage.close().await
}

#[tokio::test]
async fn without_codex_the_creation_says_what_to_install() -> Result<()> {
    let stage = Stage::open(Agent::Scripted).await?.context("the scripted agent is part of the daemon")?;
    let status = refusal(&stage, session(&stage, &[])).await?;
    assert!(
        mentions(&status, "OBEY-2004") && mentions(&status, "npm install -g @openai/codex"),
        "{status:?}"
    );
    stage.close().await
}

#[tokio::test]
async fn a_codex_that_does_not_start_says_why() -> Result<()> {
    let stage = stage!(Agent::Codex);
    stage.world.configure_codex("model_context_window = \"many\"")?;
    let status = refusal(&stage, session(&stage, &[])).await?;
    assert!(mentions(&status, "OBEY-2004") && mentions(&status, "config.toml:4:24"), "{status:?}");
    stage.close().await
}

/// A program in the place of Codex.
async fn with_program(script: &str) -> Result<Stage> {
    let stage = Stage::open_with(Agent::Scripted, |world| {
        let folder = world.path("programs");
        std::fs::create_dir(&folder)?;
        let program = folder.join("codex");
        std::fs::write(&program, format!("#!/bin/sh\n{script}\n"))?;
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755))?;
        world.prepend_path(&folder)
    });
    stage.await?.context("the scripted agent is part of the daemon")
}

#[tokio::test]
async fn a_program_that_is_not_codex_is_found_out() -> Result<()> {
    let stage = with_program("while :; do echo garbage; done").await?;
    let status = refusal(&stage, session(&stage, &[])).await?;
    assert!(mentions(&status, "OBEY-2004") && mentions(&status, "does not speak its protocol"), "{status:?}");
    stage.close().await?;
    let stage = with_program("echo no such luck >&2; exit 3").await?;
    let status = refusal(&stage, session(&stage, &[])).await?;
    assert!(mentions(&status, "OBEY-2004") && mentions(&status, "no such luck"), "{status:?}");
    stage.close().await
}

#[tokio::test]
async fn a_version_that_was_not_tested_is_named_with_the_range() -> Result<()> {
    let Some(codex) = e2e::tools::codex()? else { return Ok(()) };
    let other = "sed -u 's,obey/0[.]166[.]0 ,obey/0.999.0 ,'";
    let stage = with_program(&format!("{} \"$@\" | {other}", codex.display())).await?;
    stage.world.configure_codex("")?;
    let id =
        stage.create_as(pb::CreateSessionRequest { model: String::new(), ..session(&stage, &[]) }).await?.id;
    let notice = stage.wait_for(&id, "notice", |_| true).await?;
    let message = notice["message"].as_str().unwrap_or_default();
    assert!(message.contains("0.999.0") && message.contains("0.166.0 up to"), "{message}");
    stage.close().await
}

#[tokio::test]
async fn an_interrupt_ends_the_command_that_ran() -> Result<()> {
    let stage = stage!(Agent::Codex);
    let id = stage.create_as(session(&stage, &[("sandbox", "danger-full-access")])).await?.id;
    let steps = json!([{"tool": "Bash", "input": {"command": "tail -f /dev/null & tail -f /dev/zero"}}, {"text": "never"}]);
    let turn = stage.send(&id, &script(Agent::Codex, "k", &steps)).await?;
    let tails = || {
        let processes = stage.world.processes();
        processes.into_iter().filter(|process| process.command.starts_with("tail")).count()
    };
    stage.wait_for(&id, "tool_started", |_| true).await?;
    poll("both commands", || (tails() == 2).then_some(())).await?;
    assert!(stage.cancel(&id).await?);
    e2e::clients::collect(turn).await?;
    poll("the end of both", || (tails() == 0).then_some(())).await?;
    let next = stage.turn(&id, &script(Agent::Codex, "next", &json!([{"text": "still here"}]))).await?;
    assert_eq!(contents(&next, pb::ActivityType::Completion), "still here");
    stage.close().await
}

#[tokio::test]
async fn a_mode_is_told_again_when_a_conversation_is_taken_up() -> Result<()> {
    let stage = stage!(Agent::Codex);
    let id = stage.create().await?;
    let try_to_write = json!([
        {"tool": "Bash", "input": {"command": "touch made 2>/dev/null || echo kept out"}}, {"text": "done"}]);
    for key in ["before", "after"] {
        let turn = stage.turn(&id, &script(Agent::Codex, key, &try_to_write)).await?;
        let results = of_type(&turn, pb::ActivityType::ToolResult);
        assert_eq!(results[0].content, "kept out\n", "{key}");
        // The configuration would let it write.
        stage.restart(&id).await?;
    }
    assert!(!stage.world.project().join("made").exists());
    stage.close().await
}

#[tokio::test]
async fn a_plan_is_carried_out_when_it_is_approved() -> Result<()> {
    let stage = stage!(Agent::Codex);
    let id = stage.create_as(session(&stage, &[("permission_mode", "plan")])).await?.id;
    let plan = "<proposed_plan>\n1. do it\n</proposed_plan>\n";
    let turn = stage.send(&id, &script(Agent::Codex, "plan", &json!([{"text": plan}]))).await?;
    let request = stage.wait_for_request(&id).await?;
    assert_eq!(request.tool_name, "ExitPlanMode");
    stage.decide(&id, &request.id, own::Decision::AllowOnce).await?;
    let events = e2e::clients::collect(turn).await?;
    assert!(contents(&events, pb::ActivityType::Completion).contains("Implement the plan."), "{events:#?}");
    stage.wait_for(&id, "mode_changed", |event| event["mode"] == "supervised").await?;
    stage.close().await
}

#[tokio::test]
async fn an_interrupt_ends_what_a_sub_agent_does() -> Result<()> {
    let stage = stage!(Agent::Codex);
    let config = stage.world.path("home/.codex/config.toml");
    let text = std::fs::read_to_string(&config)?;
    std::fs::write(&config, text.replace("[features]", "[features]\nmulti_agent_v2 = true"))?;
    let id = stage.create_as(session(&stage, &[("sandbox", "danger-full-access")])).await?.id;
    let inner = json!([{"tool": "Bash", "input": {"command": "tail -f /dev/null"}}, {"text": "and on"}]);
    let input =
        json!({"message": script(Agent::Codex, "inner", &inner), "task_name": "look", "fork_turns": "none"});
    let steps = json!([{"tool": "spawn_agent", "input": input},
        {"tool": "wait_agent", "input": {"timeout_ms": 600_000}}, {"text": "All done."}]);
    let turn = stage.send(&id, &script(Agent::Codex, "delegate", &steps)).await?;
    let tails = || {
        let processes = stage.world.processes();
        processes.into_iter().filter(|process| process.command.starts_with("tail")).count()
    };
    poll("the sub-agent's command", || (tails() == 1).then_some(())).await?;
    assert!(stage.cancel(&id).await?);
    e2e::clients::collect(turn).await?;
    poll("its end", || (tails() == 0).then_some(())).await?;
    let next = stage.turn(&id, &script(Agent::Codex, "next", &json!([{"text": "still here"}]))).await?;
    assert_eq!(contents(&next, pb::ActivityType::Completion), "still here");
    let inner = stage.world.model().requests_for("inner");
    assert_eq!(inner.len(), 1, "the sub-agent went on");
    let journal = stage.journal(&id).await?;
    assert!(journal.iter().all(|event| event.r#type != "unparsed"), "{journal:#?}");
    stage.close().await
}

//! Rate limits of models, as the real agents report them: the session says until when it waits, and goes on by itself, also
//! when the daemon was killed meanwhile.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use wire::obey::v1 as own;

use super::{kill_and_restart, prompts, session, wait_for_turns};
use crate::stage::{Agent, Stage, fields, script};

/// How long the limit of a plan still lasts: long enough for a slow machine to see the session wait.
const PLAN_RESETS_IN_SECS: u64 = 8;

/// A stage whose agent uses a plan of its vendor where the script says so, as one who is logged in does.
async fn open(agent: Agent) -> Result<Option<Stage>> {
    Stage::open_with(agent, |world| {
        if agent == Agent::Claude {
            world.remove_env("ANTHROPIC_API_KEY");
            world.set_env("CLAUDE_CODE_OAUTH_TOKEN", "sk-ant-oat01-dummy");
        }
        Ok(())
    })
    .await
}

/// Sends a prompt that the model refuses.
async fn refused(stage: &Stage, id: &str, refusal: Value) -> Result<Value> {
    let text = script(stage.agent, "limited", &json!([refusal]));
    let request = own::PromptRequest { session_id: id.to_owned(), text, ..Default::default() };
    stage.clients.turns.clone().prompt(request).await?;
    let ended = wait_for_turns(stage, id, 1).await?;
    assert_eq!(ended["reason"], "failed", "{ended}");
    stage.wait_for(id, "rate_limited", |_| true).await
}

/// What `ps` says about the only session.
async fn listed(stage: &Stage) -> Result<Value> {
    let rows = stage.cli().ok(&["--json", "ps"]).await?.json_lines()?;
    rows.into_iter().next().context("no session is listed")
}

/// The session went on by itself: the limit ended, and the agent was asked to go on and did.
async fn went_on(stage: &Stage, id: &str) -> Result<()> {
    stage.wait_for(id, "rate_limit_ended", |_| true).await?;
    let ended = wait_for_turns(stage, id, 2).await?;
    assert_eq!(ended["reason"], "completed", "{ended}");
    assert_eq!(prompts(stage, id).await?[1], "Go on where you stopped.");
    Ok(())
}

async fn a_plan_that_is_used_up_is_waited_for(agent: Agent) -> Result<()> {
    let Some(stage) = open(agent).await? else { return Ok(()) };
    let id = session(&stage).await?;
    let refusal = json!({"status": 429, "message": "used up", "plan_resets_in_secs": PLAN_RESETS_IN_SECS});
    let limited = refused(&stage, &id, refusal).await?;
    let row = listed(&stage).await?;
    assert_eq!(row["state"], "quiet", "{row}");
    ensure!(row["reason"].as_str().is_some_and(|reason| reason.starts_with("goes on at 2")), "{row}");
    let budget = stage.cli().json(&["session", "budget", &id]).await?;
    ensure!(budget["rate_limit"] == limited["reason"] && budget["resumes_at"].is_string(), "{budget}");
    went_on(&stage, &id).await?;
    let journal = stage.journal(&id).await?;
    let ended = journal.iter().find(|event| event.r#type == "rate_limit_ended").context("no end")?;
    let at = ended.at.as_ref().map_or(0, |at| at.seconds);
    let resumes_at = limited["resumes_at"].as_i64().context("no time")? / 1_000_000;
    ensure!(at >= resumes_at, "it went on at {at}, before {resumes_at}: {}", fields(ended));
    stage.close().await
}

async fn a_limit_without_an_end_is_waited_for_across_a_kill(agent: Agent) -> Result<()> {
    let Some(mut stage) = Stage::open(agent).await? else { return Ok(()) };
    let mut request = stage.new_session();
    request.provider_config.insert("permission_mode".into(), "autonomous".into());
    if agent == Agent::Openai {
        request.provider_config.insert("max_retries".into(), "0".into());
    }
    let id = stage.create_as(request).await?.id;
    let limited = refused(&stage, &id, json!({"status": 429, "message": "slow down"})).await?;
    ensure!(limited["attempt"] == 1 && limited["reason"] != "", "{limited}");
    let row = listed(&stage).await?;
    assert_eq!(row["state"], "quiet", "{row}");
    kill_and_restart(&mut stage).await?;
    assert_eq!(listed(&stage).await?["state"], "quiet");
    assert_eq!(prompts(&stage, &id).await?.len(), 1, "it still waits");
    stage.world.set_env("OBEY_TEST_CLOCK_OFFSET", "120");
    kill_and_restart(&mut stage).await?;
    went_on(&stage, &id).await?;
    stage.close().await
}

/// With the agents whose vendors sell plans.
mod plan {
    use super::a_plan_that_is_used_up_is_waited_for;

    crate::stage::scenarios_of!(real_claude, Claude, a_plan_that_is_used_up_is_waited_for);
    crate::stage::scenarios_of!(real_codex, Codex, a_plan_that_is_used_up_is_waited_for);
}

// Not over Chat Completions: there the scripted model reads both prompts as one and plays the refusal again.
crate::stage::scenarios_of!(real_claude, Claude, a_limit_without_an_end_is_waited_for_across_a_kill);
crate::stage::scenarios_of!(real_codex, Codex, a_limit_without_an_end_is_waited_for_across_a_kill);
crate::stage::scenarios_of!(openai, Openai, a_limit_without_an_end_is_waited_for_across_a_kill);

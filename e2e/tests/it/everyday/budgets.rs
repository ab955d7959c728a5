//! Budgets: a turn is stopped in its middle, a person is asked, and the conversation goes on when the budget is raised.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use wire::obey::v1 as own;

use super::{kill_and_restart, prompts, session, wait_for_turns};
use crate::stage::{Agent, Stage, script, stage};

/// A prompt that uses so many tokens and this much money, and then would go on for ever.
fn spending(tokens: u64, micro_usd: u64) -> String {
    let usage = json!({"input_tokens": tokens, "output_tokens": 0, "cost_micro_usd": micro_usd});
    script(Agent::Scripted, "spends", &json!([{"usage": usage}, {"hang": true}]))
}

async fn send(stage: &Stage, id: &str, text: String) -> Result<()> {
    let request = own::PromptRequest { session_id: id.to_owned(), text, ..Default::default() };
    stage.clients.turns.clone().prompt(request).await?;
    Ok(())
}

#[tokio::test]
async fn a_raised_budget_goes_on_with_the_same_session_after_a_kill() -> Result<()> {
    let mut stage = stage!(Agent::Scripted);
    let id = session(&stage).await?;
    let cli = stage.cli();
    cli.ok(&["session", "budget", &id, "--usd", "1", "--tokens", "1000"]).await?;
    send(&stage, &id, spending(10, 1_500_000)).await?;
    let ended = wait_for_turns(&stage, &id, 1).await?;
    assert_eq!(ended["reason"], "budget_exceeded");
    let request = stage.wait_for_request(&id).await?;
    ensure!(request.questions[0].text.contains("1.50 USD of its 1.00 USD"), "{request:?}");
    kill_and_restart(&mut stage).await?;
    let refused = cli.run(&["session", "send", &id, "more"]).await?;
    ensure!(
        refused.stderr.contains("OBEY-2013") && refused.stderr.contains("obey session budget"),
        "{refused:?}"
    );
    let shown = cli.json(&["session", "budget", &id, "--usd", "5"]).await?;
    assert_eq!(shown["usd"], json!(5.0));
    wait_for_turns(&stage, &id, 2).await?;
    assert_eq!(prompts(&stage, &id).await?[1], "Go on where you stopped.");
    ensure!(stage.requests(&id, false).await?.is_empty(), "the question is settled");
    stage.close().await
}

#[tokio::test]
async fn the_question_about_a_budget_is_answered_like_any_other() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let mut new = stage.new_session();
    new.provider_config.insert("permission_mode".into(), "autonomous".into());
    new.provider_config.insert("budget_tokens".into(), "100".into());
    let id = stage.create_as(new).await?.id;
    send(&stage, &id, spending(120, 0)).await?;
    stage.wait_for_request(&id).await?;
    stage.cli().ok(&["session", "answer", &id, "Raise it and go on"]).await?;
    wait_for_turns(&stage, &id, 2).await?;
    let budget = stage.cli().json(&["session", "budget", &id]).await?;
    assert_eq!(budget["tokens"], json!(220));
    stage.close().await
}

#[tokio::test]
async fn calls_and_working_time_are_budgets_too() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let id = session(&stage).await?;
    stage.cli().ok(&["session", "budget", &id, "--calls", "1"]).await?;
    let calls = json!([{"tool": "Read", "input": {}, "result": "x"}, {"hang": true}]);
    send(&stage, &id, script(Agent::Scripted, "calls", &calls)).await?;
    assert_eq!(wait_for_turns(&stage, &id, 1).await?["reason"], "budget_exceeded");

    let other = session(&stage).await?;
    stage.cli().ok(&["session", "budget", &other, "--minutes", "0.002"]).await?;
    send(&stage, &other, script(Agent::Scripted, "time", &json!([{"hang": true}]))).await?;
    assert_eq!(wait_for_turns(&stage, &other, 1).await?["reason"], "budget_exceeded");
    stage.close().await
}

#[tokio::test]
async fn a_bad_budget_is_refused_by_name() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let mut new = stage.new_session();
    new.provider_config.insert("budget_usd".into(), "much".into());
    let status = stage.clients.local.clone().create_session(new).await.unwrap_err();
    ensure!(status.message().contains("budget_usd"), "{status:?}");
    let id = session(&stage).await?;
    let wrong = stage.cli().run(&["session", "budget", &id, "--usd", "-3"]).await?;
    assert_eq!(wrong.code, Some(2));
    let shown: Value = stage.cli().json(&["session", "budget", &id]).await?;
    assert_eq!(shown["usd"], Value::Null);
    stage.close().await
}

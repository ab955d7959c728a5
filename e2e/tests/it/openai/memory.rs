//! The journal is the agent's memory: across restarts of the daemon, of the session, and when the window fills.

use anyhow::Result;
use e2e::daemon::Daemon;
use e2e::model_server::Purpose;
use serde_json::json;
use wire::obey::local::v1::{ActivityType, SessionStatus};
use wire::obey::v1 as own;

use super::session;
use crate::stage::{Agent, Stage, contents, fields, scenarios_of, script, stage};

scenarios_of!(
    openai,
    Openai,
    a_conversation_survives_the_death_of_the_daemon,
    a_turn_cut_by_the_daemons_death_is_ended_with_a_reason,
    a_full_window_is_compacted_and_the_turn_goes_on,
    a_message_added_to_a_turn_reaches_the_model,
    a_message_added_to_a_reply_of_text_is_answered
);
scenarios_of!(
    openai_chat,
    OpenaiChat,
    a_conversation_survives_the_death_of_the_daemon,
    a_turn_cut_by_the_daemons_death_is_ended_with_a_reason,
    a_full_window_is_compacted_and_the_turn_goes_on,
    a_message_added_to_a_turn_reaches_the_model,
    a_message_added_to_a_reply_of_text_is_answered
);

/// Kills the daemon and starts another.
async fn revive(stage: &mut Stage) -> Result<()> {
    stage.daemon.kill9().await?;
    stage.daemon = Daemon::start(&stage.world).await?;
    stage.clients = stage.daemon.clients().await?;
    Ok(())
}

async fn a_conversation_survives_the_death_of_the_daemon(agent: Agent) -> Result<()> {
    let mut stage = stage!(agent);
    let id = stage.create().await?;
    let steps = json!([
        [{"text": "I look. "}, {"tool": "Bash", "input": {"command": "echo from the tool"}}],
        {"text": "remember me"},
    ]);
    stage.turn(&id, &script(agent, "one", &steps)).await?;
    revive(&mut stage).await?;
    assert_eq!(stage.info(&id).await?.status(), SessionStatus::Running);
    let turn = stage.turn(&id, &script(agent, "two", &json!([{"text": "back"}]))).await?;
    assert_eq!(contents(&turn, ActivityType::Completion), "back");
    let requests = |key: &str| stage.world.model().requests_for(key);
    let history = agent.history(&requests("two")[0].body);
    for said in ["I look. ", "echo from the tool", "from the tool\\n", "remember me"] {
        assert!(history.contains(said), "the agent forgot {said:?}: {history}");
    }
    stage.close().await
}

async fn a_turn_cut_by_the_daemons_death_is_ended_with_a_reason(agent: Agent) -> Result<()> {
    let mut stage = stage!(agent);
    let id = stage.create().await?;
    let stuck = json!([[{"text": "half a "}, {"hang": true}]]);
    drop(stage.send(&id, &script(agent, "stuck", &stuck)).await?);
    stage.wait_for_text(&id, "half a ").await?;
    revive(&mut stage).await?;
    let ended = stage.wait_for(&id, "turn_ended", |_| true).await?;
    assert_eq!(ended["reason"], "interrupted", "{ended}");
    assert_eq!(ended["error"], "the daemon ended while the turn was running", "{ended}");
    let turn = stage.turn(&id, &script(agent, "next", &json!([{"text": "still here"}]))).await?;
    assert_eq!(contents(&turn, ActivityType::Completion), "still here");
    let history = agent.history(&stage.world.model().requests_for("next")[0].body);
    assert!(history.contains("half a "), "{history}");
    stage.close().await
}

async fn a_full_window_is_compacted_and_the_turn_goes_on(agent: Agent) -> Result<()> {
    let mut stage = stage!(agent);
    let id = stage.create_as(session(&stage, &[("context_window", "8000")])).await?.id;
    let full = json!([[{"text": "first"}, {"usage": {"input_tokens": 7000, "output_tokens": 10}}]]);
    stage.turn(&id, &script(agent, "one", &full)).await?;
    let turn = stage.turn(&id, &script(agent, "two", &json!([{"text": "second"}]))).await?;
    assert_eq!(contents(&turn, ActivityType::Completion), "second");
    let compacted = stage.wait_for(&id, "compacted", |_| true).await?;
    assert_eq!(compacted["summary"], "A scripted conversation took place.", "{compacted}");
    assert!(compacted["tokens_after"].as_u64() < compacted["tokens_before"].as_u64(), "{compacted}");
    let sides = |stage: &Stage| {
        let requests = stage.world.model().requests();
        requests.iter().filter(|request| request.purpose == Purpose::Compaction).count()
    };
    assert_eq!(sides(&stage), 1);
    let history = agent.history(&stage.world.model().requests_for("two")[0].body);
    assert!(history.contains("A scripted conversation") && !history.contains("first"), "{history}");
    // A daemon that comes back goes on with the summary.
    revive(&mut stage).await?;
    stage.turn(&id, &script(agent, "three", &json!([{"text": "third"}]))).await?;
    let history = agent.history(&stage.world.model().requests_for("three")[0].body);
    assert!(history.contains("A scripted conversation") && !history.contains("first"), "{history}");
    assert!(history.contains("second"), "{history}");
    stage.close().await
}

async fn a_message_added_to_a_turn_reaches_the_model(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let id = stage.create().await?;
    let gate = stage.world.path("gate");
    let steps = json!([
        [{"text": "before "}, {"wait_file": gate}, {"tool": "Bash", "input": {"command": "echo hi"}}],
        {"text": "after"},
    ]);
    drop(stage.send(&id, &script(agent, "long", &steps)).await?);
    stage.wait_for_text(&id, "before").await?;
    let steer = own::PromptRequest {
        session_id: id.clone(),
        text: "use less salt".into(),
        steer: true,
        ..Default::default()
    };
    stage.clients.turns.clone().prompt(steer).await?;
    stage.world.touch("gate")?;
    stage.wait_for(&id, "turn_ended", |_| true).await?;
    let requests = stage.world.model().requests();
    let last = requests.iter().rfind(|request| request.purpose == Purpose::Turn);
    let history = agent.history(&last.map(|request| request.body.clone()).unwrap_or_default());
    assert!(history.contains("use less salt"), "{history}");
    let journal = stage.journal(&id).await?;
    let ended = journal.iter().filter(|event| event.r#type == "turn_ended").map(fields).count();
    assert_eq!(ended, 1, "a message that is added begins no turn of its own");
    stage.close().await
}

/// Asserts that the first request of a prompt has these texts one after the other.
fn assert_in_order(stage: &Stage, key: &str, said: &[&str]) {
    let history = stage.agent.history(&stage.world.model().requests_for(key)[0].body);
    let found: Vec<Option<usize>> = said.iter().map(|said| history.find(said)).collect();
    assert!(found.iter().all(Option::is_some) && found.is_sorted(), "{said:?}: {found:?} in {history}");
}

async fn a_message_added_to_a_reply_of_text_is_answered(agent: Agent) -> Result<()> {
    let mut stage = stage!(agent);
    let id = stage.create().await?;
    let gate = stage.world.path("gate");
    let steps = json!([[{"text": "part one "}, {"wait_file": gate}, {"text": "part two"}]]);
    drop(stage.send(&id, &script(agent, "long", &steps)).await?);
    stage.wait_for_text(&id, "part one").await?;
    let text = script(agent, "salt", &json!([{"text": "salted"}]));
    let steer = own::PromptRequest { session_id: id.clone(), text, steer: true, ..Default::default() };
    stage.clients.turns.clone().prompt(steer).await?;
    stage.world.touch("gate")?;
    stage.wait_for(&id, "turn_ended", |_| true).await?;
    // The message stands behind the whole reply, and the model answers it.
    stage.wait_for_text(&id, "part one part twosalted").await?;
    assert_in_order(&stage, "salt", &["long SCRIPT", "\"part one part two\"", "salt SCRIPT"]);
    // A daemon that comes back has the same conversation.
    revive(&mut stage).await?;
    stage.turn(&id, &script(agent, "next", &json!([{"text": "back"}]))).await?;
    assert_in_order(
        &stage,
        "next",
        &["long SCRIPT", "\"part one part two\"", "salt SCRIPT", "\"salted\"", "next SCRIPT"],
    );
    stage.close().await
}

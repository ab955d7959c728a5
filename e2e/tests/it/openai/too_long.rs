//! A conversation that is longer than the endpoint takes: summed up in parts where the whole cannot be sent, and the session
//! goes on.

use std::collections::BTreeSet;

use anyhow::Result;
use e2e::model_server::{Outcome, Purpose, Request};
use serde_json::{Value, json};
use wire::betcode::v1::CompactSessionRequest;
use wire::betcode::v1::agent_service_client::AgentServiceClient;
use wire::obey::local::v1::ActivityType;

use crate::stage::{Agent, Stage, contents, scenarios_of, script, stage};

scenarios_of!(
    openai,
    Openai,
    a_conversation_that_is_too_long_already_is_summed_up,
    a_summary_that_was_asked_for_is_had_of_a_long_conversation,
    a_prompt_that_is_too_long_does_not_hold_the_session_up
);
scenarios_of!(
    openai_chat,
    OpenaiChat,
    a_conversation_that_is_too_long_already_is_summed_up,
    a_summary_that_was_asked_for_is_had_of_a_long_conversation,
    a_prompt_that_is_too_long_does_not_hold_the_session_up
);

/// What endpoints say of a request that does not fit.
fn refusals() -> [Value; 3] {
    [
        json!({"error": {"message": "Your input exceeds the window.", "type": "invalid_request_error",
                         "code": "context_length_exceeded"}}),
        json!({"object": "error", "message": "This model's maximum context length is 4096 tokens.",
               "type": "BadRequestError", "code": 400}),
        json!({"error": {"code": 400, "message": "the request exceeds the available size",
                         "type": "exceed_context_size_error", "n_ctx": 4096}}),
    ]
}

/// Makes a conversation with calls and long texts, and lets the endpoint take little more than its first request.
async fn grow(stage: &Stage, id: &str, refusal: Value) -> Result<()> {
    stage.turn(id, &script(stage.agent, "first", &json!([{"text": "hello"}]))).await?;
    std::fs::write(stage.world.project().join("long.txt"), "a line of some length\n".repeat(3_000))?;
    let look = json!({"tool": "Read", "input": {"file_path": "long.txt"}});
    let steps = json!([[look, look], {"text": "long ".repeat(20_000)}]);
    stage.turn(id, &script(stage.agent, "grow", &steps)).await?;
    let first = stage.world.model().requests_for("first")[0].body.to_string().len();
    stage.world.model().refuse_above(first + 5_000, refusal);
    Ok(())
}

/// The requests for a summary.
fn summaries(stage: &Stage) -> Vec<Request> {
    let requests = stage.world.model().requests();
    requests.into_iter().filter(|request| request.purpose == Purpose::Compaction).collect()
}

/// The names of calls and those of results in a request.
fn calls(agent: Agent, body: &Value) -> (BTreeSet<String>, BTreeSet<String>) {
    let (mut made, mut answered) = (BTreeSet::new(), BTreeSet::new());
    let name = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    if agent == Agent::Openai {
        for item in body["input"].as_array().into_iter().flatten() {
            match item["type"].as_str() {
                Some("function_call") => made.insert(name(&item["call_id"])),
                Some("function_call_output") => answered.insert(name(&item["call_id"])),
                _ => false,
            };
        }
    } else {
        for message in body["messages"].as_array().into_iter().flatten() {
            made.extend(message["tool_calls"].as_array().into_iter().flatten().map(|call| name(&call["id"])));
            answered.extend(message["tool_call_id"].as_str().map(str::to_owned));
        }
    }
    (made, answered)
}

fn assert_summed_up(stage: &Stage) {
    let asked = summaries(stage);
    let refused = asked.iter().filter(|request| request.outcome == Outcome::Refused(400)).count();
    assert!(refused > 0, "the whole conversation fitted: the test is too small");
    assert_eq!(asked.len(), refused + 1, "the first summary that can be had is taken");
    for request in &asked {
        let (made, answered) = calls(stage.agent, &request.body);
        assert_eq!(made, answered, "a call without its result, or the reverse");
    }
}

async fn a_conversation_that_is_too_long_already_is_summed_up(agent: Agent) -> Result<()> {
    for refusal in refusals() {
        let stage = stage!(agent);
        let id = stage.create().await?;
        grow(&stage, &id, refusal).await?;
        let turn = stage.turn(&id, &script(agent, "two", &json!([{"text": "second"}]))).await?;
        assert_eq!(contents(&turn, ActivityType::Completion), "second");
        let compacted = stage.wait_for(&id, "compacted", |_| true).await?;
        assert_eq!(compacted["summary"], "A scripted conversation took place.", "{compacted}");
        assert_summed_up(&stage);
        let turn = stage.turn(&id, &script(agent, "three", &json!([{"text": "third"}]))).await?;
        assert_eq!(contents(&turn, ActivityType::Completion), "third");
        assert_summed_up(&stage);
        stage.close().await?;
    }
    Ok(())
}

async fn a_summary_that_was_asked_for_is_had_of_a_long_conversation(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let id = stage.create().await?;
    let [refusal, ..] = refusals();
    grow(&stage, &id, refusal).await?;
    let compact = CompactSessionRequest { session_id: id.clone() };
    AgentServiceClient::new(stage.clients.channel.clone()).compact_session(compact).await?;
    stage.wait_for(&id, "compacted", |_| true).await?;
    assert_summed_up(&stage);
    let turn = stage.turn(&id, &script(agent, "two", &json!([{"text": "second"}]))).await?;
    assert_eq!(contents(&turn, ActivityType::Completion), "second");
    stage.close().await
}

async fn a_prompt_that_is_too_long_does_not_hold_the_session_up(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let id = stage.create().await?;
    stage.turn(&id, &script(agent, "first", &json!([{"text": "hello"}]))).await?;
    let first = stage.world.model().requests_for("first")[0].body.to_string().len();
    let [refusal, ..] = refusals();
    stage.world.model().refuse_above(first + 5_000, refusal);
    drop(stage.send(&id, &"far too long ".repeat(10_000)).await?);
    let ended = stage.wait_for(&id, "turn_ended", |event| event["turn"] == "turn_2").await?;
    assert_eq!(ended["reason"], "limit_reached", "{ended}");
    let turn = stage.turn(&id, &script(agent, "two", &json!([{"text": "second"}]))).await?;
    assert_eq!(contents(&turn, ActivityType::Completion), "second");
    stage.close().await
}

//! An endpoint that is overloaded, breaks off or falls silent: tried again where that may help, told where not.

use anyhow::Result;
use e2e::clients::collect;
use e2e::model_server::Outcome;
use serde_json::{Value, json};
use wire::obey::local::v1::{ActivityType, SessionStatus};

use super::session;
use crate::stage::{Agent, Stage, contents, fields, scenarios_of, script, stage};

scenarios_of!(
    openai,
    Openai,
    a_passing_error_is_tried_again,
    an_error_that_stays_ends_the_turn,
    a_reply_that_is_cut_off_is_tried_again_unless_it_was_shown,
    a_wait_that_is_a_date_is_understood,
    what_was_thought_before_another_attempt_is_neither_sent_nor_shown_twice,
    an_interrupt_ends_a_wait,
    a_refusal_and_a_limit_end_the_turn_as_such
);
scenarios_of!(
    openai_chat,
    OpenaiChat,
    a_passing_error_is_tried_again,
    an_error_that_stays_ends_the_turn,
    a_reply_that_is_cut_off_is_tried_again_unless_it_was_shown,
    a_wait_that_is_a_date_is_understood,
    what_was_thought_before_another_attempt_is_neither_sent_nor_shown_twice,
    an_interrupt_ends_a_wait,
    a_refusal_and_a_limit_end_the_turn_as_such
);

async fn ended(stage: &Stage, id: &str, key: &str, steps: &Value) -> Result<Value> {
    drop(stage.send(id, &script(stage.agent, key, steps)).await?);
    let turn = stage.wait_for(id, "turn_started", |event| {
        event["prompt"].as_str().is_some_and(|prompt| prompt.starts_with(key))
    });
    let turn = turn.await?["turn"].clone();
    stage.wait_for(id, "turn_ended", |event| event["turn"] == turn).await
}

async fn a_passing_error_is_tried_again(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let id = stage.create().await?;
    for (key, status) in [("busy", 429), ("broken", 503)] {
        let steps = json!([[{"status": status, "times": 2, "retry_after": 0.01, "message": "wait"}, {"text": "here"}]]);
        let turn = stage.turn(&id, &script(agent, key, &steps)).await?;
        assert_eq!(contents(&turn, ActivityType::Completion), "here");
        assert_eq!(stage.world.model().requests_for(key).len(), 3, "{key}");
        let notice = stage
            .wait_for(&id, "notice", |event| {
                event["message"].as_str().is_some_and(|text| text.contains(&format!("HTTP {status}")))
            })
            .await?;
        assert!(
            notice["message"].as_str().is_some_and(|text| text.contains("trying again in 0.")),
            "{notice}"
        );
    }
    stage.close().await
}

async fn an_error_that_stays_ends_the_turn(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let id = stage.create_as(session(&stage, &[("max_retries", "1")])).await?.id;
    let end =
        ended(&stage, &id, "down", &json!([{"status": 500, "retry_after": 0.01, "message": "down"}])).await?;
    assert_eq!(end["reason"], "failed", "{end}");
    assert!(end["error"].as_str().is_some_and(|error| error.contains("down (HTTP 500)")), "{end}");
    assert_eq!(stage.world.model().requests_for("down").len(), 2);
    let end = ended(&stage, &id, "bad", &json!([{"status": 400, "message": "no such field"}])).await?;
    assert!(end["error"].as_str().is_some_and(|error| error.contains("no such field")), "{end}");
    assert_eq!(stage.world.model().requests_for("bad").len(), 1, "what will not pass is not tried again");
    assert_eq!(stage.info(&id).await?.status(), SessionStatus::Running);
    let turn = stage.turn(&id, &script(agent, "next", &json!([{"text": "still here"}]))).await?;
    assert_eq!(contents(&turn, ActivityType::Completion), "still here");
    stage.close().await
}

async fn a_reply_that_is_cut_off_is_tried_again_unless_it_was_shown(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let id = stage.create().await?;
    let steps = json!([[{"drop": true, "times": 1}, {"text": "whole"}]]);
    let turn = stage.turn(&id, &script(agent, "early", &steps)).await?;
    assert_eq!(contents(&turn, ActivityType::Completion), "whole");
    let end = ended(&stage, &id, "late", &json!([[{"text": "half a "}, {"drop": true}]])).await?;
    assert_eq!(end["reason"], "failed", "{end}");
    assert_eq!(stage.world.model().requests_for("late").len(), 1);
    // What was said stays said.
    stage.wait_for_text(&id, "half a ").await?;
    stage.close().await
}

async fn a_wait_that_is_a_date_is_understood(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let id = stage.create().await?;
    let until = |date: &str| json!([[{"status": 429, "times": 1, "retry_after": date}, {"text": "here"}]]);
    let turn = stage.turn(&id, &script(agent, "past", &until("Wed, 21 Oct 2015 07:28:00 GMT"))).await?;
    assert_eq!(contents(&turn, ActivityType::Completion), "here");
    // Nobody waits for decades.
    let end = ended(&stage, &id, "future", &until("Wed, 21 Oct 2099 07:28:00 GMT")).await?;
    assert_eq!(end["reason"], "failed", "{end}");
    assert_eq!(stage.world.model().requests_for("future").len(), 1);
    stage.close().await
}

async fn what_was_thought_before_another_attempt_is_neither_sent_nor_shown_twice(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let id = stage.create().await?;
    let steps = json!([[{"thinking": "a deep thought"}, {"drop": true, "times": 1}, {"text": "whole"}]]);
    let turn = stage.turn(&id, &script(agent, "think", &steps)).await?;
    assert_eq!(contents(&turn, ActivityType::Completion), "whole");
    let requests = stage.world.model().requests_for("think");
    assert_eq!(requests.len(), 2);
    assert_eq!(agent.history(&requests[0].body), agent.history(&requests[1].body));
    let journal = stage.journal(&id).await?;
    let thought = journal.iter().filter(|event| event.r#type == "thinking_delta").map(fields);
    let thought: String =
        thought.map(|event| event["text"].as_str().unwrap_or_default().to_owned()).collect();
    assert_eq!(thought, "a deep thought");
    stage.close().await
}

async fn an_interrupt_ends_a_wait(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let id = stage.create().await?;
    let steps = json!([{"status": 429, "retry_after": 100, "message": "later"}]);
    let turn = stage.send(&id, &script(agent, "wait", &steps)).await?;
    stage.wait_for(&id, "notice", |_| true).await?;
    assert!(stage.cancel(&id).await?);
    collect(turn).await?;
    let end = stage.wait_for(&id, "turn_ended", |_| true).await?;
    assert_eq!(end["reason"], "cancelled", "{end}");
    // An endpoint that does not answer at all is left as quickly.
    let turn = stage.send(&id, &script(agent, "mute", &json!([{"hang": true}]))).await?;
    stage.world.model().wait_for_request(|request| request.key == "mute").await?;
    assert!(stage.cancel(&id).await?);
    collect(turn).await?;
    stage
        .world
        .model()
        .wait_for_request(|request| request.key == "mute" && request.outcome == Outcome::ClientGone)
        .await?;
    stage.close().await
}

async fn a_refusal_and_a_limit_end_the_turn_as_such(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let id = stage.create().await?;
    let end =
        ended(&stage, &id, "long", &json!([[{"text": "and so"}, {"stop_reason": "max_tokens"}]])).await?;
    assert_eq!(end["reason"], "limit_reached", "{end}");
    let end = ended(&stage, &id, "no", &json!([[{"text": "I will not"}, {"stop_reason": "content_filter"}]]))
        .await?;
    assert_eq!(end["reason"], "refused", "{end}");
    stage.close().await
}

//! Turns: what `SendMessage` streams, what the journal keeps of it, what it costs.

use anyhow::{Context, Result};
use serde_json::json;
use tonic::Code;
use wire::obey::local::v1::{ActivityType, ListSessionsRequest, SessionStatus, StateRequest};

use crate::stage::{Agent, CAMPAIGN, contents, fields, of_type, scenarios, script, stage};
use crate::suite::{judge, unsupported};

scenarios!(
    a_new_session_is_running_and_listed,
    a_turn_streams_thinking_calls_results_and_the_exact_answer,
    text_reaches_the_journal_byte_for_byte,
    turns_follow_each_other_in_one_conversation,
    usage_adds_up_over_turns,
    an_initial_message_is_the_first_turn,
    a_prompt_during_a_turn_is_refused,
    the_journal_is_numbered_from_one_without_gaps,
);

async fn a_new_session_is_running_and_listed(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let mut request = stage.new_session();
    request.agent_name = "worker".into();
    request.festival_id = "fest-1".into();
    request.task_id = "task-1".into();
    let session = stage.create_as(request).await?;
    assert!(session.id.starts_with("sess_"), "{session:?}");
    assert_eq!(session.status(), SessionStatus::Running);
    assert_eq!(session.provider(), agent.provider());
    assert_eq!(session.agent_name, "worker");
    assert_eq!((session.festival_id.as_str(), session.task_id.as_str()), ("fest-1", "task-1"));
    assert_eq!(session.working_dir, stage.world.project().display().to_string());
    assert!(session.created_at.is_some() && session.started_at.is_some(), "{session:?}");
    assert!(session.ended_at.is_none(), "{session:?}");
    let list = ListSessionsRequest { campaign_id: CAMPAIGN.into(), ..Default::default() };
    let listed = stage.clients.local.clone().list_sessions(list).await?.into_inner().sessions;
    assert_eq!(listed.iter().map(|listed| &listed.id).collect::<Vec<_>>(), [&session.id]);
    let state = stage.clients.local.clone().get_state(StateRequest::default()).await?.into_inner();
    assert_eq!(state.active_sessions.len(), 1);
    assert_eq!(state.active_sessions[0].id, session.id);
    stage.close().await
}

async fn a_turn_streams_thinking_calls_results_and_the_exact_answer(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let mut request = stage.new_session();
    if agent.asks_about_everything() {
        request.provider_config.insert("permission_mode".into(), "autonomous".into());
    }
    let id = stage.create_as(request).await?.id;
    let prompt = script(
        agent,
        "full",
        &json!([
            [
                {"thinking": "let me look"},
                {"tool": "Bash", "input": {"command": "echo hello from the tool"}, "result": "hello from the tool"},
            ],
            {"text": "It says \"hello\" — 🐎.", "chunks": 5},
        ]),
    );
    let events = stage.turn(&id, &prompt).await?;
    assert!(events.iter().all(|event| event.session_id == id && event.timestamp.is_some()));
    if agent.shows_thinking() {
        assert_eq!(contents(&events, ActivityType::Thinking), "let me look");
    }
    let calls = of_type(&events, ActivityType::ToolCall);
    let results = of_type(&events, ActivityType::ToolResult);
    assert_eq!((calls.len(), results.len()), (1, 1), "{events:#?}");
    assert_eq!(calls[0].tool_name, agent.shell());
    assert_eq!(results[0].tool_name, agent.shell());
    assert!(!calls[0].tool_call_id.is_empty());
    assert_eq!(calls[0].tool_call_id, results[0].tool_call_id);
    assert!(results[0].tool_success);
    if agent.shows_output() {
        assert!(results[0].content.contains("hello from the tool"), "{:?}", results[0]);
    }
    let last = events.last().context("an empty stream")?;
    assert_eq!((last.r#type(), last.content.as_str()), (ActivityType::Completion, "It says \"hello\" — 🐎."));
    let order: Vec<ActivityType> =
        events.iter().map(|event| event.r#type()).filter(|kind| *kind != ActivityType::Status).collect();
    let position = |kind| order.iter().position(|other| *other == kind);
    if agent.shows_thinking() {
        assert!(position(ActivityType::Thinking) < position(ActivityType::ToolCall), "{order:?}");
    }
    assert!(position(ActivityType::ToolCall) < position(ActivityType::ToolResult), "{order:?}");
    assert_eq!(stage.info(&id).await?.status(), SessionStatus::Running);
    judge(&stage, &id, "text").await?;
    if agent.shows_thinking() {
        judge(&stage, &id, "thinking").await?;
    } else {
        unsupported(agent, "thinking")?;
    }
    stage.close().await
}

async fn text_reaches_the_journal_byte_for_byte(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let id = stage.create().await?;
    let text = "Příliš žluťoučký kůň 🐎\n\tdef f(x):\n\t\treturn \"x\\n\"\n\nconst Ω = 1;".repeat(20);
    let events = stage.turn(&id, &script(agent, "bytes", &json!([{"text": text, "chunks": 37}]))).await?;
    assert_eq!(contents(&events, ActivityType::Completion), text);
    let journal = stage.journal(&id).await?;
    let deltas: String = journal
        .iter()
        .filter(|event| event.r#type == "text_delta")
        .filter_map(|event| Some(fields(event)["text"].as_str()?.to_owned()))
        .collect();
    assert_eq!(deltas, text);
    if agent.is_real() {
        assert_eq!(stage.world.model().sent_text("bytes"), deltas);
    }
    stage.close().await
}

async fn turns_follow_each_other_in_one_conversation(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let id = stage.create().await?;
    for (key, text) in [("one", "first"), ("two", "second"), ("three", "third")] {
        let events = stage.turn(&id, &script(agent, key, &json!([{"text": text}]))).await?;
        assert_eq!(contents(&events, ActivityType::Completion), text);
    }
    if agent.is_real() {
        let third = &stage.world.model().requests_for("three")[0];
        let history = agent.history(&third.body);
        assert!(history.contains("first") && history.contains("second"), "the agent forgot: {history}");
    }
    let ended = stage.journal(&id).await?.iter().filter(|event| event.r#type == "turn_ended").count();
    assert_eq!(ended, 3);
    judge(&stage, &id, "two_turns").await?;
    stage.close().await
}

async fn usage_adds_up_over_turns(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let id = stage.create().await?;
    for (key, input, output) in [("one", 1000, 200), ("two", 3000, 400)] {
        let steps = json!([[{"text": "ok"}, {"usage": {"input_tokens": input, "output_tokens": output}}]]);
        let events = stage.turn(&id, &script(agent, key, &steps)).await?;
        let last = events.last().context("an empty stream")?;
        if agent.counts_tokens() {
            assert_eq!((last.tokens_input, last.tokens_output), (input, output), "{last:?}");
        } else {
            assert_eq!(last.tokens_input + last.tokens_output, input + output, "{last:?}");
        }
    }
    let info = stage.info(&id).await?;
    assert_eq!(info.tokens_input + info.tokens_output, 4600, "{info:?}");
    if agent == Agent::Claude {
        let journal = stage.journal(&id).await?;
        let costs = journal.iter().filter(|event| event.r#type == "usage_reported");
        let cost: u64 = costs.filter_map(|event| fields(event)["cost_micro_usd"].as_u64()).sum();
        assert!(cost > 0, "claude knows the price of its models");
    }
    judge(&stage, &id, "usage").await?;
    stage.close().await
}

async fn an_initial_message_is_the_first_turn(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let mut request = stage.new_session();
    request.initial_message = script(agent, "first", &json!([{"text": "on it"}]));
    let session = stage.create_as(request).await?;
    let ended = stage.wait_for(&session.id, "turn_ended", |_| true).await?;
    assert_eq!(ended["reason"], "completed", "{ended}");
    stage.wait_for_text(&session.id, "on it").await?;
    stage.close().await
}

async fn a_prompt_during_a_turn_is_refused(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let id = stage.create().await?;
    let gate = stage.world.path("gate");
    let steps = json!([[{"text": "before "}, {"wait_file": gate}, {"text": "after"}]]);
    let turn = stage.send(&id, &script(agent, "long", &steps)).await?;
    stage.wait_for_text(&id, "before").await?;
    assert_eq!(stage.info(&id).await?.status(), SessionStatus::Working);
    let second = stage.send(&id, "me too").await;
    e2e::clients::refused(second.map(tonic::Response::new), Code::FailedPrecondition, "OBEY-2011")?;
    stage.world.touch("gate")?;
    let events = e2e::clients::collect(turn).await?;
    assert_eq!(events.last().map(|event| event.r#type()), Some(ActivityType::Completion));
    assert_eq!(stage.info(&id).await?.status(), SessionStatus::Running);
    stage.close().await
}

async fn the_journal_is_numbered_from_one_without_gaps(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let id = stage.create().await?;
    stage.turn(&id, &script(agent, "one", &json!([{"text": "a", "chunks": 1}]))).await?;
    stage.stop(&id, true).await?;
    let journal = stage.journal(&id).await?;
    let numbers: Vec<u64> = journal.iter().map(|event| event.seq).collect();
    assert_eq!(numbers, (1..=journal.len() as u64).collect::<Vec<_>>());
    // A second reader that starts in the middle gets the same events from there.
    let middle = numbers.len() as u64 / 2;
    let request = wire::obey::v1::ReadEventsRequest {
        session_id: id.clone(),
        after_seq: middle,
        follow: true,
        ..Default::default()
    };
    let rest = stage.clients.events.clone().read_events(request).await?.into_inner();
    let rest = e2e::clients::collect(rest).await.context("following an ended session must end")?;
    assert_eq!(rest, journal[middle as usize..]);
    stage.close().await
}

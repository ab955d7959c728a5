//! What a session is to its client: a start, turns, cancelling, and how it ends.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use wire::betcode::v1::agent_service_client::AgentServiceClient as Conversations;
use wire::roz::v1 as pb;
use wire::roz::v1::content_block::Block;
use wire::roz::v1::content_part::Part;
use wire::roz::v1::session_request::Request as Said;
use wire::roz::v1::session_response::Response as Body;

use super::talk::{Talk, activities, environment, start, text};
use crate::stage::{Agent, script, stage, usual_scenarios};

usual_scenarios!(
    a_session_starts_and_takes_turns,
    a_cancelled_turn_says_so_and_the_session_goes_on,
    a_cancelled_session_ends,
    a_client_that_says_no_more_hears_the_turn_and_completes_the_session,
    what_comes_along_reaches_the_agent,
);

/// ACP has no word for a compaction.
mod compaction {
    use super::a_compaction_is_told;
    crate::stage::all_but_acp!(a_compaction_is_told);
}

/// ACP agents cannot be told to compact, and do not say whose fault an error was; a script has neither model nor context.
mod models {
    use super::{a_full_context_is_compacted_between_turns, a_model_that_fails_is_told_from_its_agent};
    crate::stage::with_models!(
        a_full_context_is_compacted_between_turns,
        a_model_that_fails_is_told_from_its_agent
    );
}

async fn a_session_starts_and_takes_turns(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let mut talk = Talk::new(&stage, Vec::new()).await?;
    assert!(talk.session().starts_with("sess_"), "{:?}", talk.started);
    assert!(!talk.started.model.is_empty(), "{:?}", talk.started);
    let rules: Vec<(&str, &str)> = talk
        .started
        .permissions
        .iter()
        .map(|rule| (rule.tool_pattern.as_str(), rule.policy.as_str()))
        .collect();
    assert_eq!(rules, [("*", "require_confirmation"), ("*", "allow")]);
    let folder = stage.world.project().canonicalize()?.display().to_string();
    assert_eq!(stage.info(talk.session()).await?.working_dir, folder, "it runs where its environment is");

    let steps = json!([[{"thinking": "hm"}, {"text": "one two three", "chunks": 3}]]);
    talk.prompt("m-1", &script(agent, "first", &steps)).await?;
    let (end, heard) = talk.turn().await?;
    assert_eq!((end.message_id.as_str(), end.stop_reason.as_str()), ("m-1", "end_turn"));
    assert_eq!(text(&heard), "one two three");
    for body in &heard {
        let id = match body {
            Body::TextDelta(delta) => &delta.message_id,
            Body::ThinkingDelta(delta) => &delta.message_id,
            _ => continue,
        };
        assert_eq!(id, "m-1");
    }
    assert_eq!(activities(&heard).first().map(String::as_str), Some("thinking"));
    if agent.is_real() && agent.counts_tokens() {
        let usage = end.usage.context("a turn that ended by itself has a usage")?;
        assert!(usage.output_tokens > 0, "{usage:?}");
    }
    // A message without an id gets one, the same everywhere.
    let content = script(agent, "second", &json!([{"text": "again"}]));
    talk.say(Said::UserMessage(pb::UserMessage { content, ..Default::default() })).await?;
    let (end, heard) = talk.turn().await?;
    assert!(!end.message_id.is_empty());
    assert_eq!(text(&heard), "again");
    assert!(
        heard.iter().all(|body| match body {
            Body::TextDelta(delta) => delta.message_id == end.message_id,
            _ => true,
        }),
        "{heard:?}"
    );
    let levels: Vec<&str> = talk
        .heard
        .iter()
        .filter_map(|body| match body {
            Body::PresenceHint(hint) => Some(hint.level.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(levels.first(), Some(&"mini"));
    talk.pong().await?;
    stage.close().await
}

async fn a_cancelled_turn_says_so_and_the_session_goes_on(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let mut talk = Talk::new(&stage, Vec::new()).await?;
    talk.prompt("m-1", &script(agent, "hang", &json!([[{"text": "thinking hard"}, {"hang": true}]]))).await?;
    talk.until("some text", |body| matches!(body, Body::TextDelta(_)).then_some(())).await?;
    talk.prompt("m-2", "another").await?;
    let refused = talk.error().await?;
    assert_eq!((refused.code.as_str(), refused.retryable), ("turn_in_progress", false));
    talk.pong().await?;
    talk.say(Said::CancelTurn(pb::CancelTurn { reason: "enough".into() })).await?;
    let (end, _) = talk.turn().await?;
    assert_eq!((end.message_id.as_str(), end.stop_reason.as_str()), ("m-1", "cancelled"));
    assert!(end.usage.is_none(), "{end:?}");
    let session = talk.started.session_id.clone();
    stage
        .wait_for(&session, "notice", |event| event["message"] == "the client cancelled the turn: enough")
        .await?;
    talk.prompt("m-3", &script(agent, "next", &json!([{"text": "still here"}]))).await?;
    let (end, heard) = talk.turn().await?;
    assert_eq!((end.message_id.as_str(), text(&heard).as_str()), ("m-3", "still here"));
    stage.close().await
}

async fn a_cancelled_session_ends(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let mut talk = Talk::new(&stage, Vec::new()).await?;
    talk.prompt("m-1", &script(agent, "hang", &json!([[{"text": "thinking hard"}, {"hang": true}]]))).await?;
    talk.until("some text", |body| matches!(body, Body::TextDelta(_)).then_some(())).await?;
    talk.say(Said::CancelSession(pb::CancelSession { reason: "over".into() })).await?;
    talk.rest().await?;
    let cancelled = talk
        .heard
        .iter()
        .any(|body| matches!(body, Body::TurnComplete(end) if end.stop_reason == "cancelled"));
    assert!(cancelled, "{:#?}", talk.heard);
    stage.wait_for_status(talk.session(), "STOPPED").await?;
    stage.close().await
}

async fn a_client_that_says_no_more_hears_the_turn_and_completes_the_session(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let mut talk = Talk::new(&stage, Vec::new()).await?;
    let steps = json!([{"text": "one two three", "chunks": 5, "gap_ms": 20}]);
    talk.prompt("m-1", &script(agent, "go", &steps)).await?;
    talk.hush();
    talk.rest().await?;
    assert_eq!(text(&talk.heard), "one two three");
    assert!(talk.heard.iter().any(|body| matches!(body, Body::TurnComplete(_))), "{:#?}", talk.heard);
    stage.wait_for_status(talk.session(), "STOPPED").await?;
    stage.close().await
}

async fn what_comes_along_reaches_the_agent(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let said = |role: &str, words: &str| pb::ConversationMessage {
        role: role.into(),
        parts: vec![pb::ContentPart { part: Some(Part::Text(pb::TextContent { text: words.into() })) }],
    };
    let start = pb::StartSession {
        history: vec![said("user", "my name is Ottoline"), said("assistant", "hello Ottoline")],
        project_context: vec!["always use tabs, says AGENTS.md".into()],
        ..start(&environment(&stage).await?)
    };
    let mut talk = Talk::start(&stage, start).await?;
    let message = pb::UserMessage {
        content: script(agent, "remember", &json!([{"text": "I do"}])),
        context: vec![pb::ContentBlock {
            block: Some(Block::Text("the battery is at 12 percent".into())),
            label: Some("battery".into()),
        }],
        system_context: Some("speak softly".into()),
        ai_mode: Some("ooda_re_act".into()),
        ..Default::default()
    };
    talk.say(Said::UserMessage(message)).await?;
    assert_eq!(text(&talk.turn().await?.1), "I do");
    if agent.is_real() {
        let requests = stage.world.model().requests();
        let sent: String = requests.iter().map(|request| request.body.to_string()).collect();
        for words in ["Ottoline", "always use tabs", "12 percent", "speak softly", "observe again"] {
            assert!(sent.contains(words), "the model was not sent {words:?}");
        }
    }
    let is_own =
        |event: &Value| event["prompt"].as_str().is_some_and(|prompt| prompt.starts_with("remember"));
    let started = stage.wait_for(talk.session(), "turn_started", is_own).await?;
    let names: Vec<&str> = started["attachments"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|file| file["name"].as_str())
        .collect();
    // What an agent takes as turns or as its system prompt is in no message.
    let before: &[&str] = match agent {
        Agent::Claude | Agent::Codex | Agent::Openai | Agent::OpenaiChat => &[],
        _ => &["project_context", "conversation_so_far"],
    };
    assert_eq!(names, [before, &["mode", "system_context", "battery"]].concat());
    stage.close().await
}

async fn a_compaction_is_told(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let mut talk = Talk::new(&stage, Vec::new()).await?;
    if agent == Agent::Scripted {
        talk.prompt("m-1", &script(agent, "shorten", &json!([{"compact": true}, {"text": "short"}]))).await?;
    } else {
        talk.prompt("m-1", &script(agent, "talk", &json!([{"text": "a long story"}]))).await?;
        talk.turn().await?;
        let mut betcode = Conversations::new(stage.clients.channel.clone());
        let request = wire::betcode::v1::CompactSessionRequest { session_id: talk.session().into() };
        betcode.compact_session(request).await?;
    }
    let told = talk
        .until("a compaction", |body| match body {
            Body::ContextCompacted(told) => Some(told.clone()),
            _ => None,
        })
        .await?;
    assert_eq!((told.level.as_str(), told.messages_after), ("summary", 1));
    stage.close().await
}

/// What is in use is above 85 % of what the client said there is.
async fn a_full_context_is_compacted_between_turns(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let start = pb::StartSession { max_context_tokens: Some(5_000), ..start(&environment(&stage).await?) };
    let mut talk = Talk::start(&stage, start).await?;
    let usage = json!({"usage": {"input_tokens": 4_400, "output_tokens": 10}});
    talk.prompt("m-1", &script(agent, "big", &json!([[{"text": "a long story"}, usage]]))).await?;
    assert_eq!(talk.turn().await?.0.stop_reason, "end_turn");
    let told = talk
        .until("a compaction", |body| match body {
            Body::ContextCompacted(told) => Some(told.clone()),
            _ => None,
        })
        .await?;
    assert_eq!((told.messages_before, told.messages_after), (2, 1), "{told:?}");
    assert!(told.tokens_before >= 4_400, "{told:?}");
    stage.wait_for(talk.session(), "turn_ended", |event| event["turn"] == "turn_2").await?;
    talk.prompt("m-2", &script(agent, "after", &json!([{"text": "short again"}]))).await?;
    let (end, heard) = talk.turn().await?;
    assert_eq!((end.message_id.as_str(), text(&heard).as_str()), ("m-2", "short again"));
    stage.close().await
}

async fn a_model_that_fails_is_told_from_its_agent(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let mut talk = Talk::new(&stage, Vec::new()).await?;
    let steps = json!([{"status": 400, "message": "this cannot be answered"}]);
    talk.prompt("m-1", &script(agent, "fail", &steps)).await?;
    let error = talk.error().await?;
    assert_eq!((error.code.as_str(), error.retryable), ("model_error", true), "{error:?}");
    let (end, _) = talk.turn().await?;
    assert_eq!((end.message_id.as_str(), end.stop_reason.as_str()), ("m-1", "error"));
    // The session goes on.
    talk.prompt("m-2", &script(agent, "again", &json!([{"text": "better"}]))).await?;
    assert_eq!(text(&talk.turn().await?.1), "better");
    stage.close().await
}

#[tokio::test]
async fn a_long_turn_shows_signs_of_life() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let mut talk = Talk::new(&stage, Vec::new()).await?;
    talk.prompt("m-1", &script(Agent::Scripted, "hang", &json!([{"hang": true}]))).await?;
    talk.until("a keepalive", |body| matches!(body, Body::Keepalive(_)).then_some(())).await?;
    stage.close().await
}

#[tokio::test]
async fn a_ping_is_answered_before_anything_else() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let mut talk = Talk::raw(&stage.clients, vec![Said::Ping(pb::Ping {})]).await?;
    talk.until("a pong", |body| matches!(body, Body::Pong(_)).then_some(())).await?;
    stage.close().await
}

#[tokio::test]
async fn feedback_is_kept() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let mut talk = Talk::new(&stage, Vec::new()).await?;
    talk.prompt("m-1", &script(Agent::Scripted, "say", &json!([{"text": "hi"}]))).await?;
    talk.turn().await?;
    let feedback = pb::MessageFeedback {
        session_id: talk.session().into(),
        message_id: "m-1".into(),
        rating: "up".into(),
    };
    talk.say(Said::Feedback(feedback.clone())).await?;
    let kept = stage.wait_for(talk.session(), "activity_reported", |_| true).await?;
    assert_eq!((&kept["extra"]["message_id"], &kept["extra"]["rating"]), (&json!("m-1"), &json!("up")));
    talk.say(Said::Feedback(pb::MessageFeedback { rating: "sideways".into(), ..feedback })).await?;
    assert_eq!(talk.error().await?.code, "invalid_argument");
    stage.close().await
}

/// An environment that names no agent.
async fn plain_environment(stage: &crate::stage::Stage) -> Result<String> {
    let project = stage.world.project().display().to_string();
    let made = stage.cli().json(&["environment", "create", "plain", "--dir", &project]).await?;
    Ok(made["id"].as_str().context("no id was printed")?.to_owned())
}

/// Nobody names an agent: the installed one runs, and a tier is one of its models.
#[tokio::test]
async fn real_claude_a_tier_is_a_model_of_the_default_agent() -> Result<()> {
    let stage = stage!(Agent::Claude);
    let environment = plain_environment(&stage).await?;
    let mut talk =
        Talk::start(&stage, pb::StartSession { model: Some("fast".into()), ..start(&environment) }).await?;
    assert_eq!(talk.started.model, "claude-haiku-4-5-20251001");
    talk.prompt("m-1", &script(Agent::Claude, "say", &json!([{"text": "quick"}]))).await?;
    assert_eq!(text(&talk.turn().await?.1), "quick");
    let created = stage.wait_for(talk.session(), "session_created", |_| true).await?;
    assert_eq!(created["provider"], "claude-code");
    let sent = stage.world.model().requests_for("say");
    assert_eq!(sent[0].body["model"], "claude-haiku-4-5-20251001");
    stage.close().await
}

/// Nobody names an agent or a model: the installed one runs with its own.
#[tokio::test]
async fn real_claude_without_a_model_the_installed_agent_runs() -> Result<()> {
    let stage = stage!(Agent::Claude);
    let mut talk = Talk::start(&stage, start(&plain_environment(&stage).await?)).await?;
    let created = stage.wait_for(talk.session(), "session_created", |_| true).await?;
    assert_eq!((&created["provider"], &created["model"]), (&json!("claude-code"), &json!("")));
    assert!(talk.started.model.starts_with("claude-"), "{:?}", talk.started);
    talk.prompt("m-1", &script(Agent::Claude, "say", &json!([{"text": "hi"}]))).await?;
    assert_eq!(text(&talk.turn().await?.1), "hi");
    stage.close().await
}

/// The configuration names another than the installed one.
#[tokio::test]
async fn real_claude_the_configured_agent_comes_before_the_installed_one() -> Result<()> {
    let configured = |world: &e2e::world::World| {
        world.set_env("OBEY_SESSIONS_DEFAULT_PROVIDER", "scripted");
        Ok(())
    };
    let Some(stage) = crate::stage::Stage::open_with(Agent::Claude, configured).await? else {
        return Ok(());
    };
    let mut talk = Talk::start(&stage, start(&plain_environment(&stage).await?)).await?;
    let created = stage.wait_for(talk.session(), "session_created", |_| true).await?;
    assert_eq!(created["provider"], "scripted");
    talk.prompt("m-1", &script(Agent::Scripted, "say", &json!([{"text": "hi"}]))).await?;
    assert_eq!(text(&talk.turn().await?.1), "hi");
    stage.close().await
}

#[tokio::test]
async fn a_stream_that_is_opened_again_with_its_key_continues_its_session_and_sends_nothing_twice()
-> Result<()> {
    let stage = stage!(Agent::Scripted);
    let environment_id = environment(&stage).await?;
    let message = script(Agent::Scripted, "once", &json!([{"text": "said once"}]));
    let mut sessions = Vec::new();
    for _ in 0..2 {
        let mut talk =
            Talk::raw_once(&stage.clients, vec![Said::Start(start(&environment_id))], "stream-1").await?;
        let Some(Body::SessionStarted(started)) = talk.next().await? else { anyhow::bail!("no start") };
        let first = sessions.is_empty();
        sessions.push(started.session_id);
        talk.prompt("m-1", &message).await?;
        if first {
            talk.turn().await?;
        }
        talk.say(Said::Ping(pb::Ping {})).await?;
        talk.pong().await?;
        // The connection breaks.
        drop(talk);
    }
    assert_eq!(sessions[0], sessions[1]);
    // Its first message was another one; its second is new.
    let mut talk =
        Talk::raw_once(&stage.clients, vec![Said::Start(start(&environment_id))], "stream-1").await?;
    talk.prompt("m-1", "something else").await?;
    talk.error().await?;
    talk.prompt("m-2", &script(Agent::Scripted, "two", &json!([{"text": "second"}]))).await?;
    stage.wait_for_text(&sessions[0], "second").await?;
    let journal = stage.journal(&sessions[0]).await?;
    let turns = journal.iter().filter(|event| event.r#type == "turn_started").count();
    assert_eq!(turns, 2, "{journal:#?}");
    drop(talk);
    stage.close().await
}

//! Compaction: the agent's conversation becomes a summary, and what the model is sent shrinks.

use anyhow::{Context, Result};
use e2e::clients::refused;
use serde_json::json;
use tonic::Code;
use wire::betcode::v1 as pb;
use wire::betcode::v1::agent_event::Event as Body;

use super::talk::{Talk, agents, text};
use crate::stage::{Agent, Stage, process_scenarios, script, stage};

process_scenarios!(a_compacted_session_goes_on_and_sends_less, a_resting_session_is_woken_to_be_compacted);
crate::stage::scenarios_of!(
    openai,
    Openai,
    a_compacted_session_goes_on_and_sends_less,
    a_resting_session_is_woken_to_be_compacted
);

async fn compact(stage: &Stage, session: &str) -> Result<pb::CompactSessionResponse> {
    let request = pb::CompactSessionRequest { session_id: session.into() };
    Ok(agents(&stage.clients).compact_session(request).await?.into_inner())
}

/// How much conversation the model was sent for a prompt.
fn sent(stage: &Stage, key: &str) -> Result<usize> {
    let requests = stage.world.model().requests_for(key);
    let request = requests.first().with_context(|| format!("the model was never asked for {key}"))?;
    Ok(stage.agent.history(&request.body).len())
}

/// Asserts that the model was sent less after the compaction. Codex keeps what people said, which here is as long as the
/// answers.
fn assert_smaller(stage: &Stage) -> Result<()> {
    let (before, after) = (sent(stage, "third")?, sent(stage, "after")?);
    let most = if stage.agent == Agent::Codex { before * 3 / 4 } else { before / 2 };
    assert!(after < most, "the model was sent {before} bytes before and {after} after");
    Ok(())
}

/// A conversation with a past.
async fn talk_at_length(stage: &Stage) -> Result<Talk> {
    let mut talk = Talk::new(stage).await?;
    let long = "all work and no play makes a long story. ".repeat(500);
    for key in ["first", "second", "third"] {
        talk.prompt(&script(stage.agent, key, &json!([{"text": long}]))).await?;
        talk.turn().await?;
    }
    Ok(talk)
}

async fn a_compacted_session_goes_on_and_sends_less(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let mut talk = talk_at_length(&stage).await?;
    let answer = compact(&stage, talk.session()).await?;
    assert_eq!((answer.messages_before, answer.messages_after), (6, 1), "{answer:?}");
    if agent == Agent::Scripted {
        assert_eq!(answer.tokens_saved, 900);
    }
    let told = talk
        .until("that it was compacted", |body| matches!(body, Body::SessionInfo(info) if info.is_compacted));
    told.await?;
    talk.turn().await?;
    let status = |event: &pb::AgentEvent| matches!(&event.event, Some(Body::StatusChange(change)) if change.status() == pb::AgentStatus::Compacting);
    assert!(talk.heard.iter().any(status), "{:#?}", talk.heard);
    talk.prompt(&script(agent, "after", &json!([{"text": "still here"}]))).await?;
    assert_eq!(text(&talk.turn().await?), "still here");
    if agent.is_real() {
        assert_smaller(&stage)?;
    }
    stage.close().await
}

async fn a_resting_session_is_woken_to_be_compacted(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let mut talk = talk_at_length(&stage).await?;
    let session = talk.session().to_owned();
    stage.stop(&session, false).await?;
    let answer = compact(&stage, &session).await?;
    assert_eq!((answer.messages_before, answer.messages_after), (6, 1), "{answer:?}");
    talk.turn().await?;
    talk.prompt(&script(agent, "after", &json!([{"text": "awake"}]))).await?;
    assert_eq!(text(&talk.turn().await?), "awake");
    if agent.is_real() {
        assert_smaller(&stage)?;
    }
    stage.close().await
}

#[tokio::test]
async fn nothing_and_a_running_turn_are_not_compacted() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let mut talk = Talk::new(&stage).await?;
    let request = pb::CompactSessionRequest { session_id: talk.session().into() };
    let mut agents = agents(&stage.clients);
    refused(agents.compact_session(request.clone()).await, Code::FailedPrecondition, "OBEY-2011")?;
    talk.prompt(&script(Agent::Scripted, "hang", &json!([{"text": "hm"}, {"hang": true}]))).await?;
    talk.until("some text", |body| matches!(body, Body::TextDelta(_))).await?;
    refused(agents.compact_session(request).await, Code::FailedPrecondition, "OBEY-2011")?;
    stage.close().await
}

#[tokio::test]
async fn a_large_conversation_is_compacted_by_itself_with_the_real_claude() -> Result<()> {
    let stage = stage!(Agent::Claude);
    super::settings::write(&stage, &json!({"sessions": {"auto_compact_threshold": 5000}}))?;
    let mut talk = Talk::new(&stage).await?;
    let usage = json!({"usage": {"input_tokens": 9000, "output_tokens": 10}});
    talk.prompt(&script(Agent::Claude, "big", &json!([[{"text": "a long story"}, usage]]))).await?;
    talk.turn().await?;
    talk.until("a compaction", |body| matches!(body, Body::SessionInfo(info) if info.is_compacted)).await?;
    talk.turn().await?;
    talk.prompt(&script(Agent::Claude, "after", &json!([{"text": "short again"}]))).await?;
    assert_eq!(text(&talk.turn().await?), "short again");
    stage.close().await
}

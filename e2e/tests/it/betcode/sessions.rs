//! Calls about sessions: lists, replays, names, grants, ends.

use anyhow::Result;
use e2e::clients::refused;
use serde_json::json;
use tonic::Code;
use wire::betcode::v1 as pb;
use wire::betcode::v1::agent_event::Event as Body;

use super::talk::{Talk, agents, new_start, numbered, stop_reason, stored, text};
use crate::stage::{Agent, Stage, process_scenarios, script, stage};

process_scenarios!(a_session_is_listed_with_what_it_cost, cancel_turn_says_whether_there_was_one);
crate::stage::scenarios_of!(
    openai,
    Openai,
    a_session_is_listed_with_what_it_cost,
    cancel_turn_says_whether_there_was_one
);

async fn list(stage: &Stage, request: pb::ListSessionsRequest) -> Result<pb::ListSessionsResponse> {
    Ok(agents(&stage.clients).list_sessions(request).await?.into_inner())
}

async fn a_session_is_listed_with_what_it_cost(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let mut talk = Talk::new(&stage).await?;
    let usage = json!({"usage": {"input_tokens": 30, "output_tokens": 12}});
    talk.prompt(&script(agent, "go", &json!([[{"text": "the answer"}, usage]]))).await?;
    talk.turn().await?;
    let all = list(&stage, pb::ListSessionsRequest::default()).await?;
    assert_eq!((all.total, all.sessions.len()), (1, 1));
    let found = &all.sessions[0];
    assert_eq!((found.id.as_str(), found.status.as_str()), (talk.session(), "idle"));
    assert_eq!((found.message_count, found.last_message_preview.as_str()), (2, "the answer"));
    assert!(found.total_input_tokens >= 30 && found.total_output_tokens >= 12, "{found:?}");
    let seconds = |at: Option<prost_types::Timestamp>| at.map_or(0, |at| at.seconds);
    assert!(seconds(found.created_at) > 0 && seconds(found.updated_at) >= seconds(found.created_at));
    if agent == Agent::Claude {
        assert!(found.total_cost_usd > 0.0 && found.model.contains("sonnet"), "{found:?}");
    }
    stage.close().await
}

async fn cancel_turn_says_whether_there_was_one(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let mut talk = Talk::new(&stage).await?;
    let request = pb::CancelTurnRequest { session_id: talk.session().to_owned() };
    let mut agents = agents(&stage.clients);
    assert!(!agents.cancel_turn(request.clone()).await?.into_inner().was_active);
    talk.prompt(&script(agent, "hang", &json!([[{"text": "hm"}, {"hang": true}]]))).await?;
    talk.until("some text", |body| matches!(body, Body::TextDelta(_))).await?;
    assert!(agents.cancel_turn(request).await?.into_inner().was_active);
    assert_eq!(stop_reason(&talk.turn().await?), "cancelled");
    stage.close().await
}

#[tokio::test]
async fn lists_have_pages_totals_and_filters() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let inner = stage.world.project().join("inner");
    std::fs::create_dir(&inner)?;
    let mut ids = Vec::new();
    for at in 0..5 {
        let mut start = new_start(&stage);
        if at == 4 {
            start.working_directory = inner.display().to_string();
        }
        ids.push(Talk::start(&stage.clients, start).await?.session().to_owned());
    }
    let page = |limit, offset| pb::ListSessionsRequest { limit, offset, ..Default::default() };
    let named = |response: &pb::ListSessionsResponse| -> Vec<String> {
        response.sessions.iter().map(|session| session.id.clone()).collect()
    };
    let newest_first: Vec<String> = ids.iter().rev().cloned().collect();
    let first = list(&stage, page(2, 0)).await?;
    assert_eq!((named(&first), first.total), (newest_first[..2].to_vec(), 5));
    let last = list(&stage, page(2, 4)).await?;
    assert_eq!((named(&last), last.total), (newest_first[4..].to_vec(), 5));
    assert_eq!(named(&list(&stage, page(0, 0)).await?), newest_first);
    assert!(list(&stage, page(5, 99)).await?.sessions.is_empty());
    let working_directory = format!("{}/", inner.display());
    let inside = list(&stage, pb::ListSessionsRequest { working_directory, ..Default::default() }).await?;
    assert_eq!((named(&inside), inside.total), (vec![ids[4].clone()], 1));
    let elsewhere = pb::ListSessionsRequest { working_directory: "/nowhere".into(), ..Default::default() };
    assert_eq!(list(&stage, elsewhere).await?.total, 0);
    stage.close().await
}

#[tokio::test]
async fn a_replay_starts_strictly_after_a_number_and_ends_with_the_last() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let mut talk = Talk::new(&stage).await?;
    talk.prompt(&script(Agent::Scripted, "go", &json!([{"text": "a b c d e f", "chunks": 6}]))).await?;
    talk.turn().await?;
    let session = talk.session().to_owned();
    let all = stored(&stage.clients, &session, 0).await?;
    assert_eq!(all[..numbered(&talk.heard).len()], numbered(&talk.heard)[..]);
    for event in &all {
        let later = stored(&stage.clients, &session, event.sequence).await?;
        let expected: Vec<_> = all.iter().filter(|other| other.sequence > event.sequence).cloned().collect();
        assert_eq!(later, expected, "after {}", event.sequence);
    }
    assert!(stored(&stage.clients, &session, 1 << 40).await?.is_empty());
    stage.close().await
}

#[tokio::test]
async fn a_session_is_renamed_and_deleted() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let mut talk = Talk::new(&stage).await?;
    let session = talk.session().to_owned();
    talk.prompt(&script(Agent::Scripted, "hang", &json!([{"text": "hm"}, {"hang": true}]))).await?;
    talk.until("some text", |body| matches!(body, Body::TextDelta(_))).await?;
    let mut agents = agents(&stage.clients);
    let rename = |name: &str| pb::RenameSessionRequest { session_id: session.clone(), name: name.into() };
    agents.rename_session(rename("scout")).await?;
    assert_eq!(list(&stage, pb::ListSessionsRequest::default()).await?.sessions[0].name, "scout");
    refused(agents.rename_session(rename(" ")).await, Code::InvalidArgument, "OBEY-1001")?;
    let delete = || pb::DeleteSessionRequest { session_id: session.clone() };
    assert!(agents.delete_session(delete()).await?.into_inner().deleted);
    let end = talk.until("why", |body| matches!(body, Body::Error(error) if error.is_fatal)).await?;
    assert_eq!(end.sequence, 0);
    talk.rest().await?;
    refused(agents.delete_session(delete()).await, Code::NotFound, "OBEY-2010")?;
    assert_eq!(list(&stage, pb::ListSessionsRequest::default()).await?.total, 0);
    // Its key is not given to the next one: nobody reads one journal for the other.
    let mut next = Talk::new(&stage).await?;
    next.prompt(&script(Agent::Scripted, "go", &json!([{"text": "fresh"}]))).await?;
    assert_eq!(text(&next.turn().await?), "fresh");
    stage.close().await
}

#[tokio::test]
async fn grants_are_set_by_pattern_and_deny_too() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let mut talk = Talk::new(&stage).await?;
    let mut agents = agents(&stage.clients);
    let grant = |tool: &str, granted| pb::SetSessionGrantRequest {
        session_id: talk.session().into(),
        tool_name: tool.into(),
        granted,
    };
    agents.set_session_grant(grant("Bash(git *)", true)).await?;
    agents.set_session_grant(grant("Bash(git push *)", false)).await?;
    refused(agents.set_session_grant(grant("Bash(git", true)).await, Code::InvalidArgument, "OBEY-1001")?;
    let ask =
        |command: &str| json!({"tool": "Bash", "input": {"command": command}, "ask": true, "result": "ran"});
    let steps = json!([ask("git log"), ask("git push -f"), ask("git log; rm -rf ."), {"text": "end"}]);
    talk.prompt(&script(Agent::Scripted, "go", &steps)).await?;
    let asked = talk.permission().await?;
    assert!(format!("{asked:?}").contains("rm -rf"), "only what nothing covers is asked: {asked:?}");
    talk.decide(&asked.request_id, pb::PermissionDecision::Deny).await?;
    talk.turn().await?;
    let failed: Vec<bool> = super::talk::results(&talk.heard).iter().map(|result| result.is_error).collect();
    assert_eq!(failed, [false, true, true]);
    stage.close().await
}

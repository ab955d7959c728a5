//! What the daemon refuses, and that it says why: code, and the field that is wrong. Needs no agent.

use std::fmt::Debug;

use anyhow::{Context, Result, ensure};
use e2e::clients::{mentions, refused};
use prost_types::Duration;
use tonic::{Code, Response, Status};
use wire::obey::local::v1 as pb;
use wire::obey::v1 as own;

use crate::stage::{Agent, CAMPAIGN, Stage};

async fn open() -> Result<Stage> {
    Stage::open(Agent::Scripted).await?.context("the scripted agent is part of the daemon")
}

/// The call was refused with this code, and the answer names the field.
fn refused_for<T: Debug>(
    result: Result<Response<T>, Status>,
    code: Code,
    obey: &str,
    field: &str,
) -> Result<()> {
    let status = refused(result, code, obey)?;
    ensure!(mentions(&status, field), "{field} is not named: {status:?}");
    Ok(())
}

#[tokio::test]
async fn every_field_of_a_new_session_is_checked() -> Result<()> {
    let stage = open().await?;
    type Change = fn(&mut pb::CreateSessionRequest);
    let invalid = (Code::InvalidArgument, "OBEY-1001");
    let cases: Vec<(&str, (Code, &str), Change)> = vec![
        ("campaign_id", invalid, |request| request.campaign_id.clear()),
        ("no-such-campaign", (Code::NotFound, "OBEY-2001"), |request| {
            request.campaign_id = "no-such-campaign".into();
        }),
        ("provider", (Code::InvalidArgument, "OBEY-2002"), |request| request.provider = 0),
        ("provider", (Code::InvalidArgument, "OBEY-2002"), |request| request.provider = 77),
        ("model", (Code::InvalidArgument, "OBEY-2003"), |request| {
            request.provider = pb::SessionProvider::ClaudeCode.into();
            request.model = "gpt-5".into();
        }),
        ("agent_name", invalid, |request| request.agent_name = "two\nlines".into()),
        ("agent_name", invalid, |request| request.agent_name = "x".repeat(1000)),
        ("max_tokens", invalid, |request| request.max_tokens = -1),
        ("timeout", invalid, |request| request.timeout = Some(Duration { seconds: -5, nanos: 0 })),
        ("environment", invalid, |request| {
            request.environment.insert("OBEY_SESSION_ID".into(), "x".into());
        }),
        ("environment", invalid, |request| {
            request.environment.insert("not a name".into(), "x".into());
        }),
        ("provider_config.permission_mode", invalid, |request| {
            request.provider_config.insert("permission_mode".into(), "yolo".into());
        }),
        ("provider_config.no_such_key", invalid, |request| {
            request.provider_config.insert("no_such_key".into(), "x".into());
        }),
        ("workdir", invalid, |request| {
            request.provider_config.insert("workdir".into(), "../..".into());
        }),
    ];
    for (field, (code, obey), change) in cases {
        let mut request = stage.new_session();
        change(&mut request);
        let result = stage.clients.local.clone().create_session(request).await;
        refused_for(result, code, obey, field)?;
    }
    let all = pb::ListSessionsRequest { include_terminated: true, ..Default::default() };
    let listed = stage.clients.local.clone().list_sessions(all).await?.into_inner().sessions;
    assert!(listed.is_empty(), "a refused request leaves nothing behind: {listed:#?}");
    stage.close().await
}

#[tokio::test]
async fn a_missing_program_fails_the_creation_and_stays_on_record() -> Result<()> {
    let stage = open().await?;
    let mut request = stage.new_session();
    request.provider = pb::SessionProvider::ClaudeCode.into();
    let status = stage.clients.local.clone().create_session(request).await.unwrap_err();
    assert!(mentions(&status, "OBEY-2004"), "{status:?}");
    assert!(mentions(&status, "claude"), "the missing program is named: {status:?}");
    let all = pb::ListSessionsRequest { include_terminated: true, ..Default::default() };
    let listed = stage.clients.local.clone().list_sessions(all).await?.into_inner().sessions;
    for session in &listed {
        assert_eq!(session.status(), pb::SessionStatus::Failed);
        assert!(session.error_message.contains("OBEY-2004"), "{session:?}");
    }
    stage.close().await
}

#[tokio::test]
async fn a_session_that_does_not_exist_is_not_found() -> Result<()> {
    let stage = open().await?;
    let mut local = stage.clients.local.clone();
    let id = || "sess_00000000000000000000000000".to_owned();
    let (code, obey) = (Code::NotFound, "OBEY-2010");
    refused(local.get_session(pb::GetSessionRequest { session_id: id() }).await, code, obey)?;
    let send = pb::SendMessageRequest { session_id: id(), message: "hi".into() };
    refused(local.send_message(send).await, code, obey)?;
    let stop = pb::StopSessionRequest { session_id: id(), graceful: true };
    refused(local.stop_session(stop).await, code, obey)?;
    let restart = pb::RestartSessionRequest { session_id: id(), ..Default::default() };
    refused(local.restart_session(restart).await, code, obey)?;
    refused(local.watch_session(pb::WatchSessionRequest { session_id: id() }).await, code, obey)?;
    let cancel = own::CancelTurnRequest { session_id: id(), ..Default::default() };
    refused(stage.clients.turns.clone().cancel_turn(cancel).await, code, obey)?;
    let read = own::ReadEventsRequest { session_id: id(), ..Default::default() };
    refused(stage.clients.events.clone().read_events(read).await, code, obey)?;
    stage.close().await
}

#[tokio::test]
async fn every_other_request_names_its_wrong_field_too() -> Result<()> {
    let stage = open().await?;
    let mut local = stage.clients.local.clone();
    let id = stage.create().await?;
    let (code, obey) = (Code::InvalidArgument, "OBEY-1001");
    refused_for(local.get_session(pb::GetSessionRequest::default()).await, code, obey, "session_id")?;
    let empty = pb::SendMessageRequest { session_id: id.clone(), message: "  ".into() };
    refused_for(local.send_message(empty).await, code, obey, "message")?;
    let list = pb::ListSessionsRequest { statuses: vec![99], ..Default::default() };
    refused_for(local.list_sessions(list).await, code, obey, "statuses")?;
    let execute = pb::ExecuteRequest { campaign_id: CAMPAIGN.into(), ..Default::default() };
    refused_for(local.execute(execute).await, code, obey, "command")?;
    let report = pb::CampaignEventRequest { name: "x".into(), ..Default::default() };
    refused_for(local.report_campaign_event(report).await, code, obey, "type")?;
    let created = pb::CampaignEventRequest {
        r#type: pb::CampaignEventType::Created.into(),
        name: "x".into(),
        ..Default::default()
    };
    refused_for(local.report_campaign_event(created).await, code, obey, "path")?;
    let mode = own::SetModeRequest { session_id: id.clone(), mode: "yolo".into() };
    refused_for(stage.clients.turns.clone().set_mode(mode).await, code, obey, "mode")?;
    let undecided = own::AnswerPermissionRequest {
        session_id: id.clone(),
        request_id: "req_1".into(),
        ..Default::default()
    };
    let result = stage.clients.requests.clone().answer_permission(undecided).await;
    refused_for(result, code, obey, "decision")?;
    let unnamed = own::AnswerPermissionRequest {
        session_id: id,
        request_id: "nonsense".into(),
        decision: own::Decision::Deny.into(),
        ..Default::default()
    };
    refused_for(stage.clients.requests.clone().answer_permission(unnamed).await, code, obey, "request_id")?;
    let nowhere = own::AddCampaignRequest { path: "relative".into(), ..Default::default() };
    refused_for(stage.clients.campaigns.clone().add_campaign(nowhere).await, code, obey, "path")?;
    stage.close().await
}

//! Converts protocol messages to JSON for `--json`. Field names are those of the protocol; enum numbers are
//! printed as names, times as RFC 3339. Pure.

use serde_json::{Value, json};
use wire::obey::local::v1 as local;
use wire::obey::v1 as pb;

use crate::json_types::{
    CampaignJson, PingJson, ProposalJson, QuestionJson, QuestionOptionJson, RequestJson, SessionJson, value,
};
use client::format::rfc3339;
use client::names;

pub fn session(session: &local::SessionInfo) -> Value {
    value(&session_typed(session))
}

pub fn session_typed(session: &local::SessionInfo) -> SessionJson {
    SessionJson {
        id: session.id.clone(),
        campaign_id: session.campaign_id.clone(),
        provider: names::provider(session.provider),
        model: session.model.clone(),
        agent_name: session.agent_name.clone(),
        status: names::status_name(session.status),
        festival_id: session.festival_id.clone(),
        task_id: session.task_id.clone(),
        tokens_input: session.tokens_input,
        tokens_output: session.tokens_output,
        max_tokens: session.max_tokens,
        pid: session.pid,
        restart_count: session.restart_count,
        created_at: rfc3339(session.created_at.as_ref()),
        started_at: rfc3339(session.started_at.as_ref()),
        last_activity_at: rfc3339(session.last_activity_at.as_ref()),
        ended_at: rfc3339(session.ended_at.as_ref()),
        error_message: session.error_message.clone(),
        working_dir: session.working_dir.clone(),
    }
}

pub fn campaign(campaign: &pb::Campaign) -> Value {
    value(&campaign_typed(campaign))
}

pub fn campaign_typed(campaign: &pb::Campaign) -> CampaignJson {
    CampaignJson {
        id: campaign.id.clone(),
        name: campaign.name.clone(),
        path: campaign.path.clone(),
        description: campaign.description.clone(),
        created_at: rfc3339(campaign.created_at.as_ref()),
        active_sessions: campaign.active_sessions,
        scrub: campaign.scrub,
        mode: (!campaign.mode.is_empty()).then(|| campaign.mode.clone()),
        warnings: campaign.warnings.clone(),
    }
}

pub fn worktree(worktree: &pb::Worktree) -> Value {
    json!({
        "id": worktree.id,
        "name": worktree.name,
        "path": worktree.path,
        "branch": worktree.branch,
        "created_at": rfc3339(worktree.created_at.as_ref()),
        "active_session_id": worktree.active_session_id,
        "exists_on_disk": worktree.exists,
        "base": worktree.base,
        "main": worktree.main,
        "session_count": worktree.session_count,
    })
}

pub fn environment(environment: &pb::Environment) -> Value {
    json!({
        "id": environment.id,
        "name": environment.name,
        "directory": environment.directory,
        "provider": environment.provider,
        "model": environment.model,
        "mode": environment.mode,
        "answer_wait_secs": environment.answer_wait_secs,
        "provider_config": environment.provider_config,
        "created_at": rfc3339(environment.created_at.as_ref()),
    })
}

pub fn request(request: &pb::Request) -> Value {
    value(&request_typed(request))
}

pub fn request_typed(request: &pb::Request) -> RequestJson {
    let proposal =
        |proposal: &pb::GrantProposal| ProposalJson { id: proposal.id.clone(), text: proposal.text.clone() };
    RequestJson {
        id: request.id.clone(),
        session_id: request.session_id.clone(),
        kind: names::request_kind(request.kind).to_owned(),
        tool_name: request.tool_name.clone(),
        tool_call_id: request.tool_call_id.clone(),
        input: serde_json::from_str(&request.input_json).unwrap_or(Value::Null),
        title: request.title.clone(),
        questions: request.questions.iter().map(question).collect(),
        asked_at: rfc3339(request.asked_at.as_ref()),
        settled_by: request.settled_by.clone(),
        outcome: request.outcome.clone(),
        settled_at: rfc3339(request.settled_at.as_ref()),
        settled_message: request.settled_message.clone(),
        proposals: request.proposals.iter().map(proposal).collect(),
        destructive: request.destructive.clone(),
        not_covered: request.not_covered.clone(),
    }
}

/// One grant. `what` and `where` are texts for people, `covers` and `scope` are structured.
pub fn grant(grant: &pb::Grant) -> Value {
    use wire::obey::v1::grant::{Covers, Where};
    let (kind, value) = match &grant.covers {
        None => ("tool", Value::Null),
        Some(Covers::Command(command)) => ("command", json!(command)),
        Some(Covers::Prefix(words)) => ("prefix", json!(words)),
        Some(Covers::File(path)) => ("file", json!(path)),
        Some(Covers::Folder(path)) => ("folder", json!(path)),
    };
    let (place, path) = match &grant.r#where {
        None => ("always", Value::Null),
        Some(Where::SessionId(id)) => ("session", json!(id)),
        Some(Where::Worktree(path)) => ("worktree", json!(path)),
        Some(Where::Project(path)) => ("project", json!(path)),
    };
    json!({
        "id": grant.id,
        "action": names::grant_action(grant.action()),
        "tool": grant.tool,
        "what": grant.what,
        "covers": {"kind": kind, "value": value},
        "where": grant.where_text,
        "scope": {"kind": place, "value": path},
        "expires": rfc3339(grant.expires_at.as_ref()),
        "uses_left": grant.uses_left,
        "sub_agents": grant.sub_agents,
        "given_by": grant.given_by,
        "given_at": rfc3339(grant.given_at.as_ref()),
        "reason": grant.reason,
        "source": grant.source,
        "ignored": grant.ignored,
    })
}

fn question(question: &pb::Question) -> QuestionJson {
    let option = |option: &pb::QuestionOption| QuestionOptionJson {
        label: option.label.clone(),
        description: option.description.clone(),
    };
    QuestionJson {
        id: question.id.clone(),
        header: question.header.clone(),
        text: question.text.clone(),
        options: question.options.iter().map(option).collect(),
        multi_select: question.multi_select,
    }
}

pub fn ping(ping: &local::PingResponse) -> Value {
    value(&PingJson {
        version: ping.version.clone(),
        hostname: ping.hostname.clone(),
        hub_status: ping.hub_status.clone(),
        campaign_count: ping.campaign_count,
        pid: ping.pid,
        started_at: rfc3339(ping.started_at.as_ref()),
    })
}

pub fn festival(festival: &local::FestivalState) -> Value {
    json!({
        "campaign_id": festival.campaign_id,
        "id": festival.id,
        "name": festival.name,
        "status": festival.status,
        "phase": festival.phase,
        "total_tasks": festival.total_tasks,
        "completed_tasks": festival.completed_tasks,
        "current_task": festival.current_task,
        "current_agent": festival.current_agent,
        "updated_at": rfc3339(festival.updated_at.as_ref()),
    })
}

pub fn status_event(event: &local::SessionStatusEvent) -> Value {
    json!({
        "at": rfc3339(event.timestamp.as_ref()),
        "type": "status_changed",
        "session_id": event.session_id,
        "from": names::status_name(event.previous_status),
        "to": names::status_name(event.new_status),
        "message": event.message,
    })
}

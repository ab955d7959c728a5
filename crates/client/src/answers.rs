//! Sends answers to requests. Used by the answering commands and by conversations that ask while they run.

use std::collections::BTreeMap;

use domain::Decision;
use wire::obey::v1 as pb;

use crate::connection::Client;
use crate::once;
use config::failure::Result;

/// A request and the person who answers it.
#[derive(Clone, Copy, Debug)]
pub struct AnsweredRequest<'a> {
    pub session: &'a str,
    pub request: &'a str,
    /// For the record; empty: the daemon names the connection.
    pub by: &'a str,
}

/// A decision on a permission request.
#[derive(Clone, Debug)]
pub struct PermissionDecision {
    pub decision: Decision,
    /// Passed to the agent.
    pub message: String,
    /// Replaces the tool's input; empty: unchanged.
    pub input: String,
    pub grant: Granted,
}

/// The grant to remember with an approval.
#[derive(Clone, Debug, Default)]
pub struct Granted {
    /// The id of a proposal; empty: the decision's default.
    pub proposal: String,
    pub expires: Option<std::time::Duration>,
    pub uses: Option<u32>,
    pub sub_agents: bool,
}

impl PermissionDecision {
    pub fn of(decision: Decision) -> Self {
        Self { decision, message: String::new(), input: String::new(), grant: Granted::default() }
    }
}

/// Decides on a permission request.
pub async fn decide(
    client: &Client,
    to: AnsweredRequest<'_>,
    verdict: PermissionDecision,
) -> Result<pb::AnswerResponse> {
    let decision = match verdict.decision {
        Decision::AllowOnce => pb::Decision::AllowOnce,
        Decision::AllowSession => pb::Decision::AllowSession,
        Decision::Deny => pb::Decision::Deny,
        Decision::DenyAndStop => pb::Decision::DenyAndStop,
    };
    let answer = pb::AnswerPermissionRequest {
        session_id: to.session.to_owned(),
        request_id: to.request.to_owned(),
        decision: decision.into(),
        message: verdict.message,
        updated_input_json: verdict.input,
        answered_by: to.by.to_owned(),
        grant: verdict.grant.proposal,
        grant_expires_secs: verdict.grant.expires.map_or(0, |wait| wait.as_secs().max(1)),
        grant_uses: verdict.grant.uses.unwrap_or_default(),
        grant_sub_agents: verdict.grant.sub_agents,
        client_key: once::key(),
    };
    once::call(|| {
        let (client, answer) = (client.clone(), answer.clone());
        async move { client.requests().answer_permission(answer).await }
    })
    .await
}

/// Answers the questions of a request.
pub async fn answer(
    client: &Client,
    to: AnsweredRequest<'_>,
    answers: BTreeMap<String, String>,
) -> Result<pb::AnswerResponse> {
    let answer = pb::AnswerQuestionRequest {
        session_id: to.session.to_owned(),
        request_id: to.request.to_owned(),
        answers: answers.into_iter().collect(),
        answered_by: to.by.to_owned(),
        client_key: once::key(),
    };
    once::call(|| {
        let (client, answer) = (client.clone(), answer.clone());
        async move { client.requests().answer_question(answer).await }
    })
    .await
}

/// Returns the requests of a session; with an empty id, of all sessions.
pub async fn list(client: &Client, session: &str, include_settled: bool) -> Result<Vec<pb::Request>> {
    let request = pb::ListRequestsRequest { session_id: session.to_owned(), include_settled };
    Ok(client.requests().list_requests(request).await?.into_inner().requests)
}

/// Describes the result of an answer.
pub fn outcome(response: &pb::AnswerResponse) -> String {
    let request = response.request.clone().unwrap_or_default();
    let outcome = if request.outcome.is_empty() { "settled" } else { &request.outcome };
    if response.settled_by_this_answer {
        return format!("{} {outcome}", request.id);
    }
    let by = if request.settled_by.is_empty() { "somebody else" } else { &request.settled_by };
    format!("{} was settled before, by {by}: {outcome}", request.id)
}

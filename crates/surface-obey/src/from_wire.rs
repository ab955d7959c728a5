//! Converts this surface's messages to our types. Pure; errors name the invalid field.

use std::collections::BTreeMap;
use std::time::Duration;

use domain::permission::Choice;
use domain::{
    Decision, Error, ErrorCode, LaunchPolicy, ProviderKind, RequestId, SessionId, Status, Timeouts,
};
use runtime::NewSession;
use storage::sessions::SessionFilter;
use wire::obey::local::v1 as pb;
use wire::obey::v1 as pb_own;

/// The longest timeout of a session: ten years. Longer ones are mistakes and could overflow.
const TIMEOUT_MAX_SECS: i64 = 10 * 365 * 24 * 3600;

/// Parses a session id, which is required.
pub(super) fn session_id(text: &str) -> Result<SessionId, Error> {
    if text.is_empty() {
        return Err(Error::invalid("session_id", "is required"));
    }
    Ok(SessionId::new(text))
}

/// Parses a provider, which is required.
pub(super) fn provider(number: i32) -> Result<ProviderKind, Error> {
    match pb::SessionProvider::try_from(number) {
        Ok(pb::SessionProvider::Unspecified) => {
            Err(Error::new(ErrorCode::ProviderUnsupported, "provider: is required"))
        }
        Ok(pb::SessionProvider::ClaudeCode) => Ok(ProviderKind::ClaudeCode),
        Ok(pb::SessionProvider::Openclaw) => Ok(ProviderKind::Openclaw),
        Ok(pb::SessionProvider::Codex) => Ok(ProviderKind::Codex),
        Ok(pb::SessionProvider::OpenaiApi) => Ok(ProviderKind::OpenaiApi),
        Ok(pb::SessionProvider::Acp) => Ok(ProviderKind::Acp),
        Ok(pb::SessionProvider::Scripted) => Ok(ProviderKind::Scripted),
        Err(_) => Err(Error::new(
            ErrorCode::ProviderUnsupported,
            format!("provider: {number} is no provider this daemon knows"),
        )),
    }
}

/// Converts a request to create a session. `by` is recorded as its creator.
pub(super) fn new_session(
    request: pb::CreateSessionRequest,
    parent: Option<String>,
    by: String,
) -> Result<NewSession, Error> {
    if request.campaign_id.is_empty() {
        return Err(Error::invalid("campaign_id", "is required"));
    }
    Ok(NewSession {
        provider: provider(request.provider)?,
        max_tokens: tokens("max_tokens", request.max_tokens)?,
        timeout: request.timeout.map(|wait| timeout("timeout", wait)).transpose()?.flatten(),
        campaign: request.campaign_id,
        directory: String::new(),
        model: request.model,
        name: request.agent_name,
        festival_id: request.festival_id,
        task_id: request.task_id,
        parent: parent.map(SessionId::new),
        provider_config: request.provider_config.into_iter().collect(),
        environment: request.environment.into_iter().collect(),
        initial_message: request.initial_message,
        launch: LaunchPolicy::Now,
        upkeep: Timeouts::default(),
        by,
    })
}

pub(super) fn tokens(field: &str, count: i64) -> Result<u64, Error> {
    u64::try_from(count).map_err(|_| Error::invalid(field, "must not be negative; 0 means unlimited"))
}

/// Parses a duration; zero means none.
pub(super) fn timeout(field: &str, wait: prost_types::Duration) -> Result<Option<Duration>, Error> {
    if !(0..=TIMEOUT_MAX_SECS).contains(&wait.seconds) || !(0..1_000_000_000).contains(&wait.nanos) {
        return Err(Error::invalid(field, "must be between 0 and ten years"));
    }
    let duration = Duration::new(wait.seconds.unsigned_abs(), wait.nanos.unsigned_abs());
    Ok((!duration.is_zero()).then_some(duration))
}

/// Converts the filter of a list request; empty fields do not filter.
pub(super) fn filter(request: pb::ListSessionsRequest) -> Result<SessionFilter, Error> {
    let statuses = request
        .statuses
        .into_iter()
        .map(|number| status(number).map(|status| status.name().to_owned()))
        .collect::<Result<_, _>>()?;
    let provider = match request.provider {
        0 => None,
        number => Some(provider(number)?.name().to_owned()),
    };
    Ok(SessionFilter {
        campaign_id: (!request.campaign_id.is_empty()).then_some(request.campaign_id),
        statuses,
        provider,
        include_ended: request.include_terminated,
    })
}

fn status(number: i32) -> Result<Status, Error> {
    match pb::SessionStatus::try_from(number) {
        Ok(pb::SessionStatus::Created) => Ok(Status::Created),
        Ok(pb::SessionStatus::Starting) => Ok(Status::Starting),
        Ok(pb::SessionStatus::Running) => Ok(Status::Running),
        Ok(pb::SessionStatus::Working) => Ok(Status::Working),
        Ok(pb::SessionStatus::Stopping) => Ok(Status::Stopping),
        Ok(pb::SessionStatus::Stopped) => Ok(Status::Stopped),
        Ok(pb::SessionStatus::Failed) => Ok(Status::Failed),
        Ok(pb::SessionStatus::Unspecified) | Err(_) => {
            Err(Error::invalid("statuses", format_args!("{number} is no session status")))
        }
    }
}

/// Parses a message, which must not be blank.
pub(super) fn message(text: String) -> Result<String, Error> {
    if text.trim().is_empty() {
        return Err(Error::invalid("message", "is required"));
    }
    Ok(text)
}

pub(super) fn request_id(text: &str) -> Result<RequestId, Error> {
    RequestId::parse(text)
        .ok_or_else(|| Error::invalid("request_id", format_args!("{text:?} is no request id such as req_1")))
}

/// Parses a decision, which is required.
pub(super) fn decision(number: i32) -> Result<Decision, Error> {
    match pb_own::Decision::try_from(number) {
        Ok(pb_own::Decision::AllowOnce) => Ok(Decision::AllowOnce),
        Ok(pb_own::Decision::AllowSession) => Ok(Decision::AllowSession),
        Ok(pb_own::Decision::Deny) => Ok(Decision::Deny),
        Ok(pb_own::Decision::DenyAndStop) => Ok(Decision::DenyAndStop),
        Ok(pb_own::Decision::Unspecified) | Err(_) => Err(Error::invalid("decision", "is required")),
    }
}

/// Parses the grant to remember with an answer; `None` if the answer contains none.
pub(super) fn choice(answer: &pb_own::AnswerPermissionRequest) -> Option<Choice> {
    let limited = answer.grant_expires_secs > 0 || answer.grant_uses > 0 || answer.grant_sub_agents;
    (limited || !answer.grant.is_empty()).then(|| Choice {
        proposal: answer.grant.clone(),
        expires_after: (answer.grant_expires_secs > 0)
            .then(|| Duration::from_secs(answer.grant_expires_secs)),
        uses: (answer.grant_uses > 0).then_some(answer.grant_uses),
        sub_agents: answer.grant_sub_agents,
    })
}

/// Parses a JSON field; an empty text is `None`.
pub(super) fn json(field: &str, text: &str) -> Result<Option<serde_json::Value>, Error> {
    if text.is_empty() {
        return Ok(None);
    }
    serde_json::from_str(text)
        .map(Some)
        .map_err(|error| Error::invalid(field, format_args!("is no JSON: {error}")))
}

pub(super) fn string_map(map: std::collections::HashMap<String, String>) -> BTreeMap<String, String> {
    map.into_iter().collect()
}

//! Converts this surface's messages to our types. Pure; errors name the invalid field.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use domain::caller_environment::{self, CALLER_ENVIRONMENT_KEY};
use domain::event::Attachment;
use domain::permission::Choice;
use domain::{Decision, Error, ErrorCode, ProviderKind, QueueEntryId, RequestId, SessionId, Status};
use runtime::NewSession;
use storage::sessions::SessionFilter;
use wire::obey::local::v1 as pb;
use wire::obey::v1 as pb_own;

use crate::limits;

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
        Ok(pb::SessionProvider::External) => Ok(ProviderKind::External),
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
    let kind = provider(request.provider)?;
    let mut request = request;
    let caller_environment = match request.provider_config.remove(CALLER_ENVIRONMENT_KEY) {
        Some(sent) => caller_environment::read(kind, &sent)?,
        None => Default::default(),
    };
    if request.campaign_id.is_empty() {
        return Err(Error::invalid("campaign_id", "is required"));
    }
    if kind == ProviderKind::External && !request.initial_message.is_empty() {
        return Err(Error::invalid("initial_message", "cannot be sent: an external agent takes no prompts"));
    }
    Ok(NewSession {
        caller_environment,
        max_tokens: tokens("max_tokens", request.max_tokens)?,
        timeout: request.timeout.map(|wait| timeout("timeout", wait)).transpose()?.flatten(),
        campaign: request.campaign_id,
        model: request.model,
        name: request.agent_name,
        festival_id: request.festival_id,
        task_id: request.task_id,
        parent: parent.map(SessionId::new),
        provider_config: request.provider_config.into_iter().collect(),
        environment: request.environment.into_iter().collect(),
        initial_message: request.initial_message,
        ..NewSession::new(kind, by)
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

/// Converts the files of a prompt.
pub(super) fn attachments(files: Vec<pb_own::PromptAttachment>) -> Result<Vec<Attachment>, Error> {
    files
        .into_iter()
        .map(|file| {
            if file.media_type.is_empty()
                || file.media_type.chars().any(|c| c.is_whitespace() || c.is_control())
            {
                let remedy = format_args!("{:?} needs a media type such as image/png", file.name);
                return Err(Error::invalid("attachments.media_type", remedy));
            }
            if file.content.is_empty() {
                return Err(Error::invalid("attachments.content", format_args!("{:?} is empty", file.name)));
            }
            let content = BASE64.encode(&file.content);
            Ok(Attachment { name: file.name, media_type: file.media_type, content })
        })
        .collect()
}

/// Parses the id of a queued prompt.
pub(super) fn queue_entry(text: &str) -> Result<QueueEntryId, Error> {
    QueueEntryId::parse(text)
        .ok_or_else(|| Error::invalid("entry", format_args!("{text:?} is no entry of a queue such as q_1")))
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

/// Which events of a journal a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EventRange {
    /// Strictly after this number.
    pub(super) after: u64,
    /// Up to this number; nothing: go on with live events.
    pub(super) until: Option<u64>,
    /// At most so many; 0: no limit.
    pub(super) limit: u64,
    /// The client asked for a number of events and not for the event after a certain one, so it misses nothing that
    /// retention removed.
    pub(super) skips_removed: bool,
}

/// Reads which events are asked for.
pub(super) fn event_range(request: &pb_own::ReadEventsRequest, newest: u64) -> Result<EventRange, Error> {
    let (before, tail) = (request.before_seq, request.tail);
    let invalid = |field: &str, why: &str| Err(Error::invalid(field, why));
    if before > 0 {
        if request.after_seq > 0 || tail > 0 || request.follow {
            return invalid("before_seq", "is for a page backwards: without after_seq, tail and follow");
        }
        let limit = if request.limit == 0 { limits::EVENTS_PAGE } else { request.limit };
        let last = before.saturating_sub(1).min(newest);
        let after = last.saturating_sub(limit);
        return Ok(EventRange { after, until: Some(last), limit: 0, skips_removed: true });
    }
    if tail > 0 && request.after_seq > 0 {
        return invalid("tail", "is counted from the newest event: leave out after_seq");
    }
    if request.after_seq > newest && !request.follow {
        return Err(Error::invalid(
            "after_seq",
            format_args!("{} is after the newest event, {newest}", request.after_seq),
        ));
    }
    let after = if tail > 0 { newest.saturating_sub(tail) } else { request.after_seq };
    let until = (!request.follow).then_some(newest);
    Ok(EventRange { after, until, limit: request.limit, skips_removed: tail > 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(
        after_seq: u64,
        before_seq: u64,
        tail: u64,
        limit: u64,
        follow: bool,
    ) -> Result<EventRange, String> {
        let request = pb_own::ReadEventsRequest {
            after_seq,
            before_seq,
            tail,
            limit,
            follow,
            ..pb_own::ReadEventsRequest::default()
        };
        event_range(&request, 1_000).map_err(|error| error.message)
    }

    #[test]
    fn a_page_backwards_ends_right_before_its_number() {
        let page = range(0, 101, 0, 10, false).unwrap();
        assert_eq!((page.after, page.until), (90, Some(100)));
        let first = range(0, 5, 0, 10, false).unwrap();
        assert_eq!((first.after, first.until), (0, Some(4)));
        let beyond = range(0, u64::MAX, 0, 0, false).unwrap();
        assert_eq!((beyond.after, beyond.until), (500, Some(1_000)));
        assert_eq!(range(0, 1, 0, 10, false).unwrap().until, Some(0));
    }

    #[test]
    fn a_tail_is_counted_from_the_newest_and_may_be_followed() {
        let tail = range(0, 0, 20, 0, false).unwrap();
        assert_eq!((tail.after, tail.until), (980, Some(1_000)));
        let followed = range(0, 0, 5_000, 0, true).unwrap();
        assert_eq!((followed.after, followed.until), (0, None));
    }

    #[test]
    fn what_cannot_be_meant_together_is_refused_by_field() {
        assert!(range(3, 9, 0, 0, false).unwrap_err().contains("before_seq"));
        assert!(range(0, 9, 0, 0, true).unwrap_err().contains("before_seq"));
        assert!(range(0, 9, 3, 0, false).unwrap_err().contains("before_seq"));
        assert!(range(3, 0, 3, 0, false).unwrap_err().contains("tail"));
        assert!(range(1_001, 0, 0, 0, false).unwrap_err().contains("after_seq"));
        assert!(range(1_001, 0, 0, 0, true).is_ok());
    }
}

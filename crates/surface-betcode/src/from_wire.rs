//! Converts this surface's messages to our types. Pure; errors name the invalid field.

use std::collections::{BTreeMap, HashMap};

use base64::Engine as _;
use domain::event::Attachment;
use domain::limits::NAME_MAX_CHARS;
use domain::permission::Grant;
use domain::request::RequestSubject;
use domain::{Command, Decision, Error, ErrorCode, Mode, ProviderKind, RequestId, SessionId, WhenBusy};
use wire::betcode::v1 as pb;

use super::{questions, structs};
use crate::limits;

/// Metadata keys of a start that are interpreted here; the others are stored with the session.
const PROVIDER_KEY: &str = "provider";
const NAME_KEY: &str = "name";
const CLIENT_KEY: &str = "client_id";
const FROM_KEY: &str = "from_sequence";

/// The parameters of a new conversation.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ConversationStart {
    /// `None`: create a new session.
    pub(super) session: Option<SessionId>,
    pub(super) directory: String,
    pub(super) worktree: String,
    pub(super) model: String,
    pub(super) grants: Vec<Grant>,
    pub(super) plan_mode: bool,
    pub(super) provider: ProviderKind,
    pub(super) name: String,
    pub(super) client: Option<String>,
    /// The last sequence number the client has seen.
    pub(super) from_sequence: u64,
    pub(super) metadata: BTreeMap<String, String>,
}

/// Parses a session id, which is required.
pub(super) fn session_id(text: &str) -> Result<SessionId, Error> {
    if text.is_empty() {
        return Err(Error::invalid("session_id", "is required"));
    }
    Ok(SessionId::new(text))
}

/// Converts the first message of a conversation. Known metadata keys are taken out and parsed.
pub(super) fn start(start: pb::StartConversation) -> Result<ConversationStart, Error> {
    check_metadata(&start.metadata)?;
    let mut metadata: BTreeMap<String, String> = start.metadata.into_iter().collect();
    let provider = match metadata.remove(PROVIDER_KEY) {
        None => ProviderKind::ClaudeCode,
        Some(name) => ProviderKind::parse(&name).ok_or_else(|| {
            let known: Vec<&str> = ProviderKind::ALL.iter().map(|kind| kind.name()).collect();
            Error::new(
                ErrorCode::ProviderUnsupported,
                format!("metadata.provider: {name:?} is no provider; use one of {}", known.join(", ")),
            )
        })?,
    };
    let from_sequence = match metadata.remove(FROM_KEY) {
        None => 0,
        Some(text) => text.parse().map_err(|_| {
            Error::invalid("metadata.from_sequence", format_args!("{text:?} is no sequence number"))
        })?,
    };
    if start.allowed_tools.len() > limits::ALLOWED_TOOLS_MAX {
        let most = limits::ALLOWED_TOOLS_MAX;
        return Err(Error::invalid("allowed_tools", format_args!("has more than {most} entries")));
    }
    let tools = start.allowed_tools.iter();
    Ok(ConversationStart {
        session: (!start.session_id.is_empty()).then(|| SessionId::new(start.session_id)),
        directory: start.working_directory,
        worktree: start.worktree_id,
        model: start.model,
        grants: tools
            .map(|tool| Grant::by_pattern("allowed_tools", tool, false))
            .collect::<Result<_, Error>>()?,
        plan_mode: start.plan_mode,
        provider,
        name: metadata.remove(NAME_KEY).unwrap_or_default(),
        client: metadata
            .remove(CLIENT_KEY)
            .filter(|id| !id.is_empty())
            .map(|id| client_id(&id))
            .transpose()?,
        from_sequence,
        metadata,
    })
}

/// Checks the number of metadata entries and their lengths.
fn check_metadata(metadata: &HashMap<String, String>) -> Result<(), Error> {
    if metadata.len() > limits::METADATA_MAX {
        return Err(Error::invalid(
            "metadata",
            format_args!("has more than {} entries", limits::METADATA_MAX),
        ));
    }
    let long = |text: &String| text.len() > limits::METADATA_MAX_BYTES;
    if metadata.iter().any(|(key, value)| long(key) || long(value)) {
        return Err(Error::invalid(
            "metadata",
            format_args!("has an entry longer than {} bytes", limits::METADATA_MAX_BYTES),
        ));
    }
    Ok(())
}

/// Validates the name a client gives itself.
pub(super) fn client_id(text: &str) -> Result<String, Error> {
    if text.chars().count() > NAME_MAX_CHARS || text.chars().any(char::is_control) {
        return Err(Error::invalid(
            "client_id",
            format_args!("must have at most {NAME_MAX_CHARS} letters and no control characters"),
        ));
    }
    Ok(text.to_owned())
}

/// Converts a prompt; it needs a text or an attachment.
pub(super) fn prompt(message: pb::UserMessage, by: &str) -> Result<Command, Error> {
    if message.content.trim().is_empty() && message.attachments.is_empty() {
        return Err(Error::invalid("message.content", "is required"));
    }
    Ok(Command::Prompt {
        text: message.content,
        attachments: attachments(message.attachments)?,
        // A message sent during a turn is meant for that turn.
        when_busy: WhenBusy::Steer,
        by: by.to_owned(),
    })
}

/// Checks the number and total size of the attachments and converts them.
fn attachments(files: Vec<pb::Attachment>) -> Result<Vec<Attachment>, Error> {
    if files.len() > surface::limits::ATTACHMENTS_MAX {
        let (count, most) = (files.len(), surface::limits::ATTACHMENTS_MAX);
        return Err(Error::new(
            ErrorCode::LimitReached,
            format!("message.attachments: {count} files; the limit is {most}"),
        ));
    }
    let bytes: usize = files.iter().map(|file| file.data.len()).sum();
    if bytes > surface::limits::ATTACHMENTS_MAX_BYTES {
        let most = surface::limits::ATTACHMENTS_MAX_BYTES;
        return Err(Error::new(
            ErrorCode::LimitReached,
            format!("message.attachments: {bytes} bytes; the limit is {most}"),
        ));
    }
    files.into_iter().enumerate().map(|(at, file)| attachment(at, file)).collect()
}

/// Converts one attachment; `at` is its index, for errors.
fn attachment(at: usize, file: pb::Attachment) -> Result<Attachment, Error> {
    let field = format!("message.attachments[{at}]");
    if file.filename.chars().count() > NAME_MAX_CHARS || file.filename.chars().any(char::is_control) {
        return Err(Error::invalid(
            &format!("{field}.filename"),
            format_args!("must have at most {NAME_MAX_CHARS} letters and no control characters"),
        ));
    }
    let known =
        file.mime_type.split_once('/').is_some_and(|(kind, more)| !kind.is_empty() && !more.is_empty());
    if !known {
        return Err(Error::invalid(
            &format!("{field}.mime_type"),
            format_args!("{:?} is no media type such as image/png", file.mime_type),
        ));
    }
    Ok(Attachment {
        name: file.filename,
        media_type: file.mime_type,
        content: base64::engine::general_purpose::STANDARD.encode(file.data),
    })
}

pub(super) fn request_id(field: &str, text: &str) -> Result<RequestId, Error> {
    RequestId::parse(text)
        .ok_or_else(|| Error::invalid(field, format_args!("{text:?} is no request id such as req_1")))
}

/// Converts the answer to a permission request.
pub(super) fn decision(response: pb::PermissionResponse, by: &str) -> Result<(RequestId, Command), Error> {
    let request = request_id("permission.request_id", &response.request_id)?;
    let updated_input = response
        .updated_input
        .map(|input| structs::to_json("permission.updated_input", &input))
        .transpose()?;
    let decision = match pb::PermissionDecision::try_from(response.decision) {
        Ok(pb::PermissionDecision::AllowOnce) => Decision::AllowOnce,
        Ok(pb::PermissionDecision::AllowSession) => Decision::AllowSession,
        Ok(pb::PermissionDecision::AllowWithEdit) if updated_input.is_none() => {
            return Err(Error::invalid("permission.updated_input", "is required by ALLOW_WITH_EDIT"));
        }
        Ok(pb::PermissionDecision::AllowWithEdit) => Decision::AllowOnce,
        Ok(pb::PermissionDecision::DenyWithInterrupt) => Decision::DenyAndStop,
        // An unknown decision must never allow anything.
        Ok(
            pb::PermissionDecision::Deny
            | pb::PermissionDecision::DenyNoInterrupt
            | pb::PermissionDecision::Unspecified,
        )
        | Err(_) => Decision::Deny,
    };
    let (message, by) = (response.message, by.to_owned());
    let updated_input = updated_input.filter(|_| decision.allows());
    Ok((request, Command::Decide { request, decision, message, updated_input, grant: None, by }))
}

/// Parses the answers to a request. A key may be a question's text or id. The joined text of all questions,
/// or the id of the request, addresses every question; each choice then answers the question it names.
pub(super) fn answers(
    response: pb::UserQuestionResponse,
    ask: Option<&RequestSubject>,
    by: &str,
) -> Result<(RequestId, Command), Error> {
    let request = request_id("question_response.question_id", &response.question_id)?;
    if response.answers.is_empty() {
        return Err(Error::invalid("question_response.answers", "is required"));
    }
    let asked = ask.map(RequestSubject::questions).unwrap_or_default();
    let whole = [questions::question_text(asked), response.question_id, String::new()];
    let mut answers = BTreeMap::new();
    for (key, answer) in response.answers {
        if whole.contains(&key) && !asked.is_empty() {
            questions::spread(asked, &answer, &mut answers);
        } else {
            answers.insert(key, questions::plain(asked, answer));
        }
    }
    Ok((request, Command::Answer { request, answers, by: by.to_owned() }))
}

/// Parses a mode.
pub(super) fn mode(field: &str, text: &str) -> Result<Mode, Error> {
    Mode::parse(text).ok_or_else(|| {
        let known = Mode::ALL.map(|(_, name)| name).join(", ");
        Error::invalid(field, format_args!("{text:?} is not a mode; use one of {known}"))
    })
}

/// Checks the name of a model.
pub(super) fn model(text: String) -> Result<String, Error> {
    if text.trim().is_empty() {
        return Err(Error::invalid("model", "is required"));
    }
    if text.chars().count() > NAME_MAX_CHARS || text.chars().any(char::is_control) {
        return Err(Error::invalid("model", "is no model's name"));
    }
    Ok(text)
}

/// Checks a session name.
pub(super) fn name(text: String) -> Result<String, Error> {
    if text.trim().is_empty() {
        return Err(Error::invalid("name", "is required"));
    }
    if text.chars().count() > NAME_MAX_CHARS || text.chars().any(char::is_control) {
        return Err(Error::invalid(
            "name",
            format_args!("must have at most {NAME_MAX_CHARS} letters and no control characters"),
        ));
    }
    Ok(text)
}

/// Parses limit and offset of a page.
pub(super) fn page(limit: u32, offset: u32) -> (usize, usize) {
    let limit = if limit == 0 { limits::PAGE_DEFAULT } else { limit.min(limits::PAGE_MAX) };
    (limit as usize, offset as usize)
}

#[cfg(test)]
mod tests;

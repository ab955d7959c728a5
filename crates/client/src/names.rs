//! The printed names of the protocol's enum numbers: providers, statuses, decisions. The only place that maps
//! them. Also what a session without a name is called after.

use domain::{ProviderKind, Status};
use wire::obey::local::v1 as local;
use wire::obey::v1 as pb;

use crate::limits;

/// The key of a session's settings with the prompt that a session without a name is called after.
pub const NAME_PROMPT_KEY: &str = "name_prompt";

/// Returns the beginning of a prompt, which is enough for a name: settings are smaller than prompts may be.
pub fn beginning(prompt: &str) -> &str {
    let end = prompt.char_indices().map(|(at, _)| at).nth(limits::NAME_PROMPT_MAX_CHARS);
    &prompt[..end.unwrap_or(prompt.len())]
}

/// Returns the protocol's number of a provider.
pub fn provider_number(kind: ProviderKind) -> local::SessionProvider {
    match kind {
        ProviderKind::ClaudeCode => local::SessionProvider::ClaudeCode,
        ProviderKind::Openclaw => local::SessionProvider::Openclaw,
        ProviderKind::Codex => local::SessionProvider::Codex,
        ProviderKind::OpenaiApi => local::SessionProvider::OpenaiApi,
        ProviderKind::Acp => local::SessionProvider::Acp,
        ProviderKind::Scripted => local::SessionProvider::Scripted,
        ProviderKind::External => local::SessionProvider::External,
    }
}

/// Returns the name of a provider; an unknown one is printed as its number.
pub fn provider(number: i32) -> String {
    let known = ProviderKind::ALL.into_iter().find(|kind| provider_number(*kind) as i32 == number);
    known.map_or_else(|| number.to_string(), |kind| kind.name().to_owned())
}

/// Returns the name of a grant's action.
pub fn grant_action(action: pb::GrantAction) -> &'static str {
    match action {
        pb::GrantAction::Allow => "allow",
        pb::GrantAction::Ask => "ask",
        pb::GrantAction::Deny => "deny",
        pb::GrantAction::Unspecified => "unknown",
    }
}

/// Returns the protocol's number of a status.
pub fn status_number(status: Status) -> local::SessionStatus {
    match status {
        Status::Created => local::SessionStatus::Created,
        Status::Starting => local::SessionStatus::Starting,
        Status::Running => local::SessionStatus::Running,
        Status::Working => local::SessionStatus::Working,
        Status::Stopping => local::SessionStatus::Stopping,
        Status::Stopped => local::SessionStatus::Stopped,
        Status::Failed => local::SessionStatus::Failed,
    }
}

/// Returns the status of a number.
pub fn status(number: i32) -> Option<Status> {
    Status::ALL.into_iter().find(|status| status_number(*status) as i32 == number)
}

/// Returns the name of a status.
pub fn status_name(number: i32) -> String {
    status(number).map_or_else(|| number.to_string(), |status| status.name().to_owned())
}

/// Returns the word for a kind of request.
pub fn request_kind(number: i32) -> &'static str {
    match pb::RequestKind::try_from(number) {
        Ok(pb::RequestKind::Permission) => "permission",
        Ok(pb::RequestKind::Question) => "question",
        Ok(pb::RequestKind::Unspecified) | Err(_) => "request",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_of_the_protocol_convert_both_ways() {
        for kind in ProviderKind::ALL {
            assert_eq!(provider(provider_number(kind) as i32), kind.name());
        }
        for wanted in Status::ALL {
            assert_eq!(status(status_number(wanted) as i32), Some(wanted));
        }
        assert_eq!(provider(999), "999");
        assert_eq!(status_name(99), "99");
    }
}

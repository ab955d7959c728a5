//! Which model names Claude Code accepts. The agent itself accepts any text and fails at the first prompt; we
//! refuse a name that cannot be right before a session exists.

use domain::{Error, ErrorCode};

use provider_common::suggestion::near;

/// The aliases, as in `claude --help` and its model list.
pub(super) const ALIASES: [&str; 6] = ["default", "opus", "sonnet", "haiku", "opusplan", "best"];

/// Longest name accepted; the longest real ones are Bedrock profiles of about 150 characters.
const NAME_MAX_CHARS: usize = 256;

/// Checks a model's name; empty means the agent's default.
pub(super) fn check(model: &str) -> Result<(), Error> {
    if model.is_empty() || is_known_form(model) {
        return Ok(());
    }
    let shown: String = model.chars().filter(|letter| !letter.is_control()).take(64).collect();
    let found = near(model.strip_suffix("[1m]").unwrap_or(model), ALIASES);
    let remedy = if found.is_empty() {
        format!("use {}, or a full name such as claude-opus-4-5", ALIASES.join(", "))
    } else {
        format!("did you mean {}?", found.join(" or "))
    };
    Err(Error::new(
        ErrorCode::ModelUnsupported,
        format!("model: claude-code has no model {shown:?}; {remedy}"),
    ))
}

/// Returns whether a name is an alias or has the form of a name at Anthropic, Vertex or Bedrock.
fn is_known_form(model: &str) -> bool {
    // `[1m]` asks for the long context window.
    let name = model.strip_suffix("[1m]").unwrap_or(model);
    if name.len() > NAME_MAX_CHARS || !name.starts_with(|letter: char| letter.is_ascii_alphanumeric()) {
        return false;
    }
    if ALIASES.contains(&name) {
        return true;
    }
    // Anthropic and Vertex: claude-opus-4-5, claude-sonnet-4-5@20250929.
    let plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '.' | '_' | '@');
    if name.strip_prefix("claude-").is_some_and(|rest| !rest.is_empty() && rest.chars().all(plain)) {
        return true;
    }
    // Bedrock: anthropic.claude-…-v1:0, us.anthropic.claude-…, arn:aws:bedrock:…
    let bedrock = |letter: char| plain(letter) || matches!(letter, ':' | '/');
    name.chars().all(bedrock)
        && (name.contains("anthropic.claude-") || (name.starts_with("arn:aws") && name.contains(":bedrock:")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn real_model_names_are_accepted() {
        for model in [
            "",
            "opus",
            "sonnet[1m]",
            "opusplan",
            "claude-opus-4-5",
            "claude-sonnet-4-5-20250929",
            "claude-sonnet-4-5@20250929",
            "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
            "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abc123",
        ] {
            assert_eq!(check(model), Ok(()), "{model}");
        }
    }

    #[test]
    fn other_names_are_refused_with_a_near_one() {
        let message = |model: &str| check(model).unwrap_err().to_string();
        assert_eq!(
            message("sonet"),
            "OBEY-2003: model: claude-code has no model \"sonet\"; did you mean sonnet?"
        );
        assert!(message("gpt-5").contains("use default, opus, sonnet"));
        for model in ["--settings", "claude-", "claude-x y", "claude-x\n", "-opus", "opus;rm", "claude-é"] {
            assert!(check(model).is_err(), "{model}");
        }
        assert!(check(&format!("claude-{}", "x".repeat(300))).is_err());
    }
}

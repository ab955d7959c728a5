//! Keys by which clients make create, prompt, answer and cancel take effect once. Digests requests and checks keys; the
//! store keeps them, the actor and the supervisor ask them.

use domain::{Command, Error, QueueCommand};
use serde_json::{Value, json};
pub use storage::client_keys::ClientKey;

use crate::limits;

/// Returns the key of a command; none if the client gave none. A command that takes no key refuses one.
pub fn key_of_command(key: &str, command: &Command) -> Result<Option<ClientKey>, Error> {
    if key.is_empty() {
        return Ok(None);
    }
    check(key)?;
    let Some(content) = request_content(command) else {
        return Err(Error::invalid("client_key", "this command takes none; leave it out"));
    };
    Ok(Some(ClientKey { key: key.to_owned(), fingerprint: digest(&content.to_string()) }))
}

/// Returns the key of a request that creates a session.
pub fn key_of_request(key: &str, request: &impl std::fmt::Debug) -> Result<Option<ClientKey>, Error> {
    if key.is_empty() {
        return Ok(None);
    }
    check(key)?;
    Ok(Some(ClientKey { key: key.to_owned(), fingerprint: digest(&format!("{request:?}")) }))
}

/// Returns the error of a key that came with another request before.
pub fn used_otherwise(key: &str) -> Error {
    Error::invalid(
        "client_key",
        format_args!("{key:?} came with another request before; use a new key for a new request"),
    )
}

fn check(key: &str) -> Result<(), Error> {
    if key.len() > limits::CLIENT_KEY_MAX_BYTES {
        let most = limits::CLIENT_KEY_MAX_BYTES;
        return Err(Error::invalid("client_key", format_args!("is longer than {most} bytes")));
    }
    if key.chars().any(char::is_control) {
        return Err(Error::invalid("client_key", "contains control characters"));
    }
    Ok(())
}

/// Returns what a command says, without who says it: a client that connects again may be called otherwise.
fn request_content(command: &Command) -> Option<Value> {
    Some(match command {
        Command::Prompt { text, attachments, when_busy, .. } => {
            json!({"prompt": text, "files": attachments, "when_busy": format!("{when_busy:?}")})
        }
        Command::Queue(QueueCommand::Add { text, attachments, .. }) => {
            json!({"queue": text, "files": attachments})
        }
        Command::CancelTurn => json!("cancel"),
        Command::Decide { request, decision, message, updated_input, grant, .. } => json!({
            "request": request, "decision": format!("{decision:?}"), "message": message, "input": updated_input,
            "grant": grant.as_ref().map(|grant| format!("{grant:?}")),
        }),
        Command::Answer { request, answers, .. } => json!({"request": request, "answers": answers}),
        Command::Start
        | Command::Queue(
            QueueCommand::Edit { .. }
            | QueueCommand::Move { .. }
            | QueueCommand::Drop { .. }
            | QueueCommand::Pause { .. }
            | QueueCommand::Resume { .. },
        )
        | Command::SetBudget { .. }
        | Command::Archive { .. }
        | Command::AskPermission { .. }
        | Command::CallTool { .. }
        | Command::ReturnTool { .. }
        | Command::RegisterTools { .. }
        | Command::SetMode { .. }
        | Command::SetModel { .. }
        | Command::Rename { .. }
        | Command::Compact
        | Command::SetGrant { .. }
        | Command::ClearGrants { .. }
        | Command::RevokeAutoApprove { .. }
        | Command::HoldInput { .. }
        | Command::Stop { .. }
        | Command::Restart { .. }
        | Command::Configure { .. }
        | Command::Observe { .. }
        | Command::Report(_)
        | Command::ReportWorkers { .. } => return None,
    })
}

fn digest(text: &str) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prompt(text: &str, by: &str) -> Command {
        let (text, by) = (text.to_owned(), by.to_owned());
        Command::Prompt { text, attachments: Vec::new(), when_busy: domain::WhenBusy::Refuse, by }
    }

    #[test]
    fn the_same_request_has_the_same_digest_whoever_sends_it() {
        let of = |command: &Command| key_of_command("k", command).unwrap().unwrap().fingerprint;
        assert_eq!(of(&prompt("hi", "anna")), of(&prompt("hi", "ben")));
        assert_ne!(of(&prompt("hi", "anna")), of(&prompt("ho", "anna")));
        assert_ne!(of(&prompt("hi", "anna")), of(&Command::CancelTurn));
    }

    #[test]
    fn a_key_is_short_and_printable_and_only_for_commands_that_take_one() {
        assert_eq!(key_of_command("", &Command::CancelTurn).unwrap(), None);
        for key in ["x".repeat(201), "a\nb".to_owned()] {
            assert!(key_of_command(&key, &Command::CancelTurn).is_err());
        }
        assert!(key_of_command("k", &Command::Compact).is_err());
    }
}

//! Reads a Messages request: why Claude Code sent it, and what in it a person wrote. Everything the agent adds by
//! itself (reminders, notices, summaries) is told apart here, and only here.

use serde_json::Value;

use crate::model_server::record::Purpose;
use crate::model_server::script::{Entry, Reply};

/// Beginnings of texts that Claude Code writes in the user's name. None of them is a prompt, so a script goes on
/// across them; observed with 2.1.325.
const NOT_PROMPTS: &[&str] = &[
    "[Request interrupted by user",
    "[Tool call interrupted",
    "Your response above was",
    "[Image: source: ",
    "Output token limit hit",
    "This session is being continued from",
    "<local-command-",
    "<command-name>",
    "<task-notification>",
];
/// A message sent while a turn runs arrives as a system entry that begins so.
const STEERED: &str = "The user sent a new message while you were working:";
const REMINDER: (&str, &str) = ("<system-reminder>", "</system-reminder>");
const SUGGESTION: &str = "[SUGGESTION MODE:";
const COMPACTION: &str = "CRITICAL: Respond with TEXT ONLY";
const TITLE: &str = "<session>";

/// Why the request was sent.
pub(super) fn purpose(body: &Value) -> Purpose {
    let last = last_user_texts(body);
    let begins = |word: &str| last.iter().any(|text| text.trim_start().starts_with(word));
    let no_tools = body["tools"].as_array().is_none_or(Vec::is_empty);
    if begins(SUGGESTION) {
        Purpose::Suggestion
    } else if begins(COMPACTION) {
        Purpose::Compaction
    } else if no_tools && begins(TITLE) {
        Purpose::Title
    } else if body["max_tokens"] == 1 {
        // How the agent asks whether a model exists.
        Purpose::Other
    } else {
        Purpose::Turn
    }
}

/// The reply to a request that is not part of a conversation.
pub(super) fn side_reply(purpose: Purpose) -> Reply {
    Reply::text(match purpose {
        Purpose::Title => r#"{"title":"Scripted session"}"#,
        Purpose::Compaction => "<summary>A scripted conversation took place.</summary>",
        Purpose::Suggestion | Purpose::Turn | Purpose::Other => "ok",
    })
}

/// The conversation as scripts see it.
pub(super) fn entries(body: &Value) -> Vec<Entry> {
    let mut entries = Vec::new();
    for message in body["messages"].as_array().into_iter().flatten() {
        match message["role"].as_str() {
            Some("assistant") => entries.push(Entry::Assistant),
            Some("user") => {
                let prompts = texts(message).into_iter().filter_map(prompt).map(Entry::Prompt);
                // Failed turns leave their prompts behind in one message, oldest first.
                entries.extend(prompts);
            }
            _ => entries.extend(texts(message).into_iter().filter_map(steered).map(Entry::Prompt)),
        }
    }
    entries
}

/// What a person wrote in this text, if anything.
fn prompt(text: &str) -> Option<String> {
    let text = without_reminders(text);
    let text = text.trim();
    let added = text.is_empty() || NOT_PROMPTS.iter().any(|word| text.starts_with(word));
    (!added).then(|| text.to_owned())
}

/// A message sent during a turn starts a script of its own; without one it only adds to the turn, whose script goes on.
fn steered(text: &str) -> Option<String> {
    let text = text.trim_start().strip_prefix(STEERED)?;
    text.contains("SCRIPT:").then(|| text.trim().to_owned())
}

fn without_reminders(text: &str) -> String {
    let (open, close) = REMINDER;
    let mut kept = String::new();
    let mut rest = text;
    while let Some(start) = rest.find(open) {
        kept.push_str(&rest[..start]);
        rest = match rest[start..].find(close) {
            Some(end) => &rest[start + end + close.len()..],
            None => "",
        };
    }
    kept + rest
}

fn last_user_texts(body: &Value) -> Vec<&str> {
    let messages = body["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    // System entries may follow the last user entry.
    messages.iter().rfind(|message| message["role"] == "user").map(texts).unwrap_or_default()
}

fn texts(message: &Value) -> Vec<&str> {
    match &message["content"] {
        Value::String(text) => vec![text],
        Value::Array(blocks) => blocks
            .iter()
            .filter(|block| block["type"] == "text")
            .filter_map(|block| block["text"].as_str())
            .collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_what_a_person_wrote_is_a_prompt() {
        let body = json!({"messages": [
            {"role": "user", "content": [
                {"type": "text", "text": "<system-reminder>\nSCRIPT: [] in a reminder\n</system-reminder>"},
                {"type": "text", "text": "one SCRIPT: [{\"text\":\"a\"}]\n"},
            ]},
            {"role": "system", "content": "# Environment"},
            {"role": "assistant", "content": [{"type": "text", "text": "a"}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "x", "content": "SCRIPT: []"},
                {"type": "text", "text": "Your response above was cut off mid-stream."},
            ]},
            {"role": "system", "content": "The user sent a new message while you were working:\nhurry\n\nThis is…"},
            {"role": "system", "content": []},
        ]});
        let expected = [Entry::Prompt("one SCRIPT: [{\"text\":\"a\"}]".into()), Entry::Assistant];
        assert_eq!(entries(&body), expected);
        assert_eq!(purpose(&json!({"tools": [{}], "messages": body["messages"]})), Purpose::Turn);
    }

    #[test]
    fn a_steering_message_with_a_script_is_a_prompt() {
        let text = "The user sent a new message while you were working:\ntwo SCRIPT: []\n\nThis is how";
        let body = json!({"messages": [{"role": "system", "content": [{"type": "text", "text": text}]}]});
        assert_eq!(entries(&body), [Entry::Prompt("two SCRIPT: []\n\nThis is how".into())]);
    }

    #[test]
    fn side_requests_are_told_apart() {
        let ask = |text: &str, tools: Value| {
            purpose(&json!({"tools": tools, "messages": [
                {"role": "user", "content": text}, {"role": "system", "content": ""}]}))
        };
        assert_eq!(ask("<session>fix SCRIPT: []</session>", json!([])), Purpose::Title);
        assert_eq!(ask("<session>fix</session>", json!([{"name": "Bash"}])), Purpose::Turn);
        assert_eq!(ask("[SUGGESTION MODE: what next", json!([{}])), Purpose::Suggestion);
        assert_eq!(ask("CRITICAL: Respond with TEXT ONLY. Do", json!([{}])), Purpose::Compaction);
    }
}

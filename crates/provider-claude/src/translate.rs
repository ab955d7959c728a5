//! Translates a line of Claude Code into events. Pure: a line and the codec state give events and, if the
//! agent asked something only a program can answer, replies. No line is an error; one that cannot be parsed
//! becomes `Unparsed`.
//!
//! Dropped on purpose, because they contain nothing a session needs: `keep_alive`, `tool_progress` (seconds
//! passed), `tool_use_summary`, `prompt_suggestion`, `active_goal`, block starts and stops, signatures and
//! partial inputs of tools (their `assistant` line has the whole), the agent's notes to itself in the user's
//! name, and the `system` lines listed in `system_messages`. `command_lifecycle` is only used to tell which
//! prompts have ended.

mod requests;
mod stream;
mod system_messages;
mod tools;
mod turn;

use agent_port::{Decoded, Revisioned};
use domain::AgentEvent;
use domain::event::Level;
use serde_json::Value;

use super::state::ClaudeState;
use super::wire::{LineHead, Look};
use crate::limits::{GARBAGE_MAX_LINES, MESSAGE_MAX_CHARS, TITLE_MAX_CHARS};
use provider_common::text::{cut, one_line, unparsed};

/// Handles one line of output.
pub(super) fn line(state: &mut Revisioned<ClaudeState>, line: &[u8], out: &mut Decoded) {
    let line = line.trim_ascii();
    if line.is_empty() {
        return;
    }
    let Ok(head) = serde_json::from_slice::<LineHead<'_>>(line) else {
        out.events.push(unparsed(line));
        return give_up(state, line, out);
    };
    let understood = if head.kind == "stream_event" {
        system_messages::compaction_over(state, None, out);
        stream::piece(state, line, out)
    } else {
        match serde_json::from_slice::<Value>(line) {
            Ok(value) => whole(state, &head.kind, &value, out),
            Err(_) => false,
        }
    };
    if !understood {
        out.events.push(unparsed(line));
        give_up(state, line, out);
    }
}

/// Ends an agent that does not speak the protocol at all. After it was ready an agent may print other lines.
fn give_up(state: &mut Revisioned<ClaudeState>, line: &[u8], out: &mut Decoded) {
    if state.ready {
        return;
    }
    state.garbage += 1;
    if state.garbage == GARBAGE_MAX_LINES {
        let said = one_line(&String::from_utf8_lossy(line), TITLE_MAX_CHARS);
        let message = format!("what runs as claude does not speak its protocol; it says {said:?}");
        out.events.push(AgentEvent::Broken { code: None, message });
    }
}

/// Handles a line that is not a piece of a message; returns whether it was understood.
fn whole(state: &mut Revisioned<ClaudeState>, kind: &str, value: &Value, out: &mut Decoded) -> bool {
    system_messages::compaction_over(state, Some((kind, value)), out);
    match kind {
        "assistant" => stream::whole(state, value, out),
        "user" => tools::results(state, value, out),
        "result" => turn::result(state, value, out),
        "command_lifecycle" => turn::lifecycle(state, value, out),
        "control_request" => return requests::request(state, value, out),
        "control_cancel_request" => requests::cancel(value, out),
        "control_response" => requests::response(state, value, out),
        "system" => return system_messages::system(state, value, out),
        "conversation_reset" => notice(out, Level::Info, "the conversation was cleared"),
        "rate_limit_event" => system_messages::rate_limit(value, out),
        "auth_status" => system_messages::auth_status(value, out),
        "keep_alive" | "tool_progress" | "tool_use_summary" | "prompt_suggestion" | "active_goal" => {}
        _ => return false,
    }
    true
}

/// Adds a notice for people.
fn notice(out: &mut Decoded, level: Level, message: &str) {
    if !message.trim().is_empty() {
        out.events.push(AgentEvent::Notice { level, message: cut(message.trim(), MESSAGE_MAX_CHARS) });
    }
}

/// Returns the sub-agent's call that a line belongs to.
fn parent_of(value: &Value) -> Option<domain::CallId> {
    let parent = value.text("parent_tool_use_id");
    (!parent.is_empty()).then(|| domain::CallId::new(parent))
}

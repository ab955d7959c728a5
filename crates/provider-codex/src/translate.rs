//! Translates a line of Codex into events. Pure: a line and the codec state give events and, if the agent
//! asked something only a program can answer or something has to follow at once, replies. No line is an
//! error; one that cannot be parsed becomes `Unparsed`.
//!
//! Dropped on purpose, because they contain nothing a session needs: what `notifications::NOISE` lists, the
//! user's own messages, and everything of a conversation we do not know (the agent's reviewers and the like).

mod handshake;
mod items;
mod notifications;
mod requests;
mod tools;
mod turn;
mod workers;

use agent_port::{Decoded, Revisioned};
use domain::event::Level;
use domain::{AgentEvent, CallId};
use serde_json::Value;

use super::encode;
use super::mode_settings::CodexModeSettings;
use super::rpc::{self, CodexMessage, CodexRequestKind};
use super::settings::CodexSettings;
use super::state::CodexState;
use crate::limits::{GARBAGE_MAX_LINES, MESSAGE_MAX_CHARS, TITLE_MAX_CHARS};
use provider_common::json_fields::Look;
use provider_common::text::{cut, one_line, unparsed};

/// Handles one line of output.
pub(super) fn line(
    state: &mut Revisioned<CodexState>,
    settings: &CodexSettings,
    line: &[u8],
    out: &mut Decoded,
) {
    let line = line.trim_ascii();
    if line.is_empty() {
        return;
    }
    let understood = match rpc::read(line) {
        Some(CodexMessage::Notification { method, params }) => notification(state, &method, &params, out),
        Some(CodexMessage::Request { id, method, params }) => {
            let stance = CodexModeSettings::of(state.mode, settings);
            requests::request(state, stance, &requests::CodexRequest { id, method, params }, out)
        }
        Some(CodexMessage::Answer { id, result }) => match rpc::purpose(&id) {
            Some(CodexRequestKind::Terminals) => {
                workers::end_strays(state, &id, result.as_ref().ok(), out);
                true
            }
            Some(purpose) => {
                handshake::answer(state, settings, purpose, result, out);
                encode::release(state, &id, &mut out.replies);
                true
            }
            None => false,
        },
        None => false,
    };
    if !understood {
        out.events.push(unparsed(line));
        give_up(state, line, out);
    }
}

/// Ends an agent that does not speak the protocol at all. After a valid answer an agent may print other
/// lines.
fn give_up(state: &mut Revisioned<CodexState>, line: &[u8], out: &mut Decoded) {
    if !state.version.is_empty() || !state.thread.is_empty() {
        return;
    }
    state.garbage += 1;
    if state.garbage == GARBAGE_MAX_LINES {
        let said = one_line(&String::from_utf8_lossy(line), TITLE_MAX_CHARS);
        let message = format!("what runs as codex does not speak its protocol; it says {said:?}");
        out.events.push(AgentEvent::Broken { code: None, message });
    }
}

/// Handles a notification; returns whether it was understood.
fn notification(state: &mut Revisioned<CodexState>, method: &str, params: &Value, out: &mut Decoded) -> bool {
    match method {
        "turn/started" => turn::started(state, params, out),
        "turn/completed" => turn::completed(state, params, out),
        "turn/plan/updated" => turn::todos(state, params, out),
        "thread/tokenUsage/updated" => turn::usage(state, params, out),
        "item/started" => items::started(state, params, out),
        "item/completed" => items::completed(state, params, out),
        "item/agentMessage/delta" | "item/plan/delta" => items::text(state, params, out),
        "item/reasoning/summaryTextDelta" | "item/reasoning/textDelta" => items::thinking(state, params, out),
        "item/reasoning/summaryPartAdded" => items::thinking_part(state, params, out),
        "item/commandExecution/outputDelta" => items::output(state, params, "delta", out),
        "item/mcpToolCall/progress" => items::output(state, params, "message", out),
        "serverRequest/resolved" => requests::resolved(state, params, out),
        "thread/started" => items::thread_started(state, params, out),
        "thread/settings/updated" => notifications::settings(state, params, out),
        "error" => notifications::error(state, params, out),
        _ => return notifications::other(state, method, params, out),
    }
    true
}

/// Whom a notification concerns.
enum NotificationScope {
    Own,
    /// A sub-agent, started by this call.
    Workers(CallId),
    /// A conversation that is not the session's.
    Nobodys,
}

fn whose(state: &CodexState, params: &Value) -> NotificationScope {
    let thread = params.text("threadId");
    if thread.is_empty() || thread == state.thread {
        return NotificationScope::Own;
    }
    match state.workers.get(thread) {
        Some(worker) => NotificationScope::Workers(worker.call.clone()),
        None => NotificationScope::Nobodys,
    }
}

/// Returns the sub-agent's call a notification belongs to, or `None` for the agent itself; an error if it
/// belongs to neither.
fn parent(state: &CodexState, params: &Value) -> Result<Option<CallId>, ()> {
    match whose(state, params) {
        NotificationScope::Own => Ok(None),
        // What a sub-agent still does while it is being ended is not shown: there is no turn to show it in.
        NotificationScope::Workers(_)
            if state.workers.get(params.text("threadId")).is_some_and(|it| it.is_cut) =>
        {
            Err(())
        }
        NotificationScope::Workers(call) => Ok(Some(call)),
        NotificationScope::Nobodys => Err(()),
    }
}

/// Adds a notice for people.
fn notice(out: &mut Decoded, level: Level, message: &str) {
    if !message.trim().is_empty() {
        out.events.push(AgentEvent::Notice { level, message: cut(message.trim(), MESSAGE_MAX_CHARS) });
    }
}

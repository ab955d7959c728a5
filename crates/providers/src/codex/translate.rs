//! Turns a line of Codex into what happened. Pure: a line and the memory give events and, where the agent asked
//! something only a program can answer or something has to follow at once, replies. No line is an error; one nobody
//! understands becomes `Unparsed`.
//!
//! Dropped on purpose, because they carry nothing a session needs: what `notes::NOISE` lists, the user's own messages,
//! and whatever belongs to a conversation we do not know (the agent's reviewers and the like).

mod asks;
mod handshake;
mod items;
mod notes;
mod tools;
mod turn;
mod workers;

use domain::event::Level;
use domain::{AgentEvent, CallId};
use runtime::provider::Decoded;
use serde_json::Value;

use super::encode;
use super::memory::Memory;
use super::rpc::{self, Message, Purpose};
use super::settings::Settings;
use super::stance::Stance;
use crate::limits::{GARBAGE_MAX_LINES, MESSAGE_MAX_CHARS, TITLE_MAX_CHARS};
use crate::look::Look;
use crate::text::{cut, one_line, unparsed};

/// Takes one line of output.
pub(super) fn line(memory: &mut Memory, settings: &Settings, line: &[u8], out: &mut Decoded) {
    let line = line.trim_ascii();
    if line.is_empty() {
        return;
    }
    let understood = match rpc::read(line) {
        Some(Message::Notification { method, params }) => notification(memory, &method, &params, out),
        Some(Message::Request { id, method, params }) => {
            let stance = Stance::of(memory.mode, settings);
            asks::request(memory, stance, &asks::Request { id, method, params }, out)
        }
        Some(Message::Answer { id, result }) => match rpc::purpose(&id) {
            Some(Purpose::Terminals) => {
                workers::end_strays(memory, &id, result.as_ref().ok(), out);
                true
            }
            Some(purpose) => {
                handshake::answer(memory, settings, purpose, result, out);
                encode::release(memory, &id, &mut out.replies);
                true
            }
            None => false,
        },
        None => false,
    };
    if !understood {
        out.events.push(unparsed(line));
        give_up(memory, line, out);
    }
}

/// Ends what does not speak the protocol at all. An agent that has begun to may say what it likes.
fn give_up(memory: &mut Memory, line: &[u8], out: &mut Decoded) {
    if !memory.version.is_empty() || !memory.thread.is_empty() {
        return;
    }
    memory.garbage += 1;
    if memory.garbage == GARBAGE_MAX_LINES {
        let said = one_line(&String::from_utf8_lossy(line), TITLE_MAX_CHARS);
        let message = format!("what runs as codex does not speak its protocol; it says {said:?}");
        out.events.push(AgentEvent::Broken { code: None, message });
    }
}

/// Takes a notification; returns whether it was understood.
fn notification(memory: &mut Memory, method: &str, params: &Value, out: &mut Decoded) -> bool {
    match method {
        "turn/started" => turn::started(memory, params, out),
        "turn/completed" => turn::completed(memory, params, out),
        "turn/plan/updated" => turn::todos(memory, params, out),
        "thread/tokenUsage/updated" => turn::usage(memory, params, out),
        "item/started" => items::started(memory, params, out),
        "item/completed" => items::completed(memory, params, out),
        "item/agentMessage/delta" | "item/plan/delta" => items::text(memory, params, out),
        "item/reasoning/summaryTextDelta" | "item/reasoning/textDelta" => {
            items::thinking(memory, params, out)
        }
        "item/reasoning/summaryPartAdded" => items::thinking_part(memory, params, out),
        "item/commandExecution/outputDelta" => items::output(memory, params, "delta", out),
        "item/mcpToolCall/progress" => items::output(memory, params, "message", out),
        "serverRequest/resolved" => asks::resolved(memory, params, out),
        "thread/started" => items::thread_started(memory, params, out),
        "thread/settings/updated" => notes::settings(memory, params, out),
        "error" => notes::error(memory, params, out),
        _ => return notes::other(memory, method, params, out),
    }
    true
}

/// Whose a notification is.
enum Whose {
    Own,
    /// A sub-agent's, started by this call.
    Workers(CallId),
    /// Of a conversation that is not the session's.
    Nobodys,
}

fn whose(memory: &Memory, params: &Value) -> Whose {
    let thread = params.text("threadId");
    if thread.is_empty() || thread == memory.thread {
        return Whose::Own;
    }
    match memory.workers.get(thread) {
        Some(worker) => Whose::Workers(worker.call.clone()),
        None => Whose::Nobodys,
    }
}

/// Returns the sub-agent's call a notification belongs to, or nothing for the agent itself; an error where it is
/// nobody's.
fn parent(memory: &Memory, params: &Value) -> Result<Option<CallId>, ()> {
    match whose(memory, params) {
        Whose::Own => Ok(None),
        // What a sub-agent still does when it is being ended is not shown: there is no turn to show it in.
        Whose::Workers(_) if memory.workers.get(params.text("threadId")).is_some_and(|it| it.is_cut) => {
            Err(())
        }
        Whose::Workers(call) => Ok(Some(call)),
        Whose::Nobodys => Err(()),
    }
}

/// Tells a person something.
fn notice(out: &mut Decoded, level: Level, message: &str) {
    if !message.trim().is_empty() {
        out.events.push(AgentEvent::Notice { level, message: cut(message.trim(), MESSAGE_MAX_CHARS) });
    }
}

//! Translates a line of an ACP agent into events. Pure: a line and the codec state give events and, if the
//! agent asked something only a program can answer, replies. No line is an error; one that cannot be parsed
//! becomes `Unparsed`. Agents differ in much that the protocol leaves open; what is accepted here is what
//! they were observed to send.

mod handshake;
pub(super) mod plan;
mod requests;
mod turn;
mod updates;

use agent_client_protocol_schema::v1::ErrorCode;
use agent_port::{Decoded, Revisioned};
use domain::AgentEvent;
use domain::event::Level;
use serde_json::Value;

use super::rpc::{self, AcpMessage};
use super::settings::AcpSettings;
use super::state::AcpState;
use crate::limits::{GARBAGE_MAX_LINES, MESSAGE_MAX_CHARS, TITLE_MAX_CHARS};
use provider_common::json_fields::Look;
use provider_common::text::{cut, one_line, unparsed};

pub(super) use requests::returned;

/// The client request of ours that waits for what a terminal prints.
pub(super) const WATCH: &str = "watch";

/// Handles one line of output.
pub(super) fn line(state: &mut Revisioned<AcpState>, settings: &AcpSettings, line: &[u8], out: &mut Decoded) {
    let line = line.trim_ascii();
    if line.is_empty() {
        return;
    }
    let understood = match rpc::read(line) {
        Some(AcpMessage::Notification { method, mut params }) if method == "session/update" => {
            updates::update(state, params.get_mut("update").unwrap_or(&mut Value::Null), out)
        }
        // Agents have their own notifications, which start with an underscore; nothing depends on them.
        Some(AcpMessage::Notification { method, params }) => {
            method.starts_with('_') || method.starts_with("$/") || !params.text("sessionId").is_empty()
        }
        Some(AcpMessage::Request { id, method, mut params }) => {
            if requests::request(state, &id, &method, &mut params, out).is_none() {
                let message = format!("obey cannot read what {method} is to do");
                rpc::refuse(&id, ErrorCode::InvalidParams, &message, &mut out.replies);
            }
            true
        }
        Some(AcpMessage::Answer { id, result }) => match rpc::purpose(&id) {
            Some((purpose, number)) => {
                handshake::answer(state, settings, (purpose, number), result, out);
                true
            }
            None => false,
        },
        None => false,
    };
    if !understood {
        out.events.push(unparsed(line));
        give_up(state, settings, line, out);
    }
}

/// Ends an agent that does not speak the protocol at all. After a valid answer an agent may print other
/// lines.
fn give_up(state: &mut Revisioned<AcpState>, settings: &AcpSettings, line: &[u8], out: &mut Decoded) {
    if state.is_met {
        return;
    }
    state.garbage += 1;
    if state.garbage == GARBAGE_MAX_LINES {
        let said = one_line(&String::from_utf8_lossy(line), TITLE_MAX_CHARS);
        let message = format!("{} does not speak the Agent Client Protocol; it says {said:?}", settings.name);
        out.events.push(AgentEvent::Broken { code: None, message });
    }
}

/// Adds a notice for people.
fn notice(out: &mut Decoded, level: Level, message: &str) {
    if !message.trim().is_empty() {
        out.events.push(AgentEvent::Notice { level, message: cut(message.trim(), MESSAGE_MAX_CHARS) });
    }
}

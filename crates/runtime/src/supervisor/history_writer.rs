//! Makes the beginning of a journal of a conversation that was held elsewhere: one that an agent keeps in its files, or one
//! that a client gives when it creates a session. Every turn is closed, and so is every call. Pure.

use agent_port::conversations::EntryKind;
use domain::event::{Attachment, Level};
use domain::limits::EVENT_TEXT_MAX_BYTES;
use domain::redact::Redact;
use domain::turn::{EndReason, TurnOrigin};
use domain::{CallId, EventKind, Timestamp, TurnId};

/// Returns the events of a conversation that a client gives, without secrets.
pub(super) fn given_history(
    mut entries: Vec<EntryKind>,
    by: &str,
    at: Timestamp,
    redact: &dyn Redact,
) -> Vec<(Timestamp, EventKind)> {
    if entries.is_empty() {
        return Vec::new();
    }
    redact_entries(&mut entries, redact);
    let mut writer = HistoryWriter::default();
    for entry in &entries {
        writer.take(at, entry, by);
    }
    writer.end_turn(at, EndReason::Completed);
    let message = "the turns up to here are an earlier conversation that the client gave".to_owned();
    writer.events.push((at, EventKind::Notice { level: Level::Info, code: None, message }));
    redact_events(&mut writer.events, redact);
    writer.events
}

/// Removes secrets from texts before they are cut: of a secret that is cut in two, neither half can be recognised.
pub(super) fn redact_entries<'a>(entries: impl IntoIterator<Item = &'a mut EntryKind>, redact: &dyn Redact) {
    for entry in entries {
        if let EntryKind::Text(text) | EntryKind::Thinking(text) = entry
            && let Some(redacted) = redact.redact(text)
        {
            *text = redacted;
        }
    }
}

pub(super) fn redact_events(events: &mut [(Timestamp, EventKind)], redact: &dyn Redact) {
    for (_, kind) in events {
        domain::redact::redact_event(kind, redact);
    }
}

/// Makes events of entries.
#[derive(Default)]
pub(super) struct HistoryWriter {
    pub(super) events: Vec<(Timestamp, EventKind)>,
    turn: u64,
    open: bool,
    /// Calls without a result so far, with their tools.
    calls: Vec<(String, String)>,
    last_text: String,
}

impl HistoryWriter {
    pub(super) fn take(&mut self, at: Timestamp, entry: &EntryKind, by: &str) {
        match entry {
            EntryKind::Prompt { text, attachments } => {
                self.end_turn(at, EndReason::Completed);
                self.begin_turn(at, TurnOrigin::Client, text, attachments, by);
                return;
            }
            EntryKind::TurnEnded { interrupted } => {
                let reason = if *interrupted { EndReason::Cancelled } else { EndReason::Completed };
                self.end_turn(at, reason);
                return;
            }
            EntryKind::Text(_) | EntryKind::Thinking(_) | EntryKind::CallStarted { .. } if !self.open => {
                self.begin_turn(at, TurnOrigin::Agent, "", &[], "");
            }
            _ => {}
        }
        let kind = match entry {
            EntryKind::Text(text) => {
                self.last_text = cut(text);
                EventKind::TextDelta { text: cut(text), parent: None }
            }
            EntryKind::Thinking(text) => EventKind::ThinkingDelta { text: cut(text), parent: None },
            EntryKind::CallStarted { call, tool, input, title } => {
                self.calls.push((call.clone(), tool.clone()));
                EventKind::ToolStarted {
                    call: CallId::new(call.as_str()),
                    tool: tool.clone(),
                    input: input.clone(),
                    title: title.clone(),
                    parent: None,
                }
            }
            EntryKind::CallFinished { call, ok, output } => {
                let Some(at) = self.calls.iter().position(|(known, _)| known == call) else { return };
                let (_, tool) = self.calls.remove(at);
                EventKind::ToolFinished {
                    call: CallId::new(call.as_str()),
                    tool,
                    ok: *ok,
                    output: cut(output),
                }
            }
            EntryKind::Prompt { .. } | EntryKind::TurnEnded { .. } => return,
        };
        self.events.push((at, kind));
    }

    fn begin_turn(
        &mut self,
        at: Timestamp,
        origin: TurnOrigin,
        prompt: &str,
        attachments: &[Attachment],
        by: &str,
    ) {
        self.turn += 1;
        self.open = true;
        let kind = EventKind::TurnStarted {
            turn: TurnId(self.turn),
            origin,
            prompt: cut(prompt),
            attachments: attachments.to_vec(),
            by: by.to_owned(),
        };
        self.events.push((at, kind));
    }

    /// Ends the open turn, if there is one, and its open calls.
    pub(super) fn end_turn(&mut self, at: Timestamp, reason: EndReason) {
        if !self.open {
            return;
        }
        for (call, tool) in std::mem::take(&mut self.calls) {
            let output = "not finished when the turn ended".to_owned();
            self.events.push((
                at,
                EventKind::ToolFinished { call: CallId::new(call.as_str()), tool, ok: false, output },
            ));
        }
        let text = std::mem::take(&mut self.last_text);
        let kind = EventKind::TurnEnded { turn: TurnId(self.turn), reason, text, error: String::new() };
        self.events.push((at, kind));
        self.open = false;
    }
}

/// Returns a text as long as an event may have.
fn cut(text: &str) -> String {
    let end = text.floor_char_boundary(EVENT_TEXT_MAX_BYTES.min(text.len()));
    text.get(..end).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use domain::redact::KeepAll;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_given_history_is_closed_turns_and_a_notice() {
        let call = |call: &str| EntryKind::CallStarted {
            call: call.to_owned(),
            tool: "look".to_owned(),
            input: json!({}),
            title: String::new(),
        };
        let entries = vec![
            EntryKind::prompt("one"),
            EntryKind::Text("I look".to_owned()),
            call("c1"),
            call("c2"),
            EntryKind::CallFinished { call: "c1".to_owned(), ok: true, output: "a door".to_owned() },
            EntryKind::CallFinished { call: "unknown".to_owned(), ok: true, output: "x".to_owned() },
            EntryKind::prompt("two"),
        ];
        let events = given_history(entries, "roz", Timestamp(5), &KeepAll);
        let names: Vec<&str> = events.iter().map(|(_, kind)| kind.name()).collect();
        assert_eq!(
            names,
            [
                "turn_started",
                "text_delta",
                "tool_started",
                "tool_started",
                "tool_finished",
                "tool_finished",
                "turn_ended",
                "turn_started",
                "turn_ended",
                "notice",
            ]
        );
        assert!(
            matches!(&events[5].1, EventKind::ToolFinished { call, ok: false, .. } if call.as_str() == "c2")
        );
        assert!(given_history(Vec::new(), "roz", Timestamp(5), &KeepAll).is_empty());
    }
}

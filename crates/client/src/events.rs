//! A session's events as commands read them: the daemon's JSON unchanged, and the parsed kind if this version
//! knows it. Also reads the journal once, without following it.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::fmt;

use domain::EventKind;
use jiff::Timestamp;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use wire::obey::v1 as pb;

use crate::connection::Client;
use crate::format;
use crate::limits::MESSAGE_MAX_BYTES;
use config::failure::Result;

/// One event of a session.
#[derive(Clone, Debug)]
pub struct LogEvent {
    pub session: String,
    pub seq: u64,
    pub at: Option<Timestamp>,
    pub name: String,
    /// `None` for a kind that is newer than this program.
    pub kind: Option<EventKind>,
    json: String,
}

impl LogEvent {
    /// Parses an event of the daemon.
    pub fn read(event: pb::Event) -> Self {
        Self {
            kind: kind(&event),
            at: event.at.as_ref().and_then(format::timestamp),
            session: event.session_id,
            seq: event.seq,
            name: event.r#type,
            json: event.json,
        }
    }

    /// Returns the event as one JSON object: number, time and kind first, then the fields in the daemon's
    /// order.
    pub fn json_line(&self) -> String {
        self.json_with("")
    }

    /// Returns the event as one JSON object that includes its session.
    pub fn json_line_with_session(&self) -> String {
        self.json_with(&format!(",\"session_id\":{}", quoted(&self.session)))
    }

    /// Returns the event as one JSON object: number, time and type, then `extra`, then the event's own
    /// fields.
    fn json_with(&self, extra: &str) -> String {
        let at = self.at.map(|at| at.to_string()).unwrap_or_default();
        let mut line =
            format!("{{\"seq\":{},\"at\":{},\"type\":{}{extra}", self.seq, quoted(&at), quoted(&self.name));
        match serde_json::from_str::<Fields<'_>>(&self.json) {
            Ok(Fields(fields)) => {
                for (key, value) in &fields {
                    let key = match key.as_ref() {
                        "at" | "type" => continue,
                        // A fork's own field of this name is where it was forked.
                        "seq" if self.name == "session_forked" => "from_seq",
                        "seq" => continue,
                        key => key,
                    };
                    line.push_str(&format!(",{}:{}", quoted(key), value.get()));
                }
            }
            // Not an object: kept whole rather than lost.
            Err(_) if !self.json.is_empty() => line.push_str(&format!(",\"raw\":{}", quoted(&self.json))),
            Err(_) => {}
        }
        line.push('}');
        line
    }

    /// Returns the fields as text, for unknown kinds.
    pub fn raw(&self) -> &str {
        &self.json
    }
}

/// Reads the message of an event, or its JSON if an older daemon sent no message.
fn kind(event: &pb::Event) -> Option<EventKind> {
    if let Some(kind) = &event.kind {
        return serde_json::from_value(serde_json::to_value(kind).ok()?).ok();
    }
    let mut object: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&event.json).ok()?;
    object.insert("type".to_owned(), event.r#type.clone().into());
    serde_json::from_value(object.into()).ok()
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// The fields of a JSON object in their original order.
struct Fields<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Fields<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Self::Value, A::Error> {
                let mut fields = Vec::new();
                while let Some(entry) = map.next_entry::<Cow<'de, str>, &'de RawValue>()? {
                    fields.push(entry);
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

/// Reads the current content of the journal, event by event.
pub async fn read(
    client: &Client,
    session: &str,
    after: u64,
    limit: u64,
) -> Result<tonic::Streaming<pb::Event>> {
    let request = pb::ReadEventsRequest {
        session_id: session.to_owned(),
        after_seq: after,
        limit,
        max_message_bytes: MESSAGE_MAX_BYTES as u32,
        ..pb::ReadEventsRequest::default()
    };
    Ok(client.events().read_events(request).await?.into_inner())
}

/// The end of a journal.
#[derive(Debug, Default)]
pub struct Tail {
    pub events: VecDeque<LogEvent>,
    /// The sequence number of the last event; 0 if there is none.
    pub last: u64,
}

/// Reads the last events of a session, those after a number.
pub async fn tail(client: &Client, session: &str, after: u64, keep: usize) -> Result<Tail> {
    let mut stream = if after == 0 {
        let request = pb::ReadEventsRequest {
            session_id: session.to_owned(),
            // One event at least: its number is wanted too. A daemon of an older version sends all of them.
            tail: keep.max(1) as u64,
            max_message_bytes: MESSAGE_MAX_BYTES as u32,
            ..pb::ReadEventsRequest::default()
        };
        client.events().read_events(request).await?.into_inner()
    } else {
        read(client, session, after, 0).await?
    };
    let mut tail = Tail { last: after, ..Tail::default() };
    while let Some(event) = stream.message().await? {
        tail.last = event.seq;
        if keep == 0 {
            continue;
        }
        if tail.events.len() == keep {
            tail.events.pop_front();
        }
        tail.events.push_back(LogEvent::read(event));
    }
    Ok(tail)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(name: &str, json: &str) -> LogEvent {
        LogEvent::read(pb::Event {
            seq: 7,
            at: Some(prost_types::Timestamp { seconds: 1_771_425_000, nanos: 0 }),
            r#type: name.to_owned(),
            json: json.to_owned(),
            session_id: "sess_1".to_owned(),
            kind: None,
        })
    }

    #[test]
    fn a_line_keeps_the_order_and_the_numbers_of_the_daemon() {
        let line =
            event("usage_reported", r#"{"output_tokens":12345678901234567890,"input_tokens":1}"#).json_line();
        assert_eq!(
            line,
            r#"{"seq":7,"at":"2026-02-18T14:30:00Z","type":"usage_reported","output_tokens":12345678901234567890,"input_tokens":1}"#
        );
    }

    #[test]
    fn fields_that_are_there_already_are_not_doubled() {
        let line =
            event("text_delta", r#"{"seq":9,"at":"x","type":"y","text":"ä\n"}"#).json_line_with_session();
        assert_eq!(
            line,
            r#"{"seq":7,"at":"2026-02-18T14:30:00Z","type":"text_delta","session_id":"sess_1","text":"ä\n"}"#
        );
    }

    #[test]
    fn where_a_session_was_forked_is_printed_beside_the_number_of_the_event() {
        let line = event("session_forked", r#"{"from":"sess_0","seq":41}"#).json_line();
        let expected =
            r#"{"seq":7,"at":"2026-02-18T14:30:00Z","type":"session_forked","from":"sess_0","from_seq":41}"#;
        assert_eq!(line, expected);
    }

    #[test]
    fn what_is_no_object_is_kept() {
        assert!(event("x", "[1]").json_line().ends_with(r#","raw":"[1]"}"#));
        assert!(event("x", "").json_line().ends_with(r#""type":"x"}"#));
    }

    #[test]
    fn the_message_of_an_event_comes_before_its_json() {
        let message = pb::event::TextDelta { text: "typed".to_owned(), parent: None };
        let event = LogEvent::read(pb::Event {
            r#type: "text_delta".to_owned(),
            kind: Some(pb::event::Kind::TextDelta(message)),
            ..pb::Event::default()
        });
        assert_eq!(event.kind, Some(EventKind::TextDelta { text: "typed".to_owned(), parent: None }));
    }

    #[test]
    fn known_kinds_are_understood_with_or_without_their_type() {
        for json in [r#"{"text":"hi"}"#, r#"{"type":"text_delta","text":"hi","seq":1}"#] {
            let kind = event("text_delta", json).kind;
            assert_eq!(kind, Some(EventKind::TextDelta { text: "hi".to_owned(), parent: None }));
        }
        assert_eq!(event("from_the_future", "{}").kind, None);
    }
}

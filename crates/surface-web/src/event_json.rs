//! An event as one JSON object: number, time and type first, then its own fields, as `obey session log --json` prints it.

use domain::{Event, Timestamp};
use serde_json::{Map, Value};
use surface::shorten;

use crate::limits;

/// Appends an event to a text.
pub(super) fn append(event: &Event, out: &mut String) {
    let mut kind = shorten::json(&event.kind, limits::EVENT_MAX_BYTES);
    // A field of the same name as ours would take its place; most kinds have none.
    if kind.contains("\"seq\":") || kind.contains("\"at\":") {
        kind = without_own_names(&kind).unwrap_or(kind);
    }
    out.push_str(&format!("{{\"seq\":{},\"at\":\"{}\",", event.seq, time(event.at)));
    // Every kind is an object that begins with its type.
    out.push_str(kind.strip_prefix('{').unwrap_or("}"));
}

/// Removes the fields that every event has already; where a session was forked has a name of its own.
fn without_own_names(kind: &str) -> Option<String> {
    let fields: Map<String, Value> = serde_json::from_str(kind).ok()?;
    let is_fork = fields.get("type").is_some_and(|kind| kind == "session_forked");
    let renamed = fields.into_iter().filter_map(|(name, value)| match name.as_str() {
        "seq" if is_fork => Some(("from_seq".to_owned(), value)),
        "seq" | "at" => None,
        _ => Some((name, value)),
    });
    let fields: Map<String, Value> = renamed.collect();
    serde_json::to_string(&fields).ok()
}

fn time(at: Timestamp) -> String {
    jiff::Timestamp::from_microsecond(at.0).map(|at| at.to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::{EventKind, SessionId};

    #[test]
    fn an_event_is_one_object_with_its_number_time_and_type_first() {
        let kind = EventKind::TextDelta { text: "ä\n".to_owned(), parent: None };
        let event = Event { session: SessionId::new("sess_1"), seq: 7, at: Timestamp(1_000_000), kind };
        let mut out = String::new();
        append(&event, &mut out);
        assert_eq!(
            out,
            "{\"seq\":7,\"at\":\"1970-01-01T00:00:01Z\",\"type\":\"text_delta\",\"text\":\"ä\\n\"}"
        );
    }

    #[test]
    fn no_field_of_an_event_takes_the_place_of_its_number() {
        let own = r#"{"type":"x","seq":3,"at":"y","from":"sess_1","inner":{"seq":4}}"#;
        assert_eq!(without_own_names(own).unwrap(), r#"{"type":"x","from":"sess_1","inner":{"seq":4}}"#);
        let fork = r#"{"type":"session_forked","from":"sess_1","seq":3}"#;
        assert_eq!(
            without_own_names(fork).unwrap(),
            r#"{"type":"session_forked","from":"sess_1","from_seq":3}"#
        );
    }
}

//! Events as `ReadEvents` sends them: the JSON of the journal, and the message of the same fields.

use domain::{Event, EventKind};
use surface::pump::{Flow, Projector};
use surface::shorten;
use wire::obey::v1 as pb;

use super::to_wire::timestamp;

/// Streams events as they are in the journal.
pub(super) struct EventLogProjector {
    /// The end of the session after this event ends the stream.
    pub(super) live_after: u64,
    pub(super) left: Option<u64>,
    /// The largest message the client accepts.
    pub(super) max_bytes: usize,
    pub(super) format: pb::EventFormat,
}

impl Projector for EventLogProjector {
    type Wire = pb::Event;

    fn project(&mut self, event: &Event, out: &mut Vec<Self::Wire>) -> Flow {
        out.push(logged_event(event, self.max_bytes, self.format));
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(1);
            if *left == 0 {
                return Flow::Done;
            }
        }
        if event.seq > self.live_after && event.kind.ends_session() { Flow::Done } else { Flow::More }
    }
}

/// Converts an event; its longest strings are cut so that the message fits into `max_bytes`.
fn logged_event(event: &Event, max_bytes: usize, format: pb::EventFormat) -> pb::Event {
    let room = max_bytes.saturating_sub(surface::limits::EVENT_FRAME_BYTES);
    let (with_json, with_kind) = match format {
        pb::EventFormat::Unspecified => (true, true),
        pb::EventFormat::Json => (true, false),
        pb::EventFormat::Typed => (false, true),
    };
    let max = if with_json && with_kind { room / 2 } else { room };
    let delta = if with_kind { delta_kind(&event.kind, max) } else { None };
    let json = if with_json || delta.is_none() { shorten::json(&event.kind, max) } else { String::new() };
    pb::Event {
        seq: event.seq,
        at: Some(timestamp(event.at)),
        r#type: event.kind.name().to_owned(),
        kind: if with_kind { delta.or_else(|| typed_kind(&json)) } else { None },
        json: if with_json { json } else { String::new() },
        session_id: event.session.to_string(),
    }
}

/// Returns the message of a piece of text that needs no cutting, without a detour through its JSON: most events are one.
fn delta_kind(kind: &EventKind, max_bytes: usize) -> Option<pb::event::Kind> {
    let (EventKind::TextDelta { text, parent } | EventKind::ThinkingDelta { text, parent }) = kind else {
        return None;
    };
    // JSON writes a byte with six at most.
    if text.len().saturating_mul(6).saturating_add(JSON_FRAME_BYTES) > max_bytes {
        return None;
    }
    let (text, parent) = (text.clone(), parent.as_ref().map(ToString::to_string));
    Some(if matches!(kind, EventKind::ThinkingDelta { .. }) {
        pb::event::Kind::ThinkingDelta(pb::event::ThinkingDelta { text, parent })
    } else {
        pb::event::Kind::TextDelta(pb::event::TextDelta { text, parent })
    })
}

/// More than the JSON of a piece of text has beside the text.
const JSON_FRAME_BYTES: usize = 4 << 10;

/// Returns the message of an event's JSON. Every kind has one, as a test shows.
fn typed_kind(json: &str) -> Option<pb::event::Kind> {
    serde_json::from_str(json).ok()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use domain::{SessionId, Timestamp};

    use super::*;

    /// One line for every form that an event may have in a journal.
    const JOURNAL: &str = include_str!("../../domain/tests/journal_format.jsonl");

    fn events() -> Vec<Event> {
        let event = |line: &str| Event {
            session: SessionId::new("sess_1"),
            seq: 1,
            at: Timestamp::default(),
            kind: serde_json::from_str(line).unwrap(),
        };
        let newer = [
            r#"{"type":"agent_ready","model":"opus","resolved_model":"claude-opus-4"}"#,
            r#"{"type":"commands_changed","commands":[{"name":"review","description":"d","hint":"a branch"}]}"#,
            r#"{"type":"session_created","provider":"external","model":"","name":"n","working_dir":"/","mode":"plan"}"#,
        ];
        JOURNAL.lines().chain(newer).map(event).collect()
    }

    #[test]
    fn the_message_of_every_event_says_what_its_json_says() {
        let mut kinds = BTreeSet::new();
        for event in events() {
            let sent = logged_event(&event, 1 << 20, pb::EventFormat::Unspecified);
            let kind = sent.kind.unwrap_or_else(|| panic!("{} has no message", sent.json));
            let read: EventKind = serde_json::from_value(serde_json::to_value(&kind).unwrap()).unwrap();
            assert_eq!(read, event.kind, "{kind:?}");
            assert_eq!(serde_json::from_str::<EventKind>(&sent.json).unwrap(), event.kind);
            kinds.insert(sent.r#type);
        }
        let pool = prost_reflect::DescriptorPool::decode(wire::DESCRIPTORS).unwrap();
        let message = pool.get_message_by_name("obey.v1.Event").unwrap();
        let declared: BTreeSet<String> = message
            .oneofs()
            .flat_map(|oneof| oneof.fields().map(|field| field.name().to_owned()).collect::<Vec<_>>())
            .collect();
        assert_eq!(kinds, declared, "every kind has a message, and every message a kind");
    }

    #[test]
    fn a_piece_of_text_has_the_same_message_with_and_without_its_json() {
        let parent = || Some(domain::CallId::new("call_1"));
        let texts = ["", "plain", "\u{1}\n\"\\ä💥"].map(str::to_owned);
        for (text, parent) in texts.into_iter().flat_map(|text| [(text.clone(), None), (text, parent())]) {
            for kind in [
                EventKind::TextDelta { text: text.clone(), parent: parent.clone() },
                EventKind::ThinkingDelta { text: text.clone(), parent: parent.clone() },
            ] {
                let json = serde_json::to_string(&kind).unwrap();
                assert_eq!(delta_kind(&kind, 1 << 20), typed_kind(&json), "{json}");
                assert_eq!(delta_kind(&kind, 100), None, "it may have to be cut");
            }
        }
    }

    #[test]
    fn a_reader_chooses_the_form() {
        let event = &events()[0];
        let json = logged_event(event, 1 << 20, pb::EventFormat::Json);
        assert!(json.kind.is_none() && !json.json.is_empty());
        let typed = logged_event(event, 1 << 20, pb::EventFormat::Typed);
        assert!(typed.kind.is_some() && typed.json.is_empty());
    }

    #[test]
    fn both_forms_of_a_large_event_fit_into_one_message() {
        use prost::Message as _;
        let text = "ä".repeat(1 << 20);
        let event = Event { kind: EventKind::TextDelta { text, parent: None }, ..events().remove(0) };
        let most = 512 << 10;
        for format in [pb::EventFormat::Unspecified, pb::EventFormat::Json, pb::EventFormat::Typed] {
            let sent = logged_event(&event, most, format);
            let size = sent.encoded_len();
            assert!(size <= most && size > most / 3, "{format:?}: {size}");
        }
    }
}

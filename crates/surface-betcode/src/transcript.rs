//! Prints the messages a betcode client receives for a journal, for comparison in tests.

use std::fmt::Write as _;

use domain::Event;
use runtime::Snapshot;
use wire::betcode::v1 as pb;
use wire::betcode::v1::agent_event::Event as Body;

use super::to_wire::BetcodeProjector;

/// Returns every message a client receives, one per line.
pub(crate) fn show(snapshot: &Snapshot, events: &[Event]) -> String {
    lines(&project(snapshot, events))
}

/// Returns the messages that a client receives for these events.
pub(super) fn project(snapshot: &Snapshot, events: &[Event]) -> Vec<pb::AgentEvent> {
    let mut conversation = BetcodeProjector::new(snapshot, "wt_1".to_owned());
    let mut out = Vec::new();
    for event in events {
        conversation.take(event, &mut out);
    }
    out
}

/// Formats messages, one per line.
pub(super) fn lines(messages: &[pb::AgentEvent]) -> String {
    let mut shown = String::new();
    for message in messages {
        let parent = match message.parent_tool_use_id.as_str() {
            "" => String::new(),
            parent => format!(" in {parent}"),
        };
        let body = match message.event.as_ref().unwrap() {
            // The order of the details is not defined.
            Body::Error(error) => {
                format!("Error {} {:?} fatal={}", error.code, error.message, error.is_fatal)
            }
            other => format!("{other:?}"),
        };
        let _ = writeln!(shown, "{:>3}{parent} {body}", message.sequence);
    }
    shown
}

#[test]
fn the_recorded_conversation_reads_as_it_always_did() {
    let (snapshot, events) = (crate::transcript_session::snapshot(), crate::transcript_session::recorded());
    insta::with_settings!({ snapshot_path => "snapshots", prepend_module_to_snapshot => false }, {
        insta::assert_snapshot!("surface_betcode__transcript", show(&snapshot, &events));
    });
}

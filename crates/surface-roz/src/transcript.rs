//! Prints the messages a roz client receives for a journal, for comparison in tests.

use std::fmt::Write as _;

use domain::Event;
use runtime::Snapshot;
use wire::roz::v1 as pb;
use wire::roz::v1::session_response::Response as Body;

use super::to_wire::RozProjector;
use surface::structs;

/// The context window the client declares.
const CONTEXT_TOKENS: u32 = 1_000;

/// Returns every message a client receives, one per line.
pub(crate) fn show(snapshot: &Snapshot, events: &[Event]) -> String {
    lines(&project(snapshot, events))
}

/// Returns the messages that a client receives for these events.
pub(super) fn project(snapshot: &Snapshot, events: &[Event]) -> Vec<Body> {
    let mut conversation = RozProjector::new(snapshot, Some(CONTEXT_TOKENS));
    let mut out = Vec::new();
    for event in events {
        conversation.take(event, &mut out);
    }
    out.into_iter().map(|message| message.response.unwrap()).collect()
}

/// One line per message, short enough to compare by eye.
pub(super) fn lines(bodies: &[Body]) -> String {
    let mut shown = String::new();
    for body in bodies {
        match body {
            Body::ToolRequest(asked) => {
                let input = structs::to_json("parameters", asked.parameters.as_ref().unwrap()).unwrap();
                let pb::ToolRequest { tool_call_id, tool_name, timeout_ms, .. } = asked;
                let _ = writeln!(shown, "ToolRequest {tool_call_id} {tool_name} {input} {timeout_ms} ms");
            }
            other => {
                let _ = writeln!(shown, "{other:?}");
            }
        }
    }
    shown
}

#[test]
fn the_recorded_conversation_reads_as_it_always_did() {
    let (snapshot, events) = (crate::transcript_session::snapshot(), crate::transcript_session::recorded());
    insta::with_settings!({ snapshot_path => "snapshots", prepend_module_to_snapshot => false }, {
        insta::assert_snapshot!("surface_roz__transcript", show(&snapshot, &events));
    });
}

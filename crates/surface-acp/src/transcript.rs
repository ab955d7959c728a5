//! Prints the updates an editor receives for a journal, for comparison in tests.

use domain::Event;
use runtime::Snapshot;

use super::from_wire::ClientCapabilities;
use super::to_wire::{PromptOwner, UpdateProjector};

/// Returns every line an editor receives when it loads a session that other clients prompted.
pub(crate) fn show(snapshot: &Snapshot, events: &[Event]) -> String {
    let mut projector = UpdateProjector::new(&snapshot.spec, &ClientCapabilities::default(), Vec::new());
    let mut out = Vec::new();
    for event in events {
        projector.take(event, PromptOwner::Others, &mut out);
    }
    String::from_utf8(out).unwrap()
}

#[test]
fn the_recorded_conversation_reads_as_it_always_did() {
    let (snapshot, events) = (crate::transcript_session::snapshot(), crate::transcript_session::recorded());
    insta::with_settings!({ snapshot_path => "snapshots", prepend_module_to_snapshot => false }, {
        insta::assert_snapshot!("surface_acp__transcript", show(&snapshot, &events));
    });
}

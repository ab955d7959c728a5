//! What an editor hears of a journal, for people to compare.

use domain::Event;
use runtime::Snapshot;

use super::from_wire::ClientCapabilities;
use super::to_wire::{PromptOwner, UpdateProjector};

/// Shows every line an editor would be sent when it takes up the session of others.
pub(crate) fn show(snapshot: &Snapshot, events: &[Event]) -> String {
    let mut projector = UpdateProjector::new(&snapshot.spec, &ClientCapabilities::default(), Vec::new());
    let mut out = Vec::new();
    for event in events {
        projector.take(event, PromptOwner::Others, &mut out);
    }
    String::from_utf8(out).unwrap()
}

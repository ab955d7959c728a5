//! What an editor hears of a journal, for people to compare.

use domain::Event;
use runtime::Snapshot;

use super::from_wire::Client;
use super::to_wire::{Story, Whose};

/// Shows every line an editor would be sent when it takes up the session of others.
pub(crate) fn show(snapshot: &Snapshot, events: &[Event]) -> String {
    let mut story = Story::new(&snapshot.spec, &Client::default(), Vec::new());
    let mut out = Vec::new();
    for event in events {
        story.take(event, Whose::Others, &mut out);
    }
    String::from_utf8(out).unwrap()
}

//! What a roz client hears of a journal, for people to compare.

use std::fmt::Write as _;

use domain::Event;
use runtime::Snapshot;

use super::to_wire::Conversation;

/// Shows every message a client would hear, a line each, behind the number of the event it comes from.
pub(crate) fn show(snapshot: &Snapshot, events: &[Event]) -> String {
    let mut conversation = Conversation::new(snapshot, Some(200_000));
    let mut shown = String::new();
    let mut out = Vec::new();
    for event in events {
        conversation.take(event, &mut out);
        for message in out.drain(..) {
            let _ = writeln!(shown, "{:>3} {:?}", event.seq, message.response.unwrap());
        }
    }
    shown
}

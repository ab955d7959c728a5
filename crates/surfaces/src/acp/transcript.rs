//! What an editor hears of a journal that others filled, for people to compare.

use std::fmt::Write as _;

use domain::Event;
use runtime::Snapshot;
use serde_json::Value;

use super::from_wire::Client;
use super::to_wire::{Story, Whose};

/// Shows every update an editor would get, a line each, behind the number of the event it comes from.
pub(crate) fn show(snapshot: &Snapshot, events: &[Event]) -> String {
    let client = Client { takes_notices: true, takes_compaction: true, ..Client::default() };
    let mut story = Story::new(&snapshot.spec, &client, vec!["sonnet".to_owned()]);
    let mut shown = String::new();
    for event in events {
        let mut out = Vec::new();
        story.take(event, Whose::Others, &mut out);
        for line in out.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let line: Value = serde_json::from_slice(line).unwrap();
            let update = &line["params"]["update"];
            let _ = writeln!(shown, "{:>3} {}", event.seq, if update.is_null() { &line } else { update });
        }
    }
    shown
}

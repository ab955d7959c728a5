//! Prints the messages that clients of `obey.local.v1` receive for a journal, for comparison in tests: each
//! turn as `SendMessage` streams it, and the status changes as `WatchSession` does.

use std::fmt::Write as _;

use domain::{Event, EventKind};
use runtime::Snapshot;

use super::to_wire::{StatusProjector, TurnActivityProjector};
use surface::pump::{Flow, Projector};

/// Returns every message a client receives, one per line.
pub(crate) fn show(_snapshot: &Snapshot, events: &[Event]) -> String {
    let mut shown = String::new();
    let mut turn: Option<TurnActivityProjector> = None;
    let (mut said, mut watched) = (Vec::new(), Vec::new());
    for event in events {
        if matches!(event.kind, EventKind::TurnStarted { .. }) {
            turn = Some(TurnActivityProjector::default());
        }
        if let Some(current) = &mut turn
            && current.project(event, &mut said) == Flow::Done
        {
            turn = None;
        }
        StatusProjector.project(event, &mut watched);
        for said in said.drain(..) {
            let kind = said.r#type().as_str_name().trim_start_matches("ACTIVITY_TYPE_");
            let _ = write!(shown, "{:>3} {kind} {:?}", event.seq, said.content);
            if !said.tool_name.is_empty() {
                let _ = write!(shown, " {} {} {}", said.tool_name, said.tool_call_id, said.tool_success);
            }
            if said.tokens_input + said.tokens_output > 0 {
                let _ = write!(shown, " tokens {} {}", said.tokens_input, said.tokens_output);
            }
            shown.push('\n');
        }
        for status in watched.drain(..) {
            let (from, to) = (status.previous_status().as_str_name(), status.new_status().as_str_name());
            let _ = writeln!(shown, "{:>3} {from} → {to} {:?}", event.seq, status.message);
        }
    }
    shown
}

#[test]
fn the_recorded_conversation_reads_as_it_always_did() {
    let (snapshot, events) = (crate::transcript_session::snapshot(), crate::transcript_session::recorded());
    insta::with_settings!({ snapshot_path => "snapshots", prepend_module_to_snapshot => false }, {
        insta::assert_snapshot!("surface_obey__transcript", show(&snapshot, &events));
    });
}

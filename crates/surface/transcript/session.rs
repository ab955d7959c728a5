//! One recorded conversation, shown by every surface that projects journals: each includes this file in its tests. It
//! was had with the real Claude Code and holds thoughts, texts, calls, permissions, questions, a sub-agent, a cancelled
//! turn and a compaction.

use std::sync::Arc;

use domain::{Event, LaunchPolicy, Machine, ProviderKind, SessionId, SessionSpec, Timestamp};
use runtime::Snapshot;
use serde_json::Value;

const RECORDED: &str = include_str!("recorded.jsonl");

/// The recorded journal.
pub(crate) fn recorded() -> Vec<Event> {
    events(RECORDED)
}

/// Parses a journal, one event per line; events without a time are one millisecond apart.
pub(crate) fn events(lines: &str) -> Vec<Event> {
    lines.lines().enumerate().map(|(at, line)| event(at as u64 + 1, line)).collect()
}

fn event(seq: u64, line: &str) -> Event {
    let value: Value = serde_json::from_str(line).unwrap();
    let at = value["at"].as_str().map_or(seq as i64 * 1_000, |at| {
        let at: jiff::Timestamp = at.parse().unwrap();
        at.as_microsecond()
    });
    let kind = serde_json::from_value(value).unwrap();
    Event { session: SessionId::new("sess_1"), seq, at: Timestamp(at), kind }
}

/// The session of the journal, before its first event.
pub(crate) fn snapshot() -> Arc<Snapshot> {
    let spec = SessionSpec {
        model: "sonnet".to_owned(),
        name: "scout".to_owned(),
        launch: LaunchPolicy::OnPrompt,
        ..SessionSpec::new(SessionId::new("sess_1"), ProviderKind::ClaudeCode, "/repo".into())
    };
    let state = Machine::new(spec.clone()).state().clone();
    Arc::new(Snapshot { spec, state, last_seq: 0, grace_ran_out: false })
}

//! Journals in, messages out. `recorded.jsonl` is a conversation with the real Claude Code; the stored format's own
//! samples stand for every kind of event there is.

use std::fmt::Write as _;
use std::sync::Arc;

use domain::{Launch, Machine, ProviderKind, SessionId, SessionSpec, Upkeep};
use serde_json::Value;

use super::*;

const RECORDED: &str = include_str!("recorded.jsonl");
const SAMPLES: &str = include_str!("../../../../domain/tests/journal_format.jsonl");

fn snapshot() -> Arc<Snapshot> {
    let spec = SessionSpec {
        id: SessionId::new("sess_1"),
        campaign_id: None,
        provider: ProviderKind::ClaudeCode,
        model: "sonnet".to_owned(),
        name: "scout".to_owned(),
        festival_id: String::new(),
        task_id: String::new(),
        parent: None,
        root: "/repo".into(),
        working_dir: "/repo".into(),
        provider_config: Default::default(),
        environment: Default::default(),
        max_tokens: 0,
        timeout: None,
        mode: Mode::Supervised,
        launch: Launch::OnPrompt,
        upkeep: Upkeep::default(),
        created_at: Timestamp(0),
    };
    let state = Machine::new(spec.clone()).state().clone();
    Arc::new(Snapshot { spec, state, last_seq: 0, grace_ran_out: false })
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

fn events(lines: &str) -> Vec<Event> {
    lines.lines().enumerate().map(|(at, line)| event(at as u64 + 1, line)).collect()
}

fn project(events: &[Event]) -> Vec<pb::AgentEvent> {
    let mut conversation = Conversation::new(&snapshot(), "wt_1".to_owned());
    let mut out = Vec::new();
    for event in events {
        conversation.take(event, &mut out);
    }
    out
}

/// One line a message, short enough to be compared by eye.
fn show(messages: &[pb::AgentEvent]) -> String {
    let mut shown = String::new();
    for message in messages {
        let parent = match message.parent_tool_use_id.as_str() {
            "" => String::new(),
            parent => format!(" in {parent}"),
        };
        let body = match message.event.as_ref().unwrap() {
            // Its details have no order.
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
fn a_recorded_conversation_reads_as_it_always_did() {
    insta::assert_snapshot!("recorded", show(&project(&events(RECORDED))));
}

#[test]
fn every_kind_of_event_reads_as_it_always_did() {
    insta::assert_snapshot!("every_kind", show(&project(&events(SAMPLES))));
}

#[test]
fn an_event_is_at_most_one_numbered_message() {
    for journal in [RECORDED, SAMPLES] {
        let mut last = 0;
        for message in project(&events(journal)).iter().filter(|message| message.sequence > 0) {
            assert!(message.sequence > last, "{message:?} follows {last}");
            last = message.sequence;
        }
    }
}

#[test]
fn a_replay_from_any_point_says_the_same() {
    let all = events(RECORDED);
    let whole = project(&all);
    for after in 0..=all.len() as u64 {
        let mut replay = Replay { conversation: Conversation::new(&snapshot(), "wt_1".to_owned()), after };
        let (mut out, mut heard) = (Vec::new(), Vec::new());
        for event in &all {
            replay.project(event, &mut out);
            heard.append(&mut out);
        }
        let numbered = |message: &&pb::AgentEvent| message.sequence > after;
        assert_eq!(
            heard.iter().filter(numbered).collect::<Vec<_>>(),
            whole.iter().filter(numbered).collect::<Vec<_>>(),
            "after {after}"
        );
    }
}

#[test]
fn sessions_are_summed_up() {
    let mut found = (*snapshot()).clone();
    for event in events(RECORDED) {
        found.state.evolve(event.at, &event.kind);
    }
    let summary = summary(&found, "wt_1");
    assert_eq!((summary.message_count, summary.last_message_preview.as_str()), (8, "still here"));
    assert_eq!((summary.status.as_str(), summary.worktree_id.as_str()), ("idle", "wt_1"));
    assert!(summary.total_output_tokens > 100 && summary.total_cost_usd > 0.001, "{summary:?}");
    let Body::SessionInfo(info) = session_info(&found, "", true) else { panic!("no info") };
    assert!(info.is_resumed && info.is_compacted && info.message_count == 8, "{info:?}");
    assert!(info.context_usage_percent > 0.0, "{info:?}");
    let status = |status, launch| status_word(status, launch);
    assert_eq!(status(Status::Stopped, Launch::OnPrompt), "idle");
    assert_eq!(status(Status::Stopped, Launch::Now), "completed");
    assert_eq!(status(Status::Failed, Launch::OnPrompt), "error");
    assert_eq!(status(Status::Working, Launch::OnPrompt), "active");
}

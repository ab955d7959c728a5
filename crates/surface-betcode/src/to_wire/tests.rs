//! Journals in, messages out. The recorded conversation is the one that all surfaces use (`transcript`); the
//! samples of the stored format cover every kind of event.

use domain::{Event, LaunchPolicy, Status};

use super::summaries::status_word;
use super::*;
use crate::transcript::{lines, project as project_for};
use crate::transcript_session::{events, recorded, snapshot};

const SAMPLES: &str = include_str!("../../../domain/tests/journal_format.jsonl");

fn project(events: &[Event]) -> Vec<pb::AgentEvent> {
    project_for(&snapshot(), events)
}

#[test]
fn every_kind_of_event_reads_as_it_always_did() {
    insta::assert_snapshot!("every_kind", lines(&project(&events(SAMPLES))));
}

#[test]
fn an_event_is_at_most_one_numbered_message() {
    for journal in [recorded(), events(SAMPLES)] {
        let mut last = 0;
        for message in project(&journal).iter().filter(|message| message.sequence > 0) {
            assert!(message.sequence > last, "{message:?} follows {last}");
            last = message.sequence;
        }
    }
}

#[test]
fn a_replay_from_any_point_says_the_same() {
    let all = recorded();
    let whole = project(&all);
    for after in 0..=all.len() as u64 {
        let mut replay =
            BetcodeReplay { conversation: BetcodeProjector::new(&snapshot(), "wt_1".to_owned()), after };
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
fn a_summary_has_messages_status_and_usage_of_a_session() {
    let mut found = (*snapshot()).clone();
    for event in recorded() {
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
    assert_eq!(status(Status::Stopped, LaunchPolicy::OnPrompt), "idle");
    assert_eq!(status(Status::Stopped, LaunchPolicy::Now), "completed");
    assert_eq!(status(Status::Failed, LaunchPolicy::OnPrompt), "error");
    assert_eq!(status(Status::Working, LaunchPolicy::OnPrompt), "active");
}

#[test]
fn no_message_is_larger_than_a_plain_client_takes() {
    use prost::Message as _;
    let large = "é".repeat(4 << 20);
    let kinds = [
        EventKind::TextDelta { text: large.clone(), parent: None },
        EventKind::MessageAdded { turn: domain::TurnId(1), text: large.clone(), by: String::new() },
        EventKind::ToolStarted {
            call: CallId::new("c"),
            tool: "Write".to_owned(),
            input: serde_json::json!({"content": large}),
            title: String::new(),
            parent: None,
        },
        EventKind::ToolFinished { call: CallId::new("c"), tool: "Write".to_owned(), ok: true, output: large },
    ];
    for kind in kinds {
        let event = Event { session: domain::SessionId::new("sess_1"), seq: 1, at: Timestamp(0), kind };
        let sent = project(&[event]);
        assert!(sent[0].encoded_len() < surface::limits::CLIENT_MESSAGE_BYTES, "{}", sent[0].encoded_len());
    }
}

/// The daemon says that the mode is another, and the agent says so, too; either may be alone or the first.
#[test]
fn a_change_of_plan_mode_is_told_once() {
    let kinds = [
        EventKind::ModeChanged { mode: Mode::Plan },
        EventKind::PlanModeChanged { on: true },
        EventKind::ModelChanged { model: "other".to_owned() },
        EventKind::PlanModeChanged { on: true },
        EventKind::PlanModeChanged { on: false },
        EventKind::ModeChanged { mode: Mode::Supervised },
        EventKind::PlanModeChanged { on: true },
        EventKind::ModeChanged { mode: Mode::AcceptEdits },
        EventKind::PlanModeChanged { on: false },
    ];
    let event = |(at, kind)| Event {
        session: domain::SessionId::new("sess_1"),
        seq: at as u64 + 1,
        at: Timestamp(0),
        kind,
    };
    let journal: Vec<Event> = kinds.into_iter().enumerate().map(event).collect();
    let told = project(&journal).into_iter().filter_map(|message| match message.event {
        Some(Body::PlanMode(change)) => Some((message.sequence, change.active)),
        _ => None,
    });
    assert_eq!(told.collect::<Vec<_>>(), [(1, true), (5, false), (7, true), (8, false)]);
}

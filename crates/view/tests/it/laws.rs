//! What holds for every journal, tested with random ones.

use domain::event::{Level, Todo, TodoStatus};
use domain::permission::Decision;
use domain::request::{PermissionSubject, RequestOutcome, RequestSubject};
use domain::turn::{EndReason, TurnOrigin};
use domain::{CallId, EventKind, RequestId, Timestamp, TurnId, Usage};
use proptest::prelude::*;
use serde_json::json;
use view::{RowBody, Transcript};

use crate::journal::Entry;

fn call() -> impl Strategy<Value = CallId> {
    (0..6u8).prop_map(|n| CallId::new(format!("c{n}")))
}

fn parent() -> impl Strategy<Value = Option<CallId>> {
    prop_oneof![4 => Just(None), 1 => Just(Some(CallId::new("c0"))), 1 => Just(Some(CallId::new("c1")))]
}

fn started() -> impl Strategy<Value = EventKind> {
    let input = prop_oneof![
        Just(("Bash", json!({"command": "ls"}))),
        Just(("Read", json!({"file_path": "/a"}))),
        Just(("Edit", json!({"file_path": "/a", "old_string": "x\ny", "new_string": "x\nz"}))),
    ];
    (call(), input, parent()).prop_map(|(call, (tool, input), parent)| EventKind::ToolStarted {
        call,
        tool: tool.to_owned(),
        input,
        title: String::new(),
        parent,
    })
}

fn requested() -> impl Strategy<Value = EventKind> {
    (1..4u64, call(), any::<bool>(), parent()).prop_map(|(id, call, automatic, parent)| {
        EventKind::RequestOpened {
            request: RequestId(id),
            native: String::new(),
            automatic,
            ask: RequestSubject::Permission(PermissionSubject {
                call: Some(call),
                tool: "Bash".to_owned(),
                input: json!({"command": "rm x"}),
                title: String::new(),
                parent,
            }),
            proposals: Vec::new(),
            advice: domain::permission::PermissionAdvice::default(),
        }
    })
}

fn kind() -> impl Strategy<Value = Option<EventKind>> {
    let text = "[a-zäö \n]{0,12}";
    let known = prop_oneof![
        6 => (text, parent()).prop_map(|(text, parent)| EventKind::TextDelta { text, parent }),
        2 => (text, parent()).prop_map(|(text, parent)| EventKind::ThinkingDelta { text, parent }),
        5 => started(),
        3 => (call(), text).prop_map(|(call, output)| EventKind::ToolProgress { call, output }),
        4 => (call(), any::<bool>(), text).prop_map(|(call, ok, output)| EventKind::ToolFinished {
            call, tool: "Bash".to_owned(), ok, output,
        }),
        2 => requested(),
        2 => (1..4u64).prop_map(|id| EventKind::RequestSettled {
            request: RequestId(id),
            outcome: RequestOutcome::Decided { decision: Decision::AllowOnce },
            by: "anna#1".to_owned(),
            message: String::new(),
            grant: None,
            used_grant: String::new(),
        }),
        1 => (1..5u64).prop_map(|turn| EventKind::TurnStarted {
            turn: TurnId(turn),
            origin: TurnOrigin::Client,
            prompt: "go".to_owned(),
            attachments: Vec::new(),
            by: String::new(),
        }),
        1 => text.prop_map(|text| EventKind::TurnEnded {
            turn: TurnId(1), reason: EndReason::Completed, text, error: String::new(),
        }),
        1 => (0..3u64).prop_map(|tokens| EventKind::UsageReported {
            usage: Usage { input_tokens: tokens, ..Usage::default() },
            context_tokens: None,
            context_window: None,
            parent: None,
        }),
        1 => any::<bool>().prop_map(|done| EventKind::TodosChanged { todos: vec![
            Todo::new("1", "it", if done { TodoStatus::Completed } else { TodoStatus::Pending }),
        ]}),
        1 => text.prop_map(|line| EventKind::AgentLogged { line }),
        1 => text.prop_map(|message| EventKind::Notice { level: Level::Info, code: None, message }),
        1 => ("[ab]", text).prop_map(|(worker, summary)| EventKind::WorkerProgressed { worker, summary, spent: None }),
        1 => ("[ab]", text).prop_map(|(worker, summary)| EventKind::WorkerFinished { worker, ok: true, summary, spent: None }),
    ];
    prop_oneof![40 => known.prop_map(Some), 1 => Just(None)]
}

fn journal() -> impl Strategy<Value = Vec<Entry>> {
    prop::collection::vec((kind(), 0..20u8), 0..120).prop_map(|kinds| {
        let mut seq = 0;
        let entry = |(kind, jump): (Option<EventKind>, u8)| {
            // Now and then events are missing.
            seq += if jump == 0 { 3 } else { 1 };
            let name = kind.as_ref().map_or("new_kind", EventKind::name).to_owned();
            Entry { seq, at: Timestamp(seq as i64 * 1_500), name, kind }
        };
        kinds.into_iter().map(entry).collect()
    })
}

fn whole(journal: &[Entry]) -> Transcript {
    let mut transcript = Transcript::default();
    for entry in journal {
        entry.apply(&mut transcript);
    }
    transcript
}

fn own_text(transcript: &Transcript) -> String {
    let text = |row: &view::Row| match (&row.body, &row.parent) {
        (RowBody::Text { text, .. }, None) => text.clone(),
        _ => String::new(),
    };
    transcript.rows().iter().map(text).collect()
}

fn assert_same(a: &Transcript, b: &Transcript) -> Result<(), TestCaseError> {
    prop_assert_eq!(a.header(), b.header());
    prop_assert_eq!(a.rows(), b.rows());
    Ok(())
}

proptest! {
    #[test]
    fn a_prefix_and_then_the_rest_give_the_whole(journal in journal(), cut in any::<prop::sample::Index>()) {
        let (prefix, rest) = journal.split_at(cut.index(journal.len() + 1).min(journal.len()));
        let mut transcript = whole(prefix).clone();
        for entry in rest {
            entry.apply(&mut transcript);
        }
        assert_same(&transcript, &whole(&journal))?;
    }

    #[test]
    fn repeated_events_change_nothing(journal in journal(), back in 1..30usize) {
        let mut transcript = Transcript::default();
        for (at, entry) in journal.iter().enumerate() {
            prop_assert!(entry.apply(&mut transcript));
            for repeated in &journal[at.saturating_sub(back)..=at] {
                prop_assert!(!repeated.apply(&mut transcript));
            }
        }
        assert_same(&transcript, &whole(&journal))?;
    }

    #[test]
    fn a_fold_with_fewer_rows_loses_only_the_oldest(journal in journal(), keep in 1..20usize) {
        let all = whole(&journal);
        let mut few = Transcript::with_rows_max(keep);
        for entry in &journal {
            entry.apply(&mut few);
        }
        prop_assert!(few.rows().len() <= keep);
        prop_assert_eq!(few.header(), all.header());
        prop_assert!(own_text(&all).ends_with(&own_text(&few)));
        if all.rows().len() <= keep {
            assert_same(&few, &all)?;
            prop_assert_eq!(few.dropped_through(), 0);
        }
    }

    #[test]
    fn keys_rise_and_every_text_is_in_a_row(journal in journal()) {
        let transcript = whole(&journal);
        let rows = transcript.rows();
        prop_assert!(rows.iter().zip(rows.iter().skip(1)).all(|(a, b)| a.key < b.key));
        prop_assert!(rows.iter().all(|row| row.key <= row.last));
        let mut events = String::new();
        for entry in &journal {
            if let Some(EventKind::TextDelta { text, parent: None }) = &entry.kind {
                events.push_str(text);
            }
        }
        prop_assert_eq!(events, own_text(&transcript));
    }
}

#[test]
fn a_long_text_is_several_rows() {
    let mut transcript = Transcript::default();
    for seq in 1..=300 {
        let kind = EventKind::TextDelta { text: "ä".repeat(1_000), parent: None };
        transcript.apply(seq, Timestamp(0), "text_delta", Some(&kind));
    }
    let lengths: Vec<usize> = transcript
        .rows()
        .iter()
        .map(|row| match &row.body {
            RowBody::Text { text, .. } => text.chars().count(),
            _ => 0,
        })
        .collect();
    assert_eq!(lengths, [66_000, 66_000, 66_000, 66_000, 36_000]);
}

#[test]
fn the_output_of_a_call_is_bounded() {
    let mut transcript = Transcript::default();
    let started = EventKind::ToolStarted {
        call: CallId::new("c"),
        tool: "Bash".to_owned(),
        input: json!({}),
        title: String::new(),
        parent: None,
    };
    transcript.apply(1, Timestamp(0), "tool_started", Some(&started));
    for seq in 2..1_000 {
        let kind = EventKind::ToolProgress { call: CallId::new("c"), output: "x".repeat(1_000) };
        transcript.apply(seq, Timestamp(0), "tool_progress", Some(&kind));
    }
    let RowBody::Calls { calls, .. } = &transcript.rows()[0].body else { panic!("no calls") };
    assert!(calls[0].output.len() <= 2 * view::limits::OUTPUT_MAX_CHARS);
    assert_eq!(calls[0].output.len() as u64 + calls[0].output_omitted, 998_000);
}

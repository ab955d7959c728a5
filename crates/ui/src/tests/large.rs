//! Much of everything: five hundred sessions, a hundred thousand events. What is shown stays right and bounded.

use domain::turn::{EndReason, TurnOrigin};
use domain::{EventKind, Timestamp, TurnId};
use view::{SummaryState, Transcript};

use super::stage::{NOW, Stage, summary};
use crate::data::Update;

#[test]
fn five_hundred_sessions_are_listed_by_need_and_every_one_is_reached() {
    let mut stage = Stage::with_sessions(80, 24);
    let sessions = (0..500).map(|number| {
        let state = if number % 100 == 0 { SummaryState::NeedsYou } else { SummaryState::Working };
        summary(&format!("s{number:03}"), state, number)
    });
    stage.overview(sessions.collect());
    stage.shows("512 sessions");
    stage.shows("NEEDS YOU 7");
    stage.press("G");
    stage.press("1");
    for _ in 0..600 {
        stage.press("j");
    }
    stage.shows("IDLE 3");
    stage.press("g");
    stage.shows("NEEDS YOU 7");
    stage.press("f");
    stage.type_text("s473");
    stage.press("enter");
    stage.shows("s473");
    stage.shows_not("s472");
}

#[test]
fn a_hundred_thousand_events_are_read_to_the_top_and_back_and_followed() {
    let mut stage = Stage::with_journal(120, 32, "");
    let mut transcript = Transcript::default();
    let mut seq = 0;
    let mut apply = |kind: EventKind| {
        seq += 1;
        transcript.apply(seq, Timestamp(NOW * 1_000), kind.name(), Some(&kind));
    };
    for turn in 1..=10_000 {
        apply(EventKind::TurnStarted {
            turn: TurnId(turn),
            origin: TurnOrigin::Client,
            prompt: format!("prompt number {turn}"),
            attachments: Vec::new(),
            by: String::new(),
        });
        for part in 0..8 {
            apply(EventKind::TextDelta { text: format!("answer {turn} part {part}\n\n"), parent: None });
        }
        let (text, error) = (String::new(), String::new());
        apply(EventKind::TurnEnded { turn: TurnId(turn), reason: EndReason::Completed, text, error });
    }
    stage.update(Update::Opened { session: "sess_cart".to_owned(), transcript: Box::new(transcript) });
    stage.press("2");
    stage.shows("answer 10000 part 7");
    stage.press("g");
    for _ in 0..50 {
        stage.press("pagedown");
        stage.screen();
    }
    for _ in 0..60 {
        stage.press("pageup");
        stage.screen();
    }
    let top = stage.screen();
    stage.press("G");
    stage.shows("answer 10000 part 7");
    stage.press("g");
    assert_eq!(stage.screen(), top, "the top is the top");
}

//! Reading: following the end, staying where one reads, folding, searching, jumping.

use domain::EventKind;
use ratatui::backend::TestBackend;
use view::SummaryState;

use super::stage::{EDGES, Stage, summary};
use crate::app::Focus;
use crate::data::Request;

fn text(text: &str) -> EventKind {
    EventKind::TextDelta { text: text.to_owned(), parent: None }
}

fn notice(message: String) -> EventKind {
    EventKind::Notice { level: domain::event::Level::Info, code: None, message }
}

fn lines(from: usize, count: usize) -> Vec<EventKind> {
    (from..from + count).map(|at| notice(format!("line {at}."))).collect()
}

#[test]
fn the_end_is_followed_and_a_place_above_it_is_kept() {
    let mut stage = Stage::with_journal(100, 30, "");
    stage.events(lines(0, 1_000));
    stage.shows("line 999.");
    stage.press("pageup");
    let before = stage.screen();
    stage.events(lines(1_000, 10_000));
    let after = stage.screen();
    let body = |screen: &str| screen.lines().skip(2).take(20).collect::<Vec<_>>().join("\n");
    assert_eq!(body(&before), body(&after));
    stage.shows("↓ 10000 new");
    stage.press("G");
    stage.shows("line 10999.");
    stage.shows_not(" new");
}

#[test]
fn scrolling_down_to_the_end_follows_again() {
    let mut stage = Stage::with_journal(100, 30, "");
    stage.events(lines(0, 300));
    for _ in 0..5 {
        stage.press("pageup");
    }
    stage.shows_not("line 299.");
    for _ in 0..5 {
        stage.press("pagedown");
    }
    stage.events(lines(300, 1));
    stage.shows("line 300.");
}

#[test]
fn pages_reach_the_top_and_the_end_without_skipping_a_line() {
    let mut stage = Stage::with_journal(100, 30, "");
    stage.events(lines(0, 500));
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..60 {
        for line in stage.screen().lines() {
            if let Some(at) = line.split("line ").nth(1).and_then(|rest| rest.split('.').next()) {
                seen.insert(at.parse::<usize>().unwrap());
            }
        }
        stage.press("pageup");
    }
    assert_eq!(seen.len(), 500);
}

#[test]
fn the_place_is_kept_when_the_size_changes() {
    let mut stage = Stage::with_journal(100, 30, "");
    stage.events(lines(0, 500));
    for _ in 0..4 {
        stage.press("pageup");
    }
    let top = |stage: &mut Stage| {
        stage.screen();
        stage.app.areas.rows.first().map(|(_, key)| *key)
    };
    let key = top(&mut stage);
    let mut random = 7_u32;
    for _ in 0..200 {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let (columns, lines) = (20 + (random >> 8) % 200, 5 + (random >> 20) % 60);
        stage.terminal = ratatui::Terminal::new(TestBackend::new(columns as u16, lines as u16)).unwrap();
        stage.screen();
    }
    stage.terminal = ratatui::Terminal::new(TestBackend::new(100, 30)).unwrap();
    assert_eq!(top(&mut stage), key);
}

#[test]
fn rows_fold_one_by_one_and_all_at_once() {
    let mut stage = Stage::with_journal(120, 60, EDGES);
    stage.shows_not("pushed in the background");
    stage.press("z");
    stage.press("g");
    for _ in 0..40 {
        if stage.screen().contains("pushed in the background") {
            break;
        }
        stage.press("pagedown");
    }
    stage.shows("pushed in the background");
    stage.press("z");
    stage.press("G");
    stage.shows_not("pushed in the background");
}

#[test]
fn a_failed_call_is_visible_without_opening_its_group() {
    let mut stage = Stage::with_journal(120, 60, EDGES);
    stage.press("g");
    for _ in 0..20 {
        if stage.screen().contains("✕ Read: /w/src/f3.rs") {
            return;
        }
        stage.press("pagedown");
    }
    stage.shows("✕ Read: /w/src/f3.rs");
}

#[test]
fn find_goes_to_matches_and_back() {
    let mut stage = Stage::with_journal(100, 30, "");
    stage.events(lines(0, 300));
    stage.press("f");
    stage.type_text("line 12");
    stage.press("enter");
    stage.shows("line 129.");
    stage.press("N");
    stage.shows("line 128.");
    stage.press("n");
    stage.press("n");
    assert!(stage.app.message.is_some(), "there is no match after the last one");
}

#[test]
fn brackets_go_from_prompt_to_prompt() {
    let mut stage = Stage::with_journal(120, 40, EDGES);
    stage.press("[");
    stage.press("[");
    stage.press("[");
    stage.shows("› Fix the cart");
}

#[test]
fn older_events_are_read_when_one_comes_to_the_first() {
    let mut stage = Stage::with_journal(120, 40, EDGES);
    stage.requests();
    stage.press("g");
    let sent = stage.requests();
    assert!(matches!(sent.as_slice(), [Request::Open { tail: 16_000, .. }]), "{sent:?}");
}

#[test]
fn the_list_keeps_its_order_while_a_person_moves_in_it() {
    let mut stage = Stage::with_sessions(120, 40);
    stage.press("j");
    let place = |screen: &str, name: &str| screen.lines().position(|line| line.contains(name)).unwrap();
    let before = place(&stage.screen(), "cart");
    stage.wait(300);
    stage.overview(vec![summary("cart", SummaryState::Failed, 0)]);
    assert_eq!(place(&stage.screen(), "cart"), before);
    stage.shows("✕ cart");
    stage.wait(800);
    assert!(place(&stage.screen(), "cart") < before);
}

#[test]
fn a_heading_stays_with_its_sessions_while_the_order_rests() {
    let mut stage = Stage::new(120, 40);
    stage.update(crate::data::Update::Connected);
    stage.overview(vec![summary("cart", SummaryState::Working, 5), summary("login", SummaryState::Done, 9)]);
    stage.press("j");
    stage.overview(vec![summary("cart", SummaryState::NeedsYou, 0)]);
    stage.shows("WORKING 1");
    stage.wait(1_100);
    stage.shows("NEEDS YOU 1");
    stage.shows_not("WORKING 1");
}

#[test]
fn no_heading_says_that_somebody_is_needed_when_nothing_is() {
    let mut stage = Stage::new(120, 40);
    stage.update(crate::data::Update::Connected);
    stage.overview(vec![
        summary("cart", SummaryState::NeedsYou, 5),
        summary("login", SummaryState::Working, 9),
    ]);
    stage.press("j");
    stage.overview(vec![summary("cart", SummaryState::Working, 0)]);
    stage.shows("NEEDS YOU 1");
    stage.press("}");
    stage.shows("nothing needs you");
    stage.shows_not("NEEDS YOU");
}

#[test]
fn a_session_that_is_opened_by_its_name_is_selected_although_idle_ones_are_folded() {
    let mut stage = Stage::new(120, 40);
    stage.app.options.session = Some("shop".to_owned());
    stage.update(crate::data::Update::Connected);
    stage.overview(vec![summary("cart", SummaryState::Done, 5), summary("shop", SummaryState::Idle, 9)]);
    let selected = stage.app.selected_entry().cloned();
    assert_eq!(selected, Some(crate::app::ListEntry::Session("sess_shop".to_owned())));
}

#[test]
fn the_next_key_replaces_a_message_by_the_keys() {
    let mut stage = Stage::new(120, 40);
    stage.update(crate::data::Update::Connected);
    stage.overview(vec![summary("cart", SummaryState::Done, 5)]);
    stage.press("}");
    stage.shows("nothing needs you");
    stage.press("j");
    stage.shows_not("nothing needs you");
    stage.shows("new session");
}

#[test]
fn control_c_closes_what_is_open_and_leaves_when_pressed_again() {
    let mut stage = Stage::with_sessions(120, 40);
    stage.press(":");
    stage.press("ctrl+c");
    assert!(stage.app.dialog.is_none());
    assert!(!stage.effects.contains(&crate::app::Effect::Quit));
    stage.press("ctrl+c");
    assert!(stage.effects.contains(&crate::app::Effect::Quit));
    let mut stage = Stage::with_sessions(120, 40);
    stage.press("ctrl+c");
    stage.shows("agents go on");
    stage.wait(3_000);
    stage.press("ctrl+c");
    assert!(!stage.effects.contains(&crate::app::Effect::Quit), "the second one came too late");
}

#[test]
fn what_ends_something_asks_first() {
    let mut stage = Stage::with_journal(120, 40, "");
    stage.requests();
    for (key, words) in [(".", "Cancel the turn of cart?"), ("S", "Stop cart?"), ("R", "Restart cart?")] {
        stage.press(key);
        stage.shows(words);
        stage.press("n");
        assert_eq!(stage.requests(), []);
    }
    stage.press(".");
    stage.press("y");
    assert_eq!(stage.requests(), [Request::Cancel { session: "sess_cart".to_owned() }]);
}

#[test]
fn drawing_does_not_depend_on_the_length_of_the_transcript() {
    let mut stage = Stage::with_journal(200, 50, "");
    stage.events(lines(0, 100_000));
    stage.screen();
    // Only rows on the screen are laid out: a hundred thousand would be seen in the cache.
    let pane = stage.app.open.as_ref().unwrap().pane.as_ref().unwrap();
    assert!(pane.laid_out() < 200, "{}", pane.laid_out());
    assert_eq!(pane.transcript.rows().len(), view::limits::ROWS_MAX);
}

#[test]
fn the_wheel_scrolls_what_is_under_it_and_a_click_selects() {
    use crossterm::event::{KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
    let mut stage = Stage::with_journal(120, 30, "");
    stage.events(lines(0, 300));
    stage.screen();
    let at = |kind, column, row| MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE };
    stage.app.mouse(&at(MouseEventKind::ScrollUp, 80, 10));
    stage.shows_not("line 299.");
    let fixer = stage.screen().lines().position(|line| line.contains("fixer")).unwrap() as u16;
    stage.app.mouse(&at(MouseEventKind::Down(MouseButton::Left), 5, fixer));
    assert_eq!(stage.app.open.as_ref().unwrap().id, "sess_fixer");
}

#[test]
fn text_that_streams_is_one_growing_row() {
    let mut stage = Stage::with_journal(100, 30, "");
    for word in ["The ", "quick ", "**brown** ", "fox"] {
        stage.events(vec![text(word)]);
    }
    stage.shows("The quick brown fox");
    assert_eq!(stage.app.focus, Focus::Transcript);
}

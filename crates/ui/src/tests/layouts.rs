//! What is where, at every size and with every number of colours.

use view::SummaryState;

use super::stage::{CONVERSATION, EDGES, Stage, summary};
use crate::data::Update;
use crate::theme::{ColorDepth, Theme};

#[test]
fn the_screen_at_every_size() {
    for (columns, lines) in [(60, 15), (80, 24), (120, 32), (200, 50)] {
        let mut stage = Stage::with_journal(columns, lines, EDGES);
        insta::assert_snapshot!(format!("session_{columns}x{lines}"), stage.screen());
        let mut stage = Stage::with_sessions(columns, lines);
        insta::assert_snapshot!(format!("list_{columns}x{lines}"), stage.screen());
    }
}

#[test]
fn the_transcript_of_a_real_conversation() {
    let mut stage = Stage::with_journal(100, 60, CONVERSATION);
    stage.press("z");
    stage.press("g");
    insta::assert_snapshot!("conversation_open", stage.screen());
}

#[test]
fn sessions_are_grouped_by_need_and_the_longest_wait_is_first() {
    let mut stage = Stage::with_sessions(120, 40);
    let screen = stage.screen();
    let order = [
        "NEEDS YOU 2",
        "docs-pass",
        "fixer",
        "FAILED 1",
        "migrate-db",
        "WORKING 3",
        "bench quiet",
        "cart",
        "api-types",
        "DONE 2",
        "release-notes",
        "lint",
        "IDLE 3",
    ];
    let mut from = 0;
    for text in order {
        let at = screen[from..]
            .find(text)
            .unwrap_or_else(|| panic!("{text} is not after the one before:\n{screen}"));
        from += at;
    }
    assert!(!screen.contains("old"), "ended sessions are behind a key");
    assert!(screen.contains("git push") && screen.contains("the agent died: signal 9"));
    assert!(
        screen.contains("12 sessions")
            && screen.contains("▲2")
            && screen.contains("✕1")
            && screen.contains("●3")
    );
}

#[test]
fn idle_sessions_are_one_line_that_opens() {
    let mut stage = Stage::with_sessions(120, 40);
    stage.press("G");
    stage.press("enter");
    stage.shows("○ a");
    stage.press("esc");
    stage.shows_not("○ a");
}

#[test]
fn ended_sessions_are_asked_for_and_shown() {
    let mut stage = Stage::with_sessions(120, 40);
    stage.press("e");
    assert!(stage.requests().contains(&crate::data::Request::Watch { include_ended: true }));
    stage.shows("ENDED 1");
}

#[test]
fn states_are_told_without_colour_and_without_unicode() {
    for ascii in [false, true] {
        for depth in [ColorDepth::None, ColorDepth::Sixteen, ColorDepth::TwoFiftySix, ColorDepth::True] {
            let mut stage = Stage::themed(120, 40, Theme { depth, light: depth == ColorDepth::True, ascii });
            stage.all_sessions();
            let screen = stage.screen();
            let glyphs = if ascii {
                ["! fixer", "? docs-pass", "x migrate-db", "* cart", "~ bench", "+ lint"]
            } else {
                ["▲ fixer", "? docs-pass", "✕ migrate-db", "● cart", "◌ bench", "✓ lint"]
            };
            for glyph in glyphs {
                assert!(screen.contains(glyph), "{glyph} with {depth:?}:\n{screen}");
            }
            assert!(!ascii || screen.is_ascii(), "{screen}");
            let colored = stage
                .terminal
                .backend()
                .buffer()
                .content
                .iter()
                .any(|cell| cell.fg != ratatui::style::Color::Reset);
            assert_eq!(colored, depth != ColorDepth::None);
        }
    }
}

#[test]
fn a_small_screen_shows_only_what_needs_a_person() {
    let mut stage = Stage::with_sessions(50, 10);
    stage.shows("fixer");
    stage.shows_not("migrate-db");
    for (columns, lines) in [(20, 5), (1, 1), (2, 3), (59, 14)] {
        Stage::with_sessions(columns, lines).screen();
        Stage::with_journal(columns, lines, EDGES).screen();
    }
}

#[test]
fn the_daemon_that_is_away_is_told_in_one_line() {
    let mut stage = Stage::with_sessions(120, 30);
    stage.shows("live");
    stage.update(crate::data::Update::Lost);
    stage.wait(3_000);
    stage.shows("reconnecting, 3s");
    stage.update(crate::data::Update::Connected);
    stage.shows("live");
    stage.shows("nothing was missed");
}

#[test]
fn the_palette_finds_every_action_and_shows_its_key() {
    let mut stage = Stage::with_sessions(120, 40);
    stage.press(":");
    stage.type_text("new ses");
    let screen = stage.screen();
    assert!(screen.contains("new session") && screen.contains(" N"), "{screen}");
    stage.press("enter");
    stage.shows("campaign");
    let mut stage = Stage::with_sessions(120, 40);
    stage.press("ctrl+k");
    stage.type_text("migrate");
    stage.press("enter");
    assert_eq!(stage.app.open.as_ref().unwrap().id, "sess_migrate-db");
}

#[test]
fn help_lists_the_keys_of_the_pane() {
    let mut stage = Stage::with_sessions(120, 60);
    stage.press("?");
    stage.shows("show or hide ended and archived sessions");
    stage.shows("new session");
    stage.press("esc");
    stage.shows_not("show or hide ended and archived sessions");
}

#[test]
fn a_filter_narrows_the_list() {
    let mut stage = Stage::with_sessions(120, 40);
    stage.press("f");
    stage.type_text("migr");
    stage.press("enter");
    stage.shows("migrate-db");
    stage.shows_not("fixer");
    stage.press("esc");
    stage.shows("fixer");
}

#[test]
fn idle_sessions_are_shown_where_there_are_no_others() {
    let mut stage = Stage::new(120, 32);
    stage.update(Update::Connected);
    stage.overview(vec![summary("parked", SummaryState::Idle, 60)]);
    stage.shows("parked");
    let both = || vec![summary("parked", SummaryState::Idle, 60), summary("busy", SummaryState::Working, 60)];
    let mut other = Stage::new(120, 32);
    other.update(Update::Connected);
    other.overview(both());
    other.shows("busy");
    other.shows_not("parked");
    other.shows("IDLE 1");
    // One that was opened does not vanish under the eyes.
    stage.press("enter");
    stage.overview(both());
    stage.wait(2_000);
    stage.shows("busy");
    stage.shows("parked");
}

//! What reaches the terminal, byte by byte: nothing of an agent's output is interpreted, and nothing is written when
//! nothing changed.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use domain::EventKind;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;

use super::stage::Stage;
use crate::draw;

/// Everything that was written.
#[derive(Clone, Default)]
struct Written(Rc<RefCell<Vec<u8>>>);

impl io::Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn drawn(stage: &mut Stage, terminal: &mut Terminal<CrosstermBackend<Written>>) {
    let app = &mut stage.app;
    terminal.draw(|frame| draw::draw(app, frame)).unwrap();
}

fn terminal(written: &Written) -> Terminal<CrosstermBackend<Written>> {
    let area = ratatui::layout::Rect::new(0, 0, 100, 30);
    let options = ratatui::TerminalOptions { viewport: ratatui::Viewport::Fixed(area) };
    Terminal::with_options(CrosstermBackend::new(written.clone()), options).unwrap()
}

fn emulator() -> vt100::Parser {
    let (lines, columns) = (std::num::NonZero::new(30).unwrap(), std::num::NonZero::new(100).unwrap());
    vt100::Parser::new(lines, columns, 0)
}

const HOSTILE: &str = "before \u{1b}[2J\u{1b}[31mred\u{1b}]0;owned\u{7} \u{1b}]52;c;eA==\u{7}\u{7}\u{8}\r\u{9b}5A\u{202e}evil \u{1b}P+q\u{1b}\\ after";

#[test]
fn nothing_of_an_agents_output_is_interpreted_by_the_terminal() {
    let mut stage = Stage::with_journal(100, 30, "");
    stage.events(vec![
        EventKind::TurnStarted {
            turn: domain::TurnId(1),
            origin: domain::turn::TurnOrigin::Client,
            prompt: HOSTILE.to_owned(),
            attachments: Vec::new(),
            by: HOSTILE.to_owned(),
        },
        EventKind::TextDelta { text: HOSTILE.to_owned(), parent: None },
        EventKind::ThinkingDelta { text: HOSTILE.to_owned(), parent: None },
        EventKind::ToolStarted {
            call: domain::CallId::new("c"),
            tool: HOSTILE.to_owned(),
            input: serde_json::json!({"command": HOSTILE}),
            title: HOSTILE.to_owned(),
            parent: None,
        },
        EventKind::ToolFinished {
            call: domain::CallId::new("c"),
            tool: HOSTILE.to_owned(),
            ok: false,
            output: HOSTILE.to_owned(),
        },
        EventKind::Notice { level: domain::event::Level::Error, code: None, message: HOSTILE.to_owned() },
    ]);
    stage.press("z");
    let written = Written::default();
    let mut terminal = terminal(&written);
    drawn(&mut stage, &mut terminal);
    let bytes = written.0.borrow().clone();
    let text = String::from_utf8(bytes.clone()).unwrap();
    for forbidden in ["\u{7}", "\u{8}", "\u{9b}", "\u{202e}", "\u{1b}]", "\u{1b}P", "[2J", "eA=="] {
        assert!(!text.contains(forbidden), "{forbidden:?} was written");
    }
    let mut parser = emulator();
    parser.process(&bytes);
    let shown = parser.screen().contents();
    assert!(shown.contains("before") && shown.contains("after"), "{shown}");
}

#[test]
fn nothing_is_written_when_nothing_changed() {
    let mut stage = Stage::with_journal(100, 30, super::stage::CONVERSATION);
    let written = Written::default();
    let mut terminal = terminal(&written);
    drawn(&mut stage, &mut terminal);
    let first = written.0.borrow().len();
    drawn(&mut stage, &mut terminal);
    let second = written.0.borrow().len() - first;
    assert!(first > 1_000 && second < 64, "{first} bytes and then {second}");
    // The loop does not even draw when no time passed and nothing came.
    assert!(!stage.app.tick(stage.app.now));
}

#[test]
fn the_screen_a_terminal_shows_is_the_one_that_was_drawn() {
    let mut stage = Stage::with_journal(100, 30, super::stage::EDGES);
    let written = Written::default();
    let mut terminal = terminal(&written);
    let mut parser = emulator();
    for key in ["g", "pagedown", "z", "pagedown", "G", "tab", "?", "esc", "1", "j", "enter"] {
        stage.press(key);
        drawn(&mut stage, &mut terminal);
    }
    parser.process(&written.0.borrow());
    let expected = stage.screen();
    let expected: Vec<&str> = expected.lines().map(str::trim_end).collect();
    let shown: Vec<String> = parser.screen().rows(0, 100).map(|row| row.trim_end().to_owned()).collect();
    assert_eq!(shown, expected);
}

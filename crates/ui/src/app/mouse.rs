//! The mouse: the wheel scrolls what is under it, a click selects, folds, presses a card's button or gives the keys.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use ratatui::layout::Position;

use super::{App, Focus};

/// Lines that one notch of the wheel scrolls.
const WHEEL_LINES: isize = 3;

impl App {
    /// Handles an event of the mouse.
    pub(crate) fn mouse(&mut self, event: &MouseEvent) {
        self.handle_mouse(event);
        self.look_closer();
    }

    fn handle_mouse(&mut self, event: &MouseEvent) {
        self.last_input = self.now;
        let at = Position::new(event.column, event.row);
        match event.kind {
            MouseEventKind::ScrollDown | MouseEventKind::ScrollUp => {
                let step = if event.kind == MouseEventKind::ScrollDown { 1 } else { -1 };
                if self.areas.list.contains(at) {
                    self.move_selection(step);
                } else {
                    self.with_pane(|pane, look| pane.scroll(step * WHEEL_LINES, look));
                    self.read_older();
                }
            }
            MouseEventKind::Down(MouseButton::Left) if self.dialog.is_none() => self.click(at),
            _ => {}
        }
    }

    fn click(&mut self, at: Position) {
        if self.areas.card.contains(at) {
            self.focus = Focus::Card;
            let button = self
                .areas
                .buttons
                .iter()
                .find(|(line, from, to, _)| *line == at.y && (*from..=*to).contains(&at.x));
            if let Some((.., key)) = button {
                let event = KeyEvent::new(KeyCode::Char(*key), KeyModifiers::NONE);
                self.card_key(&event);
            }
        } else if self.areas.message.contains(at) {
            self.focus = Focus::Message;
        } else if self.areas.list.contains(at) {
            self.focus = Focus::List;
            if let Some((_, entry)) = self.areas.entries.iter().find(|(line, _)| *line == at.y) {
                self.selected = *entry;
                self.open_selected();
            }
        } else if self.areas.transcript.contains(at) {
            self.focus = Focus::Transcript;
            let row = self.areas.rows.iter().find(|(line, _)| *line == at.y).map(|(_, key)| *key);
            if let Some(key) = row {
                self.with_pane(|pane, _| pane.toggle_key(key));
            }
        }
    }
}

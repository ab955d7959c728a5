//! Text that is not complete yet, shown in place until it is written. Knows nothing of where it comes from.

use unicode_width::UnicodeWidthChar as _;

use super::{Output, TextStyle, clean, terminal_width};
use crate::limits;
use crate::markdown::StyledLine;
use config::failure::Failure;

impl Output {
    /// Shows text that is not complete yet, in place until it is written: above the prompt line, or as the status line.
    pub fn unfinished(&mut self, lines: &[StyledLine]) -> Result<(), Failure> {
        if !self.out.terminal || self.quiet || self.json {
            return Ok(());
        }
        let Some(prompt) = &self.prompt else {
            let Some(last) = lines.last() else { return self.hide_status() };
            let text: String = last.iter().map(|(_, text)| text.as_str()).collect();
            return self.status_in(TextStyle::Plain, &text);
        };
        let columns = terminal_width().unwrap_or_else(|| self.width());
        let from = lines.len().saturating_sub(limits::UNFINISHED_ROWS_MAX);
        let shown = lines[from..].iter().map(|line| self.row(line, columns.saturating_sub(1)));
        prompt.set_unfinished(shown.collect());
        Ok(())
    }

    /// A rendered line that takes one row.
    fn row(&self, line: &StyledLine, columns: usize) -> String {
        let (mut row, mut room) = (String::new(), columns);
        for (style, text) in line {
            let fits = |c: &char| {
                let width = c.width().unwrap_or_default();
                room.checked_sub(width).map(|rest| room = rest).is_some()
            };
            let text: String = clean(text).replace('\t', "    ").chars().take_while(fits).collect();
            match self.out.color && *style != TextStyle::Plain {
                true => row.push_str(&format!("{}{text}\x1b[0m", style.code())),
                false => row.push_str(&text),
            }
        }
        row
    }
}

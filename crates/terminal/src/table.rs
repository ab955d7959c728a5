//! Aligned tables and lists of named values for people. Pure: returns lines, prints nothing.

use client::format::{padded, shorten, width};

/// Spaces between columns.
const GAP: usize = 2;
/// Minimum width of a column that is cut to fit the terminal.
const COLUMN_MIN: usize = 8;

/// Rows below a heading. The last column takes the remaining width.
#[derive(Debug)]
pub struct Table {
    heading: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new(heading: &[&str]) -> Self {
        Self { heading: heading.iter().map(|title| (*title).to_owned()).collect(), rows: Vec::new() }
    }

    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// Returns the heading and the rows as lines. No line is longer than `columns` if given: the widest columns behind the first one are
    /// cut, which is what identifies a row.
    pub fn lines(&self, columns: Option<usize>) -> Vec<String> {
        let mut widths = self.widths();
        if let Some(columns) = columns {
            fit(&mut widths, columns);
        }
        std::iter::once(&self.heading).chain(&self.rows).map(|row| line(row, &widths, columns)).collect()
    }

    fn widths(&self) -> Vec<usize> {
        let mut widths = vec![0; self.heading.len()];
        for row in std::iter::once(&self.heading).chain(&self.rows) {
            for (column, cell) in widths.iter_mut().zip(row) {
                *column = (*column).max(width(cell));
            }
        }
        widths
    }
}

/// Makes columns narrower, the widest first, until a row fits or none can give way.
fn fit(widths: &mut [usize], columns: usize) {
    loop {
        let used = widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1);
        let widest = widths.iter_mut().skip(1).max().filter(|widest| **widest > COLUMN_MIN);
        match widest {
            Some(widest) if used > columns => *widest -= 1,
            _ => return,
        }
    }
}

/// Formats a row; what does not fit is cut.
fn line(row: &[String], widths: &[usize], columns: Option<usize>) -> String {
    let mut text = String::new();
    let last = row.len().saturating_sub(1);
    for (index, (cell, width)) in row.iter().zip(widths).enumerate() {
        let cell = if columns.is_some() { shorten(cell, *width) } else { cell.clone() };
        if index < last {
            text.push_str(&padded(&cell, width + GAP));
        } else {
            text.push_str(&cell);
        }
    }
    text.truncate(text.trim_end().len());
    match columns {
        Some(columns) => shorten(&text, columns.max(COLUMN_MIN)),
        None => text,
    }
}

/// Returns `Name:  value` lines with aligned values; empty values are left out.
pub fn named(pairs: &[(&str, String)]) -> Vec<String> {
    let shown = || pairs.iter().filter(|(_, value)| !value.is_empty());
    let width = shown().map(|(name, _)| name.chars().count()).max().unwrap_or(0) + 1;
    shown().map(|(name, value)| format!("{:<width$} {value}", format!("{name}:"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_below_each_other() {
        let mut table = Table::new(&["ID", "NAME", "FOLDER"]);
        table.row(vec!["1".into(), "long name".into(), "/a".into()]);
        table.row(vec!["22".into(), "ü".into(), String::new()]);
        assert_eq!(table.lines(None), ["ID  NAME       FOLDER", "1   long name  /a", "22  ü"]);
    }

    #[test]
    fn the_last_column_is_cut_to_the_terminal() {
        let mut table = Table::new(&["A", "B"]);
        table.row(vec!["1".into(), "0123456789abcdef".into()]);
        assert_eq!(table.lines(Some(13))[1], "1  012345678…");
    }

    #[test]
    fn no_line_is_wider_than_the_terminal_and_the_first_column_stays() {
        let mut table = Table::new(&["NAME", "PROVIDER", "CAN", "WHERE"]);
        let can = "outlives the daemon, resume, attachments";
        table.row(vec!["claude-agent-acp".into(), "acp".into(), can.into(), "/usr/local/bin/claude".into()]);
        table.row(vec!["名前".into(), "🦀".into(), "-".into(), "-".into()]);
        for columns in [80, 60, 40, 20] {
            let lines = table.lines(Some(columns));
            assert!(lines.iter().all(|line| width(line) <= columns), "{columns}: {lines:#?}");
            assert!(lines[1].starts_with("claude-agent-acp"), "{columns}: {lines:#?}");
        }
        let lines = table.lines(None);
        assert!(lines[1].starts_with("claude-agent-acp  acp       outlives"), "{lines:#?}");
        assert!(lines[2].starts_with(&format!("名前{}🦀", " ".repeat(14))), "{lines:#?}");
    }

    #[test]
    fn named_values_leave_out_what_is_empty() {
        assert_eq!(
            named(&[("Session", "s".into()), ("Error", String::new()), ("Name", "n".into())]),
            ["Session: s", "Name:    n"]
        );
    }
}

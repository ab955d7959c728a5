//! Aligned tables and lists of named values for people. Pure: returns lines, prints nothing.

use client::format::shorten;

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

    /// Returns the heading and the rows as lines, cut to `columns` if given.
    pub fn lines(&self, columns: Option<usize>) -> Vec<String> {
        let widths = self.widths();
        std::iter::once(&self.heading).chain(&self.rows).map(|row| line(row, &widths, columns)).collect()
    }

    fn widths(&self) -> Vec<usize> {
        let mut widths = vec![0; self.heading.len()];
        for row in std::iter::once(&self.heading).chain(&self.rows) {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        widths
    }
}

/// Formats a row; its last cell is cut to the terminal's width.
fn line(row: &[String], widths: &[usize], columns: Option<usize>) -> String {
    let mut text = String::new();
    let last = row.len().saturating_sub(1);
    for (index, (cell, width)) in row.iter().zip(widths).enumerate() {
        if index < last {
            text.push_str(&format!("{cell:<width$}{:GAP$}", ""));
            continue;
        }
        match columns {
            Some(columns) => {
                text.push_str(&shorten(cell, columns.saturating_sub(text.chars().count()).max(COLUMN_MIN)))
            }
            None => text.push_str(cell),
        }
    }
    text.truncate(text.trim_end().len());
    text
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
    fn named_values_leave_out_what_is_empty() {
        assert_eq!(
            named(&[("Session", "s".into()), ("Error", String::new()), ("Name", "n".into())]),
            ["Session: s", "Name:    n"]
        );
    }
}

//! The end of a job's log: bounded while it is read, then made plain, scrubbed and cut. Pure.

use std::collections::VecDeque;

use domain::Error;
use scrub::Scrubber;

use crate::limits::{LOG_DEFAULT_BYTES, LOG_MARGIN_BYTES, LOG_MAX_BYTES};
use crate::types::{JobLog, LogQuery};

/// Keeps the end of what is read.
pub(crate) struct LogTail {
    kept: VecDeque<u8>,
    total: u64,
    max_bytes: usize,
    tail_lines: usize,
}

impl LogTail {
    /// Checks what a caller asks for.
    pub(crate) fn new(query: &LogQuery) -> Result<Self, Error> {
        if query.max_bytes > LOG_MAX_BYTES {
            return Err(Error::invalid("max_bytes", format_args!("must be at most {LOG_MAX_BYTES}")));
        }
        let max = if query.max_bytes == 0 { LOG_DEFAULT_BYTES } else { query.max_bytes };
        Ok(Self {
            kept: VecDeque::new(),
            total: 0,
            max_bytes: max as usize,
            tail_lines: query.tail_lines as usize,
        })
    }

    /// Takes the next piece.
    pub(crate) fn push(&mut self, piece: &[u8]) {
        self.total += piece.len() as u64;
        let room = self.max_bytes + LOG_MARGIN_BYTES;
        let piece = &piece[piece.len().saturating_sub(room)..];
        let over = (self.kept.len() + piece.len()).saturating_sub(room);
        self.kept.drain(..over);
        self.kept.extend(piece);
    }

    /// Returns the end of the log.
    pub(crate) fn finish(self, scrubber: &Scrubber) -> JobLog {
        let bytes = Vec::from(self.kept);
        let is_cut = bytes.len() as u64 != self.total;
        let text = scrubber.scrub_text(&plain(&String::from_utf8_lossy(&bytes)));
        let mut from = text.len().saturating_sub(self.max_bytes);
        // The first line is whole, unless there is only one.
        if from > 0 || is_cut {
            from = text[ceil(&text, from)..].find('\n').map_or(from, |end| ceil(&text, from) + end + 1);
        }
        if self.tail_lines > 0 {
            let body = text.strip_suffix('\n').unwrap_or(&text);
            let starts = body.rmatch_indices('\n').nth(self.tail_lines - 1).map_or(0, |(at, _)| at + 1);
            from = from.max(starts);
        }
        let from = ceil(&text, from);
        JobLog { text: text[from..].to_owned(), truncated: is_cut || from > 0, total_bytes: self.total }
    }
}

/// Returns the next boundary of a letter.
fn ceil(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at += 1;
    }
    at
}

/// Makes a log plain: without escape sequences, without what a line overwrites (progress bars, and the markers of
/// sections, which GitLab writes so), without other control characters.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let (line, end) = line.strip_suffix('\n').map_or((line, ""), |line| (line, "\n"));
        let line = line.trim_end_matches('\r');
        let line = line.rsplit('\r').next().unwrap_or(line);
        without_escapes(line, &mut out);
        out.push_str(end);
    }
    out
}

fn without_escapes(line: &str, out: &mut String) {
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        if letter != '\u{1b}' {
            if !letter.is_control() || letter == '\t' {
                out.push(letter);
            }
            continue;
        }
        match letters.next() {
            // A control sequence ends with a letter or one of a few signs.
            Some('[') => {
                for letter in letters.by_ref() {
                    if ('@'..='~').contains(&letter) {
                        break;
                    }
                }
            }
            // A command of the operating system ends with a bell, or with an escape and a backslash.
            Some(']') => {
                while let Some(letter) = letters.next() {
                    if letter == '\u{7}' || (letter == '\u{1b}' && letters.next_if_eq(&'\\').is_some()) {
                        break;
                    }
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(text: &str, tail_lines: u32, max_bytes: u32) -> JobLog {
        let mut tail = LogTail::new(&LogQuery { job: 1, tail_lines, max_bytes }).unwrap();
        for piece in text.as_bytes().chunks(1000) {
            tail.push(piece);
        }
        tail.finish(&Scrubber::new(&scrub::Config::new()).unwrap())
    }

    #[test]
    fn a_log_is_plain_text() {
        let raw = "\u{1b}[0KRunning\r\nsection_start:1:build\r\u{1b}[0K\u{1b}[36;1mBuild\u{1b}[0;m\n10%\r50%\r100%\n\u{1b}]0;title\u{7}end\n";
        let log = log(raw, 0, 0);
        assert_eq!(log.text, "Running\nBuild\n100%\nend\n");
        assert!(!log.truncated && log.total_bytes == raw.len() as u64);
    }

    #[test]
    fn only_the_end_of_a_long_log_is_kept() {
        let text: String = (0..100_000).map(|line| format!("line {line}\n")).collect();
        let tail = log(&text, 3, 0);
        assert_eq!(tail.text, "line 99997\nline 99998\nline 99999\n");
        assert!(tail.truncated && tail.total_bytes == text.len() as u64);
        let end = log(&text, 0, 64);
        assert!(end.text.len() <= 64 && end.text.starts_with("line 9999"), "{}", end.text);
        assert!(log("ä", 0, 1).text.len() <= 2);
        assert!(LogTail::new(&LogQuery { max_bytes: LOG_MAX_BYTES + 1, ..Default::default() }).is_err());
    }

    #[test]
    fn a_secret_at_the_cut_is_removed_with_the_rest() {
        let secret = ["glpat-", "Zx9Qw", "8Er7T", "y6Ui5", "Op4As"].concat();
        let text = format!("{}\nexport GITLAB_TOKEN={secret}\n{}", "x".repeat(70_000), "y".repeat(40));
        // The cut is in the middle of the secret.
        let tail = log(&text, 0, 50);
        assert!(!tail.text.contains("Ty6Ui5Op4As"), "{}", tail.text);
        let whole = log(&text, 0, 0);
        assert!(!whole.text.contains(&secret) && whole.text.contains("export"), "{}", &whole.text[69_990..]);
    }
}

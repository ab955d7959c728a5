//! Private keys in armour (`-----BEGIN … PRIVATE KEY-----`): from their first line to their last, over many lines,
//! with prefixes before each of them or all on one line with `\n` in between; cut off in the middle, too.

use memchr::memmem;

use crate::limits;

/// What the text after a `-----BEGIN` turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// More text is needed.
    Wait,
    NotAKey,
    /// A key of so many bytes; `open` if it goes on behind what may be looked at.
    Key {
        len: usize,
        open: bool,
    },
}

const BEGIN: &[u8] = b"-----BEGIN";
const END: &[u8] = b"-----END";
const DASHES: &[u8] = b"-----";

/// Longest first or last line between its dashes.
const LABEL_MAX: usize = 80;

/// Where the key itself must start after its first line, and how long its first unbroken piece is at least. Texts
/// about keys name both lines without a key in between.
const BODY_BEFORE: usize = 512;
const BODY_RUN_MIN: usize = 32;

/// What counts as a piece of a key on later lines.
const LINE_RUN_MIN: usize = 16;

/// Tells whether a byte belongs to the body of a key.
pub(crate) fn is_body(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=')
}

/// Judges a text that starts with `-----BEGIN`; `ended` if no more of it will come.
pub(crate) fn judge(text: &[u8], ended: bool) -> Verdict {
    let ended = ended || text.len() >= limits::SCRUB_PEM_MAX;
    let text = &text[..text.len().min(limits::SCRUB_PEM_MAX)];
    let wait_or = |verdict| if ended { verdict } else { Verdict::Wait };
    let Some(body) = label_end(text, BEGIN.len()) else {
        return if text.len() > BEGIN.len() + LABEL_MAX {
            Verdict::NotAKey
        } else {
            wait_or(Verdict::NotAKey)
        };
    };
    if !is_private(&text[BEGIN.len()..body]) {
        return Verdict::NotAKey;
    }
    let last = last_line(text, body);
    let end = if let Last::At { start, .. } = last { start } else { text.len() };
    let near = end.min(body + BODY_BEFORE + BODY_RUN_MIN);
    if longest_run(&text[body..near]) < BODY_RUN_MIN {
        let decided = end < text.len() || near == body + BODY_BEFORE + BODY_RUN_MIN;
        return if decided { Verdict::NotAKey } else { wait_or(Verdict::NotAKey) };
    }
    match last {
        // A key that was cut off may stand before one that was not.
        Last::At { start, .. } if memmem::find(&text[body..start], BEGIN).is_some() => cut_off(text, body),
        Last::At { len, .. } => Verdict::Key { len, open: false },
        Last::None => wait_or(cut_off(text, body)),
    }
}

/// The last line of a key.
#[derive(Clone, Copy)]
enum Last {
    /// It starts here, and the key is so long.
    At { start: usize, len: usize },
    /// There is none, or none that is whole.
    None,
}

/// Finds the last line. Dashes without a label behind them are none: otherwise it would depend on how much of the text is
/// there what a key without an end is.
fn last_line(text: &[u8], body: usize) -> Last {
    let mut from = body;
    while let Some(start) = memmem::find(&text[from..], END).map(|at| from + at) {
        match label_end(text, start + END.len()) {
            Some(len) => return Last::At { start, len },
            None => from = start + END.len(),
        }
    }
    Last::None
}

/// Returns where the dashes behind a label end.
fn label_end(text: &[u8], from: usize) -> Option<usize> {
    let near = &text[from.min(text.len())..text.len().min(from + LABEL_MAX)];
    memmem::find(near, DASHES).map(|at| from + at + DASHES.len())
}

fn is_private(label: &[u8]) -> bool {
    let label = label.to_ascii_uppercase();
    !label.contains(&b'\n')
        && [&b"PRIVATE KEY"[..], b"OPENVPN STATIC KEY", b"SECRET KEY"]
            .iter()
            .any(|words| memmem::find(&label, words).is_some())
}

fn longest_run(text: &[u8]) -> usize {
    text.split(|&byte| !is_body(byte)).map(<[u8]>::len).max().unwrap_or(0)
}

/// A key without an end: as far as its lines look like one.
fn cut_off(text: &[u8], body: usize) -> Verdict {
    let mut len = body;
    let mut line_start = body;
    let mut seen = false;
    for line in text[body..].split_inclusive(|&byte| byte == b'\n') {
        let trimmed = line.trim_ascii();
        let run_end = last_run_end(line, LINE_RUN_MIN);
        if memmem::find(line, BEGIN).is_some() {
            return Verdict::Key { len, open: false };
        } else if let Some(end) = run_end {
            len = line_start + end;
            seen = true;
        } else if trimmed.len() >= 4 && seen && trimmed.iter().all(|&byte| is_body(byte)) {
            len = line_start + line.len();
        } else if seen && !trimmed.is_empty() {
            return Verdict::Key { len, open: false };
        }
        line_start += line.len();
    }
    Verdict::Key { len, open: len == text.len() }
}

/// Returns the end of the last unbroken piece of at least `min` bytes.
fn last_run_end(line: &[u8], min: usize) -> Option<usize> {
    let mut run = 0;
    let mut end = None;
    for (at, &byte) in line.iter().enumerate() {
        run = if is_body(byte) { run + 1 } else { 0 };
        if run >= min {
            end = Some(at + 1);
        }
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(lines: usize) -> String {
        (0..lines).map(|line| format!("MIIEvQ{line:058}\n")).collect()
    }

    fn key(lines: usize) -> String {
        format!("-----BEGIN RSA PRIVATE KEY-----\n{}abc=\n-----END RSA PRIVATE KEY-----", body(lines))
    }

    #[test]
    fn a_key_reaches_from_its_first_line_to_its_last() {
        let key = key(25);
        let text = format!("{key}\nafter");
        assert_eq!(judge(text.as_bytes(), true), Verdict::Key { len: key.len(), open: false });
        for cut in 0..key.len() {
            assert_eq!(judge(&text.as_bytes()[..cut], false), Verdict::Wait, "at {cut}");
        }
        let escaped = key.replace('\n', "\\n");
        assert_eq!(judge(escaped.as_bytes(), true), Verdict::Key { len: escaped.len(), open: false });
    }

    #[test]
    fn texts_about_keys_are_no_keys() {
        for text in [
            "-----BEGIN CERTIFICATE-----\nMIIEvQMIIEvQMIIEvQMIIEvQMIIEvQMIIEvQMIIEvQMIIEvQ",
            "-----BEGIN PUBLIC KEY-----\nMIIEvQMIIEvQMIIEvQMIIEvQMIIEvQMIIEvQMIIEvQMIIEvQ",
            "-----BEGIN PRIVATE KEY-----\" and ends with \"-----END PRIVATE KEY-----\" as usual",
            "-----BEGIN a very long line without any dashes that just goes on and on and on and on and on and on",
        ] {
            assert_eq!(judge(text.as_bytes(), true), Verdict::NotAKey, "{text}");
        }
        let prose = format!("-----BEGIN PRIVATE KEY-----{}", " some words".repeat(100));
        assert_eq!(judge(prose.as_bytes(), false), Verdict::NotAKey);
    }

    #[test]
    fn a_key_cut_off_ends_where_its_lines_end() {
        let start = "-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\n";
        let text = format!("{start}{}$ echo done\n", body(3));
        let len = start.len() + body(3).len() - 1;
        assert_eq!(judge(text.as_bytes(), true), Verdict::Key { len, open: false });
        let twice = format!("{start}{}{}", body(3), key(3));
        assert_eq!(judge(twice.as_bytes(), true), Verdict::Key { len, open: false });
        let endless = format!("{start}{}", "A".repeat(limits::SCRUB_PEM_MAX));
        assert_eq!(judge(endless.as_bytes(), false), Verdict::Key { len: limits::SCRUB_PEM_MAX, open: true });
    }
}

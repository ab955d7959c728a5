//! Shortens and cleans text that agents and people wrote. Pure.

use domain::AgentEvent;
use domain::limits::UNPARSED_MAX_BYTES;

/// Returns the text on one line, without control characters, at most `max` characters long.
pub fn one_line(text: &str, max: usize) -> String {
    let mut line = String::new();
    let mut letters = 0;
    for word in text.split(|letter: char| letter.is_whitespace() || letter.is_control()) {
        if word.is_empty() {
            continue;
        }
        let gap = usize::from(!line.is_empty());
        let length = word.chars().count();
        if letters + gap + length > max {
            let room = max.saturating_sub(letters + gap + 1);
            if gap == 1 && room > 0 {
                line.push(' ');
            }
            line.extend(word.chars().take(room));
            line.push('…');
            return line;
        }
        if gap == 1 {
            line.push(' ');
        }
        line.push_str(word);
        letters += gap + length;
    }
    line
}

/// Returns the text, at most `max` characters long, with its lines.
pub fn cut(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Returns the event for a line that could not be parsed, cut to its limit.
pub fn unparsed(line: &[u8]) -> AgentEvent {
    if line.len() <= UNPARSED_MAX_BYTES {
        return AgentEvent::Unparsed { raw: String::from_utf8_lossy(line).into_owned(), length: None };
    }
    let mut end = UNPARSED_MAX_BYTES;
    // Not in the middle of a character: its first byte is at most three bytes before.
    while end > UNPARSED_MAX_BYTES - 3 && line[end] & 0b1100_0000 == 0b1000_0000 {
        end -= 1;
    }
    AgentEvent::Unparsed {
        raw: String::from_utf8_lossy(&line[..end]).into_owned(),
        length: Some(line.len() as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_joins_and_cuts() {
        assert_eq!(one_line("  a\n\tb\u{1b}[0m c ", 50), "a b [0m c");
        assert_eq!(one_line("abcdef", 4), "abc…");
        assert_eq!(one_line("ab cdef", 5), "ab c…");
        assert_eq!(one_line("ab cd", 5), "ab cd");
        assert_eq!(one_line("", 5), "");
    }

    #[test]
    fn a_long_line_is_cut_between_characters() {
        let line = "é".repeat(UNPARSED_MAX_BYTES);
        let AgentEvent::Unparsed { raw, length } = unparsed(format!("x{line}").as_bytes()) else { panic!() };
        assert!(raw.len() <= UNPARSED_MAX_BYTES && raw.ends_with('é'));
        assert_eq!(length, Some(1 + line.len() as u64));
        assert!(matches!(unparsed(b"\xff{"), AgentEvent::Unparsed { length: None, .. }));
    }
}

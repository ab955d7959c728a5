//! Cutting and joining text by characters, the unit that Rust and TypeScript count alike.

/// Returns the first characters of a text, and an ellipsis if some are missing.
pub(crate) fn head(text: &str, max: usize) -> String {
    if text.len() <= max {
        return text.to_owned();
    }
    match text.char_indices().nth(max) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

/// Returns the last characters of a text, and how many were left out.
pub(crate) fn tail(text: &str, max: usize) -> (String, u64) {
    if text.len() <= max {
        return (text.to_owned(), 0);
    }
    let count = text.chars().count();
    let omitted = count.saturating_sub(max);
    (text.chars().skip(omitted).collect(), omitted as u64)
}

/// Replaces every line break, with the white space around it, by one space.
pub(crate) fn one_line(text: &str) -> String {
    let lines = text.split(['\n', '\r']).map(trim).filter(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join(" ")
}

/// Removes spaces, tabs and line breaks at both ends.
pub(crate) fn trim(text: &str) -> &str {
    text.trim_matches([' ', '\t', '\n', '\r'])
}

/// Returns the lines of a text; a line break at the end begins no line.
pub(crate) fn lines(text: &str) -> Vec<&str> {
    let text = text.strip_suffix('\n').unwrap_or(text);
    if text.is_empty() { Vec::new() } else { text.split('\n').collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_by_characters() {
        assert_eq!(head("äöü", 2), "äö…");
        assert_eq!(head("äöü", 3), "äöü");
        assert_eq!(tail("äöü", 2), ("öü".to_owned(), 1));
        assert_eq!(tail("äöü", 3), ("äöü".to_owned(), 0));
    }

    #[test]
    fn lines_are_joined_and_split() {
        assert_eq!(one_line(" a \r\n\n  b\t"), "a b");
        assert_eq!(lines("a\n\nb\n"), ["a", "", "b"]);
        assert_eq!(lines(""), Vec::<&str>::new());
    }
}

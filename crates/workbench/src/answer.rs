//! Answers in tiers: a summary, a preview, a ref to the rest; and the number of tokens they cost. Everything
//! here is made of scrubbed text. Knows neither commands nor files.

mod capture;
mod tokens;

pub use capture::{Capture, Captured, OutputWatcher};
pub use tokens::estimate;

use crate::limits;

/// Cuts a text to a preview: its first characters, never part of a character or of a redaction's name.
pub fn preview(text: &str) -> String {
    let Some((end, _)) = text.char_indices().nth(limits::PREVIEW_CHARS) else { return text.to_owned() };
    let cut = &text[..end];
    match cut.rfind("[REDACTED:") {
        Some(start) if !cut[start..].contains(']') => cut[..start].to_owned(),
        _ => cut.to_owned(),
    }
}

/// Shows a command in a summary: a short one as it is, a long one by its first word.
pub fn command_shown(command: &str) -> String {
    let line = command.trim();
    if line.chars().count() <= limits::SUMMARY_COMMAND_CHARS && !line.contains('\n') {
        return line.to_owned();
    }
    let first = line.split_whitespace().next().unwrap_or_default();
    first.chars().take(limits::SUMMARY_COMMAND_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn previews_end_at_whole_characters_and_whole_names() {
        assert_eq!(preview("short"), "short");
        let long = "é".repeat(600);
        assert_eq!(preview(&long).chars().count(), 500);
        let cut_in_name = format!("{}[REDACTED:github-pat] and more", "x".repeat(490));
        assert_eq!(preview(&cut_in_name), "x".repeat(490));
        let name_before = format!("[REDACTED:github-pat]{}", "x".repeat(600));
        assert_eq!(preview(&name_before).chars().count(), 500);
    }

    #[test]
    fn long_commands_are_shown_by_their_first_word() {
        assert_eq!(command_shown(" ls -la /tmp "), "ls -la /tmp");
        assert_eq!(command_shown(&format!("find {}", "/x ".repeat(50))), "find");
        assert_eq!(command_shown("cat <<E\nx\nE"), "cat");
    }
}

//! Finds the most similar word, for suggestions. Used for configuration keys and names.

/// Returns the candidate closest to a word, unless even that one is too different.
pub(crate) fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let best = candidates.into_iter().map(|candidate| (distance(word, candidate), candidate)).min()?;
    // Half the word may differ, as in `timeout` for `timeout_secs`; beyond that a suggestion misleads.
    (best.0 <= word.chars().count().max(best.1.chars().count()) / 2).then_some(best.1)
}

/// Levenshtein distance, one row at a time.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (line, a) in left.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], line + 1);
        for (column, b) in right.iter().enumerate() {
            let replaced = diagonal + usize::from(a != *b);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(row[column] + 1).min(diagonal + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_slips_are_recognised() {
        assert_eq!(nearest("claud-code", ["claude-code", "codex"]), Some("claude-code"));
        assert_eq!(nearest("kodex", ["claude-code", "codex"]), Some("codex"));
    }

    #[test]
    fn a_far_word_is_not_guessed() {
        assert_eq!(nearest("gemini", ["claude-code", "acp"]), None);
    }
}

//! Finds the most similar word, for suggestions. Used for configuration keys and names.

/// Returns the end of a sentence that suggests the candidate closest to a word; empty if none is close.
pub fn suggestion<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    nearest(word, candidates).map_or_else(String::new, |near| format!("; did you mean {near}?"))
}

/// Returns the candidate closest to a word, unless even that one is too different.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let best = candidates.into_iter().map(|candidate| (distance(word, candidate), candidate)).min()?;
    let (word_length, length) = (word.chars().count(), best.1.chars().count());
    let is_begun = word_length >= BEGUN_MIN_CHARS && best.1.starts_with(word);
    // A third of the longer word may differ; beyond that a suggestion misleads. The begun word may lack half, as `timeout`
    // for `timeout_secs`.
    let allowed = word_length.max(length) / if is_begun { 2 } else { 3 };
    (best.0 <= allowed.max(1)).then_some(best.1)
}

/// From how many characters on a word is taken for the beginning of a longer one.
const BEGUN_MIN_CHARS: usize = 3;

/// Counts the characters to insert, drop, replace or swap to turn one word into the other.
fn distance(left: &str, right: &str) -> usize {
    let (left, right): (Vec<char>, Vec<char>) = (left.chars().collect(), right.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=right.len()).collect();
    for i in 1..=left.len() {
        let mut row = vec![i; right.len() + 1];
        for j in 1..=right.len() {
            let replaced = last[j - 1] + usize::from(left[i - 1] != right[j - 1]);
            row[j] = replaced.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && left[i - 1] == right[j - 2] && left[i - 2] == right[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut last, row);
    }
    last[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_slips_are_recognised() {
        assert_eq!(nearest("claud-code", ["claude-code", "codex"]), Some("claude-code"));
        assert_eq!(nearest("kodex", ["claude-code", "codex"]), Some("codex"));
        assert_eq!(nearest("plian", ["plain", "looker"]), Some("plain"));
    }

    #[test]
    fn a_far_word_is_not_guessed() {
        assert_eq!(nearest("gemini", ["claude-code", "acp"]), None);
        assert_eq!(nearest("nope", ["one", "docs"]), None);
        assert_eq!(nearest("bogus", ["logs", "config"]), None);
        assert_eq!(nearest("OBEY-FOO", ["OBEY-1001", "OBEY-2001"]), None);
        assert_eq!(suggestion("bogus", ["logs"]), "");
    }

    #[test]
    fn the_beginning_of_a_word_is_enough() {
        assert_eq!(nearest("timeout", ["timeout_secs", "tokens"]), Some("timeout_secs"));
        assert_eq!(suggestion("sessio", ["session"]), "; did you mean session?");
    }
}

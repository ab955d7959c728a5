//! What technical terms are, in plain words: who searches for "time synchronization" means `ntp`, too. The table
//! (`data/glossary.txt`) is written by hand and grows; it must not know where its words are used.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::stem;

const FILE: &str = include_str!("../../data/glossary.txt");

/// The plain words by the stem of the term.
static GLOSSARY: LazyLock<HashMap<String, Vec<&'static str>>> = LazyLock::new(|| {
    let mut glossary: HashMap<String, Vec<&'static str>> = HashMap::new();
    for (terms, plain) in entries() {
        for term in terms.split_whitespace() {
            let known = glossary.entry(stem(term)).or_default();
            for word in plain.split_whitespace() {
                if !known.contains(&word) {
                    known.push(word);
                }
            }
        }
    }
    glossary
});

/// Returns the lines of the file: terms and plain words.
fn entries() -> impl Iterator<Item = (&'static str, &'static str)> {
    FILE.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(':'))
}

/// Returns the plain words for a term that is stemmed.
pub fn plain_words_for(term: &str) -> &'static [&'static str] {
    GLOSSARY.get(term).map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{word_vectors, words};

    #[test]
    fn every_term_can_occur_in_a_text_and_has_words_with_a_meaning() {
        for (terms, plain) in entries() {
            for term in terms.split_whitespace() {
                assert!(words::terms(term).contains(&stem(term)), "{term} is never a term of a text");
            }
            let known = plain.split_whitespace().filter(|word| word_vectors::find(word).is_some()).count();
            assert!(known > 0, "{terms}: none of {plain:?} has a vector");
        }
        assert!(plain_words_for("ntp").contains(&"synchronization"));
        assert!(plain_words_for("zebra").is_empty());
    }
}

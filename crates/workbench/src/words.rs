//! Splits texts into terms: words split at the boundaries of code identifiers and stemmed, together with
//! related technical words. Pure; the same text always gives the same terms.

mod glossary;
mod related;

pub use glossary::plain_words_for;
pub use related::{concepts, words_of};

/// Stop words.
const STOP: &[&str] = &[
    "a", "about", "after", "all", "also", "an", "and", "any", "are", "as", "at", "be", "been", "before",
    "but", "by", "can", "could", "did", "do", "does", "for", "from", "get", "had", "has", "have", "how", "i",
    "if", "in", "into", "is", "it", "its", "me", "my", "no", "not", "of", "on", "or", "our", "out", "should",
    "so", "some", "such", "than", "that", "the", "their", "them", "then", "there", "these", "they", "this",
    "to", "up", "use", "was", "we", "were", "what", "when", "where", "which", "while", "who", "why", "will",
    "with", "would", "you", "your",
];

/// Longest word that is used; longer ones are hashes and the like.
const WORD_MAX: usize = 64;

/// Returns the terms of a text in order, with repetitions: each word stemmed and, if it has parts
/// (`parseHttpRequest`, `max_retry_count`), its parts.
pub fn terms(text: &str) -> Vec<String> {
    let mut terms = Vec::new();
    for word in text.split(|letter: char| !letter.is_alphanumeric() && letter != '_') {
        if word.is_empty() || word.len() > WORD_MAX {
            continue;
        }
        let parts = parts(word);
        if parts.len() > 1 {
            push(&mut terms, &word.replace('_', "").to_lowercase());
        }
        for part in parts {
            push(&mut terms, &part.to_lowercase());
        }
    }
    terms
}

/// Returns the words of a text in lower case as they are written, identifiers split into their parts, without stop words.
pub fn plain(text: &str) -> Vec<String> {
    let words = text.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
    let words = words.filter(|word| !word.is_empty() && word.len() <= WORD_MAX).flat_map(parts);
    let words = words.map(str::to_lowercase);
    words.filter(|word| word.len() > 1 && STOP.binary_search(&word.as_str()).is_err()).collect()
}

/// Adds a word's stem, unless it is a stop word or a single letter.
fn push(terms: &mut Vec<String>, word: &str) {
    let short = word.chars().count() < 2 && !word.chars().all(|letter| letter.is_ascii_digit());
    if !short && STOP.binary_search(&word).is_err() {
        terms.push(stem(word));
    }
}

/// Splits an identifier at `_`, at changes from lower to upper case, and between letters and digits;
/// `HTTPServer` is `HTTP` and `Server`.
fn parts(word: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    for piece in word.split('_').filter(|piece| !piece.is_empty()) {
        let letters: Vec<(usize, char)> = piece.char_indices().collect();
        let mut start = 0;
        for at in 1..letters.len() {
            let (before, here) = (letters[at - 1].1, letters[at].1);
            let next_small = letters.get(at + 1).is_some_and(|(_, next)| next.is_lowercase());
            let border = (before.is_lowercase() && here.is_uppercase())
                || (before.is_uppercase() && here.is_uppercase() && next_small)
                || (before.is_alphabetic() != here.is_alphabetic());
            if border {
                parts.push(&piece[start..letters[at].0]);
                start = letters[at].0;
            }
        }
        parts.push(&piece[start..]);
    }
    parts
}

/// Stems a word. Deliberately crude: only endings that rarely mislead.
pub fn stem(word: &str) -> String {
    if !word.is_ascii() || word.len() < 4 || word.bytes().any(|byte| byte.is_ascii_digit()) {
        return word.to_owned();
    }
    const ENDINGS: &[(&str, &str, usize)] = &[
        ("ization", "ize", 4),
        ("isation", "ize", 4),
        ("ations", "ate", 4),
        ("ation", "ate", 4),
        ("ments", "", 4),
        ("ment", "", 5),
        ("ings", "", 4),
        ("ing", "", 4),
        ("edly", "", 4),
        ("ies", "y", 3),
        ("ied", "y", 3),
        ("sses", "ss", 2),
        ("xes", "x", 2),
        ("ches", "ch", 2),
        ("shes", "sh", 2),
        ("ors", "or", 3),
        ("ers", "er", 3),
        ("ed", "", 4),
        ("ly", "", 4),
        ("s", "", 3),
    ];
    for (ending, instead, least) in ENDINGS {
        if let Some(rest) = word.strip_suffix(ending)
            && rest.len() >= *least
            && !(*ending == "s" && rest.ends_with(['s', 'u', 'i']))
        {
            return finish(&format!("{rest}{instead}"));
        }
    }
    finish(word)
}

/// "running" becomes "run"; "caching" and "cache" become "cach".
fn finish(word: &str) -> String {
    let bytes = word.as_bytes();
    let last = bytes.len().saturating_sub(1);
    let doubled = last > 2 && bytes[last] == bytes[last - 1] && !b"lsz".contains(&bytes[last]);
    if doubled {
        return word[..last].to_owned();
    }
    match word.strip_suffix('e') {
        Some(rest) if rest.len() >= 4 => rest.to_owned(),
        _ => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_stop_words_is_sorted() {
        assert!(STOP.is_sorted());
    }

    #[test]
    fn names_of_code_fall_into_their_words() {
        assert_eq!(parts("parseHTTPRequest"), ["parse", "HTTP", "Request"]);
        assert_eq!(parts("max_retry_count2"), ["max", "retry", "count", "2"]);
        let found = terms("parseHttpRequest fails");
        assert!(found.contains(&"http".to_owned()) && found.contains(&"fail".to_owned()), "{found:?}");
        assert_eq!(terms("what is the"), Vec::<String>::new());
    }

    #[test]
    fn forms_of_one_word_have_one_stem() {
        for family in [
            ["connection", "connections", "connection"],
            ["caching", "caches", "cache"],
            ["running", "runs", "run"],
            ["retries", "retry", "retried"],
            ["failed", "failing", "fails"],
            ["authentication", "authenticate", "authenticating"],
        ] {
            let stems: Vec<String> = family.iter().map(|word| stem(word)).collect();
            assert!(stems.iter().all(|stem| *stem == stems[0]), "{family:?} {stems:?}");
        }
    }
}

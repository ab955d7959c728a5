//! Vectors of some fourteen thousand words, built into the program: words of similar meaning have similar vectors. They were
//! computed once, word by word, with all-MiniLM-L6-v2 (Apache License 2.0) and reduced to 128 numbers; `data/README.md` says
//! how. Nothing is loaded, downloaded or trained. Pure; must not know what texts the words come from.

use std::sync::LazyLock;

/// The numbers of a word's vector.
pub(crate) const DIMENSIONS: usize = 128;

const FILE: &[u8] = include_bytes!("../data/word_vectors.bin");

/// The built-in table. Its file: the number of words, of numbers per word and of bytes of text, as 32 bits each; the words in
/// order, one per line; a weight of one byte per word; the vectors.
#[derive(Debug, Default)]
struct Table {
    words: Vec<&'static str>,
    weights: &'static [u8],
    numbers: &'static [u8],
}

static TABLE: LazyLock<Table> = LazyLock::new(|| Table::read(FILE).unwrap_or_default());

/// Endings that are removed, and what takes their place, to find a word in another form.
const ENDINGS: &[(&str, &str)] = &[
    ("ies", "y"),
    ("es", ""),
    ("s", ""),
    ("ing", ""),
    ("ing", "e"),
    ("ed", ""),
    ("ed", "e"),
    ("d", ""),
    ("ly", ""),
    ("er", ""),
    ("ers", ""),
];

impl Table {
    fn read(file: &'static [u8]) -> Option<Self> {
        let (header, rest) = file.split_at_checked(12)?;
        let number = |at: usize| {
            let bytes = header.get(at..at + 4)?.try_into().ok()?;
            usize::try_from(u32::from_le_bytes(bytes)).ok()
        };
        let (count, dimensions, text) = (number(0)?, number(4)?, number(8)?);
        let (text, rest) = rest.split_at_checked(text)?;
        let (weights, numbers) = rest.split_at_checked(count)?;
        let words: Vec<&str> = std::str::from_utf8(text).ok()?.lines().collect();
        let fits = words.len() == count && dimensions == DIMENSIONS && numbers.len() == count * DIMENSIONS;
        fits.then_some(Self { words, weights, numbers })
    }

    fn find(&self, word: &str) -> Option<usize> {
        let exact = |word: &str| self.words.binary_search(&word).ok();
        exact(word).or_else(|| {
            ENDINGS.iter().find_map(|(ending, instead)| {
                let stem = word.strip_suffix(ending)?;
                if instead.is_empty() { exact(stem) } else { exact(&format!("{stem}{instead}")) }
            })
        })
    }
}

/// Words below this length have too many neighbours to guess which one was meant.
const MISSPELT_MIN: usize = 6;

impl Table {
    /// Finds the word that was meant: one letter is missing, too many or another.
    fn find_misspelt(&self, word: &str) -> Option<usize> {
        if word.len() < MISSPELT_MIN || !word.bytes().all(|letter| letter.is_ascii_lowercase()) {
            return None;
        }
        let exact = |word: &str| self.words.binary_search(&word).ok();
        let changed = |at: usize, skip: usize| {
            ('a'..='z')
                .find_map(move |letter| exact(&format!("{}{letter}{}", &word[..at], &word[at + skip..])))
        };
        let missing = (1..=word.len()).find_map(|at| changed(at, 0));
        let doubled = || (1..word.len()).find_map(|at| exact(&format!("{}{}", &word[..at], &word[at + 1..])));
        missing.or_else(doubled).or_else(|| (1..word.len()).find_map(|at| changed(at, 1)))
    }
}

/// Beginnings that are removed to find a word that the table has without them only: `unreadable`, `reindex`.
const BEGINNINGS: &[&str] = &["un", "re", "non", "mis", "sub", "pre"];

/// Shortest word that may be left without its beginning.
const WITHOUT_BEGINNING_MIN: usize = 4;

/// Returns the number of a word in lower case; `None` if neither it nor a word that differs in its beginning or in one letter
/// is in the table.
pub(crate) fn find(word: &str) -> Option<usize> {
    let without_beginning = || {
        BEGINNINGS.iter().find_map(|beginning| {
            let rest = word.strip_prefix(beginning)?;
            if rest.len() < WITHOUT_BEGINNING_MIN { None } else { TABLE.find(rest) }
        })
    };
    TABLE.find(word).or_else(without_beginning).or_else(|| TABLE.find_misspelt(word))
}

/// Adds a word's vector to a sum. Words that say little, because they are everywhere, weigh less.
pub(crate) fn add(sums: &mut [f32], word: usize, weight: f32) {
    let from = word * DIMENSIONS;
    let (Some(row), Some(own)) = (TABLE.numbers.get(from..from + DIMENSIONS), TABLE.weights.get(word)) else {
        return;
    };
    let numbers = row.iter().map(|byte| f32::from(i8::from_le_bytes([*byte])));
    let length = numbers.clone().map(|number| number * number).sum::<f32>().sqrt().max(1.0);
    let factor = weight * f32::from(*own) / 255.0 / length;
    for (sum, number) in sums.iter_mut().zip(numbers) {
        *sum += number * factor;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn similar(one: &str, other: &str) -> f32 {
        let vector = |word: &str| {
            let mut sums = [0.0; DIMENSIONS];
            add(&mut sums, find(word).unwrap(), 1.0);
            let length = sums.iter().map(|sum| sum * sum).sum::<f32>().sqrt();
            sums.map(|sum| sum / length)
        };
        vector(one).iter().zip(vector(other)).map(|(one, other)| one * other).sum()
    }

    #[test]
    fn the_table_is_whole_and_words_of_similar_meaning_are_near() {
        assert!(TABLE.words.len() > 10_000 && TABLE.words.is_sorted());
        for (one, other) in
            [("database", "sql"), ("login", "authentication"), ("memory", "ram"), ("delete", "remove")]
        {
            let (near, far) = (similar(one, other), similar(one, "elephant").max(similar(one, "holiday")));
            assert!(near > far + 0.3, "{one} {other}: {near} {far}");
        }
        assert!(find("retrying").is_some() && find("xqzvwk").is_none());
        assert_eq!(find("unreadable"), find("readable"));
        for misspelt in ["conection", "connecttion", "connaction"] {
            assert_eq!(find(misspelt), find("connection"), "{misspelt}");
        }
    }
}

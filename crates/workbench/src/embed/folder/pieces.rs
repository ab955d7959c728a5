//! Splits texts into word piece numbers like BERT's tokenizer: at spaces and punctuation, in lower case
//! without accents if the model requires it, and then into the longest pieces of the vocabulary.

use std::collections::HashMap;

/// A model's vocabulary.
#[derive(Debug)]
pub(super) struct Pieces {
    numbers: HashMap<String, usize>,
    lower: bool,
    begin: usize,
    end: usize,
    unknown: usize,
}

/// Maximum letters of a word; longer ones are unknown, as in BERT's tokenizer.
const WORD_MAX: usize = 100;

impl Pieces {
    /// Parses a vocabulary, one piece per line; `None` if the pieces that every text needs are missing.
    pub(super) fn new(vocabulary: &str, lower: bool) -> Option<Self> {
        let numbers: HashMap<String, usize> = vocabulary
            .lines()
            .enumerate()
            .map(|(number, piece)| (piece.trim_end_matches('\r').to_owned(), number))
            .collect();
        let known = |piece: &str| numbers.get(piece).copied();
        let (begin, end, unknown) = (known("[CLS]")?, known("[SEP]")?, known("[UNK]")?);
        Some(Self { lower, begin, end, unknown, numbers })
    }

    /// Returns the piece numbers of a text, including the begin and end markers, `longest` at most.
    pub(super) fn of(&self, text: &str, longest: usize) -> Vec<usize> {
        let most = longest.saturating_sub(2);
        let mut numbers = vec![self.begin];
        for word in self.words(text) {
            self.cut(&word, &mut numbers);
            if numbers.len() > most {
                break;
            }
        }
        numbers.truncate(most + 1);
        numbers.push(self.end);
        numbers
    }

    /// Splits a text into words; each punctuation mark and ideograph is a separate word.
    fn words(&self, text: &str) -> Vec<String> {
        let mut words = vec![String::new()];
        let end = |words: &mut Vec<String>| {
            if words.last().is_some_and(|word| !word.is_empty()) {
                words.push(String::new());
            }
        };
        for letter in text.chars() {
            if letter.is_whitespace() {
                end(&mut words);
            } else if letter.is_control() || letter == '\u{fffd}' {
                // Carries no meaning.
            } else if is_punctuation(letter) || is_ideograph(letter) {
                end(&mut words);
                words.extend([letter.to_string(), String::new()]);
            } else if let Some(word) = words.last_mut() {
                if self.lower {
                    word.extend(letter.to_lowercase().filter_map(without_accent));
                } else {
                    word.push(letter);
                }
            }
        }
        words.retain(|word| !word.is_empty());
        words
    }

    /// Appends the pieces of a word, each time the longest known one.
    fn cut(&self, word: &str, numbers: &mut Vec<usize>) {
        let before = numbers.len();
        let mut rest = word;
        if word.chars().count() > WORD_MAX {
            numbers.push(self.unknown);
            return;
        }
        while !rest.is_empty() {
            let inside = rest.len() < word.len();
            let known = rest.char_indices().map(|(at, letter)| at + letter.len_utf8()).rev().find_map(|to| {
                let piece = if inside { format!("##{}", &rest[..to]) } else { rest[..to].to_owned() };
                self.numbers.get(&piece).map(|number| (to, *number))
            });
            let Some((to, number)) = known else {
                numbers.truncate(before);
                numbers.push(self.unknown);
                return;
            };
            numbers.push(number);
            rest = &rest[to..];
        }
    }
}

fn is_punctuation(letter: char) -> bool {
    letter.is_ascii_punctuation()
        || matches!(u32::from(letter), 0xa1 | 0xa7 | 0xab | 0xb6 | 0xb7 | 0xbb | 0xbf | 0x2010..=0x2027 | 0x2030..=0x205e
            | 0x3001..=0x3003 | 0x3008..=0x3011 | 0x3014..=0x301f | 0xff01..=0xff0f | 0xff1a..=0xff20 | 0xff3b..=0xff40
            | 0xff5b..=0xff65)
}

fn is_ideograph(letter: char) -> bool {
    matches!(u32::from(letter), 0x4e00..=0x9fff | 0x3400..=0x4dbf | 0x20000..=0x2a6df | 0x2a700..=0x2b81f
        | 0x2b820..=0x2ceaf | 0xf900..=0xfaff | 0x2f800..=0x2fa1f)
}

/// Removes the accents from letters of western languages, and drops standalone marks. Other letters stay as
/// they are.
fn without_accent(letter: char) -> Option<char> {
    const FAMILIES: &[(char, &str)] = &[
        ('a', "àáâãäåāăą"),
        ('c', "çćĉċč"),
        ('d', "ď"),
        ('e', "èéêëēĕėęě"),
        ('g', "ĝğġģ"),
        ('h', "ĥ"),
        ('i', "ìíîïĩīĭį"),
        ('j', "ĵ"),
        ('k', "ķ"),
        ('l', "ĺļľ"),
        ('n', "ñńņň"),
        ('o', "òóôõöōŏő"),
        ('r', "ŕŗř"),
        ('s', "śŝşš"),
        ('t', "ţť"),
        ('u', "ùúûüũūŭůűų"),
        ('w', "ŵ"),
        ('y', "ýÿŷ"),
        ('z', "źżž"),
    ];
    if letter.is_ascii() {
        return Some(letter);
    }
    if matches!(u32::from(letter), 0x300..=0x36f) {
        return None;
    }
    Some(FAMILIES.iter().find(|(_, family)| family.contains(letter)).map_or(letter, |(plain, _)| *plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    const VOCABULARY: &str =
        "[PAD]\n[UNK]\n[CLS]\n[SEP]\nrun\n##ning\nthe\ntest\n##s\n!\ncafe\n中\nun\n##able";

    fn numbers(text: &str) -> Vec<usize> {
        Pieces::new(VOCABULARY, true).unwrap().of(text, 16)
    }

    #[test]
    fn words_fall_into_the_longest_pieces_that_are_known() {
        assert_eq!(numbers("Running the tests!"), [2, 4, 5, 6, 7, 8, 9, 3]);
        assert_eq!(numbers("Café 中中 unable"), [2, 10, 11, 11, 12, 13, 3]);
        assert_eq!(numbers("runny"), [2, 1, 3], "one unknown piece makes the word unknown");
        assert_eq!(numbers(""), [2, 3]);
        assert_eq!(numbers("cafe\u{301}\u{0}"), [2, 10, 3]);
    }

    #[test]
    fn long_texts_and_long_words_are_cut() {
        let long = numbers(&"test ".repeat(100));
        assert_eq!((long.len(), long[0], long[15]), (16, 2, 3));
        assert_eq!(numbers(&"x".repeat(101)), [2, 1, 3]);
        assert!(Pieces::new("a\nb", true).is_none());
    }
}

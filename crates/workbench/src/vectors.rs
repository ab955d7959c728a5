//! Vectors made from the words of a text alone: nothing is downloaded or trained, and the same text always
//! gives the same vector. One part of a vector is the meaning of its words (`word_vectors`), so that texts about the same
//! thing in other words are similar; the other is the words themselves, their trigrams and related concepts, so that names and
//! words with typing errors are found.

use std::collections::{BTreeMap, HashMap};

use crate::limits::VECTOR_DIMENSIONS;
use crate::{word_vectors, words};

/// The name stored with each vector; a different method gets a different name.
pub const MODEL: &str = "obey-words-3";

/// How much of the similarity of two texts comes from the meaning of their words.
const MEANING: f32 = 0.8;

/// The weights of concepts and trigrams relative to a whole word.
const IDEA: f32 = 0.55;
const PIECE: f32 = 0.6;

/// The weight of a concept's words together, relative to the word that belongs to it: the table knows abbreviations badly.
const KINDRED: f32 = 0.6;

/// The weight of the plain words for a term together, relative to the term.
const GLOSS: f32 = 1.0;

/// The vector of a text, of length 1 before its numbers were rounded to integers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vector(Box<[i8]>);

/// A vector of length 1 has numbers up to 1.
const SCALE: f32 = 127.0;

impl Vector {
    /// Returns the vector of a text. `weighted` are its parts with their weights.
    pub fn of(weighted: &[(&str, f32)]) -> Self {
        let mut counts: HashMap<String, f32> = HashMap::new();
        for (text, weight) in weighted {
            for term in words::terms(text) {
                *counts.entry(term).or_default() += weight;
            }
        }
        let mut terms: Vec<(String, f32)> = counts.into_iter().collect();
        // Sums of floats depend on their order.
        terms.sort_by(|one, other| one.0.cmp(&other.0));
        let mut sums = meaning(weighted);
        sums.resize(VECTOR_DIMENSIONS, 0.0);
        let (meant, written) = sums.split_at_mut(word_vectors::DIMENSIONS);
        for (term, count) in &terms {
            let weight = weight_of(*count);
            mark(written, &[b"w", term.as_bytes()], weight);
            for idea in words::concepts(term) {
                mark(written, &[b"i", &idea.to_le_bytes()], weight * IDEA);
            }
            mark_pieces(written, term, weight * PIECE);
        }
        scale(meant, MEANING.sqrt());
        scale(written, (1.0 - MEANING).sqrt());
        Self::rounded(&sums)
    }

    /// Normalizes numbers of any length and rounds them to a vector.
    pub fn rounded(sums: &[f32]) -> Self {
        let length = sums.iter().map(|sum| sum * sum).sum::<f32>().sqrt();
        if length == 0.0 || !length.is_finite() {
            return Self(vec![0; sums.len()].into());
        }
        #[allow(clippy::cast_possible_truncation, reason = "clamped to what fits")]
        let rounded = sums.iter().map(|sum| (sum / length * SCALE).round().clamp(-127.0, 127.0) as i8);
        Self(rounded.collect())
    }

    /// Parses a stored vector; `None` if it is empty.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        (!bytes.is_empty()).then(|| Self(bytes.iter().map(|byte| i8::from_le_bytes([*byte])).collect()))
    }

    /// Returns the vector in stored form.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.0.iter().map(|number| number.to_le_bytes()[0]).collect()
    }

    /// Returns the numbers.
    pub fn numbers(&self) -> &[i8] {
        &self.0
    }

    /// Whether the text had no terms.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|number| *number == 0)
    }
}

/// Returns the sum of the vectors of a text's words.
fn meaning(weighted: &[(&str, f32)]) -> Vec<f32> {
    let mut counts: BTreeMap<usize, f32> = BTreeMap::new();
    let mut concepts: BTreeMap<u16, f32> = BTreeMap::new();
    let mut explained: BTreeMap<String, f32> = BTreeMap::new();
    for (text, weight) in weighted {
        for term in words::terms(text) {
            for concept in words::concepts(&term) {
                *concepts.entry(*concept).or_default() += weight;
            }
            if !words::plain_words_for(&term).is_empty() {
                *explained.entry(term).or_default() += weight;
            }
        }
        for word in words::plain(text).iter().filter_map(|word| word_vectors::find(word)) {
            *counts.entry(word).or_default() += weight;
        }
    }
    let mut sums = vec![0f32; word_vectors::DIMENSIONS];
    for (word, count) in counts {
        word_vectors::add(&mut sums, word, weight_of(count));
    }
    for (concept, count) in concepts {
        let words: Vec<usize> = words::words_of(concept).filter_map(word_vectors::find).collect();
        #[allow(clippy::cast_precision_loss, reason = "a concept has few words")]
        let each = weight_of(count) * KINDRED / words.len().max(1) as f32;
        words.into_iter().for_each(|word| word_vectors::add(&mut sums, word, each));
    }
    for (term, count) in explained {
        add_plain_words(&mut sums, &term, weight_of(count) * GLOSS);
    }
    sums
}

/// Adds the plain words for a term to a sum, together with this weight.
fn add_plain_words(sums: &mut [f32], term: &str, weight: f32) {
    let mut plain = vec![0f32; word_vectors::DIMENSIONS];
    for word in words::plain_words_for(term).iter().filter_map(|word| word_vectors::find(word)) {
        word_vectors::add(&mut plain, word, 1.0);
    }
    scale(&mut plain, weight);
    sums.iter_mut().zip(plain).for_each(|(sum, number)| *sum += number);
}

/// The tenth occurrence says less than the first.
fn weight_of(count: f32) -> f32 {
    1.0 + count.max(0.1).ln().max(-0.7)
}

/// Gives numbers a length, unless all are zero.
fn scale(numbers: &mut [f32], length: f32) {
    let is = numbers.iter().map(|number| number * number).sum::<f32>().sqrt();
    if is > 0.0 {
        numbers.iter_mut().for_each(|number| *number *= length / is);
    }
}

/// Returns the similarity of two vectors: 1 for equal ones, about 0 for unrelated ones. Both must have the
/// same length.
pub fn similarity(one: &[i8], other: &[i8]) -> f32 {
    // Written so that the compiler vectorizes it.
    let dot: i32 = one.iter().zip(other).map(|(one, other)| i32::from(*one) * i32::from(*other)).sum();
    similarity_of_product(dot)
}

/// Converts a dot product to a similarity.
#[allow(clippy::cast_precision_loss, reason = "at most 127 squared for each of some thousand numbers")]
pub(crate) fn similarity_of_product(dot: i32) -> f32 {
    dot as f32 / (SCALE * SCALE)
}

/// Returns a lower bound for the dot product of vectors with at least this similarity.
#[allow(clippy::cast_possible_truncation, reason = "a similarity is about 1 at most")]
pub(crate) fn least_product(similarity: f32) -> i32 {
    (similarity * SCALE * SCALE).floor() as i32 - 1
}

fn mark(sums: &mut [f32], name: &[&[u8]], weight: f32) {
    let hash = hash(name);
    let at = usize::try_from(hash % sums.len() as u64).unwrap_or(0);
    sums[at] += if hash >> 63 == 0 { weight } else { -weight };
}

/// Trigrams, which words with typing errors and other endings share.
fn mark_pieces(sums: &mut [f32], term: &str, weight: f32) {
    let letters: Vec<char> = std::iter::once('^').chain(term.chars()).chain(std::iter::once('$')).collect();
    if letters.len() < 6 {
        return;
    }
    let pieces = letters.len() - 2;
    #[allow(clippy::cast_precision_loss, reason = "a word has few letters")]
    let each = weight / (pieces as f32).sqrt();
    for piece in letters.windows(3) {
        let piece: String = piece.iter().collect();
        mark(sums, &[b"p", piece.as_bytes()], each);
    }
}

/// FNV-1a with a final mix; chosen because it is stable across machines and versions.
fn hash(parts: &[&[u8]]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for byte in parts.iter().flat_map(|part| part.iter()) {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    hash ^= hash >> 32;
    hash = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash ^ (hash >> 29)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alike(one: &str, other: &str) -> f32 {
        similarity(Vector::of(&[(one, 1.0)]).numbers(), Vector::of(&[(other, 1.0)]).numbers())
    }

    #[test]
    fn the_same_text_is_the_same_and_strangers_are_far() {
        let text = "retry the database connection with backoff";
        assert!((alike(text, text) - 1.0).abs() < 0.05, "{}", alike(text, text));
        assert!(alike(text, "paint the garden fence green").abs() < 0.2);
        assert_eq!(Vector::of(&[(text, 1.0)]), Vector::of(&[(text, 1.0)]));
        assert!(Vector::of(&[("the and of", 1.0)]).is_empty());
    }

    #[test]
    fn related_words_word_parts_and_typing_errors_are_near() {
        let stranger = alike("login fails", "css colour palette");
        for (one, other) in [
            ("login fails", "authentication failure"),
            ("parseHttpRequest", "parse the http request"),
            ("kubernetes deployment", "k8s rollout"),
        ] {
            assert!(alike(one, other) > stranger + 0.2, "{one} / {other}: {} {stranger}", alike(one, other));
        }
        assert!(alike("conection", "connection") > stranger + 0.1, "{}", alike("conection", "connection"));
    }

    #[test]
    fn vectors_are_read_as_they_were_written() {
        let vector = Vector::of(&[("some words", 1.0)]);
        assert_eq!(Vector::from_bytes(&vector.to_bytes()), Some(vector));
        assert_eq!(Vector::from_bytes(&[]), None);
    }
}

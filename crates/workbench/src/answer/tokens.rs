//! Counts the tokens of a text as a current tokenizer does (o200k_base): texts are split into words, numbers, signs and spaces,
//! and each piece is merged from bytes by the ranks of a vocabulary. The vocabulary is a table inside the program, made by
//! `build.rs` and read in place. Other models' tokenizers differ by some percent.

use std::sync::LazyLock;

use regex_automata::meta::Regex;

use crate::limits;

/// What `build.rs` wrote: the number of words, the slots of a hash table, the ends of the words, the words.
static TABLE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/o200k.bin"));

/// Slots of the hash table; `build.rs` has the same number.
const SLOTS: usize = 1 << 18;

/// The rank of what is no word.
const NO_WORD: u32 = u32::MAX;

/// The pieces of a text. Of several spaces before a word the last one belongs to the word, which `pieces` adds: this kind of
/// expression cannot look ahead.
const PIECES: &str = concat!(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|\p{N}{1,3}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]*",
    r"|\s*[\r\n]+",
    r"|\s+",
);

/// `None` only if the expression above is wrong, which a test would tell.
static SPLITTER: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(PIECES).ok());

/// Returns the tokens of a text. Of a very long one parts are counted, spread over it.
pub fn estimate(text: &str) -> u64 {
    if text.len() <= limits::TOKENS_COUNTED_MAX_BYTES {
        return count(text);
    }
    let parts = limits::TOKENS_COUNTED_MAX_BYTES / limits::TOKENS_PART_BYTES;
    let (mut counted, mut bytes) = (0, 0);
    for part in 0..parts {
        let from = text.ceil_char_boundary(text.len() / parts * part);
        let to = text.ceil_char_boundary((from + limits::TOKENS_PART_BYTES).min(text.len()));
        counted += count(&text[from..to]);
        bytes += (to - from) as u64;
    }
    u64::try_from(u128::from(counted) * text.len() as u128 / u128::from(bytes.max(1))).unwrap_or(u64::MAX)
}

/// Counts every token of a text.
fn count(text: &str) -> u64 {
    let mut total = 0;
    let mut parts = Vec::new();
    each_piece(text, |piece| {
        for piece in piece.as_bytes().chunks(limits::TOKEN_PIECE_MAX_BYTES) {
            total += tokens_of_piece(piece, &mut parts);
        }
    });
    total
}

/// Calls `take` with each piece of a text.
fn each_piece(text: &str, mut take: impl FnMut(&str)) {
    let Some(splitter) = SPLITTER.as_ref() else { return take(text) };
    let mut at = 0;
    while let Some(found) = splitter.find(regex_automata::Input::new(text).range(at..)) {
        let mut end = found.end();
        let piece = &text[found.start()..end];
        let next_is_text = text[end..].chars().next().is_some_and(|next| !next.is_whitespace());
        let last =
            piece.chars().next_back().filter(|last| last.is_whitespace() && !matches!(last, '\r' | '\n'));
        if let Some(last) = last
            && next_is_text
            && piece.len() > last.len_utf8()
            && piece.chars().all(char::is_whitespace)
        {
            end -= last.len_utf8();
        }
        take(&text[found.start()..end]);
        at = end;
    }
}

/// Returns the tokens of a piece: of neighbouring parts those are merged first that make the word of the lowest rank.
/// `parts` is the room for it: where each part begins, and the rank of the part together with the next one.
fn tokens_of_piece(piece: &[u8], parts: &mut Vec<(usize, u32)>) -> u64 {
    if piece.len() < 2 || rank(piece) != NO_WORD {
        return u64::from(!piece.is_empty());
    }
    let of = |parts: &[(usize, u32)], from: usize, to: usize| match (parts.get(from), parts.get(to)) {
        (Some((start, _)), Some((end, _))) => rank(&piece[*start..*end]),
        _ => NO_WORD,
    };
    parts.clear();
    parts.extend((0..=piece.len()).map(|at| (at, NO_WORD)));
    for at in 0..piece.len() {
        parts[at].1 = of(parts, at, at + 2);
    }
    while let Some((at, (_, lowest))) = parts.iter().enumerate().min_by_key(|(_, (_, rank))| *rank) {
        if *lowest == NO_WORD {
            break;
        }
        // The part at `at` takes the next one in; its neighbours have new neighbours.
        parts.remove(at + 1);
        parts[at].1 = of(parts, at, at + 2);
        if at > 0 {
            parts[at - 1].1 = of(parts, at - 1, at + 1);
        }
    }
    parts.len() as u64 - 1
}

/// Returns the rank of a word of the vocabulary.
fn rank(word: &[u8]) -> u32 {
    let words = number(0) as usize;
    let (ends, texts) = (1 + SLOTS, 4 * (1 + SLOTS + words));
    let mut slot = hash(word);
    loop {
        let Some(found) = number(1 + slot).checked_sub(1) else { return NO_WORD };
        let at = found as usize;
        let start = if at == 0 { 0 } else { number(ends + at - 1) as usize };
        let end = number(ends + at) as usize;
        if end - start == word.len() && TABLE.get(texts + start..texts + end) == Some(word) {
            return found;
        }
        slot = (slot + 1) % SLOTS;
    }
}

/// Returns a number of the table.
fn number(index: usize) -> u32 {
    TABLE.get(index * 4..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

/// FNV-1a; `build.rs` has the same.
fn hash(word: &[u8]) -> usize {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in word {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    }
    ((hash ^ (hash >> 32)) % SLOTS as u64) as usize
}

#[cfg(test)]
mod tests;

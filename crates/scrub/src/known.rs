//! Secrets whose values are known: those of the environment and those we hand out. Each is looked for as it stands
//! and in the encodings a program is likely to print it in. Allow-lists do not apply to them.

use std::sync::Arc;

use super::entropy;
use crate::limits;

mod encodings;
mod names;

/// A value that must never be shown.
#[derive(Clone)]
pub struct KnownSecret {
    name: Arc<str>,
    value: Vec<u8>,
}

impl std::fmt::Debug for KnownSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KnownSecret").field("name", &self.name).finish_non_exhaustive()
    }
}

impl KnownSecret {
    /// Names a value. The name is shown in its place: `[REDACTED:env:NAME]`.
    pub fn new(name: &str, value: impl Into<Vec<u8>>) -> Self {
        Self { name: format!("env:{name}").into(), value: value.into() }
    }

    /// Picks the secrets out of an environment: by name, and passwords inside addresses whatever their name.
    pub fn from_env<N: AsRef<str>, V: AsRef<str>>(env: impl IntoIterator<Item = (N, V)>) -> Vec<Self> {
        let mut found = Vec::new();
        for (name, value) in env {
            let (name, value) = (name.as_ref(), value.as_ref());
            if names::is_secret(name) && names::is_value(value) {
                found.push(Self::new(name, value));
            }
            for part in names::passwords_in_address(value) {
                found.push(Self::new(name, part));
            }
        }
        found
    }
}

/// One text to look for.
#[derive(Debug)]
pub(crate) struct Pattern {
    pub(crate) name: Arc<str>,
    text: Vec<u8>,
}

/// All texts to look for.
#[derive(Debug, Default)]
pub(crate) struct KnownSet {
    patterns: Vec<Pattern>,
}

impl KnownSet {
    /// Spells every secret out in its encodings.
    pub(crate) fn new(secrets: &[KnownSecret]) -> Self {
        let mut patterns = Vec::new();
        let mut seen = std::collections::BTreeSet::new();
        for secret in secrets.iter().take(limits::KNOWN_SECRETS_MAX) {
            let value = &secret.value[..secret.value.len().min(limits::KNOWN_SECRET_MAX)];
            for part in parts(value) {
                for text in encodings::all(part) {
                    if is_tellable(&text) && seen.insert(text.clone()) {
                        patterns.push(Pattern { name: secret.name.clone(), text });
                    }
                }
            }
        }
        Self { patterns }
    }

    pub(crate) fn pattern(&self, index: u32) -> &Pattern {
        &self.patterns[index as usize]
    }

    /// Returns the anchors of all patterns: pattern, number of the anchor, its bytes. Two of them, so that a line
    /// break inside one leaves the other.
    pub(crate) fn anchors(&self) -> impl Iterator<Item = (u32, u32, &[u8])> {
        (0..).zip(&self.patterns).flat_map(|(index, pattern)| {
            let words = pattern.text.chunks_exact(limits::KNOWN_ANCHOR).take(2);
            (0..).zip(words).map(move |(anchor, word)| (index, anchor, word))
        })
    }

    /// The farthest a match can start before the end of an anchor.
    pub(crate) const BEFORE: u64 = 2 * limits::KNOWN_ANCHOR as u64 + BREAKS_BEFORE;
}

/// Line breaks accepted between the two anchors.
const BREAKS_BEFORE: u64 = 4;

/// Returns a secret whole and, if it has several lines, each of them: programs print lines.
fn parts(value: &[u8]) -> Vec<&[u8]> {
    let whole = value.trim_ascii();
    let mut parts = vec![whole];
    if memchr::memchr(b'\n', whole).is_some() {
        // The frame of an armoured key is no secret; it stands in every document about keys.
        let lines = whole.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii);
        parts.extend(lines.filter(|line| !line.starts_with(b"-----")));
    }
    parts
}

fn is_tellable(text: &[u8]) -> bool {
    text.len() >= limits::KNOWN_SECRET_MIN && entropy::distinct(text) >= 4
}

impl Pattern {
    /// Returns how many bytes behind the end of an anchor may belong to a match.
    pub(crate) fn reach(&self, anchor: u32) -> u64 {
        let rest = self.text.len() - (anchor as usize + 1) * limits::KNOWN_ANCHOR;
        (rest + self.breaks_max()) as u64
    }

    fn breaks_max(&self) -> usize {
        2 * (self.text.len() / limits::KNOWN_BREAK_EVERY + 1)
    }

    /// Compares at an anchor that ends at `end` of `view`; returns where the match starts and ends.
    pub(crate) fn verify(&self, view: &[u8], end: usize, anchor: u32) -> Option<(usize, usize)> {
        let split = anchor as usize * limits::KNOWN_ANCHOR;
        let start = end.checked_sub(limits::KNOWN_ANCHOR)?;
        let forward = walk(view[start..].iter(), self.text[split..].iter(), self.breaks_max())?;
        let back = walk(view[..start].iter().rev(), self.text[..split].iter().rev(), BREAKS_BEFORE as usize)?;
        Some((start - back, start + forward))
    }
}

/// Walks along a text and a pattern, over line breaks the pattern does not have; returns how far it came in the text.
fn walk<'t>(
    text: impl Iterator<Item = &'t u8>,
    pattern: impl Iterator<Item = &'t u8>,
    mut breaks: usize,
) -> Option<usize> {
    let mut pattern = pattern.peekable();
    let mut walked = 0;
    for byte in text {
        let Some(&wanted) = pattern.peek() else { break };
        if byte == wanted {
            pattern.next();
        } else if breaks > 0 && matches!(byte, b'\n' | b'\r') {
            breaks -= 1;
        } else {
            return None;
        }
        walked += 1;
    }
    pattern.peek().is_none().then_some(walked)
}

#[cfg(test)]
mod tests;

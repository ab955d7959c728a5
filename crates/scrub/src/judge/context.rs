//! What precedes a value: its name, how the two are joined, and words farther back in the line that hint at a secret. Looks
//! back a bounded distance, so that the result does not depend on how much of a text is there. Decides nothing about values.

use super::vocabulary::{
    ACTS, KEY_NEGATIVE, NEGATIVE_NEAR, OTHER_COMMANDS, PRINTERS, TYPES, VALUE_NAMES, WRAPPERS, has,
};
use super::words::{Meaning, Words, meaning};

/// How far back a line is looked at, a name is long, telling words may be away, and lines that ask for a value begin.
const LINE_BACK: usize = 160;
const NAME_MAX: usize = 64;
const NEAR_MAX: usize = 100;
pub(super) const ASKED_MAX: usize = 240;

/// How far behind a value telling words may be.
const BEHIND_MAX: usize = 48;

const JOINT_MAX: usize = 40;
const NEAR_NAMES: usize = 15;

/// The colon of other alphabets.
pub(super) const WIDE_COLON: &[u8] = "：".as_bytes();

/// A text and where the line of the value begins, as far as it is looked at.
#[derive(Clone, Copy)]
pub(super) struct Line<'t> {
    pub(super) text: &'t [u8],
    pub(super) low: usize,
}

/// What directly precedes a value.
pub(super) struct Local<'t> {
    pub(super) name: &'t [u8],
    pub(super) name_start: usize,
    /// What joins the name to the value.
    pub(super) joint: &'t [u8],
    /// A number stands between them, as in `password 7 …`.
    pub(super) numbered: bool,
}

/// The strongest telling word near a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Near {
    Nothing,
    /// Somebody signs in.
    Act,
    Secret,
}

/// Whether a byte belongs to a name.
pub(super) fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.') || byte >= 0x80
}

impl<'t> Line<'t> {
    /// The line that a value stands in.
    pub(super) fn of(text: &'t [u8], value: usize) -> Self {
        let far = value.saturating_sub(LINE_BACK);
        let low = memchr::memrchr(b'\n', &text[far..value]).map_or(far, |at| far + at + 1);
        Self { text, low }
    }

    pub(super) fn before(&self, end: usize) -> &'t [u8] {
        &self.text[self.low..end]
    }

    fn name_start(&self, end: usize) -> usize {
        let from = self.low.max(end.saturating_sub(NAME_MAX));
        self.text[from..end].iter().rposition(|byte| !is_name(*byte)).map_or(from, |at| from + at + 1)
    }

    /// Finds the name of a value that begins at `value`.
    pub(super) fn local(&self, value: usize) -> Local<'t> {
        let (mut end, mut numbered, mut assigned) = (value, false, false);
        if self.before(value).ends_with(WIDE_COLON) {
            end -= WIDE_COLON.len();
        }
        for _ in 0..4 {
            let from = self.low.max(end.saturating_sub(JOINT_MAX));
            let stop = self.text[from..end].iter().rposition(|byte| is_name(*byte) || *byte == b'\n');
            let stop = stop.map_or(from, |at| from + at + 1);
            let between = &self.text[stop..end];
            let mut start = self.name_start(stop);
            let name = &self.text[start..stop];
            let word = name.trim_ascii_start();
            let word = word.strip_prefix(b"-").unwrap_or(word);
            let opens = between.iter().any(|byte| matches!(byte, b'"' | b'\'' | b'('));
            let is_blank = between.trim_ascii().is_empty();
            let is_number = word.len() <= 3
                && !word.is_empty()
                && word.iter().all(u8::is_ascii_digit)
                && (is_blank || between.contains(&b']'));
            numbered |= is_number;
            let assigns = between.iter().any(|byte| matches!(byte, b'=' | b':' | b'>'));
            assigned |= assigns;
            let is_wrapper = (opens && has(&WRAPPERS, word))
                || ((opens || assigned) && has(&TYPES, word))
                || ((opens || assigns) && has(&VALUE_NAMES, word));
            if is_wrapper
                && has(&VALUE_NAMES, word)
                && self.text[self.low..start].iter().all(|byte| b" \t\"'-".contains(byte))
            {
                return self.named_above(value).unwrap_or(Local {
                    name,
                    name_start: start,
                    joint: &self.text[stop..value],
                    numbered,
                });
            }
            if !name.is_empty() && (is_number || is_wrapper) {
                end = start;
                continue;
            }
            // A name with a folder before it is looked at with it.
            if !name.is_empty() && start > self.low && self.text[start - 1] == b'/' {
                start = self.name_start(start - 1);
            }
            let joint = &self.text[stop..value];
            return Local { name: &self.text[start..stop], name_start: start, joint, numbered };
        }
        Local { name: &[], name_start: end, joint: &self.text[end..value], numbered }
    }

    /// The name in the line above, as in `name: DB_PASSWORD` and `value: …`.
    fn named_above(&self, value: usize) -> Option<Local<'t>> {
        let stop = self.low.checked_sub(1).filter(|at| self.text[*at] == b'\n')?;
        let above = Self::of(self.text, stop);
        let (name, start) = above.names_before(stop).next()?;
        let joint = &self.text[start + name.len()..value];
        Some(Local { name, name_start: start, joint, numbered: false })
    }

    /// Returns the names before a place, the nearest first, with their beginnings.
    fn names_before(self, end: usize) -> impl Iterator<Item = (&'t [u8], usize)> {
        let mut end = end;
        std::iter::from_fn(move || {
            let last = self.text[self.low..end].iter().rposition(|byte| is_name(*byte))?;
            let stop = self.low + last + 1;
            let start = self.name_start(stop);
            end = start;
            Some((&self.text[start..stop], start))
        })
    }

    /// Returns the names behind a place in its line, the nearest first.
    pub(super) fn names_behind(self, start: usize) -> impl Iterator<Item = &'t [u8]> {
        let rest = &self.text[start..self.text.len().min(start + BEHIND_MAX)];
        let line = rest.split(|byte| *byte == b'\n').next().unwrap_or_default();
        line.split(|byte| !is_name(*byte)).filter(|name| !name.is_empty())
    }

    /// Looks for telling words before a value; words that say what else it is end the search.
    pub(super) fn near(&self, value: usize) -> Near {
        let mut behind: &[u8] = &[];
        for (index, (name, start)) in self.names_before(value).enumerate().take(NEAR_NAMES) {
            if value - start > NEAR_MAX {
                break;
            }
            let words = Words::of(name);
            let in_path = start > self.low && self.text[start - 1] == b'/';
            let is_other = has(&NEGATIVE_NEAR, words.last())
                || words
                    .all()
                    .iter()
                    .any(|word| !word.eq_ignore_ascii_case(b"id") && has(&NEGATIVE_NEAR, word));
            // `hmac("sha256", …`: how a key is used, not what it is.
            let is_argument = index == 0
                && start > self.low
                && matches!(self.text[start - 1], b'"' | b'\'' | b':')
                && self.text[start + name.len()..value].contains(&b',');
            if is_other && is_argument {
                continue;
            }
            if is_other && !in_path {
                return Near::Nothing;
            }
            match meaning(name) {
                Meaning::Password | Meaning::Secret => return Near::Secret,
                Meaning::Perhaps if is_key(words.last_word()) && index < 6 => {
                    let before = self.names_before(start).next();
                    let is_none = before.is_some_and(|(name, _)| has(&KEY_NEGATIVE, name));
                    return if is_none { Near::Nothing } else { Near::Secret };
                }
                _ if is_act(name, &words, behind) => return Near::Act,
                _ => behind = name,
            }
        }
        Near::Nothing
    }

    /// Whether nothing but the name of a log stands before the value.
    pub(super) fn is_first(&self, value: usize) -> bool {
        let prefix = self.before(value).trim_ascii();
        prefix.is_empty() || prefix.ends_with(b"|")
    }

    /// Whether the value stands alone in its line, behind one that asks for it: `Password:` and a line break.
    pub(super) fn is_asked_for(&self, value: usize) -> bool {
        if !self.is_first(value) {
            return false;
        }
        let prefix = self.before(value).trim_ascii();
        let far = value.saturating_sub(ASKED_MAX);
        let mut end = self.low;
        for _ in 0..3 {
            if end <= far + 1 || self.text[end - 1] != b'\n' {
                return false;
            }
            let stop = end - 1;
            let start = memchr::memrchr(b'\n', &self.text[far..stop]).map_or(far, |at| far + at + 1);
            let mut line = self.text[start..stop].trim_ascii();
            if !prefix.is_empty() {
                line = line.rsplit(|byte| *byte == b'|').next().unwrap_or_default().trim_ascii();
            }
            if !line.is_empty() {
                let asking = Self { text: self.text, low: start };
                let mut names = asking.names_before(stop);
                if line.ends_with(b":") {
                    return names.any(|(name, _)| meaning(name) >= Meaning::Secret);
                }
                let is_heading = line.iter().all(|byte| byte.is_ascii_alphabetic());
                return (is_heading && meaning(line) >= Meaning::Secret)
                    || (is_command(line) && prints_secret(names));
            }
            end = start;
        }
        false
    }
}

/// A line that somebody typed behind a prompt, or that a shell traces.
fn is_command(line: &[u8]) -> bool {
    let head = &line[..line.len().min(48)];
    line.starts_with(b"+ ") || line.starts_with(b"$ ") || head.windows(2).any(|two| two == b"$ ")
}

/// Whether the words of a command say that it prints a secret, and nothing else of one.
fn prints_secret<'t>(names: impl Iterator<Item = (&'t [u8], usize)>) -> bool {
    let mut prints = false;
    for (name, _) in names {
        let words = Words::of(name);
        if words.all().iter().any(|word| has(&NEGATIVE_NEAR, word) || has(&OTHER_COMMANDS, word)) {
            return false;
        }
        prints |= meaning(name) >= Meaning::Secret || has(&PRINTERS, name);
    }
    prints
}

fn is_key(word: &[u8]) -> bool {
    word.eq_ignore_ascii_case(b"key") || word.eq_ignore_ascii_case(b"keys")
}

fn is_act(name: &[u8], words: &Words<'_>, behind: &[u8]) -> bool {
    let is = |word: &[u8], other: &str| word.eq_ignore_ascii_case(other.as_bytes());
    let goes_in =
        behind.eq_ignore_ascii_case(b"in") && ["log", "logged", "sign"].iter().any(|one| is(name, one));
    let is_split =
        |two: &[&[u8]]| (is(two[0], "wi") && is(two[1], "fi")) || (is(two[0], "key") && is(two[1], "store"));
    let ends_auth = |word: &&[u8]| word.len() > 4 && is(&word[word.len() - 4..], "auth");
    goes_in
        || words.all().iter().any(|word| has(&ACTS, word) || ends_auth(word))
        || words.all().windows(2).any(is_split)
}

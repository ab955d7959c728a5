//! Classifies a value by its characters alone: nothing in particular, chosen by a person, made by a machine, random. Knows
//! no keys and no contexts.

use std::sync::LazyLock;

use aho_corasick::AhoCorasick;

use super::vocabulary::{ABBREVIATIONS, EXTENSIONS, PLACEHOLDERS, PUBLIC_PREFIXES, UNITS, has};
use super::words::parts;

/// How much a value looks like a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Shape {
    /// A word, a number, a path, a reference, a placeholder.
    Nothing,
    /// What a person might choose for a password.
    Chosen,
    /// Made by a machine, but identifiers and digests look like it.
    Made,
    /// Random letters of both cases and digits, or a password's hash.
    Random,
}

/// Shorter values are not looked at.
pub(super) const VALUE_MIN: usize = 6;

/// Pairs of letters that stand in words, a bit for each second letter; from the words of source texts and manuals.
const PAIRS: [u32; 26] = [
    33_471_854, 18_238_225, 1_985_941, 18_237_721, 32_504_191, 1_722_673, 1_472_913, 672_017, 45_021_311,
    16_400, 262_416, 18_630_969, 1_366_291, 20_770_173, 8_322_431, 18_794_905, 1_048_576, 20_905_341,
    22_859_165, 22_993_341, 964_991, 273, 418_193, 557_332, 974_912, 16,
];

/// What is counted in a value.
#[derive(Default)]
struct Counts {
    lower: bool,
    upper: bool,
    digits: usize,
    symbols: usize,
    letters: usize,
    /// Letters that belong to no word.
    strange: usize,
    parts: usize,
}

impl Counts {
    fn of(value: &[u8]) -> Self {
        let mut counts = Self::default();
        for &byte in value {
            counts.lower |= byte.is_ascii_lowercase();
            counts.upper |= byte.is_ascii_uppercase();
            counts.digits += usize::from(byte.is_ascii_digit());
            counts.symbols += usize::from(b"!#@%^*+=&?~$|".contains(&byte));
        }
        for segment in value.split(|byte| !byte.is_ascii_alphanumeric()) {
            counts.add(segment);
        }
        counts
    }

    /// Counts what stands between two signs. Two letters are a word only where nothing strange stands beside them.
    fn add(&mut self, segment: &[u8]) {
        let (mut known, mut strange, mut short, mut shorts, mut numbers) = (0, 0, 0, 0, 0);
        let (mut last_short, mut long_number): (&[u8], bool) = (&[], false);
        for part in parts(segment) {
            self.parts += 1;
            match part {
                [first, ..] if first.is_ascii_digit() => {
                    numbers += 1;
                    long_number |= part.len() > 4;
                }
                [_] | [_, _] => {
                    shorts += 1;
                    short += part.len();
                    last_short = part;
                }
                _ if is_word(part) => known += part.len(),
                _ => strange += part.len(),
            }
        }
        self.letters += known + strange + short;
        let is_plain = strange == 0 && numbers <= 1 && !long_number;
        let one = shorts == 1 && is_plain && (known >= 4 || is_known(last_short));
        let few = shorts <= 2 && known >= 8 && strange == 0;
        // Many numbers between letters are random, but not in a name that is full of words.
        if numbers > 2 && known < 12 {
            strange += known;
        }
        self.strange += strange + if one || few { 0 } else { short };
    }

    fn strangeness(&self) -> f64 {
        if self.letters == 0 { 0.0 } else { self.strange as f64 / self.letters as f64 }
    }

    fn mean_part(&self) -> f64 {
        (self.letters + self.digits) as f64 / self.parts.max(1) as f64
    }
}

/// Returns which part of the letters belongs to no word.
pub(super) fn strangeness(value: &[u8]) -> f64 {
    Counts::of(value).strangeness()
}

/// Whether a value can be random: letters of both cases and digits, or a password's hash.
pub(super) fn may_be_random(value: &[u8]) -> bool {
    let (mut lower, mut upper, mut digit) = (false, false, value.starts_with(b"$"));
    for byte in value {
        lower |= byte.is_ascii_lowercase();
        upper |= byte.is_ascii_uppercase();
        digit |= byte.is_ascii_digit();
    }
    lower && upper && digit
}

/// Judges a value by its letters alone; `quoted` if it stands in quotes, where signs are what they are. What looks like a secret may
/// still stand for one: see [`is_other`].
pub(super) fn shape(value: &[u8], quoted: bool) -> Shape {
    if value.len() < VALUE_MIN {
        return Shape::Nothing;
    }
    if is_password_hash(value) && value.len() >= 16 {
        return Shape::Random;
    }
    if is_uuid(value) {
        return Shape::Made;
    }
    if is_hex(value) {
        let digits = value.iter().filter(|byte| byte.is_ascii_digit()).count();
        let is_key = value.len() >= 16 && digits >= 3 && digits < value.len();
        return if is_key { Shape::Made } else { Shape::Nothing };
    }
    let counts = Counts::of(value);
    let is_nothing = counts.letters < 2 || (is_path(value) && counts.strangeness() < 0.7);
    if is_nothing { Shape::Nothing } else { by_counts(value, quoted, &counts) }
}

/// Whether a value is known to be something else: a placeholder, a reference, an address, a number, an identifier. Costs more than
/// its shape and is asked last.
pub(super) fn is_other(value: &[u8], quoted: bool) -> bool {
    !is_password_hash(value)
        && (is_address(value)
            || is_number(value)
            || is_ulid(value)
            || (!quoted && is_code(value))
            || is_stand_in(value, quoted))
}

fn by_counts(value: &[u8], quoted: bool, counts: &Counts) -> Shape {
    let (length, strange, mean) = (value.len(), counts.strangeness(), counts.mean_part());
    let both = counts.lower && counts.upper;
    if counts.digits == 0 {
        return if !both || strange < 0.75 || length < 10 {
            Shape::Nothing
        } else if mean < 2.2 {
            Shape::Made
        } else if mean < 3.0 && quoted {
            Shape::Chosen
        } else {
            Shape::Nothing
        };
    }
    if strange >= 0.5 && length >= 8 && mean < 3.6 {
        let may_be_path = value.contains(&b'/') && length < 30 && !quoted && (strange < 0.8 || mean > 2.4);
        return if may_be_path && strange <= 0.7 {
            Shape::Nothing
        } else if may_be_path || !both || (strange < 0.6 && mean > 2.2) {
            Shape::Made
        } else {
            Shape::Random
        };
    }
    if strange >= 0.5 && length >= 20 {
        return if both { Shape::Random } else { Shape::Made };
    }
    let is_chosen = (counts.symbols > 0 && length >= 7 && !is_assignment(value))
        || (both && strange >= 0.3 && length >= 8)
        || (strange >= 0.34 && mean < 3.0 && !value.iter().any(|byte| matches!(byte, b'/' | b':')));
    if is_chosen { Shape::Chosen } else { Shape::Nothing }
}

/// Whether letters look like a word or an abbreviation.
pub(super) fn is_word(part: &[u8]) -> bool {
    let lower = |byte: &u8| byte.to_ascii_lowercase();
    let pair = |pair: &[u8]| match (lower(&pair[0]), lower(&pair[1])) {
        (one @ b'a'..=b'z', two @ b'a'..=b'z') => PAIRS[usize::from(one - b'a')] >> (two - b'a') & 1 == 1,
        _ => false,
    };
    let strange = part.windows(2).filter(|two| !pair(two)).count();
    let has_vowel = part.iter().map(lower).any(|byte| b"aeiouy".contains(&byte));
    (part.len() >= 3 && has_vowel && (strange == 0 || (strange == 1 && part.len() >= 6))) || is_known(part)
}

fn is_known(part: &[u8]) -> bool {
    part.len() <= 8 && has(&ABBREVIATIONS, part)
}

/// `$6$…`, `$2y$…`, `$argon2id$…` and such.
pub(super) fn is_password_hash(value: &[u8]) -> bool {
    let Some(rest) = value.strip_prefix(b"$") else { return false };
    let Some(end) = rest.iter().position(|byte| *byte == b'$') else { return false };
    let kinds: [&[u8]; 13] =
        [b"1", b"2", b"2a", b"2b", b"2y", b"5", b"6", b"8", b"9", b"y", b"apr1", b"argon2id", b"scrypt"];
    kinds.contains(&&rest[..end]) || rest.starts_with(b"argon2") || rest.starts_with(b"pbkdf2")
}

/// What stands in a secret's place.
static STAND_INS: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
    let references = ["${", "{{", "}}", "<%", "%(", "://", "$("];
    let words = PLACEHOLDERS.iter().chain(references);
    AhoCorasick::builder().ascii_case_insensitive(true).build(words).ok()
});

/// Placeholders, references and what is public.
fn is_stand_in(value: &[u8], quoted: bool) -> bool {
    let starts_odd = match value[0] {
        b'$' | b'<' | b'{' | b'[' | b'(' | b'/' | b'`' => true,
        b'@' | b'&' | b'~' | b'-' | b'*' | b'.' | b',' | b':' | b';' => !quoted,
        b'%' => value[1].is_ascii_alphabetic() || matches!(value[1], b'_' | b'('),
        _ => false,
    };
    let starts = |prefix: &'static str| {
        value.len() >= prefix.len() && value[..prefix.len()].eq_ignore_ascii_case(prefix.as_bytes())
    };
    starts_odd
        || crate::entropy::distinct(value) < 5
        || value.iter().any(|byte| *byte <= b' ')
        || PUBLIC_PREFIXES.iter().any(starts)
        || STAND_INS.as_ref().is_some_and(|words| words.is_match(value))
}

/// Words with a number, as people choose them: `Winter-Regen-21`, `Sommer2024`. Names in programs are none.
pub(super) fn is_worded_password(value: &[u8]) -> bool {
    if !(8..=40).contains(&value.len()) {
        return false;
    }
    let digits = value.iter().filter(|byte| byte.is_ascii_digit()).count();
    let large = value.iter().filter(|byte| byte.is_ascii_uppercase()).count();
    let is_joined = value[1..].contains(&b'-');
    let is_title = value[0].is_ascii_uppercase() && large == 1 && digits >= 2;
    let is_plain = value.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'!'));
    let tail = value.rsplit(|byte| *byte == b'-').next().unwrap_or_default();
    let is_version = tail.first() == Some(&b'v') && tail[1..].iter().all(u8::is_ascii_digit);
    digits >= 1
        && digits + 3 < value.len()
        && is_plain
        && (is_joined || is_title)
        && !is_version
        && !is_uuid(value)
        && !is_hex(value)
        && super::meaning(value) == super::Meaning::Nothing
}

pub(super) fn is_uuid(value: &[u8]) -> bool {
    value.len() == 36
        && value.iter().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

fn is_hex(value: &[u8]) -> bool {
    value.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        || value.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'A'..=b'F'))
}

/// Identifiers in order of time, such as `sess_01H…`.
fn is_ulid(value: &[u8]) -> bool {
    let Some(from) = value.len().checked_sub(26) else { return false };
    let body = &value[from..];
    (from == 0 || value[from - 1] == b'_')
        && body[0] == b'0'
        && body
            .iter()
            .all(|byte| byte.is_ascii_digit() || (byte.is_ascii_uppercase() && !b"ILOU".contains(byte)))
}

/// A path of names in a program.
fn is_code(value: &[u8]) -> bool {
    value.len() < 48 && value.windows(2).any(|two| two == b"::")
}

/// An address of e-mail.
fn is_address(value: &[u8]) -> bool {
    let Some(at) = memchr::memchr(b'@', value) else { return false };
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'+' | b'-');
    let (name, host) = (&value[..at], &value[at + 1..]);
    let label = |label: &[u8]| label.first().is_some_and(u8::is_ascii_alphabetic);
    !name.is_empty()
        && name.iter().chain(host).all(is_name)
        && host.contains(&b'.')
        && host.split(|byte| *byte == b'.').all(label)
}

/// A number, a time, a version, or numbers with units.
fn is_number(value: &[u8]) -> bool {
    let plain = |byte: &u8| byte.is_ascii_digit() || b".,:_/-+TZ%".contains(byte);
    if value.iter().all(plain)
        || value.strip_prefix(b"0x").is_some_and(|rest| rest.iter().all(u8::is_ascii_hexdigit))
    {
        return true;
    }
    let mut rest = value;
    while let Some(end) = rest.iter().position(|byte| !byte.is_ascii_digit() && *byte != b'.') {
        let unit = rest[end..].iter().position(u8::is_ascii_digit).unwrap_or(rest.len() - end);
        if end == 0 || !has(&UNITS, &rest[end..end + unit]) {
            return false;
        }
        rest = &rest[end + unit..];
    }
    rest.is_empty()
}

fn is_path(value: &[u8]) -> bool {
    if [&b"~/"[..], b"/", b"./", b"../"].iter().any(|start| value.starts_with(start)) {
        return true;
    }
    let end = value.iter().position(|byte| matches!(byte, b':' | b'?' | b'#')).unwrap_or(value.len());
    let dot = memchr::memrchr(b'.', &value[..end]);
    dot.is_some_and(|dot| has(&EXTENSIONS, &value[dot + 1..end]))
}

/// `name=…`, which is no password that somebody chose.
fn is_assignment(value: &[u8]) -> bool {
    let name =
        value.iter().position(|byte| !(byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-')));
    name.is_some_and(|end| end > 0 && value[end] == b'=')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(value: &str) -> Shape {
        let is_other = is_other(value.as_bytes(), true);
        if is_other { Shape::Nothing } else { shape(value.as_bytes(), true) }
    }

    #[test]
    fn random_values_are_told_from_words() {
        for value in ["k3JdTsQpZ1xY", "Zx81Kq0pLm27Vb93Nc64Ty55", "$2y$05$abcdefghijklmnopqrstuv"] {
            assert_eq!(of(value), Shape::Random, "{value}");
        }
        for value in ["x7kqpd9ab2", "3f2a9c81d74f00aa", "0b6273a0-b7f9-4104-a8ac-2133ddb0de48"] {
            assert_eq!(of(value), Shape::Made, "{value}");
        }
        for value in ["Sommer-Regen-2019!", "N0rdlicht#42"] {
            assert_eq!(of(value), Shape::Chosen, "{value}");
        }
    }

    #[test]
    fn words_numbers_paths_references_and_placeholders_are_nothing() {
        for value in [
            "shop-db-credentials-v2",
            "Argon2PasswordHasher",
            "access_token_v2",
            "scram-sha-256",
            "2026-02-01T10:00:00Z",
            "1h30m15s",
            "/run/secrets/db_password_2024",
            "ada@acme.dev",
            "${DB_PASSWORD}",
            "your-token-123",
            "xxxxxxxxxxxx1",
            "sess_01KA2B3C4D5E6F7G8H9J0KMNPQ",
            "cfg.DB.Password2",
            "kSecKeyAlgorithmRSASignatureMessagePKCS1v15SHA256",
            "sha256:3f2a9c81d74f00aa",
        ] {
            assert_eq!(of(value), Shape::Nothing, "{value}");
        }
    }
}

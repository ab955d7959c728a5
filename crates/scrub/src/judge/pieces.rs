//! Where values begin and end: splits a text at gaps, and `name=value&name=value` into its values. Does not judge them.

use super::context::{self, Line};
use super::shape;
use super::words::{Meaning, meaning};

/// Longest value that is looked at; what is longer goes on as long as its bytes do.
const VALUE_MAX: usize = 512;

/// Whether a byte stands in no value.
pub(super) const fn is_gap(byte: u8) -> bool {
    byte <= b' '
        || matches!(
            byte,
            b'"' | b'\''
                | b'`'
                | b','
                | b';'
                | b'('
                | b')'
                | b'{'
                | b'}'
                | b'['
                | b']'
                | b'<'
                | b'>'
                | b'|'
                | b'\\'
        )
}

/// Where the run that reaches up to `at` begins, unless that is too far away.
pub(super) fn run_start(text: &[u8], at: usize) -> Option<usize> {
    let far = at.saturating_sub(VALUE_MAX);
    let start = text[far..at].iter().rposition(|byte| is_gap(*byte)).map(|gap| far + gap + 1);
    start.or((far == 0).then_some(0))
}

/// Kinds of bytes, for the first look.
const GAP: u8 = 1;
const DIGIT: u8 = 2;
const SMALL: u8 = 4;
const LARGE: u8 = 8;

const KINDS: [u8; 256] = {
    let (mut kinds, mut byte) = ([0; 256], 0_usize);
    while byte < 256 {
        kinds[byte] = match byte as u8 {
            b'0'..=b'9' => DIGIT,
            b'a'..=b'z' => SMALL,
            b'A'..=b'Z' => LARGE,
            other if is_gap(other) => GAP,
            _ => 0,
        };
        byte += 1;
    }
    kinds
};

/// Returns where the run that begins at `at` ends, and whether it may hold a secret: most words have neither digits nor letters in
/// an odd order.
pub(super) fn run_end(text: &[u8], at: usize) -> (usize, bool) {
    let run = &text[at..text.len().min(at + VALUE_MAX)];
    let (mut length, mut seen, mut letters, mut large) = (0, 0, 0, 0);
    for byte in run {
        let kind = KINDS[usize::from(*byte)];
        if kind == GAP {
            break;
        }
        seen |= kind;
        letters += usize::from(kind >= SMALL);
        large += usize::from(kind == LARGE);
        length += 1;
    }
    let is_mixed = seen & DIGIT != 0 && letters >= 2;
    let is_odd = seen & SMALL != 0 && large > 2 && length >= 10;
    (at + length, length >= shape::VALUE_MIN && (is_mixed || is_odd))
}

pub(super) fn run_end_of_all(text: &[u8], at: usize, to: usize) -> usize {
    let rest = &text[at.min(to)..to];
    rest.iter().position(|byte| is_gap(*byte)).map_or(to, |length| at + length)
}

/// Cuts `name=value&name=value` and the like into values.
pub(super) fn for_pieces(text: &[u8], at: usize, end: usize, mut piece: impl FnMut(usize, usize)) {
    let mut at = at;
    if at > 0 && text[at - 1] == b'\\' && matches!(text.get(at), Some(b'n' | b'r' | b't')) {
        at += usize::from(at + 1 < end);
    }
    while at < end {
        let (stop, next) =
            piece_end(&text[at..end]).map_or((end, end), |(stop, len)| (at + stop, at + stop + len));
        piece(value_start(text, at, stop), stop);
        at = next;
    }
}

/// Where a value ends before the next name, and how long that is which stands between.
fn piece_end(run: &[u8]) -> Option<(usize, usize)> {
    for (at, byte) in run.iter().enumerate() {
        let rest = &run[at..];
        match byte {
            b'%' if ENCODED_GAPS.iter().any(|gap| starts_ignoring_case(rest, gap)) => {
                return Some((at, 3));
            }
            b'&' => {
                let entity =
                    [&b"&quot"[..], b"&amp", b"&lt", b"&gt", b"&#"].iter().any(|name| rest.starts_with(name));
                let name = rest[1..].iter().take_while(|byte| context::is_name(**byte)).count();
                if entity {
                    return Some((at, 1 + name.max(1)));
                }
                if name > 0 && rest.get(1 + name) == Some(&b'=') {
                    return Some((at, 1));
                }
            }
            _ => {}
        }
    }
    None
}

/// What stands between values where signs are encoded.
const ENCODED_GAPS: [&[u8]; 8] = [b"%26", b"%3b", b"%22", b"%20", b"%2c", b"%7b", b"%7d", b"%0a"];

fn starts_ignoring_case(text: &[u8], start: &[u8]) -> bool {
    text.len() >= start.len() && text[..start.len()].eq_ignore_ascii_case(start)
}

/// Where the value begins in `name=name:value`.
fn value_start(text: &[u8], at: usize, stop: usize) -> usize {
    let mut start = at;
    let mut is_known = None;
    while let Some((name_end, length)) = separator(&text[start..stop]) {
        let (name, rest) = (&text[start..start + name_end], &text[start + name_end + length..stop]);
        if rest.is_empty() || rest.starts_with(b"//") || rest.iter().all(|byte| *byte == b'=') {
            break;
        }
        // Times and numbers have no names.
        let first = name.iter().find(|byte| byte.is_ascii_alphanumeric());
        if first.is_some_and(u8::is_ascii_digit) {
            break;
        }
        let found = meaning(name);
        let is_secret = *is_known.get_or_insert_with(|| {
            let local = Line::of(text, at).local(at);
            local.is_assigned() && meaning(local.name) >= Meaning::Secret
        });
        let is_hash = shape::is_password_hash(rest);
        if found == Meaning::Nothing && !is_hash && (is_secret || !is_plain_name(name)) {
            break;
        }
        is_known = Some(is_secret || (found >= Meaning::Secret && !is_of_user(name)));
        start += name_end + length;
        start += text[start..stop].iter().take_while(|byte| **byte == b':').count();
    }
    // Dots, colons and quotes of other alphabets.
    start + text[start..stop].iter().take_while(|byte| **byte >= 0x80).count()
}

fn separator(text: &[u8]) -> Option<(usize, usize)> {
    for (at, byte) in text.iter().enumerate() {
        let rest = &text[at..];
        match byte {
            b'=' | b':' => return Some((at, 1)),
            b'%' if [&b"%3a"[..], b"%3d"].iter().any(|code| starts_ignoring_case(rest, code)) => {
                return Some((at, 3));
            }
            0xef if rest.starts_with(context::WIDE_COLON) => return Some((at, 3)),
            _ => {}
        }
    }
    None
}

/// Whether a name stands for a user's name and password together.
fn is_of_user(name: &[u8]) -> bool {
    [&b"userpass"[..], b"userpwd", b"user_pass"]
        .iter()
        .any(|one| name.len() >= one.len() && name[name.len() - one.len()..].eq_ignore_ascii_case(one))
}

fn is_plain_name(name: &[u8]) -> bool {
    let mut digits = 0;
    let has_year = name.iter().any(|byte| {
        digits = if byte.is_ascii_digit() { digits + 1 } else { 0 };
        digits >= 4
    });
    let is_part = |byte: &u8| context::is_name(*byte) || b"/@$*%~?&#!".contains(byte);
    let is_short = name.len() < 4 || (name.len() <= 16 && name.iter().all(u8::is_ascii_lowercase));
    !has_year && name.iter().all(is_part) && (is_short || shape::strangeness(name) < 0.5)
}

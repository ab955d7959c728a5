//! Decides by name, joint and shape whether a value is a secret: one judge for assignments, arguments, headers, calls, configuration
//! lines and sentences in any language. Looks at each value behind a telling word; knows no rule and keeps nothing.

mod columns;
mod context;
mod pieces;
mod shape;
mod vocabulary;
mod words;

use context::{Line, Local, Near};
use pieces::{for_pieces, is_gap, run_end, run_end_of_all, run_start};
use shape::{Shape, VALUE_MIN, shape};
use vocabulary::{BEHIND, NEGATIVE_NAMES, has};
use words::{Meaning, Words, meaning};

/// How far behind a telling word a value may begin.
pub(crate) const REACH: usize = 400;

/// How far before a telling word a value may begin.
pub(crate) const REACH_BACK: usize = 160;

/// A value that is a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// It goes on behind its end.
    pub(crate) cut: bool,
}

/// Calls `found` with every secret of `text` that begins between `from` and `to`.
pub(crate) fn search(text: &[u8], from: usize, to: usize, mut found: impl FnMut(Found)) {
    let to = to.min(text.len());
    // The rest of what is too long was decided with its beginning.
    let mut at = run_start(text, from).unwrap_or_else(|| run_end_of_all(text, from, to));
    while at < to {
        if is_gap(text[at]) {
            at += 1;
            continue;
        }
        let (end, may_hold_secret) = run_end(text, at);
        if may_hold_secret {
            let cut = end < text.len() && !is_gap(text[end]);
            judge_run(text, at, end, |start, stop| {
                if start >= from && start < to {
                    found(Found { start, end: stop, cut: cut && stop == end });
                }
            });
        }
        at = if end < to && is_gap(text[end]) { end + 1 } else { run_end_of_all(text, end, to) };
    }
}

/// Returns where the value begins that `at` stands in.
pub(crate) fn value_around(text: &[u8], at: usize) -> usize {
    run_start(text, at).unwrap_or(at)
}

/// Returns where a value begins that `text` ends in and that may become a secret.
pub(crate) fn begun(text: &[u8]) -> Option<usize> {
    let at = run_start(text, text.len())?;
    let mut last = at;
    for_pieces(text, at, text.len(), |start, _| last = start);
    let value = &text[last..];
    if value.is_empty() {
        return None;
    }
    let line = Line::of(text, last);
    let has_digit = value.iter().any(u8::is_ascii_digit);
    // A name is joined to its value by a sign; words in sentences are not waited for.
    let before = line.before(last).trim_ascii_end();
    let sign = before.iter().rev().find(|byte| !matches!(byte, b' ' | b'\t' | b'"' | b'\'' | b'`' | b'@'));
    let is_joined =
        sign.is_some_and(|byte| b"=:|>(,?".contains(byte)) || before.ends_with(context::WIDE_COLON);
    let is_argument = has_flag(before) || glued_flag(value).is_some();
    if !(has_digit || is_joined || is_argument) {
        return None;
    }
    let local = line.local(last);
    let is_flag = is_secret_flag(local.name) || is_user_flag(local.name) || glued_flag(value).is_some();
    let is_named = is_flag || (meaning(local.name) > Meaning::Nothing && local.is_joined());
    let may = is_named || (has_digit && (line.near(last) > Near::Nothing || line.is_asked_for(last)));
    may.then_some(last)
}

/// Whether the last word is an option of a command.
fn has_flag(before: &[u8]) -> bool {
    let start = before.iter().rposition(|byte| is_gap(*byte)).map_or(0, |at| at + 1);
    matches!(before.get(start), Some(b'-' | b'/'))
}

fn judge_run(text: &[u8], at: usize, end: usize, mut found: impl FnMut(usize, usize)) {
    for_pieces(text, at, end, |start, stop| {
        if stop - start < VALUE_MIN {
            return;
        }
        let line = Line::of(text, start);
        if let Some((start, stop)) = password_of_pair(line, start, stop) {
            found(start, stop);
        } else if let Some(stop) = judge_value(line, start, stop) {
            found(start, stop);
        } else if let Some(flag) = glued_flag(&text[start..stop])
            && is_random(&text[start + flag..stop])
        {
            found(start + flag, stop);
        }
    });
}

/// `-pVALUE`, `-hpVALUE`.
fn glued_flag(value: &[u8]) -> Option<usize> {
    let flags: [&[u8]; 3] = [b"-p", b"-P", b"-hp"];
    flags.iter().find(|flag| value.starts_with(flag)).map(|flag| flag.len())
}

impl Local<'_> {
    /// The name and the value are joined by `=`, `:` and the like.
    fn is_assigned(&self) -> bool {
        let mut bytes = self.joint.iter();
        bytes.any(|byte| matches!(byte, b'=' | b':' | b'|' | b'>' | 0xef))
            || self.joint.windows(2).any(|two| two == b"??")
    }

    /// Nothing but blanks and quotes stands between.
    fn is_blank(&self) -> bool {
        let is_number = |byte: &u8| self.numbered && byte.is_ascii_digit();
        self.joint.iter().all(|byte| matches!(byte, b'"' | b'\'' | b'`' | b' ' | b'\t') || is_number(byte))
    }

    /// The value has a name of its own, whatever stands between bars.
    fn is_own(&self) -> bool {
        self.has(b'=') || self.has(b':')
    }

    fn has(&self, byte: u8) -> bool {
        self.joint.contains(&byte)
    }

    /// What follows is this name's value, as far as one can tell before it is there.
    fn is_joined(&self) -> bool {
        self.is_assigned() || self.has(b'(') || self.has(b',') || self.name.starts_with(b"-")
    }
}

fn is_secret_flag(name: &[u8]) -> bool {
    matches!(name, b"-p" | b"-P" | b"-w" | b"-W" | b"-k" | b"-t" | b"-N" | b"-hp" | b"/p")
}

fn is_user_flag(name: &[u8]) -> bool {
    matches!(name, b"-u" | b"-a" | b"-A" | b"-U" | b"--user" | b"--proxy-user" | b"--userpwd")
}

/// Whether a value is random beyond doubt; a path can look like it.
fn is_random(value: &[u8]) -> bool {
    shape::may_be_random(value)
        && shape(value, false) == Shape::Random
        && is_beyond_doubt(value)
        && !shape::is_other(value, false)
}

fn is_beyond_doubt(value: &[u8]) -> bool {
    value.len() >= 8 && !(value.contains(&b'/') && value.len() < 16)
}

/// What is known of a value.
struct Value<'t> {
    bytes: &'t [u8],
    shape: Shape,
    quoted: bool,
}

impl Value<'_> {
    fn is_random(&self) -> bool {
        self.shape == Shape::Random && is_beyond_doubt(self.bytes)
    }

    /// Whether it is a secret, given that its name means this.
    fn is_secret_of(&self, name: Meaning) -> bool {
        let length = self.bytes.len();
        match name {
            Meaning::Password => self.shape >= Shape::Chosen,
            Meaning::Secret => {
                (self.shape >= Shape::Made && length >= 8) || (self.shape == Shape::Chosen && length >= 16)
            }
            Meaning::Perhaps => {
                (self.shape == Shape::Random && length >= 16)
                    || (self.shape == Shape::Made && length >= 32 && !shape::is_uuid(self.bytes))
            }
            Meaning::Nothing => false,
        }
    }
}

/// Returns where the secret ends that begins at `start`, if it is one.
fn judge_value(line: Line<'_>, start: usize, stop: usize) -> Option<usize> {
    let text = line.text;
    let is_quote = |at: usize| text.get(at).is_some_and(|byte| matches!(byte, b'"' | b'\'' | b'`'));
    let quoted = start > 0 && is_quote(start - 1) && (is_quote(stop) || text.get(stop) == Some(&b'\\'));
    let bytes = trimmed(line, start, stop, quoted);
    let local = line.local(start);
    let name = meaning(local.name);
    // Most values that nothing tells about are refused without a closer look.
    let is_told = name > Meaning::Nothing || is_secret_flag(local.name) || is_given_to(local.name);
    if !is_told && !shape::may_be_random(bytes) && !line.is_first(start) {
        return None;
    }
    let shape = match shape(bytes, quoted) {
        Shape::Nothing
            if name == Meaning::Password && local.is_assigned() && shape::is_worded_password(bytes) =>
        {
            Shape::Chosen
        }
        Shape::Nothing => return None,
        shape => shape,
    };
    let value = Value { bytes, shape, quoted };
    let is_secret = match by_name(line, start, name, &value, &local) {
        Some(decided) => decided,
        None => by_surroundings(line, start, stop, &value, &local),
    };
    let is_secret = is_secret || (!local.is_own() && by_column(line, start, &value));
    (is_secret && !shape::is_other(bytes, quoted)).then_some(start + bytes.len())
}

/// A value without what stands behind it: the end of a sentence, other fields of an account, the host behind `user:password`.
fn trimmed(line: Line<'_>, start: usize, stop: usize, quoted: bool) -> &[u8] {
    let mut bytes = &line.text[start..stop];
    if shape::is_password_hash(bytes) {
        return bytes.split(|byte| *byte == b':').next().unwrap_or(bytes);
    }
    let is_pair = start > line.low && line.text[start - 1] == b':';
    if let Some(at) = memchr::memrchr(b'@', bytes).filter(|_| is_pair)
        && bytes[at + 1..].first().is_some_and(u8::is_ascii_alphanumeric)
        && shape::strangeness(&bytes[at + 1..]) < 0.5
    {
        bytes = &bytes[..at];
    }
    let behind =
        if quoted { 0 } else { bytes.iter().rev().take_while(|byte| b".:,?!".contains(byte)).count() };
    &bytes[..bytes.len() - behind]
}

/// Decides where the name of a value tells; otherwise nothing.
fn by_name(
    line: Line<'_>,
    start: usize,
    name: Meaning,
    value: &Value<'_>,
    local: &Local<'_>,
) -> Option<bool> {
    let text = line.text;
    let is_list = local.has(b',') && !local.is_assigned();
    let before = local.name_start.checked_sub(1).and_then(|at| text.get(at));
    let is_pair = name >= Meaning::Secret && before.is_some_and(|byte| matches!(byte, b'"' | b'\''));
    if is_list && !is_pair && !line.before(start).iter().any(|byte| matches!(byte, b'(' | b'[' | b'{')) {
        return Some(line.near(start) == Near::Act && value.is_random() && value.bytes.len() >= 10);
    }
    if name == Meaning::Nothing {
        return None;
    }
    if local.is_assigned() {
        let doubtful =
            name == Meaning::Perhaps && (is_map_key(value, local) || is_key_of_store(value, local));
        return Some(!doubtful && value.is_secret_of(name));
    }
    if local.name.starts_with(b"-") {
        return Some(value.is_secret_of(name));
    }
    if local.has(b'(') || local.has(b',') {
        let is_argument = local.has(b'(') || before.is_some_and(|byte| b"\"':@(".contains(byte));
        return (value.quoted && is_argument && value.is_secret_of(name)).then_some(true);
    }
    let brackets = |byte: &u8| b"\"'` \t)]}{([".contains(byte);
    if value.quoted && name >= Meaning::Secret && local.joint.iter().all(brackets) && value.is_secret_of(name)
    {
        return Some(true);
    }
    let length = value.bytes.len();
    let is_plain = !value.bytes.iter().any(|byte| matches!(byte, b'/' | b'.' | b':'));
    let decided = match name {
        _ if !local.is_blank() => false,
        Meaning::Perhaps => {
            (value.shape == Shape::Random && length >= 16) || (local.numbered && value.shape >= Shape::Made)
        }
        _ => value.shape == Shape::Random || (value.shape == Shape::Made && length >= 16 && is_plain),
    };
    decided.then_some(true)
}

/// `key: linux-3f2a…`, the key of a cache, and `"key": "…="`, as public keys are told.
fn is_map_key(value: &Value<'_>, local: &Local<'_>) -> bool {
    let letters = value.bytes.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
    let is_worded =
        letters >= 2 && value.bytes.get(letters).is_some_and(|byte| matches!(byte, b'-' | b'_' | b':'));
    let is_key = local.name.eq_ignore_ascii_case(b"key");
    is_key && (is_worded || value.bytes.ends_with(b"="))
}

/// `session:3f2a…`, the key of a store.
fn is_key_of_store(value: &Value<'_>, local: &Local<'_>) -> bool {
    value.shape == Shape::Made && !value.quoted && !local.has(b'=') && !local.has(b' ')
}

/// Decides by flags and by telling words farther off, where only random values count.
fn by_surroundings(line: Line<'_>, start: usize, stop: usize, value: &Value<'_>, local: &Local<'_>) -> bool {
    let length = value.bytes.len();
    let is_alone = local.joint.iter().all(|byte| matches!(byte, b'"' | b'\'' | b' ' | b'='));
    if is_secret_flag(local.name) && is_alone {
        let is_told =
            value.shape == Shape::Made && length >= 32 && line.near(local.name_start) > Near::Nothing;
        let has_sign = value.bytes.iter().any(|byte| b"!#@%^*+".contains(byte));
        let is_chosen = matches!(local.name, b"-p" | b"-P") && (value.quoted || has_sign);
        return value.is_random() || is_told || is_chosen;
    }
    if !value.is_random() {
        return is_made_for(line, start, stop, value, local);
    }
    // `auth sha …`, `md5 …`: how a key is used stands between it and its name.
    let is_algorithm = [&b"md5"[..], b"sha", b"sha256", b"aes", b"des"]
        .iter()
        .any(|one| local.name.eq_ignore_ascii_case(one));
    if is_algorithm && local.is_blank() && line.near(local.name_start) > Near::Nothing {
        return true;
    }
    let words = Words::of(local.name);
    let is_other = has(&NEGATIVE_NAMES, words.last())
        || has(&NEGATIVE_NAMES, local.name)
        || words.has(b"public")
        || words.has(b"sha");
    if is_other && local.is_assigned() && !local.has(b'/') {
        return false;
    }
    let is_users = local.joint == b":" && is_user_flag(line.local(local.name_start).name);
    if is_users || (is_user_flag(local.name) && line.text[stop - 1] == b':') {
        return true;
    }
    match line.near(start) {
        Near::Secret => true,
        Near::Act => {
            let joint = local.joint.trim_ascii();
            // A value with a name of its own belongs to that.
            let is_named = local.is_assigned() && (local.has(b'=') || joint.starts_with(b"\""));
            let is_told = value.quoted || joint.is_empty() || joint.iter().any(|byte| b"/:>".contains(byte));
            length >= 10 && is_told && !is_named
        }
        Near::Nothing => {
            (ends_line(line, stop) && line.is_asked_for(start))
                || (length >= 10 && is_told_behind(line, stop))
        }
    }
}

/// Decides by the name of the column that a value stands in.
fn by_column(line: Line<'_>, start: usize, value: &Value<'_>) -> bool {
    value.shape >= Shape::Made
        && columns::name(line, start).is_some_and(|name| {
            let name = meaning(name);
            name >= Meaning::Secret && value.is_secret_of(name)
        })
}

/// `… as the bearer token`, `… forKey: "refreshToken"`: the telling words stand behind the value.
fn is_told_behind(line: Line<'_>, stop: usize) -> bool {
    let mut names = line.names_behind(stop);
    let joins = names.next().is_some_and(|name| has(&BEHIND, name));
    joins && names.take(4).any(|name| meaning(name) >= Meaning::Secret)
}

fn ends_line(line: Line<'_>, at: usize) -> bool {
    line.text.get(at).is_none_or(|byte| matches!(byte, b'\r' | b'\n'))
}

/// Decides about values that identifiers and digests look like: `wandb login 3f2a…`, and what a line before asks for.
fn is_made_for(line: Line<'_>, start: usize, stop: usize, value: &Value<'_>, local: &Local<'_>) -> bool {
    let length = value.bytes.len();
    if value.shape != Shape::Made || length < 20 {
        return false;
    }
    let is_given = is_given_to(local.name) && local.joint.trim_ascii().is_empty();
    (length >= 32 && is_given) || (ends_line(line, stop) && line.is_asked_for(start))
}

/// `login`, `auth` and such, as the last word of a command.
fn is_given_to(name: &[u8]) -> bool {
    [&b"login"[..], b"auth", b"authtoken"].iter().any(|one| name.eq_ignore_ascii_case(one))
}

/// Finds the password of `user/password`, `user%password` and `user:password@host`.
fn password_of_pair(line: Line<'_>, start: usize, stop: usize) -> Option<(usize, usize)> {
    let run = &line.text[start..stop];
    [b'/', b'%', b':'].iter().find_map(|sign| {
        let at = memchr::memchr(*sign, run).filter(|at| (1..=32).contains(at))?;
        let (user, rest) = (&run[..at], &run[at + 1..]);
        let length = memchr::memchr(b'@', rest).unwrap_or(rest.len());
        let value = &rest[..length];
        if !shape::may_be_random(value) {
            return None;
        }
        let is_user = user.iter().all(|byte| context::is_name(*byte) || *byte == b'@');
        let is_word =
            (at <= 16 && user.iter().all(u8::is_ascii_alphabetic)) || shape::strangeness(user) < 0.5;
        if value.contains(&b'/') || !is_user || !is_word || !is_random(value) {
            return None;
        }
        let local = line.local(start);
        let is_quoted = start > 0 && line.text[start - 1] == b'"';
        let is_other = local.is_assigned() && (is_quoted || has(&NEGATIVE_NAMES, local.name));
        let is_told = line.near(start) > Near::Nothing || is_user_flag(local.name);
        (is_told && !is_other).then_some((start + at + 1, start + at + 1 + length))
    })
}

#[cfg(test)]
mod tests;

//! What a name means: its words, in any style of writing, and whether they stand for a secret. Knows no values.

use super::vocabulary::{
    KEY_HEADS, KEY_NEGATIVE, NEGATIVE_TAILS, NEUTRAL_TAILS, PASSWORD_WORDS, SECRET_ENDINGS, SECRET_WORDS,
    WEAK_WORDS, has,
};

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Meaning {
    Nothing,
    /// Something that may be a secret: a key, a session, a cookie.
    Perhaps,
    /// A token or a key that must not be known.
    Secret,
    Password,
}

/// Returns the parts of a name: `dbPassword`, `DB_PASSWORD` and `db-password` have two.
pub(super) fn parts(name: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = name;
    std::iter::from_fn(move || {
        let start = rest.iter().position(|byte| byte.is_ascii_alphanumeric() || *byte >= 0x80)?;
        rest = &rest[start..];
        let length = part_length(rest);
        let (part, behind) = rest.split_at(length);
        rest = behind;
        Some(part)
    })
}

fn part_length(text: &[u8]) -> usize {
    let run = |is: fn(&u8) -> bool| text.iter().take_while(|byte| is(byte)).count();
    let is_small = |byte: &u8| byte.is_ascii_lowercase() || *byte >= 0x80;
    match text[0] {
        b'0'..=b'9' => run(u8::is_ascii_digit),
        b'A'..=b'Z' => {
            let capitals = run(u8::is_ascii_uppercase);
            let is_followed = text.get(capitals).is_some_and(is_small);
            match capitals {
                1 => 1 + text[1..].iter().take_while(|byte| is_small(byte)).count(),
                // The last capital begins the next word.
                _ if is_followed => capitals - 1,
                _ => capitals,
            }
        }
        _ => text.iter().take_while(|byte| is_small(byte)).count(),
    }
}

/// More words than any name needs.
const WORDS_MAX: usize = 16;

/// The words of a name, as they are written.
pub(super) struct Words<'t> {
    list: [&'t [u8]; WORDS_MAX],
    len: usize,
}

impl<'t> Words<'t> {
    pub(super) fn of(name: &'t [u8]) -> Self {
        let (mut list, mut len): ([&[u8]; WORDS_MAX], usize) = ([&[]; WORDS_MAX], 0);
        for part in parts(name).take(WORDS_MAX) {
            list[len] = part;
            len += 1;
        }
        Self { list, len }
    }

    pub(super) fn all(&self) -> &[&'t [u8]] {
        &self.list[..self.len]
    }

    pub(super) fn last(&self) -> &'t [u8] {
        self.all().last().copied().unwrap_or_default()
    }

    /// The last word that is no number.
    pub(super) fn last_word(&self) -> &'t [u8] {
        self.before(self.len)
    }

    /// Whether one of the words is this one.
    pub(super) fn has(&self, word: &[u8]) -> bool {
        self.all().iter().any(|one| one.eq_ignore_ascii_case(word))
    }

    /// The word before, numbers left out.
    fn before(&self, index: usize) -> &'t [u8] {
        let mut before = self.list[..index].iter().rev();
        before.find(|word| !word[0].is_ascii_digit()).copied().unwrap_or_default()
    }
}

fn is(word: &[u8], other: &str) -> bool {
    word.eq_ignore_ascii_case(other.as_bytes())
}

fn ends(word: &[u8], ending: &str) -> bool {
    let from = word.len().checked_sub(ending.len());
    from.is_some_and(|from| is(&word[from..], ending))
}

/// Words for passwords in letters that have no small and large ones here.
const FOREIGN: [&str; 8] =
    ["пароль", "Пароль", "密码", "パスワード", "hasło", "contraseña", "şifre", "비밀번호"];

/// Says what a name stands for. What follows the telling word counts: `password_file` is none.
pub(super) fn meaning(name: &[u8]) -> Meaning {
    if name.len() < 2 {
        return Meaning::Nothing;
    }
    if name.iter().any(|byte| *byte >= 0x80) && FOREIGN.iter().any(|word| ends(name, word)) {
        return Meaning::Password;
    }
    let words = Words::of(name);
    let is_capital = name.iter().all(|byte| matches!(byte, b'A'..=b'Z' | b'0'..=b'9' | b'_'));
    let found = (0..words.len).rev().find_map(|at| Some((at, word_meaning(&words, at, is_capital)?)));
    let Some((index, mut found)) = found else { return Meaning::Nothing };
    let never = ["public", "tokenizer", "max", "min", "publishable", "checksum", "fingerprint"];
    if words.all().iter().any(|word| never.iter().any(|never| is(word, never))) {
        return Meaning::Nothing;
    }
    for word in &words.all()[index + 1..] {
        if has(&NEGATIVE_TAILS, word) {
            return Meaning::Nothing;
        }
        if !has(&NEUTRAL_TAILS, word) && !word[0].is_ascii_digit() {
            found = found.min(Meaning::Perhaps);
        }
    }
    found
}

fn word_meaning(words: &Words<'_>, index: usize, is_capital: bool) -> Option<Meaning> {
    let word = words.list[index];
    if word.len() < 2 || word[0].is_ascii_digit() {
        return None;
    }
    if has(&PASSWORD_WORDS, word) {
        return Some(Meaning::Password);
    }
    if has(&SECRET_WORDS, word) || ends(word, "community") {
        return Some(Meaning::Secret);
    }
    if word.len() > 5 {
        if ["password", "passwords", "passwd", "passphrase", "passwort"].iter().any(|one| ends(word, one)) {
            return Some(Meaning::Password);
        }
        if SECRET_ENDINGS.iter().any(|ending| ends(word, ending)) {
            return Some(Meaning::Secret);
        }
        let others = ["bypass", "compass", "trespass", "surpass", "overpass"];
        if ends(word, "pass") && !others.iter().any(|other| is(word, other)) {
            return Some(Meaning::Password);
        }
    }
    if is(word, "key") || is(word, "keys") {
        let before = words.before(index);
        return Some(if has(&KEY_NEGATIVE, before) {
            Meaning::Nothing
        } else if has(&KEY_HEADS, before) || (!before.is_empty() && is_capital) {
            Meaning::Secret
        } else {
            Meaning::Perhaps
        });
    }
    let before = words.before(index);
    if (is(word, "hash") && is(before, "api"))
        || (is(word, "api") && is(words.list[0], "x") && index + 1 == words.len)
    {
        return Some(Meaning::Secret);
    }
    if is(word, "sid") {
        let is_session =
            index == 0 || ["connect", "session"].iter().any(|one| is(words.list[index - 1], one));
        return is_session.then_some(Meaning::Perhaps);
    }
    has(&WEAK_WORDS, word).then_some(Meaning::Perhaps)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str) -> Meaning {
        meaning(name.as_bytes())
    }

    #[test]
    fn names_are_cut_into_words_in_every_style() {
        let cut = |name: &'static str| -> Vec<&str> {
            parts(name.as_bytes()).map(|part| std::str::from_utf8(part).unwrap()).collect()
        };
        assert_eq!(cut("dbPassword2"), ["db", "Password", "2"]);
        assert_eq!(cut("AWS_SECRET-access.key"), ["AWS", "SECRET", "access", "key"]);
        assert_eq!(cut("HTTPServerKey"), ["HTTP", "Server", "Key"]);
    }

    #[test]
    fn the_meaning_of_a_name_is_that_of_its_last_telling_word() {
        for name in ["password", "DB_PASS", "dbPassword", "spring.datasource.password", "rootpw", "пароль"]
        {
            assert_eq!(of(name), Meaning::Password, "{name}");
        }
        for name in ["apiKey", "ACME_TOKEN", "client-secret", "S3_KEY", "x-api-key", "jwtSecret"] {
            assert_eq!(of(name), Meaning::Secret, "{name}");
        }
        for name in ["key", "session", "auth", "token_accessory"] {
            assert_eq!(of(name), Meaning::Perhaps, "{name}");
        }
        for name in [
            "password_file",
            "secretName",
            "publicKey",
            "token_count",
            "max_tokens",
            "primary_key",
            "monkey",
            "bypass",
            "name",
            "TOKEN_TTL",
            "key_id",
            "accountSid",
        ] {
            assert_eq!(of(name), Meaning::Nothing, "{name}");
        }
    }
}

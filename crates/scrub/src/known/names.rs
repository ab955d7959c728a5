//! Which variables of an environment hold secrets, judged by their names and the look of their values.

use crate::limits;

/// Parts of names that mean a secret, and names that only look like it.
const SECRET_WORDS: &[&str] = &[
    "KEY",
    "TOKEN",
    "SECRET",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "PASS",
    "PWD",
    "CREDENTIAL",
    "CREDENTIALS",
    "AUTH",
    "AUTHORIZATION",
    "PRIVATE",
    "COOKIE",
    "DSN",
    "WEBHOOK",
    "APIKEY",
    "PAT",
    "SIGNATURE",
    "SALT",
    "JWT",
];
const NOT_SECRET: &[&str] = &["PWD", "OLDPWD", "SSH_AUTH_SOCK", "XAUTHORITY", "GPG_TTY", "GIT_AUTHOR_NAME"];

/// Values that are settings, whatever their name.
const SETTINGS: &[&str] = &["disabled", "enabled", "production", "development", "localhost", "undefined"];

/// Tells whether a variable of this name holds a secret.
pub(crate) fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    if NOT_SECRET.contains(&name.as_str()) {
        return false;
    }
    let squeezed = name.replace(['_', '-'], "");
    name.split(['_', '-', '.']).any(|part| SECRET_WORDS.contains(&part))
        || ["APIKEY", "ACCESSKEY", "SECRETKEY", "PASSWORD", "TOKEN", "SECRET", "CONNECTIONSTRING"]
            .iter()
            .any(|word| squeezed.contains(word))
}

/// Tells whether a value can be a secret: not a path, a number, a switch or a plain setting.
pub(crate) fn is_value(value: &str) -> bool {
    let value = value.trim();
    let path = value.starts_with('/') && !value.ends_with('=') && value[1..].contains('/');
    let number = value.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'-'));
    value.len() >= limits::KNOWN_SECRET_MIN
        && !path
        && !number
        && !SETTINGS.iter().any(|setting| value.eq_ignore_ascii_case(setting))
}

/// Returns the passwords of addresses (`scheme://user:password@host`) in a value, as written and decoded.
pub(crate) fn passwords_in_address(value: &str) -> Vec<String> {
    let mut found = Vec::new();
    for part in value.split([' ', ',', '\n']) {
        let Some((_, rest)) = part.split_once("://") else { continue };
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        // A password may hold an at sign that somebody forgot to escape; the host cannot.
        let Some((user, _)) = authority.rsplit_once('@') else { continue };
        let Some((_, password)) = user.split_once(':') else { continue };
        let decoded = decode(password);
        if decoded != password {
            found.push(decoded);
        }
        found.push(password.to_owned());
    }
    found.retain(|password| password.len() >= limits::KNOWN_SECRET_MIN);
    found
}

fn decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let digits = bytes.get(at + 1..at + 3).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) if bytes[at] == b'%' => {
                out.push(byte);
                at += 3;
            }
            _ => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

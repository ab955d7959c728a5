//! Known secrets: which are taken from an environment, and that every encoding is found wherever it stands.

use super::super::{Config, Scrubber};
use super::*;

const SECRET: &str = "Tr0ub4dor&3/\"horse\"";

fn scrubber(secret: &str) -> Scrubber {
    static RULES: std::sync::OnceLock<Scrubber> = std::sync::OnceLock::new();
    let rules = RULES.get_or_init(|| Scrubber::new(&Config::new()).unwrap());
    rules.with_known(&[KnownSecret::new("DB_PASSWORD", secret)]).unwrap()
}

fn scrub(secret: &str, text: &[u8]) -> String {
    shown(&scrubber(secret), text)
}

fn shown(scrubber: &Scrubber, text: &[u8]) -> String {
    String::from_utf8_lossy(&scrubber.scrub(text).bytes).into_owned()
}

fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for chunk in bytes.chunks(3) {
        let word =
            chunk.iter().fold(0u32, |word, &byte| word << 8 | u32::from(byte)) << (8 * (3 - chunk.len()));
        for at in 0..=chunk.len() {
            out.push(char::from(ALPHABET[(word >> (18 - 6 * at) & 63) as usize]));
        }
    }
    while !out.len().is_multiple_of(4) {
        out.push('=');
    }
    out
}

#[test]
fn every_encoding_is_redacted() {
    let json = serde_json::to_string(SECRET).unwrap();
    let hex: String = SECRET.bytes().map(|byte| format!("{byte:02x}")).collect();
    let forms = [
        SECRET.to_owned(),
        json.clone(),
        serde_json::to_string(&json).unwrap(),
        hex.to_uppercase(),
        hex,
        "Tr0ub4dor%263%2F%22horse%22".into(),
        "Tr0ub4dor%263%2f%22horse%22".into(),
        "Tr0ub4dor&amp;3/&quot;horse&quot;".into(),
        "Tr0ub4dor&3\\/\\\"horse\\\"".into(),
    ];
    for form in forms {
        let out = scrub(SECRET, format!("x {form} y").as_bytes());
        assert!(out.contains("[REDACTED:env:DB_PASSWORD]"), "{form} stays: {out}");
        assert!(!out.contains("ub4dor"), "{form}: {out}");
    }
}

#[test]
fn base64_is_redacted_at_every_alignment_and_across_line_breaks() {
    let scrubber = scrubber(SECRET);
    for before in ["", "u", "us", "user:", "a longer user name here:"] {
        for after in ["", "1", "12", "123"] {
            let text = base64(format!("{before}{SECRET}{after}").as_bytes());
            let out = shown(&scrubber, text.as_bytes());
            assert!(out.contains("[REDACTED:env:DB_PASSWORD]"), "{before:?} {after:?}: {out}");
            for width in 12..40 {
                let lines: Vec<&str> =
                    text.as_bytes().chunks(width).map(|l| std::str::from_utf8(l).unwrap()).collect();
                let out = shown(&scrubber, lines.join("\n").as_bytes());
                assert!(out.contains("[REDACTED:env:DB_PASSWORD]"), "{before:?} {after:?} {width}: {out}");
            }
        }
    }
}

#[test]
fn lines_of_a_secret_with_several_lines_are_secrets() {
    let secret = "first line here\nshort\nsecond-line-there\n-----END THING-----";
    assert_eq!(scrub(secret, b"= first line here ="), "= [REDACTED:env:DB_PASSWORD] =");
    assert_eq!(scrub(secret, b"second-line-there"), "[REDACTED:env:DB_PASSWORD]");
    assert_eq!(scrub(secret, b"short -----END THING-----"), "short -----END THING-----");
}

#[test]
fn colour_codes_inside_do_not_hide_it() {
    let out = scrub(SECRET, b"a Tr0ub\x1b[01;31m\x1b[K4dor\x1b[m\x1b[K&3/\"horse\" b");
    assert_eq!(out, "a [REDACTED:env:DB_PASSWORD]\x1b[01;31m\x1b[K\x1b[m\x1b[K b");
}

#[test]
fn case_matters_and_short_or_dull_values_are_left() {
    assert_eq!(scrub(SECRET, b"tr0ub4dor&3/\"horse\""), "tr0ub4dor&3/\"horse\"");
    assert_eq!(scrub("short", b"short"), "short");
    assert_eq!(scrub("aaaaaaaaaaaa", b"aaaaaaaaaaaa"), "aaaaaaaaaaaa");
}

#[test]
fn secrets_are_picked_from_an_environment() {
    let env = [
        ("OPENAI_API_KEY", "not-a-real-key-1"),
        ("MYAPP_DBPASSWORD", "correct horse"),
        ("DATABASE_URL", "postgres://app:p%40ssw0rd!@db/app"),
        ("HOME", "/home/anna"),
        ("PWD", "/home/anna/project"),
        ("SSH_AUTH_SOCK", "/tmp/ssh-x/agent.1"),
        ("TOKEN_TTL", "86400000"),
        ("AUTH_MODE", "disabled"),
        ("KEYBOARD", "qwertyuiop"),
    ];
    let found = KnownSecret::from_env(env);
    let found: Vec<(&str, &[u8])> = found.iter().map(|one| (&*one.name, &*one.value)).collect();
    let expected: [(&str, &[u8]); 4] = [
        ("env:OPENAI_API_KEY", b"not-a-real-key-1"),
        ("env:MYAPP_DBPASSWORD", b"correct horse"),
        ("env:DATABASE_URL", b"p@ssw0rd!"),
        ("env:DATABASE_URL", b"p%40ssw0rd!"),
    ];
    assert_eq!(found, expected);
    assert!(!format!("{:?}", KnownSecret::new("A", "value-of-a")).contains("value-of-a"));
}

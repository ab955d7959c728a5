//! Texts to measure with, generated from templates: build logs, listings, test output, source, and texts made
//! to be slow.

/// A small pseudo-random number generator.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn pick<'t>(&mut self, list: &[&'t str]) -> &'t str {
        list[(self.next() % list.len() as u64) as usize]
    }

    fn hex(&mut self, len: usize) -> String {
        (0..len).map(|_| char::from(b"0123456789abcdef"[(self.next() % 16) as usize])).collect()
    }
}

const CRATES: &[&str] = &[
    "serde",
    "tokio",
    "hyper-util",
    "regex-automata",
    "rustls",
    "aho-corasick",
    "proc-macro2",
    "tracing-subscriber",
    "unicode-ident",
    "crossbeam-utils",
    "parking_lot_core",
    "thiserror-impl",
    "futures-channel",
    "indexmap",
    "syn",
];
const FILES: &[&str] = &[
    "src/session/actor.rs",
    "crates/runtime/src/journal.rs",
    "src/token/mod.rs",
    "lib/auth/handler.ts",
    "pkg/api/key_test.go",
    "node_modules/@babel/core/lib/index.js",
    "tests/password_reset.py",
    "target/debug/build/ring-1/out/api.o",
    "docs/index.md",
];
const WORDS: &[&str] = &[
    "the",
    "build",
    "of",
    "module",
    "finished",
    "in",
    "with",
    "warnings",
    "test",
    "request",
    "session",
    "started",
    "for",
    "value",
    "cache",
    "checked",
    "updated",
    "and",
    "connection",
    "to",
    "worker",
    "token",
    "key",
    "is",
    "not",
    "used",
    "result",
];

/// Returns the measured texts with their names.
pub(crate) fn all(size: usize) -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("build log (cargo)", lines(size, cargo)),
        ("build log (make, cc)", lines(size, make)),
        ("build log with colours", lines(size, coloured)),
        ("test output", lines(size, tests)),
        ("service log, JSON", lines(size, json)),
        ("ls -laR", lines(size, listing)),
        ("source with keys and tokens", lines(size, source)),
        ("log with a secret every 2 KB", lines(size, secrets)),
    ]
}

fn lines(size: usize, mut line: impl FnMut(&mut Dice, usize) -> String) -> Vec<u8> {
    let mut dice = Dice(7);
    let mut text = Vec::with_capacity(size + 512);
    let mut number = 0;
    while text.len() < size {
        text.extend(line(&mut dice, number).bytes());
        text.push(b'\n');
        number += 1;
    }
    text
}

fn cargo(dice: &mut Dice, number: usize) -> String {
    let name = dice.pick(CRATES);
    match number % 12 {
        0 => format!(
            "warning: unused variable: `{}`\n  --> {}:{}:{}\n   |",
            dice.pick(WORDS),
            dice.pick(FILES),
            dice.next() % 900,
            dice.next() % 80
        ),
        1 => format!(
            "     Running `rustc --crate-name {} --edition=2021 --emit=dep-info,metadata,link -C opt-level=3 -C metadata={} --out-dir target/release/deps`",
            name.replace('-', "_"),
            dice.hex(16)
        ),
        2 => format!("    Fresh {name} v1.{}.{}", dice.next() % 40, dice.next() % 20),
        _ => format!("   Compiling {name} v{}.{}.{}", dice.next() % 3, dice.next() % 40, dice.next() % 20),
    }
}

fn make(dice: &mut Dice, number: usize) -> String {
    let file = dice.pick(FILES);
    match number % 6 {
        0 => format!("[{:>3}%] Building C object CMakeFiles/core.dir/{file}.o", dice.next() % 100),
        1 => format!(
            "{file}:{}:{}: warning: implicit conversion loses integer precision: 'size_t' to 'int' [-Wshorten-64-to-32]",
            dice.next() % 900,
            dice.next() % 90
        ),
        _ => format!(
            "/usr/bin/cc -DNDEBUG -I/usr/include/libxml2 -Iinclude -O2 -g -fPIC -Wall -Wextra -MD -MT {file}.o -MF {file}.d -o {file}.o -c /src/{file}"
        ),
    }
}

fn coloured(dice: &mut Dice, number: usize) -> String {
    let name = dice.pick(CRATES);
    if number.is_multiple_of(5) {
        format!("\x1b[0m\x1b[1m\x1b[33mwarning\x1b[0m\x1b[0m\x1b[1m: unused {}\x1b[0m", dice.pick(WORDS))
    } else {
        format!(
            "\x1b[0m\x1b[0m\x1b[1m\x1b[32m   Compiling\x1b[0m {name} v1.{}.{}",
            dice.next() % 40,
            dice.next() % 20
        )
    }
}

fn tests(dice: &mut Dice, _: usize) -> String {
    format!(
        "        PASS [   {}.{:03}s] workbench::it {}::{}_{}_{}",
        dice.next() % 9,
        dice.next() % 1000,
        dice.pick(WORDS),
        dice.pick(WORDS),
        dice.pick(WORDS),
        dice.pick(WORDS)
    )
}

fn json(dice: &mut Dice, _: usize) -> String {
    format!(
        r#"{{"ts":"2026-11-15T04:{:02}:{:02}Z","level":"info","trace_id":"{}","msg":"{} {} {}","path":"/api/v1/{}","status":200,"ms":{}}}"#,
        dice.next() % 60,
        dice.next() % 60,
        dice.hex(32),
        dice.pick(WORDS),
        dice.pick(WORDS),
        dice.pick(WORDS),
        dice.pick(WORDS),
        dice.next() % 900
    )
}

fn listing(dice: &mut Dice, _: usize) -> String {
    format!(
        "-rw-r--r--  1 user user {:>8} Nov {:>2} 04:{:02} {}-{}",
        dice.next() % 9_000_000,
        dice.next() % 28 + 1,
        dice.next() % 60,
        dice.pick(CRATES),
        dice.hex(16)
    )
}

fn source(dice: &mut Dice, number: usize) -> String {
    match number % 7 {
        0 => format!(
            "    let token = self.{}.next_token()?; // the {} of the {}",
            dice.pick(WORDS),
            dice.pick(WORDS),
            dice.pick(WORDS)
        ),
        1 => format!("    pub {}_key: Option<String>,", dice.pick(WORDS)),
        2 => format!(
            "    if password.len() < {} {{ return Err(Error::{}); }}",
            dice.next() % 20,
            dice.pick(WORDS)
        ),
        3 => format!("    map.insert(\"{}_{}\", key.clone());", dice.pick(WORDS), dice.pick(WORDS)),
        _ => format!(
            "    {}.{}({}, &{}).{}();",
            dice.pick(WORDS),
            dice.pick(WORDS),
            dice.pick(WORDS),
            dice.pick(WORDS),
            dice.pick(WORDS)
        ),
    }
}

fn secrets(dice: &mut Dice, number: usize) -> String {
    match number % 60 {
        17 => format!("  env: GITHUB_TOKEN=ghp_{}{}", dice.hex(20), "aZ".repeat(8)),
        43 => format!("  \"api_key\": \"{}K\"", dice.hex(31)),
        _ => cargo(dice, number),
    }
}

/// An environment that contains some secrets.
pub(crate) fn environment() -> Vec<(String, String)> {
    let mut dice = Dice(11);
    (0..20).map(|number| (format!("SERVICE_{number}_TOKEN"), format!("tok-{}", dice.hex(40)))).collect()
}

/// Texts made to be slow, each in a single and a double length.
pub(crate) fn hostile() -> Vec<(&'static str, Vec<u8>, Vec<u8>)> {
    let repeat = |text: &str, size: usize| text.as_bytes().repeat(size / text.len() + 1);
    let all = |size: usize| {
        [
            (
                "every keyword again and again",
                repeat(
                    "api_key token secret password auth sk- ghp_ key- eyJ pat x- -- :// 0x sg. st. ",
                    size,
                ),
            ),
            ("assignments without values", repeat("password=\"token=\"secret=\"api_key=\"", size)),
            ("one long token", repeat("a0B1c2D3e4", size)),
            (
                "starts of keys",
                repeat("-----BEGIN PRIVATE KEY-----\nQUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo=\n", size),
            ),
            ("colour codes only", repeat("\x1b[1m\x1b[0m", size)),
            ("web tokens without an end", repeat("eyJhbGciOiJIUzI1NiJ9.", size)),
        ]
    };
    let size = 1 << 20;
    all(size).into_iter().zip(all(2 * size)).map(|((name, small), (_, large))| (name, small, large)).collect()
}

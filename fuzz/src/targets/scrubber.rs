//! Output scrubbing: chunk boundaries do not matter, a known secret never passes, and the amount held back is
//! bounded.

use anyhow::{Result, ensure};
use workbench::scrub::{Config, KnownSecret, Scrubber};

use crate::Target;

/// A secret of the environment, assembled here so that it is not taken for a live one.
const SECRET: &str = "kN0wn-5ecret/of+the=environment";

/// Maximum bytes a stream may hold back, whatever the input.
const HELD_MAX: usize = 64 * 1024;

pub(super) struct Scrubbing {
    scrubber: Scrubber,
}

impl Scrubbing {
    pub(super) fn new() -> Result<Self> {
        let config = Config::new().with_known([KnownSecret::new("API_SECRET", SECRET)]);
        let scrubber = Scrubber::new(&config).map_err(|error| anyhow::anyhow!("{error}"))?;
        Ok(Self { scrubber })
    }

    /// Feeds the text in chunks whose sizes derive from its own bytes.
    fn in_pieces(&self, text: &[u8], by: usize) -> Result<(Vec<u8>, u64)> {
        let mut stream = self.scrubber.stream();
        let mut out = Vec::new();
        let mut rest = text;
        let mut turn = by;
        while !rest.is_empty() {
            turn = turn.wrapping_mul(31).wrapping_add(usize::from(rest[0]));
            let (piece, later) = rest.split_at(1 + turn % 97 % rest.len());
            stream.push_into(piece, &mut out);
            ensure!(stream.held() <= HELD_MAX, "{} bytes are held back", stream.held());
            rest = later;
        }
        let (last, findings) = stream.finish();
        out.extend(last);
        Ok((out, findings.total()))
    }
}

impl Target for Scrubbing {
    fn name(&self) -> &'static str {
        "scrubber"
    }

    fn seeds(&self) -> Vec<Vec<u8>> {
        let token = format!("ghp_{}", "aB3dE5gH7jK9mN1pQ3sT5vX7zB9dF1hJ2kL4");
        let key = format!(
            "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n",
            "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC".repeat(4)
        );
        [
            "an ordinary line of a build\nand another\n".to_owned(),
            format!("token={token} and more"),
            format!("password: \"{SECRET}\"\n"),
            key,
            "AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYzQ7pLm9vRt\n".to_owned(),
            "https://user:hunter2hunter2@example.com/x?api_key=0123456789abcdef0123456789abcdef\n".to_owned(),
            "\u{1b}[31mred\u{1b}[0m eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJlc2lnbmF0dXJl\n"
                .to_owned(),
        ]
        .map(String::into_bytes)
        .to_vec()
    }

    fn words(&self) -> &'static [&'static str] {
        &[
            "secret",
            "token=",
            "password",
            "api_key: ",
            "-----BEGIN PRIVATE KEY-----",
            "-----END",
            "\u{1b}[0m",
            "\r\n",
            "\n",
            "ghp_",
            "AKIA",
            "eyJ",
            ".",
            "==",
            "%3D",
            "\\u0041",
            "xoxb-",
            "://",
            "@",
            "\u{fffd}",
            "é",
            "sk-",
            "Bearer ",
        ]
    }

    fn run(&mut self, input: &[u8]) -> Result<u64> {
        let whole = self.scrubber.scrub(input);
        for by in [1, 7] {
            let (out, found) = self.in_pieces(input, by)?;
            ensure!(
                out == whole.bytes && found == whole.findings.total(),
                "how it is cut changes what comes out"
            );
        }
        ensure!(whole.bytes.len() <= input.len().saturating_mul(64) + 64, "the output explodes");
        // A known secret never passes, wherever it is inserted.
        let at = input.len() / 2;
        let planted = [&input[..at], b" ", SECRET.as_bytes(), b" ", &input[at..]].concat();
        let out = self.scrubber.scrub(&planted).bytes;
        let passed = out.windows(SECRET.len()).any(|piece| piece == SECRET.as_bytes());
        ensure!(!passed, "a known secret came out");
        let rules =
            whole.findings.counts().keys().fold(0u64, |sum, rule| sum ^ crate::mutate::hash(rule.as_bytes()));
        Ok(rules ^ whole.findings.total().min(4))
    }
}

//! The scrubber: every rule with its examples, the labelled corpus, and that chunks change nothing.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod documents;
mod live;
mod made_up;
mod quality;
mod rules;

use std::sync::OnceLock;

use scrub::{Config, Scrubber};

/// Our rules and nothing else.
fn scrubber() -> &'static Scrubber {
    static SCRUBBER: OnceLock<Scrubber> = OnceLock::new();
    SCRUBBER.get_or_init(|| Scrubber::new(&Config::new()).unwrap())
}

fn scrub(text: &str) -> (String, Vec<String>) {
    let scrubbed = scrubber().scrub(text.as_bytes());
    let rules = scrubbed.findings.list().iter().map(|finding| finding.rule.to_string()).collect();
    (String::from_utf8(scrubbed.bytes).unwrap(), rules)
}

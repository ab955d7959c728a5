//! Configuration files and rules that people write: any text is read or refused with a short error that quotes no more
//! than a line of it.

use std::path::Path;

use anyhow::{Result, ensure};
use config::file::Flags;
use config::vars::Vars;
use domain::permission::rules::{PermissionRule, RuleAction};

use super::kind;
use crate::Target;
use crate::mutate::hash;

/// Longest error.
const REFUSAL_MAX_BYTES: usize = 8_192;

/// `config.toml`.
pub(super) struct Configuration;

impl Target for Configuration {
    fn name(&self) -> &'static str {
        "configuration"
    }

    fn seeds(&self) -> Vec<Vec<u8>> {
        let keys = config::file::keys();
        let mut all: Vec<Vec<u8>> = keys.iter().map(|(key, _)| format!("{key} = 1\n").into_bytes()).collect();
        all.extend(keys.iter().map(|(key, _)| format!("{key} = \"a\"\n").into_bytes()));
        all.push(
            b"log_level = \"debug\"\n[limits]\nmemory = \"4G\"\n[limits.campaigns.shop]\ncpus = 2\n".to_vec(),
        );
        all
    }

    fn words(&self) -> &'static [&'static str] {
        &[
            "[",
            "]",
            "=",
            "\"",
            "\n",
            "true",
            "-1",
            "1e9",
            "99999999999999999999",
            "1979-05-27",
            "'''",
            "[[",
            "]]",
            ".",
            "#",
        ]
    }

    fn run(&mut self, input: &[u8]) -> Result<u64> {
        let text = String::from_utf8_lossy(input);
        let vars = Vars::of(&[("HOME", "/home/u")]);
        match config::file::load(Some((Path::new("config.toml"), &text)), &vars, &Flags::default()) {
            Ok(_) => Ok(1),
            Err(failure) => {
                ensure!(failure.message.len() < REFUSAL_MAX_BYTES + 4 * input.len(), "a long refusal");
                let words: String =
                    failure.message.chars().filter(|letter| letter.is_ascii_lowercase()).take(60).collect();
                Ok(hash(words.as_bytes()))
            }
        }
    }
}

/// Permission rules, one per line.
pub(super) struct Rules;

impl Target for Rules {
    fn name(&self) -> &'static str {
        "rules"
    }

    fn seeds(&self) -> Vec<Vec<u8>> {
        [
            "Bash(git status)",
            "Bash(git push:*)",
            "Read(./src/**)",
            "Edit(/etc/*)",
            "WebFetch(domain:example.com)",
            "*",
            "mcp__obey__*",
        ]
        .map(|rule| rule.as_bytes().to_vec())
        .to_vec()
    }

    fn words(&self) -> &'static [&'static str] {
        &["(", ")", "*", "**", "?", "[a-", "{a,b}", ":*", "Bash", "Read", "\\", "~/", "../", "é"]
    }

    fn run(&mut self, input: &[u8]) -> Result<u64> {
        let text = String::from_utf8_lossy(input);
        let mut how = 0;
        for line in text.lines() {
            how ^= match PermissionRule::listed(line, RuleAction::Deny, "fuzz") {
                Ok(rule) => hash(format!("{rule:?}").get(..24).unwrap_or_default().as_bytes()),
                Err(error) => kind(&error),
            };
        }
        Ok(how)
    }
}

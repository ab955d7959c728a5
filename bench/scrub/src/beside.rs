//! Secret scanners of others on the same text in the same run: those that are on the PATH. Each gets one file, as its user
//! would give it, and nothing else to do: no updates, no asking of services whether a secret works.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Scanners by the name of their program, and how they are asked; `{}` is the file.
const SCANNERS: &[(&str, &[&str])] = &[
    ("kingfisher", &["scan", "{}", "--no-validate", "--no-update-check", "--quiet"]),
    ("gitleaks", &["detect", "--no-git", "--no-banner", "--source", "{}", "--log-level", "error"]),
    ("ripsecrets", &["{}"]),
    ("trufflehog", &["filesystem", "{}", "--no-verification", "--no-update"]),
    ("detect-secrets", &["scan", "{}"]),
    ("secretlint", &["{}"]),
];

/// How often each is run; the fastest counts, so that what a program keeps for its next start is there.
const ROUNDS: usize = 2;

/// Returns what each scanner took; those that are not installed are left out.
pub(crate) fn scan(file: &Path) -> Vec<(&'static str, Duration)> {
    SCANNERS
        .iter()
        .filter_map(|(program, words)| {
            let times: Option<Vec<Duration>> = (0..ROUNDS).map(|_| once(program, words, file)).collect();
            Some((*program, times?.into_iter().min()?))
        })
        .collect()
}

/// Runs one; none if there is no such program. What it finds, and so its exit code, does not matter here.
fn once(program: &str, words: &[&str], file: &Path) -> Option<Duration> {
    let mut command = Command::new(program);
    for word in words {
        if *word == "{}" {
            command.arg(file)
        } else {
            command.arg(word)
        };
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let began = Instant::now();
    command.status().ok()?;
    Some(began.elapsed())
}

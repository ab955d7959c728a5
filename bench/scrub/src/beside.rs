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
    ("detect-secrets", &["scan", "--all-files", "{}"]),
    ("secretlint", &["{}"]),
];

/// One that is not done by then is slow enough; what it took so far counts.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often a scanner is looked at; against the second that the fastest takes.
const LOOK: Duration = Duration::from_millis(5);

/// Returns what each scanner took; those that are not installed are left out.
pub(crate) fn scan(file: &Path) -> Vec<(&'static str, Duration)> {
    SCANNERS
        .iter()
        .filter_map(|(program, words)| {
            let first = once(program, words, file)?;
            // Once more for those that keep something for their next start.
            let again = if first < PATIENCE { once(program, words, file)? } else { first };
            Some((*program, first.min(again)))
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
    let mut child = command.spawn().ok()?;
    while child.try_wait().ok()?.is_none() {
        if began.elapsed() > PATIENCE {
            child.kill().ok()?;
            child.wait().ok()?;
            return Some(PATIENCE);
        }
        std::thread::sleep(LOOK);
    }
    Some(began.elapsed())
}

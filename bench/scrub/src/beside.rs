//! Runs other secret scanners found on the PATH on the same text in the same run. Each gets one file in its
//! own folder, as its user would pass it, and nothing else to do: no updates, no verification of secrets with
//! services. The file ends with tokens that every scanner knows; a scanner that does not report the file has
//! not read it.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A scanner: its program, its version arguments, and its scan arguments.
struct Scanner {
    program: &'static str,
    version: &'static [&'static str],
    words: &'static [&'static str],
}

/// The file they scan. Some look only at files below their working directory.
pub(crate) const FILE: &str = "build.log";

const SCANNERS: &[Scanner] = &[
    Scanner {
        program: "kingfisher",
        version: &["--version"],
        words: &["scan", FILE, "--no-validate", "--no-update-check", "--quiet"],
    },
    Scanner {
        program: "gitleaks",
        version: &["version"],
        words: &["dir", FILE, "--no-banner", "--verbose", "--log-level", "error"],
    },
    Scanner { program: "ripsecrets", version: &["--version"], words: &[FILE] },
    Scanner {
        program: "trufflehog",
        version: &["--version"],
        words: &["filesystem", FILE, "--no-verification", "--no-update"],
    },
    Scanner { program: "trufflehog3", version: &["--version"], words: &["--no-history", "."] },
    Scanner { program: "detect-secrets", version: &["--version"], words: &["scan", "--all-files", FILE] },
    Scanner { program: "secretlint", version: &["--version"], words: &[FILE] },
];

/// secretlint does nothing without rules; these are the recommended ones.
const SECRETLINT: &str = r#"{"rules": [{"id": "@secretlint/secretlint-rule-preset-recommend"}]}"#;

/// The timeout of a scanner; one that is slower than this counts as unfinished.
const PATIENCE: Duration = Duration::from_secs(120);

/// The polling interval; small against the second that the fastest scanner takes.
const LOOK: Duration = Duration::from_millis(5);

/// The result of a scanner.
pub(crate) enum Outcome {
    Took(Duration),
    /// Not finished within the timeout.
    Unfinished,
    /// Finished without reporting the tokens in the file.
    Blind,
}

/// Tokens that every scanner has a rule for; assembled here, so that no text of ours looks like a live one.
pub(crate) fn tokens() -> String {
    let (aws, github) = ("AKIA", "ghp_");
    format!(
        "aws_access_key_id = {aws}Z7QHL3X5VN2RJ4TD\ntoken = \"{github}aB3dE5gH7jK9mN1pQ3sT5vX7zB9dF1hJ2kL4\"\n"
    )
}

/// Returns the time of each scanner for the file in the folder; scanners that are not installed are left out.
pub(crate) fn scan(folder: &Path) -> std::io::Result<Vec<(String, Outcome)>> {
    std::fs::write(folder.join(".secretlintrc.json"), SECRETLINT)?;
    let mut outcomes = Vec::new();
    for scanner in SCANNERS {
        let Some(version) = version(scanner) else { continue };
        let mut best = once(scanner, folder)?;
        // A second run, for scanners that cache something for their next start.
        if let (Outcome::Took(first), Outcome::Took(again)) = (&best, once(scanner, folder)?) {
            best = Outcome::Took(again.min(*first));
        }
        outcomes.push((version, best));
    }
    Ok(outcomes)
}

/// Returns the program's name with its version; `None` if it is not installed.
fn version(scanner: &Scanner) -> Option<String> {
    let said = Command::new(scanner.program).args(scanner.version).stdin(Stdio::null()).output().ok()?;
    let said = String::from_utf8_lossy(if said.stdout.is_empty() { &said.stderr } else { &said.stdout });
    let number = said.split_whitespace().find(|word| word.contains('.') && word.contains(char::is_numeric));
    Some(format!("{} {}", scanner.program, number.unwrap_or("?").trim_start_matches('v')))
}

/// Runs a scanner once. Its other findings, and therefore its exit code, do not matter here.
fn once(scanner: &Scanner, folder: &Path) -> std::io::Result<Outcome> {
    let said = folder.with_extension("said");
    let output = File::create(&said)?;
    let mut command = Command::new(scanner.program);
    command.args(scanner.words).current_dir(folder).stdin(Stdio::null());
    command.stdout(output.try_clone()?).stderr(output);
    let began = Instant::now();
    let mut child = command.spawn()?;
    let mut took = None;
    while took.is_none() && began.elapsed() < PATIENCE {
        if child.try_wait()?.is_some() {
            took = Some(began.elapsed());
        } else {
            std::thread::sleep(LOOK);
        }
    }
    if took.is_none() {
        child.kill()?;
        child.wait()?;
    }
    let text = std::fs::read(&said)?;
    std::fs::remove_file(&said)?;
    let named = text.windows(FILE.len()).any(|window| window == FILE.as_bytes());
    Ok(match took {
        None => Outcome::Unfinished,
        Some(took) if named => Outcome::Took(took),
        Some(_) => Outcome::Blind,
    })
}

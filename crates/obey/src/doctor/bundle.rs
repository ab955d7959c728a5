//! `obey doctor --bundle FILE`: a tar archive for a bug report. It has what the checks found, versions, the configuration,
//! the end of the daemon's log and its metrics. Secrets are removed, the home folder is written as `~`, and nothing that
//! agents or users said is in it: no journal is read.

use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;

use serde_json::json;
use workbench::scrub::{self, Scrubber};

use crate::limits;
use config::failure::{Failure, Result};
use config::paths;
use terminal::console::Console;

/// Writes the archive, readable by its user alone.
pub(super) fn write(
    console: &Console,
    file: &Path,
    findings: &serde_json::Value,
    socket: &Path,
) -> Result<()> {
    let failed = |error: std::io::Error| Failure::failed(format!("cannot write {}: {error}", file.display()));
    let scrubber = Scrubber::new(&scrub::Config::new())
        .map_err(|error| Failure::failed(format!("no bundle: the scrubber cannot start: {error}")))?;
    let clean = Cleaner { scrubber, home: home(console) };
    let out = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(file);
    let mut archive = tar::Builder::new(out.map_err(failed)?);
    for (name, text) in parts(console, findings, socket) {
        let text = clean.text(&text);
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o600);
        header.set_cksum();
        archive.append_data(&mut header, format!("obey-doctor/{name}"), text.as_bytes()).map_err(failed)?;
    }
    archive.into_inner().and_then(|mut out| out.flush()).map_err(failed)
}

fn home(console: &Console) -> String {
    console.vars.get("HOME").map(|home| home.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Returns the files of the archive.
fn parts(console: &Console, findings: &serde_json::Value, socket: &Path) -> Vec<(&'static str, String)> {
    let version = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "built_at": env!("OBEY_BUILT_AT"),
        "system": system(),
        "processors": std::thread::available_parallelism().map_or(0, std::num::NonZero::get),
    });
    let file = paths::config_file(None, &console.vars, &console.paths);
    let configuration = file.ok().and_then(|file| std::fs::read_to_string(file).ok()).unwrap_or_default();
    vec![
        ("findings.json", pretty(findings)),
        ("version.json", pretty(&version)),
        ("config.toml", hide_values(&configuration)),
        ("daemon.log", end_of(&console.paths.log_file())),
        ("metrics.txt", metrics(socket).unwrap_or_default()),
    ]
}

fn pretty(value: &serde_json::Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

fn system() -> String {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("{} {} {}", std::env::consts::OS, release.trim(), std::env::consts::ARCH)
}

/// Hides the values of keys that are secret by their names, also in a file that is not valid.
fn hide_values(text: &str) -> String {
    const SECRET: [&str; 4] = ["token", "secret", "password", "key"];
    let hidden = text.lines().map(|line| match line.split_once('=') {
        Some((key, _)) if SECRET.iter().any(|word| key.to_lowercase().contains(word)) => {
            format!("{key}= \"(not shown)\"")
        }
        _ => line.to_owned(),
    });
    hidden.collect::<Vec<_>>().join("\n")
}

/// Returns the last part of a log.
fn end_of(log: &Path) -> String {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = std::fs::File::open(log)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(limits::BUNDLE_LOG_BYTES)))?;
        let mut bytes = Vec::new();
        file.take(limits::BUNDLE_LOG_BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    String::from_utf8_lossy(&read().unwrap_or_default()).into_owned()
}

/// Asks a running daemon what it counts.
fn metrics(socket: &Path) -> Option<String> {
    let mut stream = UnixStream::connect(socket).ok()?;
    stream.set_read_timeout(Some(limits::BUNDLE_WAIT)).ok()?;
    stream.set_write_timeout(Some(limits::BUNDLE_WAIT)).ok()?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.take(limits::BUNDLE_LOG_BYTES).read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    head.starts_with("HTTP/1.1 200").then(|| body.to_owned())
}

/// Removes what must not leave the machine.
struct Cleaner {
    scrubber: Scrubber,
    home: String,
}

impl Cleaner {
    fn text(&self, text: &str) -> String {
        let text = self.scrubber.redacted(text).unwrap_or_else(|| text.to_owned());
        if self.home.len() > 1 { text.replace(&self.home, "~") } else { text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_secret_keys_are_hidden_whatever_they_are() {
        let text = "[openclaw]\ntoken = \"plain-word\"\nurl = \"ws://h\"\nlog_level = \"info\"";
        let hidden = hide_values(text);
        assert!(!hidden.contains("plain-word"), "{hidden}");
        assert!(hidden.contains("ws://h") && hidden.contains("log_level = \"info\""), "{hidden}");
    }
}

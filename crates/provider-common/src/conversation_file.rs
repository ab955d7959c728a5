//! Files in which agents keep their conversations, one JSON object per line: opening them without following links,
//! reading their lines up to bounds, and listing the newest. Knows no agent's format.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use domain::{Error, ErrorCode, Timestamp};
use rustix::fs::{FileType, Mode, OFlags};
use serde_json::Value;

use crate::limits;

/// A file that may hold a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub path: PathBuf,
    pub changed: SystemTime,
}

/// Returns the `.jsonl` files in the folders below a root, so many folders deep, the newest first. Links are not
/// followed.
pub fn candidates(root: &Path, depth: usize) -> Vec<Candidate> {
    let mut found = Vec::new();
    let mut folders = vec![(root.to_owned(), depth)];
    let mut looked_at = 0;
    while let Some((folder, depth)) = folders.pop() {
        for entry in folder.read_dir().into_iter().flatten().flatten() {
            looked_at += 1;
            if looked_at > limits::CONVERSATION_ENTRIES_MAX {
                break;
            }
            // The type of the entry itself, not of what a link leads to.
            let Ok(kind) = entry.file_type() else { continue };
            let path = entry.path();
            if kind.is_dir() && depth > 0 {
                folders.push((path, depth - 1));
            } else if kind.is_file() && depth == 0 && path.extension().is_some_and(|end| end == "jsonl") {
                let changed = entry.metadata().and_then(|found| found.modified());
                found.push(Candidate { path, changed: changed.unwrap_or(SystemTime::UNIX_EPOCH) });
            }
        }
    }
    found.sort_by_key(|one| std::cmp::Reverse(one.changed));
    found
}

/// Calls a function with every line of a file that is a JSON object and passes a test on its bytes. Returns whether all
/// of the file was read: lines that are too long are left out, and reading ends at the limit.
pub fn for_each_line(
    path: &Path,
    is_wanted: impl Fn(&[u8]) -> bool,
    mut take: impl FnMut(Value),
) -> Result<bool, Error> {
    let mut reader = BufReader::with_capacity(256 * 1024, open(path)?);
    let (mut complete, mut total) = (true, 0_u64);
    let mut line = Vec::new();
    loop {
        line.clear();
        let mut bounded = std::io::Read::take(&mut reader, limits::CONVERSATION_LINE_MAX_BYTES);
        let count =
            bounded.read_until(b'\n', &mut line).map_err(|error| unreadable(path, &error.to_string()))?;
        if count == 0 {
            return Ok(complete);
        }
        total += count as u64;
        if total > limits::CONVERSATION_MAX_BYTES {
            return Ok(false);
        }
        if line.last() != Some(&b'\n') && count as u64 == limits::CONVERSATION_LINE_MAX_BYTES {
            complete = false;
            skip_line(&mut reader, &mut total).map_err(|error| unreadable(path, &error.to_string()))?;
            continue;
        }
        if is_wanted(&line)
            && let Ok(value) = serde_json::from_slice(&line)
        {
            take(value);
        }
    }
}

/// Reads to the end of a line that is too long.
fn skip_line(reader: &mut BufReader<File>, total: &mut u64) -> std::io::Result<()> {
    loop {
        let buffer = reader.fill_buf()?;
        if buffer.is_empty() {
            return Ok(());
        }
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let count = end.map_or(buffer.len(), |at| at + 1);
        *total += count as u64;
        reader.consume(count);
        if end.is_some() || *total > limits::CONVERSATION_MAX_BYTES {
            return Ok(());
        }
    }
}

/// Opens a regular file; a link in its place is refused.
fn open(path: &Path) -> Result<File, Error> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened = rustix::fs::open(path, flags, Mode::empty());
    let file = opened.map_err(|error| unreadable(path, &error.to_string()))?;
    let stat = rustix::fs::fstat(&file).map_err(|error| unreadable(path, &error.to_string()))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(unreadable(path, "it is not a regular file"));
    }
    Ok(File::from(file))
}

fn unreadable(path: &Path, why: &str) -> Error {
    Error::new(ErrorCode::ItemNotFound, format!("conversation: {} cannot be read: {why}", path.display()))
}

/// Parses a time such as `2026-11-16T10:37:32.556Z`; 0 if it is none.
pub fn timestamp(text: &str) -> Timestamp {
    text.parse::<jiff::Timestamp>().map(|at| Timestamp(at.as_microsecond())).unwrap_or_default()
}

/// Returns a time as `timestamp` reads it.
pub fn written_time(at: Timestamp) -> String {
    let at = jiff::Timestamp::from_microsecond(at.0).unwrap_or_default();
    format!("{at:.3}")
}

/// Returns whether a text is safe as part of a file's name: an id as agents make them.
pub fn is_plain_id(id: &str) -> bool {
    let plain = |letter: u8| letter.is_ascii_alphanumeric() || letter == b'-' || letter == b'_';
    // The id becomes an argument of the agent's own program, where a hyphen begins an option.
    !id.is_empty() && id.len() <= 128 && id.bytes().all(plain) && !id.starts_with('-')
}

/// Returns whether bytes contain a text.
pub fn contains(line: &[u8], text: &str) -> bool {
    line.windows(text.len()).any(|window| window == text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_and_folders_are_not_read_as_conversations() {
        let root = tempfile::tempdir().unwrap();
        let project = root.path().join("project");
        std::fs::create_dir(&project).unwrap();
        std::fs::write(root.path().join("secret"), "{\"secret\":1}\n").unwrap();
        std::fs::write(project.join("real.jsonl"), "{\"a\":1}\n").unwrap();
        std::os::unix::fs::symlink(root.path().join("secret"), project.join("link.jsonl")).unwrap();
        std::os::unix::fs::symlink("/etc", root.path().join("etc")).unwrap();
        std::fs::create_dir(project.join("folder.jsonl")).unwrap();
        let found = candidates(root.path(), 1);
        assert_eq!(
            found.iter().map(|one| one.path.clone()).collect::<Vec<_>>(),
            [project.join("real.jsonl")]
        );
        for name in ["link.jsonl", "folder.jsonl", "missing.jsonl"] {
            assert!(for_each_line(&project.join(name), |_| true, |_| {}).is_err(), "{name}");
        }
    }

    #[test]
    fn long_and_broken_lines_are_left_out() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("x.jsonl");
        let long = "x".repeat(limits::CONVERSATION_LINE_MAX_BYTES as usize + 10);
        std::fs::write(&path, format!("{{\"a\":1}}\n\"{long}\"\nnonsense\n{{\"a\":2}}\n{{\"a\":")).unwrap();
        let mut seen = Vec::new();
        let complete = for_each_line(&path, |_| true, |value| seen.push(value["a"].as_u64())).unwrap();
        assert_eq!((complete, seen), (false, vec![Some(1), Some(2)]));
        assert_eq!(timestamp("2026-11-16T10:37:32.556Z").0, 1_794_825_452_556_000);
        assert_eq!(timestamp("yesterday").0, 0);
        assert!(
            is_plain_id("01a1-x_Y") && !is_plain_id("../x") && !is_plain_id("") && !is_plain_id("--resume")
        );
    }
}

//! Parses what `git diff` prints: the list of changed files and the hunks of one. Pure; knows no repository.

use crate::limits;

/// How a file changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FileChangeStatus {
    Added,
    #[default]
    Modified,
    Deleted,
    Renamed,
    /// Such as a file that became a link.
    TypeChanged,
    /// In a merge that is not finished.
    Conflicted,
}

/// A file that changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileChange {
    /// Below the root of the tree. Bytes that are no UTF-8 are replaced.
    pub path: String,
    /// Where it was, if it was renamed.
    pub old_path: String,
    pub status: FileChangeStatus,
    pub added: u64,
    pub removed: u64,
    pub binary: bool,
    pub untracked: bool,
    /// The commit of a submodule, not a file.
    pub submodule: bool,
}

/// Lines of a file that changed together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiffHunk {
    pub old_start: u64,
    pub old_lines: u64,
    pub new_start: u64,
    pub new_lines: u64,
    /// What git found above it, such as the name of a function.
    pub section: String,
    pub lines: Vec<DiffLine>,
}

/// A line of a hunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiffLine {
    pub kind: DiffLineKind,
    pub text: String,
    /// It is the last line of its file and does not end with a newline.
    pub no_newline: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiffLineKind {
    Context,
    Added,
    Removed,
}

/// Parses the output of `git diff --raw --numstat -z`: first what happened to each file, then the counts in the same
/// order.
pub(super) fn files(printed: &[u8]) -> Vec<FileChange> {
    let mut parts = printed.split(|byte| *byte == 0);
    let mut files: Vec<FileChange> = Vec::new();
    let mut counted = 0;
    while let Some(part) = parts.next() {
        if let Some(raw) = part.strip_prefix(b":") {
            let raw = String::from_utf8_lossy(raw).into_owned();
            let words: Vec<&str> = raw.split(' ').collect();
            let letter = words.last().and_then(|word| word.chars().next()).unwrap_or('M');
            let first = text(parts.next());
            let (path, old_path) = if matches!(letter, 'R' | 'C') {
                (text(parts.next()), first)
            } else {
                (first, String::new())
            };
            let submodule = words.iter().take(2).any(|mode| *mode == "160000");
            files.push(FileChange {
                path,
                old_path,
                status: status(letter),
                submodule,
                ..FileChange::default()
            });
            continue;
        }
        let mut columns = part.splitn(3, |byte| *byte == b'\t');
        let (Some(added), Some(removed), Some(path)) = (columns.next(), columns.next(), columns.next())
        else {
            continue;
        };
        // The counts of a renamed file are followed by both of its paths.
        let path = if path.is_empty() {
            parts.next();
            text(parts.next())
        } else {
            text(Some(path))
        };
        // Conflicting files are listed twice, so the order alone does not tell which file is meant.
        let from = files.iter().skip(counted).position(|file| file.path == path);
        if let Some(at) = from
            && let Some(file) = files.get_mut(counted + at)
        {
            file.binary = added == b"-";
            (file.added, file.removed) = (number(added), number(removed));
            counted += at + 1;
        }
    }
    files
}

/// Parses the hunks of one file from `git diff --patch`. Returns also whether something was left out.
pub(super) fn hunks(printed: &[u8]) -> (Vec<DiffHunk>, bool) {
    let mut hunks: Vec<DiffHunk> = Vec::new();
    let mut truncated = printed.len() >= limits::GIT_OUTPUT_MAX_BYTES;
    let (mut lines, mut bytes) = (0, 0);
    for line in printed.split(|byte| *byte == b'\n') {
        if let Some(hunk) = line.strip_prefix(b"@@ ").and_then(hunk_header) {
            hunks.push(hunk);
            continue;
        }
        // Before the first hunk stand the names of the file.
        let Some(hunk) = hunks.last_mut() else { continue };
        let kind = match line.first() {
            Some(b' ') => DiffLineKind::Context,
            Some(b'+') => DiffLineKind::Added,
            Some(b'-') => DiffLineKind::Removed,
            Some(b'\\') => {
                if let Some(last) = hunk.lines.last_mut() {
                    last.no_newline = true;
                }
                continue;
            }
            _ => continue,
        };
        lines += 1;
        bytes += line.len();
        if lines > limits::DIFF_LINES_MAX || bytes > limits::DIFF_BYTES_MAX {
            truncated = true;
            break;
        }
        let text = String::from_utf8_lossy(line.get(1..).unwrap_or_default()).into_owned();
        hunk.lines.push(DiffLine { kind, text, no_newline: false });
    }
    hunks.retain(|hunk| !hunk.lines.is_empty());
    (hunks, truncated)
}

/// Parses `-1,3 +1,4 @@ fn main() {`.
fn hunk_header(header: &[u8]) -> Option<DiffHunk> {
    let header = String::from_utf8_lossy(header).into_owned();
    let (ranges, section) = header.split_once(" @@")?;
    let (old, new) = ranges.split_once(' ')?;
    let range = |text: &str| -> Option<(u64, u64)> {
        match text.split_once(',') {
            Some((start, count)) => Some((start.parse().ok()?, count.parse().ok()?)),
            None => Some((text.parse().ok()?, 1)),
        }
    };
    let (old_start, old_lines) = range(old.strip_prefix('-')?)?;
    let (new_start, new_lines) = range(new.strip_prefix('+')?)?;
    let section = section.trim().to_owned();
    Some(DiffHunk { old_start, old_lines, new_start, new_lines, section, lines: Vec::new() })
}

fn status(letter: char) -> FileChangeStatus {
    match letter {
        'A' | 'C' => FileChangeStatus::Added,
        'D' => FileChangeStatus::Deleted,
        'R' => FileChangeStatus::Renamed,
        'T' => FileChangeStatus::TypeChanged,
        'U' => FileChangeStatus::Conflicted,
        _ => FileChangeStatus::Modified,
    }
}

fn text(part: Option<&[u8]>) -> String {
    String::from_utf8_lossy(part.unwrap_or_default()).into_owned()
}

/// Parses a count; a binary file has `-` instead.
fn number(text: &[u8]) -> u64 {
    String::from_utf8_lossy(text).parse().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_with_their_counts() {
        let raw = b":100644 100644 aa bb M\0a.txt\0:100644 100644 aa aa R100\0old name\0new name\0\
            :000000 100644 00 cc A\0pic.png\0:160000 160000 aa bb M\0lib\0\
            2\t1\ta.txt\x000\t0\t\0old name\0new name\0-\t-\tpic.png\x001\t1\tlib\0";
        let files = files(raw);
        let seen: Vec<_> =
            files.iter().map(|file| (file.path.as_str(), file.status, file.added, file.removed)).collect();
        assert_eq!(
            seen,
            [
                ("a.txt", FileChangeStatus::Modified, 2, 1),
                ("new name", FileChangeStatus::Renamed, 0, 0),
                ("pic.png", FileChangeStatus::Added, 0, 0),
                ("lib", FileChangeStatus::Modified, 1, 1),
            ]
        );
        assert_eq!(files[1].old_path, "old name");
        assert!(files[2].binary && files[3].submodule && !files[0].binary);
    }

    #[test]
    fn hunks_are_read_with_their_lines() {
        let patch = b"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,2 +1,3 @@ fn main() {\n one\n-two\n+2\n+three\n\\ No newline at end of file\n@@ -9 +10 @@\n-a\n+b\n";
        let (hunks, truncated) = hunks(patch);
        assert!(!truncated);
        assert_eq!(
            (hunks[0].old_start, hunks[0].new_lines, hunks[0].section.as_str()),
            (1, 3, "fn main() {")
        );
        let lines: Vec<_> =
            hunks[0].lines.iter().map(|line| (line.kind, line.text.as_str(), line.no_newline)).collect();
        assert_eq!(
            lines,
            [
                (DiffLineKind::Context, "one", false),
                (DiffLineKind::Removed, "two", false),
                (DiffLineKind::Added, "2", false),
                (DiffLineKind::Added, "three", true),
            ]
        );
        assert_eq!((hunks[1].old_lines, hunks[1].new_start), (1, 10));
    }

    #[test]
    fn a_long_diff_is_cut_and_says_so() {
        let mut patch = b"@@ -0,0 +1,30000 @@\n".to_vec();
        for _ in 0..30_000 {
            patch.extend_from_slice(b"+x\n");
        }
        let (hunks, truncated) = hunks(&patch);
        assert!(truncated);
        assert_eq!(hunks[0].lines.len(), limits::DIFF_LINES_MAX);
    }
}

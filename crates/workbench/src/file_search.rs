//! Tools for in-process agents, in addition to those of `tools`: list a folder, search files, edit part of a
//! file. Their output is scrubbed; what they write is written unchanged.

use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use domain::{Error, ErrorCode};
use regex_automata::meta::Regex;

use crate::files::{EntryKind, ProjectRoot, is_binary};
use crate::{Project, Workbench, limits};

/// The parameters of a search.
#[derive(Clone, Debug, Default)]
pub struct FileSearch {
    /// A regular expression.
    pub pattern: String,
    /// A file or folder.
    pub path: String,
    /// Only files whose names match, such as `*.rs`; empty: all.
    pub files: String,
    /// Files that are skipped.
    pub hidden: HiddenFiles,
}

/// Selects files that must not be read, by their absolute paths. Usually none.
#[derive(Clone, Default)]
pub struct HiddenFiles(Option<Arc<Hides>>);

type Hides = dyn Fn(&Path) -> bool + Send + Sync;

impl HiddenFiles {
    /// Hides the files for which this is true.
    pub fn where_true(hides: impl Fn(&Path) -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(hides)))
    }

    fn hides(&self, path: &Path) -> bool {
        self.0.as_ref().is_some_and(|hides| hides(path))
    }
}

impl std::fmt::Debug for HiddenFiles {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(if self.0.is_some() { "Hidden(some)" } else { "Hidden(none)" })
    }
}

/// A change of a file.
#[derive(Clone, Debug, Default)]
pub struct Edit {
    pub path: String,
    pub old: String,
    pub new: String,
    /// Replace every occurrence; otherwise there must be exactly one.
    pub all: bool,
}

impl Workbench {
    /// Lists a folder: one entry per line, folders with a slash.
    pub async fn list(&self, project: &Project, path: String) -> Result<String, Error> {
        self.run_blocking(project, move |root| {
            let entries = root.list(&path)?;
            let line = |entry: &crate::files::FolderEntry| match entry.kind {
                EntryKind::Folder => format!("{}/\n", entry.name),
                EntryKind::File => format!("{} ({} bytes)\n", entry.name, entry.bytes),
                EntryKind::Link => format!("{} (link)\n", entry.name),
                EntryKind::Other => format!("{} (special)\n", entry.name),
            };
            Ok(if entries.is_empty() { "(empty)\n".to_owned() } else { entries.iter().map(line).collect() })
        })
        .await
    }

    /// Searches files: `path:line: text`, one match per line.
    pub async fn search(&self, project: &Project, search: FileSearch) -> Result<String, Error> {
        let regex = regex(&search.pattern)?;
        self.run_blocking(project, move |root| {
            let mut found = Vec::new();
            root.walk(&search.path, &mut |path, mut file| {
                if fits(&search.files, path) && !search.hidden.hides(&root.path().join(path)) {
                    search_file(&regex, path, &mut file, &mut found);
                }
                found.len() < limits::SEARCH_LINES_MAX
            })?;
            if found.len() >= limits::SEARCH_LINES_MAX {
                found.truncate(limits::SEARCH_LINES_MAX);
                found.push("… and perhaps more; search for something narrower\n".to_owned());
            }
            Ok(if found.is_empty() { "nothing found\n".to_owned() } else { found.concat() })
        })
        .await
    }

    /// Reads a file unscrubbed, for a program that could read it itself.
    pub async fn read_raw(&self, project: &Project, path: String) -> Result<String, Error> {
        let project = project.clone();
        let read = tokio::task::spawn_blocking(move || text_of(&project.root, &path));
        read.await.map_err(|error| broken(&error))?
    }

    /// Replaces part of a file.
    pub async fn edit(&self, project: &Project, edit: Edit) -> Result<String, Error> {
        let action = crate::policy::PolicyAction::Write { path: &edit.path, content: &edit.new };
        project.policies()?.enforce(action)?;
        self.run_blocking(project, move |root| {
            let text = text_of(root, &edit.path)?;
            if edit.old.is_empty() || edit.old == edit.new {
                return Err(Error::invalid("old_string", "must be a text that differs from the new one"));
            }
            let places = text.matches(&edit.old).count();
            match places {
                0 => return Err(Error::invalid("old_string", format_args!("is not in {}", edit.path))),
                1 => {}
                _ if edit.all => {}
                _ => {
                    return Err(Error::invalid(
                        "old_string",
                        format_args!(
                            "is in {} {places} times; add lines around it, or change all",
                            edit.path
                        ),
                    ));
                }
            }
            root.write(&edit.path, text.replace(&edit.old, &edit.new).as_bytes())?;
            Ok(format!("Changed {places} place{} in {}", if places == 1 { "" } else { "s" }, edit.path))
        })
        .await
    }

    /// Runs file operations on a blocking thread; the result is scrubbed.
    async fn run_blocking(
        &self,
        project: &Project,
        work: impl FnOnce(&ProjectRoot) -> Result<String, Error> + Send + 'static,
    ) -> Result<String, Error> {
        let project = project.clone();
        let done = tokio::task::spawn_blocking(move || match work(&project.root) {
            Ok(text) => Ok(project.scrubber.scrub_text(&text)),
            Err(mut error) => {
                error.message = project.scrubber.scrub_text(&error.message);
                Err(error)
            }
        });
        done.await.map_err(|error| broken(&error))?
    }
}

fn broken(error: &tokio::task::JoinError) -> Error {
    Error::new(ErrorCode::CommandFailed, "the tool broke down").with_detail(error.to_string())
}

/// Reads a file as text, up to `READ_FILE_MAX` bytes.
fn text_of(root: &ProjectRoot, path: &str) -> Result<String, Error> {
    let opened = root.open_file(path)?;
    let mut text = String::new();
    let read = opened.file.take(limits::READ_FILE_MAX).read_to_string(&mut text);
    read.map_err(|error| Error::invalid("path", format_args!("{path} is not text: {error}")))?;
    Ok(text)
}

/// Compiles a pattern; its length and the size of its automaton are limited.
fn regex(pattern: &str) -> Result<Regex, Error> {
    if pattern.is_empty() || pattern.len() > limits::PATTERN_MAX_BYTES {
        return Err(Error::invalid(
            "pattern",
            format_args!("must have 1 to {} bytes", limits::PATTERN_MAX_BYTES),
        ));
    }
    let config = Regex::config().nfa_size_limit(Some(limits::PATTERN_AUTOMATON_MAX));
    Regex::builder()
        .configure(config)
        .build(pattern)
        .map_err(|error| Error::invalid("pattern", format_args!("is no regular expression: {error}")))
}

/// Adds the matching lines of one file; binary files are skipped.
fn search_file(regex: &Regex, path: &Path, file: &mut std::fs::File, found: &mut Vec<String>) {
    let mut bytes = Vec::new();
    // Unreadable files are skipped, as `grep -s` does.
    if file.take(limits::SEARCH_FILE_MAX).read_to_end(&mut bytes).is_err() || is_binary(&bytes) {
        return;
    }
    let text = String::from_utf8_lossy(&bytes);
    for (at, line) in text.lines().enumerate().filter(|(_, line)| regex.is_match(line)) {
        let shown: String = line.chars().take(limits::SEARCH_LINE_CHARS).collect();
        found.push(format!("{}:{}: {shown}\n", path.display(), at + 1));
        if found.len() >= limits::SEARCH_LINES_MAX {
            return;
        }
    }
}

/// Returns whether a file's name matches a pattern with `*`; a pattern with a slash is matched against the
/// whole path.
fn fits(pattern: &str, path: &Path) -> bool {
    let name = if pattern.contains('/') { Some(path.as_os_str()) } else { path.file_name() };
    let name = name.map(|name| name.to_string_lossy()).unwrap_or_default();
    pattern.is_empty() || wild(pattern.trim_start_matches("**/"), &name)
}

/// Whether a text matches a pattern in which `*` stands for any characters.
fn wild(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.len() >= last.len() && rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_a_name_or_a_whole_path() {
        for (pattern, path) in [
            ("", "a/b.rs"),
            ("*.rs", "a/b.rs"),
            ("b*", "a/b.rs"),
            ("a/*.rs", "a/b.rs"),
            ("**/*.rs", "x/y.rs"),
        ] {
            assert!(fits(pattern, Path::new(path)), "{pattern} {path}");
        }
        for (pattern, path) in [("*.rs", "a/b.py"), ("b", "a/b.rs"), ("*a*a*", "xa.rs")] {
            assert!(!fits(pattern, Path::new(path)), "{pattern} {path}");
        }
    }
}

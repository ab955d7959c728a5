//! The files of the tree: every text file of ours, with its path from the root.

use std::cell::OnceCell;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::rust::code_only;

/// Folders with built, generated or downloaded files.
const SKIPPED: &[&str] = &["target", "node_modules", "dist", "__pycache__", "venv", "_generated"];

/// Hidden folders that are ours nevertheless.
const HIDDEN_BUT_OURS: &[&str] = &[".cargo", ".github", ".ci", ".config"];

/// Larger files are recordings or tables; no rule applies to them.
const TEXT_MAX_BYTES: u64 = 1024 * 1024;

/// A text file.
#[derive(Clone, Debug, Default)]
pub struct File {
    /// From the root, with `/`.
    pub path: String,
    pub text: String,
    code: OnceCell<String>,
}

impl File {
    /// Creates a file.
    pub fn new(path: impl Into<String>, text: impl Into<String>) -> Self {
        Self { path: path.into(), text: text.into(), code: OnceCell::new() }
    }

    /// Returns Rust source without comments and strings; see `rust::code_only`.
    pub fn code(&self) -> &str {
        self.code.get_or_init(|| code_only(&self.text))
    }

    /// Returns the last part of the path.
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// Returns what follows the last dot of the name.
    pub fn extension(&self) -> &str {
        self.name().rsplit_once('.').map_or("", |(_, extension)| extension)
    }

    /// Returns whether the file is only for tests.
    pub fn is_test(&self) -> bool {
        let in_tests = self.path.split('/').any(|part| matches!(part, "tests" | "benches" | "fixtures"));
        in_tests || self.path.starts_with("e2e/") || self.name() == "tests.rs"
    }

    /// Returns `path:line` for a line counted from 0.
    pub fn at(&self, line: usize) -> String {
        format!("{}:{}", self.path, line + 1)
    }
}

/// All files.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    pub files: Vec<File>,
}

impl Tree {
    /// Reads the tree below a folder. Built, downloaded, hidden and binary files are left out.
    pub fn read(root: &Path) -> Result<Self> {
        let mut files = Vec::new();
        let mut folders = vec![root.to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))? {
                let entry = entry?;
                let name = entry.file_name().to_string_lossy().into_owned();
                let kind = entry.file_type()?;
                if kind.is_dir() {
                    let hidden = name.starts_with('.') && !HIDDEN_BUT_OURS.contains(&name.as_str());
                    if !hidden && !SKIPPED.contains(&name.as_str()) {
                        folders.push(entry.path());
                    }
                } else if kind.is_file() && entry.metadata()?.len() <= TEXT_MAX_BYTES {
                    let path = entry.path();
                    if let Ok(text) = String::from_utf8(fs::read(&path)?) {
                        let path = path.strip_prefix(root)?.to_string_lossy().replace('\\', "/");
                        files.push(File::new(path, text));
                    }
                }
            }
        }
        files.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(Self { files })
    }

    /// Creates a tree for a test of a rule.
    pub fn of(files: &[(&str, &str)]) -> Self {
        Self { files: files.iter().map(|(path, text)| File::new(*path, *text)).collect() }
    }

    /// Returns the Rust files.
    pub fn rust(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.extension() == "rs")
    }

    /// Returns one file.
    pub fn get(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Returns the files below a folder.
    pub fn below<'a>(&'a self, folder: &'a str) -> impl Iterator<Item = &'a File> {
        self.files.iter().filter(move |file| file.path.starts_with(folder))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_know_whether_they_serve_tests() {
        let test = |path: &str| Tree::of(&[(path, "")]).files[0].is_test();
        assert!(test("crates/domain/src/machine/tests.rs"));
        assert!(test("crates/domain/src/machine/tests/turns.rs"));
        assert!(test("crates/domain/tests/journal_format.rs"));
        assert!(test("e2e/src/lib.rs"));
        assert!(!test("crates/domain/src/machine.rs"));
        assert!(!test("crates/runtime/src/attests.rs"));
    }

    #[test]
    fn this_tree_is_read_without_what_was_built() {
        let tree = Tree::read(&crate::tidy::workspace_root()).unwrap();
        assert!(tree.get("xtask/src/tidy/tree.rs").is_some());
        assert!(tree.get("Cargo.lock").is_some());
        assert_eq!(tree.below("target/").count(), 0);
        assert_eq!(tree.below(".git/").count(), 0);
    }
}

//! The files below a session's folder, for completing their names. Reads names only, follows no links, and stops at a limit.

use std::fs;
use std::path::{Path, PathBuf};

use crate::limits;

/// Folders that hold what tools made.
const SKIPPED: [&str; 6] = [".git", "node_modules", "target", ".venv", "__pycache__", ".cache"];

/// Returns the paths of files below a folder, relative to it, those near it first.
pub(super) fn files(folder: &str) -> Vec<String> {
    let root = Path::new(folder);
    let mut folders: std::collections::VecDeque<PathBuf> = [root.to_owned()].into();
    let mut found = Vec::new();
    while let Some(folder) = folders.pop_front() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        let mut entries: Vec<fs::DirEntry> = entries.flatten().collect();
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let Ok(kind) = entry.file_type() else { continue };
            let skipped = entry.file_name().to_str().is_some_and(|name| SKIPPED.contains(&name));
            if kind.is_dir() && !skipped {
                folders.push_back(entry.path());
            } else if kind.is_file()
                && let Ok(path) = entry.path().strip_prefix(root)
                && let Some(path) = path.to_str()
            {
                found.push(path.to_owned());
                if found.len() >= limits::FILES_MAX {
                    return found;
                }
            }
        }
    }
    found
}

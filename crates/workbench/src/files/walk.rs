//! Lists the content of a folder, and walks every regular file beneath one. Links are not followed, so that
//! nothing outside the root is visible.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use domain::Error;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::{ProjectRoot, refused};
use crate::limits;

/// An entry of a folder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FolderEntry {
    pub name: String,
    pub kind: EntryKind,
    pub bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EntryKind {
    Folder,
    File,
    Link,
    Other,
}

/// Folders that are not searched: version history, and what tools download or build.
const SKIPPED: [&str; 3] = [".git", "node_modules", "target"];

impl ProjectRoot {
    /// Returns the entries of a folder by name; of very large folders a part.
    pub fn list(&self, path: &str) -> Result<Vec<FolderEntry>, Error> {
        let folder = self.open_folder(path)?;
        let mut entries = Vec::new();
        for name in names(&folder).map_err(|errno| refused(path, errno))? {
            // An entry that disappears meanwhile is skipped.
            let Ok(stat) = rustix::fs::statat(&folder, &*name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            let kind = match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory => EntryKind::Folder,
                FileType::RegularFile => EntryKind::File,
                FileType::Symlink => EntryKind::Link,
                _ => EntryKind::Other,
            };
            let bytes = if kind == EntryKind::File { u64::try_from(stat.st_size).unwrap_or(0) } else { 0 };
            entries.push(FolderEntry { name: name.to_string_lossy().into_owned(), kind, bytes });
        }
        entries.sort();
        Ok(entries)
    }

    /// Visits every regular file at or beneath a path until `visit` returns false.
    pub fn walk(&self, path: &str, visit: &mut dyn FnMut(&Path, File) -> bool) -> Result<(), Error> {
        let below = self.below(path)?;
        let folder = match self.open_folder(path) {
            Ok(folder) => folder,
            Err(error) => {
                let Ok(opened) = self.open_file(path) else { return Err(error) };
                visit(&opened.path, opened.file);
                return Ok(());
            }
        };
        let start = if below == Path::new(".") { PathBuf::new() } else { below };
        let mut left = limits::WALK_ENTRIES_MAX;
        walk(&folder, &start, 0, &mut left, visit);
        Ok(())
    }

    fn open_folder(&self, path: &str) -> Result<OwnedFd, Error> {
        let below = self.below(path)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        self.resolver.open(&self.folder, &below, flags).map_err(|errno| refused(path, errno))
    }
}

/// Returns the names in a folder; of very large folders a part.
fn names(folder: &OwnedFd) -> Result<Vec<std::ffi::OsString>, Errno> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push(OsStr::from_bytes(name).to_owned());
        }
        if names.len() >= limits::LIST_ENTRIES_MAX {
            break;
        }
    }
    names.sort();
    Ok(names)
}

/// Returns whether the walk continues. Entries that cannot be opened are skipped.
fn walk(
    folder: &OwnedFd,
    path: &Path,
    depth: usize,
    left: &mut usize,
    visit: &mut dyn FnMut(&Path, File) -> bool,
) -> bool {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    for name in names(folder).unwrap_or_default() {
        if *left == 0 {
            return false;
        }
        *left -= 1;
        let at = path.join(&name);
        let Ok(stat) = rustix::fs::statat(folder, &*name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        let kind = FileType::from_raw_mode(stat.st_mode);
        let is_folder = kind == FileType::Directory;
        let skipped = is_folder && SKIPPED.iter().any(|skipped| name == *skipped);
        if skipped || !(is_folder || kind == FileType::RegularFile) {
            continue;
        }
        let Ok(opened) = rustix::fs::openat(folder, &*name, flags, Mode::empty()) else { continue };
        // It may have been replaced since `statat`.
        let now = rustix::fs::fstat(&opened).map(|stat| FileType::from_raw_mode(stat.st_mode));
        let goes_on = match now {
            Ok(FileType::Directory) if depth < limits::WALK_DEPTH_MAX => {
                walk(&opened, &at, depth + 1, left, visit)
            }
            Ok(FileType::RegularFile) => visit(&at, opened.into()),
            _ => true,
        };
        if !goes_on {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_outside_is_seen() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("project");
        std::fs::create_dir_all(root.join("src/deep")).unwrap();
        std::fs::create_dir_all(root.join(".git")).unwrap();
        for file in ["a.txt", "src/b.rs", "src/deep/c.rs", ".git/config"] {
            std::fs::write(root.join(file), "x").unwrap();
        }
        std::fs::write(dir.path().join("secret"), "s").unwrap();
        std::os::unix::fs::symlink(dir.path(), root.join("out")).unwrap();
        std::os::unix::fs::symlink(dir.path().join("secret"), root.join("src/secret")).unwrap();
        let root = ProjectRoot::open(&root, &[]).unwrap();
        let mut seen = Vec::new();
        root.walk(".", &mut |path, _| {
            seen.push(path.display().to_string());
            true
        })
        .unwrap();
        assert_eq!(seen, ["a.txt", "src/b.rs", "src/deep/c.rs"]);
        let mut one = Vec::new();
        root.walk("a.txt", &mut |path, _| {
            one.push(path.to_owned());
            true
        })
        .unwrap();
        assert_eq!(one, [PathBuf::from("a.txt")]);
        let names: Vec<String> =
            root.list("").unwrap_or_default().into_iter().map(|entry| entry.name).collect();
        assert!(names.is_empty(), "an empty path is no path");
        let kinds: Vec<(String, EntryKind)> =
            root.list(".").unwrap().into_iter().map(|entry| (entry.name, entry.kind)).collect();
        assert!(kinds.contains(&("out".to_owned(), EntryKind::Link)));
        for path in ["out", "../", "/etc", "src/../.."] {
            assert!(root.list(path).is_err(), "{path}");
            assert!(root.walk(path, &mut |_, _| true).is_err(), "{path}");
        }
    }
}

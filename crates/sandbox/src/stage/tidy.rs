//! What is put right in the project when everything in a sandbox has ended, also when the daemon is gone: a repository that
//! a command made is freed of what makes git run code.
//! Follows no link.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags};

use crate::order::Order;

/// Files and folders by which git runs code, or is led to others.
const RUNS_CODE: &[&str] = &["hooks", "config.worktree", "commondir", "modules", "worktrees"];

/// Settings of a new repository that stay. None of them names a program or a file.
const KEPT: &[(&str, &[&str])] = &[
    (
        "core",
        &[
            "repositoryformatversion",
            "filemode",
            "bare",
            "logallrefupdates",
            "ignorecase",
            "precomposeunicode",
            "symlinks",
            "autocrlf",
            "eol",
        ],
    ),
    ("user", &["name", "email"]),
    ("extensions", &["objectformat", "refstorage"]),
    ("init", &["defaultbranch"]),
];

/// Largest configuration that is read; a new one has some hundred bytes.
const CONFIG_MAX: usize = 64 * 1024;

/// What to put right when the command has ended.
pub(super) struct AfterCommand {
    root: OsString,
    is_new: bool,
    has_no_head: bool,
}

impl AfterCommand {
    pub(super) fn of(order: &Order) -> Self {
        Self { root: order.root.clone(), is_new: order.new_repository, has_no_head: order.has_no_head }
    }

    /// Puts it right. Must be called when no process of the sandbox is left. Nobody is there to be told of an error; what
    /// stays is looked at again by the next command.
    pub(super) fn tidy(&self) {
        if !self.is_new && !self.has_no_head {
            return;
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let Ok(root) = rustix::fs::open(Path::new(&self.root), flags, Mode::empty()) else { return };
        if self.is_new {
            let _ = tidy_repository(&root);
        }
        if self.has_no_head {
            let _ = remove_head(&root);
        }
    }
}

/// Opens a folder below another; none of its parts may be a link.
fn folder_in(root: &OwnedFd, path: &Path) -> io::Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::openat2(root, path, flags, Mode::empty(), resolve)?)
}

/// Removes whatever is there.
pub(crate) fn remove(folder: &OwnedFd, name: &Path) -> io::Result<()> {
    let stat = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
        return Ok(rustix::fs::unlinkat(folder, name, AtFlags::empty())?);
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // A folder that was made unreadable is still its owner's.
    let _ = rustix::fs::chmodat(folder, name, Mode::from_raw_mode(0o700), AtFlags::empty());
    let inside = rustix::fs::openat(folder, name, flags, Mode::empty())?;
    for entry in Dir::read_from(&inside)? {
        let entry = entry?;
        let entry = entry.file_name();
        if !matches!(entry.to_bytes(), b"." | b"..") {
            use std::os::unix::ffi::OsStrExt;
            remove(&inside, Path::new(std::ffi::OsStr::from_bytes(entry.to_bytes())))?;
        }
    }
    Ok(rustix::fs::unlinkat(folder, name, AtFlags::REMOVEDIR)?)
}

/// Removes what makes git take the root itself for a repository, where nothing was before: git would run what the `config` in it
/// names, as soon as there is no `.git`.
fn remove_head(root: &OwnedFd) -> io::Result<()> {
    let is_there = |name: &str| rustix::fs::statat(root, Path::new(name), AtFlags::SYMLINK_NOFOLLOW).is_ok();
    let is_repository = is_there("commondir") || (is_there("objects") && is_there("refs"));
    if is_there("HEAD") && is_repository { remove(root, Path::new("HEAD")) } else { Ok(()) }
}

/// Leaves of a repository that a command made what holds its content.
fn tidy_repository(root: &OwnedFd) -> io::Result<()> {
    let name = Path::new(".git");
    let Ok(stat) = rustix::fs::statat(root, name, AtFlags::SYMLINK_NOFOLLOW) else { return Ok(()) };
    if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
        // A file or a link leads to a repository elsewhere.
        return remove(root, name);
    }
    let git = folder_in(root, name)?;
    for name in RUNS_CODE {
        match remove(&git, Path::new(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    let text = read_config(&git).unwrap_or_default();
    let _ = remove(&git, Path::new("config"));
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::openat(&git, "config", flags, Mode::from_raw_mode(0o644))?;
    io::Write::write_all(&mut std::fs::File::from(file), kept_config(&text).as_bytes())
}

fn read_config(git: &OwnedFd) -> io::Result<String> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::openat(git, "config", flags, Mode::empty())?;
    if FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode) != FileType::RegularFile {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut text = String::new();
    io::Read::read_to_string(&mut io::Read::take(std::fs::File::from(file), CONFIG_MAX as u64), &mut text)?;
    Ok(text)
}

/// Keeps the settings that are on the list. A line that is not plainly one of them is left out.
fn kept_config(text: &str) -> String {
    let mut kept = String::new();
    let mut keys: Option<&[&str]> = None;
    let mut continued = false;
    for line in text.lines() {
        let (line, is_rest) = (line.trim(), continued);
        continued = line.ends_with('\\');
        if is_rest || continued {
            continue;
        }
        if let Some(rest) = line.strip_prefix('[') {
            keys = rest.strip_suffix(']').and_then(|section| {
                let section = section.trim().to_ascii_lowercase();
                KEPT.iter().find(|(name, _)| *name == section).map(|(_, keys)| *keys)
            });
            if keys.is_some() {
                kept.push_str(line);
                kept.push('\n');
            }
        } else if let Some((key, value)) = line.split_once('=')
            && keys.is_some_and(|keys| keys.contains(&key.trim().to_ascii_lowercase().as_str()))
        {
            kept.push_str(&format!("\t{} = {}\n", key.trim(), value.trim()));
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_new_configuration_only_harmless_settings_stay() {
        let text = "[core]\n\trepositoryformatversion = 0\n\tfsmonitor = evil\n\tbare = \\\n\thooksPath = x\n[include]\n\tpath = x\n\
                    [core \"a\"]\n\tbare = true\n[user]\n\tname = A B\n[alias]\n\tst = !evil\n[core] fsmonitor = evil\n";
        assert_eq!(kept_config(text), "[core]\n\trepositoryformatversion = 0\n[user]\n\tname = A B\n");
    }

    #[test]
    fn what_a_command_must_not_leave_behind_is_removed_and_links_are_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("kept"), "x").unwrap();
        std::fs::create_dir_all(dir.path().join(".git/hooks/deep")).unwrap();
        std::os::unix::fs::symlink(outside.path(), dir.path().join(".git/hooks/deep/link")).unwrap();
        std::fs::write(dir.path().join(".git/commondir"), "x").unwrap();
        std::fs::write(dir.path().join(".git/config"), "[core]\n\tbare = false\n\tpager = evil\n").unwrap();
        let after =
            AfterCommand { root: dir.path().as_os_str().to_owned(), is_new: true, has_no_head: false };
        after.tidy();
        assert!(outside.path().join("kept").exists());
        assert!(!dir.path().join(".git/hooks").exists() && !dir.path().join(".git/commondir").exists());
        let config = std::fs::read_to_string(dir.path().join(".git/config")).unwrap();
        assert_eq!(config, "[core]\n\tbare = false\n");
        std::fs::remove_dir_all(dir.path().join(".git")).unwrap();
        std::os::unix::fs::symlink(outside.path(), dir.path().join(".git")).unwrap();
        after.tidy();
        assert!(dir.path().join(".git").symlink_metadata().is_err() && outside.path().join("kept").exists());
    }

    #[test]
    fn the_root_is_not_left_as_a_repository() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().as_os_str().to_owned();
        let after = AfterCommand { root: root.clone(), is_new: false, has_no_head: true };
        let head = dir.path().join("HEAD");
        std::fs::write(&head, "ref: refs/heads/main\n").unwrap();
        after.tidy();
        assert!(head.exists(), "a file of this name alone is none");
        for folder in ["objects", "refs"] {
            std::fs::create_dir(dir.path().join(folder)).unwrap();
        }
        AfterCommand { root, is_new: true, has_no_head: false }.tidy();
        assert!(head.exists(), "it was there before");
        after.tidy();
        assert!(!head.exists() && dir.path().join("refs").exists());
        std::os::unix::fs::symlink("objects/x", &head).unwrap();
        std::fs::remove_dir(dir.path().join("refs")).unwrap();
        std::fs::write(dir.path().join("commondir"), "elsewhere\n").unwrap();
        after.tidy();
        assert!(head.symlink_metadata().is_err(), "the rest may be elsewhere");
    }
}

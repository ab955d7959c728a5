//! Writes into a new file beside the old one, which then replaces it in one step. A reader sees the old
//! content or the new, never a partial one; a crash leaves the old. Links are followed only within the
//! project.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use domain::{Error, ErrorCode};
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::{ProjectRoot, outside, refused};
use crate::limits;

/// The result of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    pub bytes: u64,
    /// The file did not exist before.
    pub created: bool,
}

/// A name in an open folder.
struct WriteTarget {
    folder: OwnedFd,
    name: OsString,
    /// The mode of the existing file.
    mode: Option<Mode>,
}

const NEW_FILE: Mode = Mode::from_raw_mode(0o644);
const NEW_FOLDER: Mode = Mode::from_raw_mode(0o755);

impl ProjectRoot {
    /// Writes a file, creating it and its folders if necessary.
    pub fn write(&self, path: &str, content: &[u8]) -> Result<Written, Error> {
        let place = self.place(path, content)?;
        let replaced = place.replace(content).map_err(|errno| refused(path, errno));
        replaced.map(|()| Written { bytes: content.len() as u64, created: place.mode.is_none() })
    }

    /// Appends to a file, creating it and its folders if necessary.
    pub fn append(&self, path: &str, content: &[u8]) -> Result<Written, Error> {
        let place = self.place(path, content)?;
        let flags = OFlags::WRONLY
            | OFlags::APPEND
            | OFlags::CREATE
            | OFlags::NOFOLLOW
            | OFlags::NONBLOCK
            | OFlags::CLOEXEC;
        let appended = rustix::fs::openat(&place.folder, &place.name, flags, NEW_FILE).and_then(|file| {
            let kind = FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode);
            if kind != FileType::RegularFile {
                return Err(Errno::INVAL);
            }
            write_all(file, content)
        });
        appended.map_err(|errno| refused(path, errno))?;
        Ok(Written { bytes: content.len() as u64, created: place.mode.is_none() })
    }

    /// Resolves a path, including links, and creates missing folders.
    fn place(&self, path: &str, content: &[u8]) -> Result<WriteTarget, Error> {
        if content.len() > limits::WRITE_MAX {
            let most = limits::WRITE_MAX >> 20;
            return Err(Error::new(ErrorCode::LimitReached, format!("content: is larger than {most} MB")));
        }
        let below = self.below(path)?;
        // Also where a folder stands: the reason is the name.
        self.check_protected(path, &below)?;
        let (below, mode) = match self.resolver.open(&self.folder, &below, OFlags::PATH) {
            Ok(handle) => {
                let stat = rustix::fs::fstat(&handle).map_err(|errno| refused(path, errno))?;
                if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
                    return Err(Error::invalid("path", format_args!("{path} is not a plain file")));
                }
                (
                    self.real_path(&handle).ok_or_else(|| outside(path))?,
                    Some(Mode::from_raw_mode(stat.st_mode & 0o777)),
                )
            }
            Err(Errno::NOENT) => (self.new_path(path, &below)?, None),
            Err(errno) => return Err(refused(path, errno)),
        };
        self.check_protected(path, &below)?;
        let name =
            below.file_name().ok_or_else(|| Error::invalid("path", format_args!("{path} names no file")))?;
        let folder = self
            .make_folders(below.parent().unwrap_or(Path::new("")))
            .map_err(|errno| refused(path, errno))?;
        Ok(WriteTarget { folder, name: name.to_owned(), mode })
    }

    /// Returns the path of an open file below the root, with all links resolved.
    fn real_path(&self, handle: &OwnedFd) -> Option<PathBuf> {
        let real = std::fs::read_link(format!("/proc/self/fd/{}", handle.as_raw_fd())).ok()?;
        let root = std::fs::read_link(format!("/proc/self/fd/{}", self.folder.as_raw_fd())).ok()?;
        Some(real.strip_prefix(root).ok()?.to_owned())
    }

    /// Resolves a path that does not exist yet: its existing folders are resolved, the rest is kept as it is.
    fn new_path(&self, path: &str, below: &Path) -> Result<PathBuf, Error> {
        if below.components().any(|part| part == Component::ParentDir) {
            return Err(Error::invalid(
                "path",
                format_args!("{path} does not exist; name a new file without \"..\""),
            ));
        }
        let mut known = below.parent().unwrap_or(Path::new(""));
        loop {
            let at = if known.as_os_str().is_empty() { Path::new(".") } else { known };
            match self.resolver.open(&self.folder, at, OFlags::PATH | OFlags::DIRECTORY) {
                Ok(handle) => {
                    let real = self.real_path(&handle).ok_or_else(|| outside(path))?;
                    let rest = below.strip_prefix(known).unwrap_or(below);
                    return Ok(real.join(rest));
                }
                Err(Errno::NOENT) => known = known.parent().ok_or_else(|| outside(path))?,
                Err(errno) => return Err(refused(path, errno)),
            }
        }
    }

    /// Rejects a path below one of the protected names.
    fn check_protected(&self, path: &str, below: &Path) -> Result<(), Error> {
        let first = below.components().next().map(Component::as_os_str);
        if first.is_some_and(|first| self.protected.iter().any(|name| name == first))
            || self.is_of_repository(below, first)
        {
            return Err(Error::new(
                ErrorCode::NotAllowed,
                format!("path: {path} is protected; change it yourself, outside the workbench"),
            ));
        }
        Ok(())
    }

    /// Whether a path would make a repository of the root, or is in the root's repository under another name.
    fn is_of_repository(&self, below: &Path, first: Option<&OsStr>) -> bool {
        let beside = sandbox::protected_beside(&self.path);
        let makes_one =
            first.is_some_and(|first| beside.iter().any(|name| Path::new(name).file_name() == Some(first)));
        makes_one || sandbox::separate_repository(&self.path).is_some_and(|(own, _)| below.starts_with(own))
    }

    /// Opens a folder beneath the root, creating missing ones. At this point no part may be a link.
    fn make_folders(&self, below: &Path) -> Result<OwnedFd, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        let mut folder = self.resolver.open_plain(&self.folder, Path::new("."), flags)?;
        for part in below.components() {
            let Component::Normal(name) = part else { continue };
            let next = match self.resolver.open_plain(&folder, Path::new(name), flags) {
                Err(Errno::NOENT) => {
                    match rustix::fs::mkdirat(&folder, name, NEW_FOLDER) {
                        Ok(()) | Err(Errno::EXIST) => {}
                        Err(errno) => return Err(errno),
                    }
                    self.resolver.open_plain(&folder, Path::new(name), flags)?
                }
                opened => opened?,
            };
            folder = next;
        }
        Ok(folder)
    }
}

fn write_all(file: OwnedFd, content: &[u8]) -> Result<(), Errno> {
    let mut file = File::from(file);
    let written = file.write_all(content).and_then(|()| file.sync_all());
    written.map_err(|error| Errno::from_raw_os_error(error.raw_os_error().unwrap_or(libc::EIO)))
}

impl WriteTarget {
    /// Writes a temporary file and renames it over the old one. A failure removes the temporary file.
    fn replace(&self, content: &[u8]) -> Result<(), Errno> {
        let random = crate::random::name().map_err(|_| Errno::IO)?;
        let temporary = format!(".obey-{random}.tmp");
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.folder, &temporary, flags, self.mode.unwrap_or(NEW_FILE))?;
        let result = self.fill(file, content).and_then(|()| self.swap(&temporary, &self.name));
        if result.is_err() {
            // A failure is ignored: nothing else can be done.
            let _ = rustix::fs::unlinkat(&self.folder, &temporary, AtFlags::empty());
        }
        result
    }

    /// Writes the content; an existing file's mode is kept.
    fn fill(&self, file: OwnedFd, content: &[u8]) -> Result<(), Errno> {
        if let Some(mode) = self.mode {
            // The umask may have removed bits that the old file has.
            rustix::fs::fchmod(&file, mode)?;
        }
        write_all(file, content)
    }

    /// Renames the temporary file and syncs the folder.
    fn swap(&self, temporary: &str, name: &OsStr) -> Result<(), Errno> {
        rustix::fs::renameat(&self.folder, temporary, &self.folder, name)?;
        // The new name is durable only once its folder is synced. If that fails, the content is still
        // correct.
        let folder = rustix::fs::openat(
            &self.folder,
            ".",
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        );
        if let Ok(folder) = folder {
            let _ = rustix::fs::fsync(folder);
        }
        Ok(())
    }
}

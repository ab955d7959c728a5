//! Reads and writes files of a project by path. Whatever the path contains and however links are moved
//! meanwhile, nothing outside the project's root is touched: the kernel resolves paths beneath a descriptor
//! of the root, or we walk there without following links. Content is returned unscrubbed.

mod walk;
mod write;

#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use domain::{Error, ErrorCode};
use host::project_file::{self, ProjectFileError, Resolver};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

pub use walk::{EntryKind, FolderEntry};
pub use write::Written;

use crate::limits;

/// A project's root, held open: it stays the same folder even if it is renamed.
#[derive(Debug)]
pub struct ProjectRoot {
    folder: OwnedFd,
    path: PathBuf,
    resolver: Resolver,
    protected: Vec<OsString>,
}

/// A file that is open for reading.
#[derive(Debug)]
pub struct OpenedFile {
    pub file: File,
    pub bytes: u64,
    /// The path below the root, as requested.
    pub path: PathBuf,
}

/// How many bytes are inspected to detect binary files; the same as git.
const HEAD: usize = 8000;

impl ProjectRoot {
    /// Opens a root. `protected` are names directly in it that may be read but not written.
    pub fn open(path: &Path, protected: &[OsString]) -> Result<Self, Error> {
        let canonical = path.canonicalize();
        let path = canonical
            .map_err(|error| Error::invalid("project_path", format_args!("cannot be used: {error}")))?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = rustix::fs::open(&path, flags, Mode::empty()).map_err(|error| {
            Error::invalid("project_path", format_args!("is not a folder that can be opened: {error}"))
        })?;
        let resolver = Resolver::best(&folder);
        Ok(Self { folder, path, resolver, protected: protected.to_vec() })
    }

    /// Returns the path of the root.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the part of a path below the root; rejects paths that are lexically outside.
    pub fn below(&self, path: &str) -> Result<PathBuf, Error> {
        if path.is_empty() || path.contains('\0') {
            return Err(Error::invalid("path", "is empty or holds a NUL byte"));
        }
        let below = match Path::new(path).strip_prefix(&self.path) {
            Ok(below) => below.to_owned(),
            Err(_) if Path::new(path).is_absolute() => return Err(outside(path)),
            Err(_) => PathBuf::from(path),
        };
        let mut depth = 0i32;
        for part in below.components() {
            depth += match part {
                Component::Normal(_) => 1,
                Component::ParentDir => -1,
                _ => 0,
            };
            if depth < 0 {
                return Err(outside(path));
            }
        }
        Ok(if below.as_os_str().is_empty() { PathBuf::from(".") } else { below })
    }

    /// Returns the text of a rule file in the root; `None` if it does not exist.
    pub(crate) fn rule_file(&self, name: &str) -> Result<Option<String>, Error> {
        let wrong = |error: ProjectFileError| Error::new(ErrorCode::ConfigInvalid, format!("{name} {error}"));
        project_file::off_async_threads(|| {
            match project_file::open_regular(self.resolver, &self.folder, Path::new(name)) {
                Ok((file, stat)) => {
                    let bytes = project_file::read_bounded(file, &stat, limits::RULE_FILE_MAX as u64);
                    let text = bytes
                        .and_then(|bytes| String::from_utf8(bytes).map_err(|_| ProjectFileError::NotText));
                    text.map(Some).map_err(wrong)
                }
                Err(ProjectFileError::Io(error)) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(wrong(error)),
            }
        })
    }

    /// Opens a file for reading. Only regular files: opening a pipe or a device could block or have side
    /// effects.
    pub fn open_file(&self, path: &str) -> Result<OpenedFile, Error> {
        let below = self.below(path)?;
        let handle =
            self.resolver.open(&self.folder, &below, OFlags::PATH).map_err(|errno| refused(path, errno))?;
        let stat = rustix::fs::fstat(&handle).map_err(|errno| refused(path, errno))?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => {}
            FileType::Directory => return Err(Error::invalid("path", format_args!("{path} is a folder"))),
            _ => return Err(Error::invalid("path", format_args!("{path} is not a plain file"))),
        }
        let bytes = u64::try_from(stat.st_size).unwrap_or(0);
        if bytes > limits::READ_FILE_MAX {
            let most = limits::READ_FILE_MAX >> 20;
            return Err(Error::new(
                ErrorCode::LimitReached,
                format!("path: {path} is larger than {most} MB; read parts of it with a command"),
            ));
        }
        let file = project_file::reopen(&handle, &stat).map_err(|errno| refused(path, errno))?;
        Ok(OpenedFile { file, bytes, path: below })
    }
}

impl OpenedFile {
    /// Reads the start of the file and returns whether it is binary.
    pub fn is_binary(&mut self) -> io::Result<(bool, Vec<u8>)> {
        let mut head = Vec::with_capacity(HEAD);
        (&mut self.file).take(HEAD as u64).read_to_end(&mut head)?;
        Ok((is_binary(&head), head))
    }
}

/// Detects binary content by its start: text has no NUL and hardly any invalid UTF-8.
pub fn is_binary(head: &[u8]) -> bool {
    let head = &head[..head.len().min(HEAD)];
    if memchr::memchr(0, head).is_some() {
        return true;
    }
    let invalid: usize = head.utf8_chunks().map(|chunk| chunk.invalid().len()).sum();
    // Latin-1 has some; compressed data has little else.
    invalid * 4 > head.len()
}

fn outside(path: &str) -> Error {
    Error::new(ErrorCode::NotAllowed, format!("path: {path} is outside the project"))
}

/// Converts an error of the kernel to one that names the path and the reason.
fn refused(path: &str, errno: Errno) -> Error {
    match errno {
        // Beneath the root these mean that the path, or a link in it, leads outside.
        Errno::XDEV | Errno::LOOP => Error::new(
            ErrorCode::NotAllowed,
            format!("path: {path} leads out of the project or through too many links"),
        ),
        Errno::NOENT => Error::new(ErrorCode::ItemNotFound, format!("path: {path} does not exist")),
        Errno::NOTDIR => Error::invalid("path", format_args!("a part of {path} is not a folder")),
        Errno::ACCESS | Errno::PERM | Errno::ROFS => {
            Error::new(ErrorCode::NotAllowed, format!("path: {path}: {}", io::Error::from(errno)))
        }
        other => Error::invalid("path", format_args!("{path}: {}", io::Error::from(other))),
    }
}

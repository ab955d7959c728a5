//! Reads files of a repository. Repositories are untrusted: a name may be a link to somewhere else, a pipe, a
//! device or a file of any size. Every such file is read through here: beneath its folder, only if it is a
//! regular file, up to a limit, without blocking, and never on a thread that serves others. Knows no file's
//! meaning.

mod beneath;

#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

pub use beneath::Resolver;

/// Why a file of a repository is not read.
#[derive(Debug, thiserror::Error)]
pub enum ProjectFileError {
    #[error("leads out of its folder, or through too many links; put a regular file in its place")]
    LeadsOut,
    #[error("is not a regular file; put one in its place")]
    NotRegular,
    #[error("is larger than {0} bytes; make it smaller")]
    TooLarge(u64),
    #[error("is not valid UTF-8")]
    NotText,
    #[error("cannot be read: {0}")]
    Io(std::io::Error),
}

impl From<Errno> for ProjectFileError {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::XDEV | Errno::LOOP => Self::LeadsOut,
            other => Self::Io(other.into()),
        }
    }
}

/// Reads a file beneath a folder; `None` if it is missing.
pub fn read(folder: &Path, below: &Path, max_bytes: u64) -> Result<Option<Vec<u8>>, ProjectFileError> {
    off_async_threads(|| {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = match rustix::fs::open(folder, flags, Mode::empty()) {
            Ok(folder) => folder,
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        };
        match open_regular(Resolver::best(&folder), &folder, below) {
            Ok((file, stat)) => read_bounded(file, &stat, max_bytes).map(Some),
            Err(ProjectFileError::Io(error))
                if matches!(
                    error.kind(),
                    std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory
                ) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    })
}

/// Reads a text file beneath a folder; `None` if it is missing.
pub fn read_text(folder: &Path, below: &Path, max_bytes: u64) -> Result<Option<String>, ProjectFileError> {
    let bytes = read(folder, below, max_bytes)?;
    bytes.map(|bytes| String::from_utf8(bytes).map_err(|_| ProjectFileError::NotText)).transpose()
}

/// Reads a text file of the user; `None` if it is missing. Links are followed, since people keep such files
/// elsewhere and link to them.
pub fn read_own_text(path: &Path, max_bytes: u64) -> Result<Option<String>, ProjectFileError> {
    use std::io::ErrorKind::{NotADirectory, NotFound};
    let real = match off_async_threads(|| path.canonicalize()) {
        Ok(real) => real,
        Err(error) if matches!(error.kind(), NotFound | NotADirectory) => return Ok(None),
        Err(error) => return Err(ProjectFileError::Io(error)),
    };
    match real.parent().zip(real.file_name()) {
        Some((folder, name)) => read_text(folder, Path::new(name), max_bytes),
        None => Err(ProjectFileError::NotRegular),
    }
}

/// Opens a regular file beneath an open folder for reading.
pub fn open_regular(
    resolver: Resolver,
    folder: &OwnedFd,
    below: &Path,
) -> Result<(File, Stat), ProjectFileError> {
    let handle = resolver.open(folder, below, OFlags::PATH)?;
    let stat = rustix::fs::fstat(&handle)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(ProjectFileError::NotRegular);
    }
    Ok((reopen(&handle, &stat)?, stat))
}

/// Reads a file up to a limit. Its size is not trusted, since it may grow while it is read.
pub fn read_bounded(file: File, stat: &Stat, max_bytes: u64) -> Result<Vec<u8>, ProjectFileError> {
    let size = u64::try_from(stat.st_size).unwrap_or(0);
    if size > max_bytes {
        return Err(ProjectFileError::TooLarge(max_bytes));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
    file.take(max_bytes.saturating_add(1)).read_to_end(&mut bytes).map_err(ProjectFileError::Io)?;
    if bytes.len() as u64 > max_bytes {
        return Err(ProjectFileError::TooLarge(max_bytes));
    }
    Ok(bytes)
}

/// Opens the file of a handle for reading; it cannot be exchanged for another meanwhile.
pub fn reopen(handle: &OwnedFd, stat: &Stat) -> Result<File, Errno> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let path = format!("/proc/self/fd/{}", handle.as_raw_fd());
    let file = rustix::fs::open(path, flags, Mode::empty())?;
    let again = rustix::fs::fstat(&file)?;
    if (again.st_dev, again.st_ino) == (stat.st_dev, stat.st_ino) {
        Ok(file.into())
    } else {
        Err(Errno::XDEV)
    }
}

/// Runs something that accesses a possibly slow file system. On a worker thread of the daemon, the other
/// tasks move to another thread first; elsewhere no task waits for this thread.
pub fn off_async_threads<T>(work: impl FnOnce() -> T) -> T {
    use tokio::runtime::{Handle, RuntimeFlavor};
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}

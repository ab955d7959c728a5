//! Files of a repository that nobody trusts, and their copies: reading, comparing and writing back. No link is followed on
//! the way, so that nothing outside is read into a copy or written to.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, StatxFlags};
use rustix::io::Errno;

use crate::stage::tidy;

/// By what a change of a file is noticed; the last one is set by the kernel alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    inode: u64,
    pub(super) size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
    kind: FileType,
}

impl Stamp {
    fn of(stat: &rustix::fs::Stat) -> Self {
        let seconds = |value: i64, nanos: u64| (value, i64::try_from(nanos).unwrap_or_default());
        Self {
            inode: stat.st_ino,
            size: u64::try_from(stat.st_size).unwrap_or_default(),
            modified: seconds(stat.st_mtime, stat.st_mtime_nsec),
            changed: seconds(stat.st_ctime, stat.st_ctime_nsec),
            kind: FileType::from_raw_mode(stat.st_mode),
        }
    }

    pub(super) fn is_file(&self) -> bool {
        self.kind == FileType::RegularFile
    }

    pub(super) fn is_folder(&self) -> bool {
        self.kind == FileType::Directory
    }
}

/// The folder of a repository, held open.
#[derive(Debug)]
pub(super) struct Folder(OwnedFd);

const RESOLVE: ResolveFlags =
    ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS);

impl Folder {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(Self(rustix::fs::open(path, flags, Mode::empty())?))
    }

    /// Tells this folder from another that is made at its path: numbers are used again, times of birth are not.
    pub(super) fn identity(&self) -> io::Result<String> {
        let flags = StatxFlags::INO | StatxFlags::BTIME;
        let found = rustix::fs::statx(&self.0, "", AtFlags::EMPTY_PATH, flags)?;
        Ok(format!("{} {}.{}", found.stx_ino, found.stx_btime.tv_sec, found.stx_btime.tv_nsec))
    }

    /// Whether there is a file at a path, with no link on the way.
    pub(super) fn has_file(&self, path: &Path) -> bool {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let found = rustix::fs::openat2(&self.0, path, flags, Mode::empty(), RESOLVE);
        found.and_then(rustix::fs::fstat).is_ok_and(|stat| Stamp::of(&stat).is_file())
    }

    /// Describes what is at a path; nothing where nothing is.
    pub(super) fn stamp(&self, path: &Path) -> Option<Stamp> {
        rustix::fs::statat(&self.0, path, AtFlags::SYMLINK_NOFOLLOW).ok().map(|stat| Stamp::of(&stat))
    }

    fn folder_at(&self, path: &Path) -> io::Result<OwnedFd> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(rustix::fs::openat2(&self.0, path, flags, Mode::empty(), RESOLVE)?)
    }

    /// Lists the names in a folder; nothing if it is none.
    pub(super) fn names(&self, path: &Path) -> Vec<OsString> {
        let entries = self.folder_at(path).and_then(|folder| Ok(Dir::read_from(&folder)?));
        let names = entries.into_iter().flatten().flatten();
        let names = names.map(|entry| OsString::from_vec(entry.file_name().to_bytes().to_vec()));
        names.filter(|name| name != "." && name != "..").collect()
    }

    fn open_file(&self, path: &Path) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        Ok(rustix::fs::openat2(&self.0, path, flags, Mode::empty(), RESOLVE)?.into())
    }

    /// Reads the first bytes of a file.
    pub(super) fn start_of(&self, path: &Path) -> io::Result<Vec<u8>> {
        let mut text = Vec::new();
        self.open_file(path)?.take(64).read_to_end(&mut text)?;
        Ok(text)
    }

    /// Copies a file out, at most so many bytes of it.
    pub(super) fn copy_out(&self, path: &Path, to: &Path, max: u64) -> io::Result<()> {
        let from = self.open_file(path)?;
        if !from.metadata()?.is_file() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        if let Some(parent) = to.parent() {
            std::fs::create_dir_all(parent)?;
        }
        let mut file =
            std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(to)?;
        io::copy(&mut from.take(max), &mut file).map(drop)
    }

    /// Whether a file holds what its copy does.
    pub(super) fn is_same(&self, path: &Path, copy: &Path) -> io::Result<bool> {
        let (mut own, mut copy) = (self.open_file(path)?, File::open(copy)?);
        if own.metadata()?.len() != copy.metadata()?.len() {
            return Ok(false);
        }
        let (mut one, mut other) = (vec![0; 64 << 10], vec![0; 64 << 10]);
        loop {
            let len = own.read(&mut one)?;
            if len == 0 {
                return Ok(true);
            }
            copy.read_exact(&mut other[..len])?;
            if one[..len] != other[..len] {
                return Ok(false);
            }
        }
    }

    /// Puts a copy back in place of whatever is there. It is written under another name and moved, so that nobody sees a part
    /// of it.
    pub(super) fn put_back(&self, path: &Path, copy: &Path, mode: u32) -> io::Result<()> {
        let parent = self.make_folders(path.parent().unwrap_or(Path::new("")))?;
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let draft = format!("obey-{}", crate::random::name()?);
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&parent, &draft, flags, Mode::from_raw_mode(mode))?;
        let put = io::copy(&mut File::open(copy)?, &mut File::from(file)).and_then(|_| {
            if self.stamp(path).is_some_and(|found| found.is_folder()) {
                tidy::remove(&parent, Path::new(name))?;
            }
            Ok(rustix::fs::renameat(&parent, &draft, &parent, Path::new(name))?)
        });
        if put.is_err() {
            // The draft is of no use to anybody.
            let _ = rustix::fs::unlinkat(&parent, &draft, AtFlags::empty());
        }
        put
    }

    /// Opens a folder, and makes what is missing of it. What stands in its place and is none is removed.
    fn make_folders(&self, path: &Path) -> io::Result<OwnedFd> {
        let mut made = PathBuf::new();
        for part in path.components() {
            made.push(part);
            if self.stamp(&made).is_some_and(|found| !found.is_folder()) {
                rustix::fs::unlinkat(&self.0, &made, AtFlags::empty())?;
            }
            match rustix::fs::mkdirat(&self.0, &made, Mode::from_raw_mode(0o755)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.folder_at(path)
    }
}

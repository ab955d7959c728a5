//! Opens paths beneath a folder: with the kernel's own rule if it has one (`openat2`), otherwise by walking
//! the path without following any link. Must not follow a link out of the folder, no matter who moves it and
//! when.

use std::os::fd::OwnedFd;
use std::path::{Component, Path};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// How paths are opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolver {
    /// Links are followed as long as they stay beneath the folder.
    Kernel,
    /// No link is followed.
    Walk,
}

/// How often a path that is being moved is retried; the kernel asks for that with EAGAIN.
const TRIES_MAX: usize = 128;

impl Resolver {
    /// Returns the kernel's way if it works here. Containers may forbid it.
    pub fn best(folder: &OwnedFd) -> Self {
        match Self::Kernel.open(folder, Path::new("."), OFlags::PATH) {
            Ok(_) => Self::Kernel,
            Err(_) => Self::Walk,
        }
    }

    /// Opens a path beneath a folder. Fails with `XDEV` or `LOOP` if it leads out, or contains a link where
    /// none is allowed.
    pub fn open(self, folder: &OwnedFd, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        match self {
            Self::Kernel => {
                by_kernel(folder, path, flags, ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS)
            }
            Self::Walk => by_walking(folder, path, flags),
        }
    }

    /// Opens a path in which no component is a link.
    pub fn open_plain(self, folder: &OwnedFd, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        match self {
            Self::Kernel => by_kernel(folder, path, flags, ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS),
            Self::Walk => by_walking(folder, path, flags),
        }
    }
}

fn by_kernel(folder: &OwnedFd, path: &Path, flags: OFlags, resolve: ResolveFlags) -> Result<OwnedFd, Errno> {
    for _ in 0..TRIES_MAX {
        match rustix::fs::openat2(folder, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve) {
            Err(Errno::AGAIN) => {}
            result => return result,
        }
    }
    Err(Errno::XDEV)
}

/// Opens a path component by component, refusing links and `..`.
fn by_walking(folder: &OwnedFd, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let parts: Vec<&std::ffi::OsStr> = path
        .components()
        .map(|part| match part {
            Component::Normal(name) => Ok(Some(name)),
            Component::CurDir => Ok(None),
            // Going up could leave a folder that was moved meanwhile.
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => Err(Errno::XDEV),
        })
        .filter_map(Result::transpose)
        .collect::<Result<_, _>>()?;
    let step = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Some((last, before)) = parts.split_last() else {
        return rustix::fs::openat(folder, ".", flags | OFlags::CLOEXEC, Mode::empty());
    };
    let mut at =
        rustix::fs::openat(folder, ".", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    for name in before {
        at = rustix::fs::openat(&at, *name, step, Mode::empty())?;
        not_a_link(&at)?;
    }
    let opened = rustix::fs::openat(&at, *last, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    not_a_link(&opened)?;
    Ok(opened)
}

/// Refuses a descriptor that was opened without following and is itself a link.
fn not_a_link(opened: &OwnedFd) -> Result<(), Errno> {
    let stat = rustix::fs::statat(opened, "", AtFlags::EMPTY_PATH)?;
    if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink { Err(Errno::LOOP) } else { Ok(()) }
}

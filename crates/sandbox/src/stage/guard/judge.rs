//! Whether a file that lay open for a moment is what the user put there. Looks at what happened to its name, at who can still
//! write to it, and at what a configuration of git says: that alone decides where it says nothing that runs programs,
//! since `git remote add` and its like replace it several times in a row.

use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::inotify::ReadFlags;
use rustix::fs::{AtFlags, FileType, Mode, OFlags};

use super::events::{AboutName, Change};
use super::{Place, git_settings};
use crate::{limits, sys};

pub(super) enum Finding {
    Fine,
    /// It cannot be told from what a process inside would have done.
    Suspicious(String),
    /// A configuration of git got settings by which git runs programs, or is led to other files: which.
    RunsPrograms(String),
}

/// Looks at what stands at a name, covered again.
pub(super) fn look(place: &Place, name: usize, about: AboutName<'_>) -> Finding {
    let guarded = &place.names[name];
    let Ok(stat) = rustix::fs::statat(&place.folder, Path::new(&guarded.name), AtFlags::SYMLINK_NOFOLLOW)
    else {
        return Finding::Suspicious("was replaced, and is gone".to_owned());
    };
    if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile {
        if stat.st_nlink > 1 {
            return Finding::Suspicious("was replaced by a file that has a second name".to_owned());
        }
        if is_open_for_writing(&place.folder, &guarded.name) {
            return Finding::Suspicious("was replaced, and some process can still write to it".to_owned());
        }
        if git_settings::is_configuration(&guarded.name) {
            let new = read(&place.folder, &guarded.name);
            let added = git_settings::added(guarded.settings.as_deref().unwrap_or_default(), new.as_deref());
            return match added {
                Some(keys) => Finding::RunsPrograms(keys),
                None => Finding::Fine,
            };
        }
    }
    match written_meanwhile(&about) {
        true => Finding::Suspicious(
            "was replaced, and may have been written to before it was protected again".to_owned(),
        ),
        false => Finding::Fine,
    }
}

/// Whether a process inside may have written to a file, or to what it was made from, as far as the kernel told of it.
fn written_meanwhile(about: &AboutName<'_>) -> bool {
    if about.is_incomplete {
        return true;
    }
    let of = |name: &OsStr| about.running.iter().filter(|change| change.name == name).copied().collect();
    let own: Vec<&Change> = of(about.name);
    let changed = ReadFlags::MODIFY | ReadFlags::CLOSE_WRITE;
    // The first replacement is not the work of anybody inside: the name was covered. Writes may be told of before it: the kernel
    // tells of a replacement when it is done with it.
    let replaced = own.iter().filter(|change| change.detaches()).count();
    if replaced > 1 || own.iter().any(|change| change.is(changed)) {
        return true;
    }
    let draft: Vec<&Change> = about.draft.map(of).unwrap_or_default();
    // Who makes it closes it once, writes nothing after that, and moves it away.
    let closed = draft.iter().position(|change| change.is(ReadFlags::CLOSE_WRITE));
    let after = closed.map_or(&draft[..0], |closed| &draft[closed + 1..]);
    draft.iter().any(|change| change.is(ReadFlags::MOVED_TO)) || after.iter().any(|change| change.is(changed))
}

/// Whether any process has a file open for writing, or mapped so. A lease for reading is given only where none has.
pub(super) fn is_open_for_writing(folder: &OwnedFd, name: &OsStr) -> bool {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let Ok(file) = rustix::fs::openat(folder, Path::new(name), flags, Mode::empty()) else { return false };
    match sys::try_read_lease(&file) {
        Ok(()) => false,
        Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => true,
        // A file system without leases, or a file of another user.
        Err(_) => is_held_inside(&file),
    }
}

/// Whether a process inside has a file open for writing.
fn is_held_inside(file: &OwnedFd) -> bool {
    let Ok(own) = rustix::fs::fstat(file) else { return true };
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = processes.filter(|entry| {
        entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()).is_some_and(|pid| pid != 1)
    });
    processes
        .flat_map(|process| std::fs::read_dir(process.path().join("fd")).into_iter().flatten().flatten())
        .any(|descriptor| {
            use std::os::unix::fs::MetadataExt;
            let path = descriptor.path();
            let is_same = std::fs::metadata(&path)
                .is_ok_and(|there| (there.dev(), there.ino()) == (own.st_dev, own.st_ino));
            // The mode of the link says how it was opened.
            is_same && std::fs::symlink_metadata(&path).is_ok_and(|link| link.mode() & 0o200 != 0)
        })
}

/// Reads a small regular file; none if it is something else or too large.
pub(super) fn read(folder: &OwnedFd, name: &OsStr) -> Option<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::openat(folder, Path::new(name), flags, Mode::empty()).ok()?;
    let stat = rustix::fs::fstat(&file).ok()?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return None;
    }
    let mut content = Vec::new();
    std::fs::File::from(file).take(limits::REPOSITORY_FILE_MAX + 1).read_to_end(&mut content).ok()?;
    (content.len() as u64 <= limits::REPOSITORY_FILE_MAX).then_some(content)
}

/// Puts a configuration of git back as it was when it was last covered. Returns where what it said is kept.
pub(super) fn put_back(place: &Place, name: usize, path: &Path) -> io::Result<PathBuf> {
    let guarded = &place.names[name];
    // It is covered, and cannot be renamed from here under its cover.
    rustix::mount::unmount(path, rustix::mount::UnmountFlags::DETACH)?;
    let random = crate::random::name()?;
    let beside = |word: &str| {
        let mut beside = guarded.name.clone();
        beside.push(format!(".{word}-{random}"));
        beside
    };
    let (aside, draft) = (beside("refused"), beside("kept"));
    let (from, aside_path) = (Path::new(&guarded.name), Path::new(&aside));
    let Some(kept) = &guarded.settings else {
        rustix::fs::renameat(&place.folder, from, &place.folder, aside_path)?;
        return Ok(place.path.join(&aside));
    };
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mode = rustix::fs::statat(&place.folder, from, AtFlags::SYMLINK_NOFOLLOW)?.st_mode & 0o777;
    let file = rustix::fs::openat(&place.folder, Path::new(&draft), flags, Mode::from_raw_mode(mode))?;
    let mut file = std::fs::File::from(file);
    file.write_all(kept)?;
    file.sync_all()?;
    // One step: nobody finds the name without a file.
    let exchange = rustix::fs::RenameFlags::EXCHANGE;
    let draft = Path::new(&draft);
    match rustix::fs::renameat_with(&place.folder, draft, &place.folder, from, exchange) {
        Ok(()) => rustix::fs::renameat(&place.folder, draft, &place.folder, aside_path)?,
        Err(_) => {
            rustix::fs::renameat(&place.folder, from, &place.folder, aside_path)?;
            rustix::fs::renameat(&place.folder, draft, &place.folder, from)?;
        }
    }
    Ok(place.path.join(&aside))
}

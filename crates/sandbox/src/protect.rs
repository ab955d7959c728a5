//! Protected names of a project that are absent: an empty folder is put in each place while commands or agents run, so that
//! the sandbox has something to cover, and taken away again. Empty folders are invisible to git. At a repository's
//! `commondir` git wants a path; there a file stands that says what git assumes without it.
//! Outside, a folder that stands there is the user's to fill: what is put in makes it the user's own, and it stays.
//! Several commands, agents and daemons may share a placeholder: each holds a lock on it, and only who can get the lock
//! for itself removes it. One that a crash left behind is known by its mode and taken over. A command that follows another
//! at once finds the placeholders where they are: making and removing them takes longer than most commands.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use domain::{Error, ErrorCode};
use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

/// The mode of a folder that is a placeholder, less what the umask takes. The sticky bit, which nobody sets on a folder of their
/// own, is there from the first moment; without it the folder is the user's.
const FOLDER_MODE: u32 = 0o1755;
const STICKY: u32 = 0o1000;

/// The mode of a file that is one, and of folders that an older version left behind: nobody can write to it.
const MODE: u32 = 0o555;

fn has_mode_of_one(mode: u32) -> bool {
    mode & STICKY != 0 || mode & 0o777 & !MODE == 0
}

/// The name at which a file stands in a repository, and what it says: that the repository's settings are in its own folder.
const REDIRECTION: &str = "commondir";
const REDIRECTION_TEXT: &[u8] = b".\n";

/// The same name in a folder that is not a repository, and must not become one. The `.` tells the two apart.
pub(crate) const NO_REDIRECTION: &str = "./commondir";

pub(crate) fn is_outside_repository(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    name.strip_suffix(NO_REDIRECTION.as_bytes())
        .is_some_and(|before| before.is_empty() || before.ends_with(b"/"))
}

/// What stands at an absent name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PlaceholderKind {
    Folder,
    Redirection,
}

impl PlaceholderKind {
    fn of(name: &OsString) -> Self {
        let is_redirection = Path::new(name).file_name().is_some_and(|name| name == REDIRECTION);
        if is_redirection && !is_outside_repository(name) { Self::Redirection } else { Self::Folder }
    }

    fn file_type(self) -> FileType {
        match self {
            Self::Folder => FileType::Directory,
            Self::Redirection => FileType::RegularFile,
        }
    }

    fn open_flags(self) -> OFlags {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match self {
            Self::Folder => flags | OFlags::DIRECTORY,
            Self::Redirection => flags | OFlags::NONBLOCK,
        }
    }

    fn create(self, root: &OwnedFd, name: &Path) -> Result<(), Errno> {
        match self {
            Self::Folder => rustix::fs::mkdirat(root, name, Mode::from_raw_mode(FOLDER_MODE)),
            Self::Redirection => create_redirection(root, name),
        }
    }

    fn remove(self, root: &OwnedFd, name: &Path) -> Result<(), Errno> {
        let flags = if self == Self::Folder { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        rustix::fs::unlinkat(root, name, flags)
    }

    /// Whether what was opened looks like a placeholder.
    fn is_placeholder(self, found: &OwnedFd) -> Result<bool, Errno> {
        let stat = rustix::fs::fstat(found)?;
        if !has_mode_of_one(stat.st_mode) || FileType::from_raw_mode(stat.st_mode) != self.file_type() {
            return Ok(false);
        }
        if self == Self::Redirection {
            let mut text = [0; REDIRECTION_TEXT.len() + 1];
            let len = rustix::io::pread(found, &mut text, 0)?;
            return Ok(&text[..len] == REDIRECTION_TEXT);
        }
        let mut entries = rustix::fs::Dir::read_from(found)?;
        Ok(!entries
            .any(|entry| entry.is_ok_and(|entry| !matches!(entry.file_name().to_bytes(), b"." | b".."))))
    }
}

/// Makes the file under another name and moves it, so that nobody sees it without its text.
fn create_redirection(root: &OwnedFd, name: &Path) -> Result<(), Errno> {
    let random = crate::random::name().map_err(|_| Errno::IO)?;
    let draft = name.with_file_name(format!("{REDIRECTION}.{random}"));
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::openat(root, &draft, flags, Mode::from_raw_mode(MODE & 0o444))?;
    let moved = rustix::io::write(&file, REDIRECTION_TEXT).and_then(|_| {
        rustix::fs::renameat_with(root, &draft, root, name, rustix::fs::RenameFlags::NOREPLACE)
    });
    if moved.is_err() {
        let _ = rustix::fs::unlinkat(root, &draft, AtFlags::empty());
    }
    moved
}

/// How often a placeholder that disappears under our hands is made anew.
const TRIES_MAX: usize = 100;

/// The placeholders of all projects in which commands run, or ran a moment ago.
#[derive(Debug, Default)]
pub(crate) struct Shelf {
    laid: Mutex<HashMap<PathBuf, Weak<Placeholders>>>,
}

impl Shelf {
    /// Returns a project's placeholders if they stand as they were laid.
    pub(crate) fn find(&self, root: &Path, names: &[OsString]) -> Option<Arc<Placeholders>> {
        let laid = self.laid.lock().unwrap_or_else(PoisonError::into_inner).get(root).and_then(Weak::upgrade);
        laid.filter(|laid| laid.stand(root, names))
    }

    /// Shares what was laid with commands to come.
    pub(crate) fn share(&self, root: &Path, laid: &Arc<Placeholders>) {
        let mut all = self.laid.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, laid| laid.strong_count() > 0);
        all.insert(root.to_owned(), Arc::downgrade(laid));
    }
}

/// The protected names of a project in which commands run.
#[derive(Debug)]
pub(crate) struct Placeholders {
    root: OwnedFd,
    names: Vec<OsString>,
    held: Vec<(OsString, OwnedFd)>,
}

impl Placeholders {
    /// Sees to it that something stands at every protected name. A link there is refused: what it leads to could not
    /// be protected.
    pub(crate) fn lay(root: &Path, names: &[OsString]) -> Result<Self, Error> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let root = rustix::fs::open(root, flags, Mode::empty()).map_err(|error| {
            Error::new(ErrorCode::SandboxFailed, format!("the project's root cannot be opened: {error}"))
        })?;
        let mut laid = Self { root, names: Vec::new(), held: Vec::new() };
        for name in names {
            laid.lay_one(name)?;
        }
        Ok(laid)
    }

    /// Returns the names that something stands at.
    pub(crate) fn names(&self) -> Vec<OsString> {
        self.names.clone()
    }

    /// Leaves everything where it is: another process attends to it.
    pub(crate) fn let_go(mut self) {
        self.held.clear();
    }

    /// Whether something that is as good as when it was laid stands at every name.
    fn stand(&self, root: &Path, names: &[OsString]) -> bool {
        let same = |one: &rustix::fs::Stat, other: &rustix::fs::Stat| {
            (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
        };
        let here = rustix::fs::fstat(&self.root).and_then(|mine| Ok((mine, rustix::fs::lstat(root)?)));
        here.is_ok_and(|(mine, there)| same(&mine, &there))
            && self.names == names
            && names.iter().all(|name| {
                let Ok(there) = rustix::fs::statat(&self.root, Path::new(name), AtFlags::SYMLINK_NOFOLLOW)
                else {
                    return false;
                };
                match self.held.iter().find(|(held, _)| held == name) {
                    Some((_, folder)) => rustix::fs::fstat(folder).is_ok_and(|mine| same(&mine, &there)),
                    // The user's own; but not a placeholder that somebody else may take away.
                    None => {
                        let kind = FileType::from_raw_mode(there.st_mode);
                        let foreign =
                            kind == PlaceholderKind::of(name).file_type() && has_mode_of_one(there.st_mode);
                        kind != FileType::Symlink && !foreign
                    }
                }
            })
    }

    fn lay_one(&mut self, name: &OsString) -> Result<(), Error> {
        let shown = Path::new(name).display().to_string();
        let failed = |error: Errno| {
            Error::new(ErrorCode::SandboxFailed, format!("{shown} cannot be protected: {error}"))
        };
        let placeholder = PlaceholderKind::of(name);
        for _ in 0..TRIES_MAX {
            match self.kind_of(name) {
                Ok(FileType::Symlink) => {
                    return Err(Error::new(
                        ErrorCode::SandboxFailed,
                        format!(
                            "{shown} is a symbolic link, which cannot be protected; put a real file or folder there"
                        ),
                    ));
                }
                Ok(kind) if kind == placeholder.file_type() => match self.hold(name) {
                    Ok(true) => break,
                    // Its last user is taking it away.
                    Ok(false) | Err(Errno::NOENT) => std::thread::yield_now(),
                    // A folder we may not read is nobody's placeholder.
                    Err(Errno::ACCESS) => break,
                    Err(error) => return Err(failed(error)),
                },
                Ok(_) => break,
                Err(Errno::NOENT) => {
                    match placeholder.create(&self.root, Path::new(name)) {
                        Ok(()) | Err(Errno::EXIST) => {}
                        // What the daemon cannot make, its user's commands cannot make either.
                        Err(Errno::ACCESS | Errno::ROFS | Errno::PERM) => return Ok(()),
                        Err(error) => return Err(failed(error)),
                    }
                }
                Err(error) => return Err(failed(error)),
            }
        }
        self.names.push(name.clone());
        Ok(())
    }

    fn kind_of(&self, name: &OsString) -> Result<FileType, Errno> {
        let stat = rustix::fs::statat(&self.root, Path::new(name), AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(FileType::from_raw_mode(stat.st_mode))
    }

    /// Shares a placeholder; false if it is being removed. A folder with something in it needs no holding.
    fn hold(&mut self, name: &OsString) -> Result<bool, Errno> {
        let placeholder = PlaceholderKind::of(name);
        let flags = placeholder.open_flags();
        let folder = rustix::fs::openat(&self.root, Path::new(name), flags, Mode::empty())?;
        // One that the user fills at this moment is held, too: emptied again, it could be removed.
        let is_marked = rustix::fs::fstat(&folder)?.st_mode & STICKY != 0;
        if !is_marked && !placeholder.is_placeholder(&folder)? {
            return Ok(true);
        }
        match rustix::fs::flock(&folder, FlockOperation::NonBlockingLockShared) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Ok(false),
            Err(error) => return Err(error),
        }
        // It may have been replaced between opening and locking.
        let (mine, there) = (
            rustix::fs::fstat(&folder)?,
            rustix::fs::statat(&self.root, Path::new(name), AtFlags::SYMLINK_NOFOLLOW)?,
        );
        if (mine.st_dev, mine.st_ino) != (there.st_dev, there.st_ino) {
            return Ok(false);
        }
        self.held.push((name.clone(), folder));
        Ok(true)
    }
}

/// Takes away what was left behind at these names by somebody who could not do it; what is in use stays.
pub(crate) fn clear(root: &Path, names: &[OsString]) {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Ok(root) = rustix::fs::open(root, flags, Mode::empty()) else { return };
    let mut left = Placeholders { root, names: Vec::new(), held: Vec::new() };
    for name in names {
        // What cannot be held is no placeholder, or somebody else's.
        let _ = left.hold(name);
    }
}

/// Takes away what was left behind in a project and in its repository. Tells whether nothing is left: what somebody still
/// holds stays.
pub(crate) fn clear_project(root: &Path) -> bool {
    let names = crate::PROTECTED.iter().chain(crate::repository::KEEP_FROM_REPOSITORY);
    let names: Vec<OsString> = names.map(OsString::from).collect();
    let inside = ["config.worktree", "hooks", "worktrees", REDIRECTION].map(OsString::from);
    let repository = root.join(".git");
    clear(root, &names);
    clear(&repository, &inside);
    let left = |folder: &Path, names: &[OsString]| names.iter().any(|name| stands(&folder.join(name)));
    !left(root, &names) && !left(&repository, &inside)
}

/// Whether a placeholder stands at a path.
pub(crate) fn stands(path: &Path) -> bool {
    let kind = PlaceholderKind::of(&path.as_os_str().to_owned());
    let found = rustix::fs::open(path, kind.open_flags(), Mode::empty());
    found.and_then(|found| kind.is_placeholder(&found)).unwrap_or(false)
}

/// Takes the mark from a folder into which the user put something.
fn leave_to_user(folder: &OwnedFd) -> Result<(), Errno> {
    let mode = rustix::fs::fstat(folder)?.st_mode;
    rustix::fs::fchmod(folder, Mode::from_raw_mode(mode & 0o7777 & !STICKY))
}

impl Drop for Placeholders {
    fn drop(&mut self) {
        for (name, folder) in self.held.drain(..) {
            // Somebody else still needs it: it is theirs to remove.
            if rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive).is_err() {
                continue;
            }
            let removed = match PlaceholderKind::of(&name).remove(&self.root, Path::new(&name)) {
                Err(Errno::NOTEMPTY | Errno::EXIST) => leave_to_user(&folder),
                removed => removed,
            };
            if let Err(error) = removed {
                let error = io::Error::from(error);
                tracing::debug!(%error, "a placeholder stays behind");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &[&str]) -> Vec<OsString> {
        list.iter().map(OsString::from).collect()
    }

    #[test]
    fn absent_names_are_held_while_needed_and_gone_afterwards() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join(".git")).unwrap();
        std::fs::write(dir.path().join(".mcp.json"), "{}").unwrap();
        let wanted = names(&[".git", ".mcp.json", ".claude"]);
        let first = Placeholders::lay(dir.path(), &wanted).unwrap();
        let second = Placeholders::lay(dir.path(), &wanted).unwrap();
        assert_eq!(first.names(), wanted);
        drop(first);
        assert!(dir.path().join(".claude").is_dir(), "still needed by the second");
        drop(second);
        assert!(!dir.path().join(".claude").exists());
        assert!(dir.path().join(".git").is_dir() && dir.path().join(".mcp.json").is_file());
    }

    #[test]
    fn the_next_command_shares_what_stands_and_nothing_that_was_changed() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(".mcp.json"), "{}").unwrap();
        let wanted = names(&[".mcp.json", ".claude"]);
        let shelf = Shelf::default();
        let lay = || {
            let laid = Arc::new(Placeholders::lay(dir.path(), &wanted).unwrap());
            shelf.share(dir.path(), &laid);
            laid
        };
        assert!(shelf.find(dir.path(), &wanted).is_none());
        let first = lay();
        assert!(Arc::ptr_eq(&first, &shelf.find(dir.path(), &wanted).unwrap()));
        assert!(shelf.find(dir.path(), &names(&[".claude"])).is_none(), "other names");
        // The user takes the placeholder away, or puts something else or a link there.
        std::fs::remove_dir(dir.path().join(".claude")).unwrap();
        assert!(shelf.find(dir.path(), &wanted).is_none());
        std::fs::create_dir(dir.path().join(".claude")).unwrap();
        assert!(shelf.find(dir.path(), &wanted).is_none());
        std::fs::remove_dir(dir.path().join(".claude")).unwrap();
        drop(first);
        let second = lay();
        std::fs::remove_file(dir.path().join(".mcp.json")).unwrap();
        std::os::unix::fs::symlink("elsewhere", dir.path().join(".mcp.json")).unwrap();
        assert!(shelf.find(dir.path(), &wanted).is_none());
        std::fs::remove_file(dir.path().join(".mcp.json")).unwrap();
        std::fs::create_dir(dir.path().join(".mcp.json")).unwrap();
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(dir.path().join(".mcp.json"), std::fs::Permissions::from_mode(MODE))
            .unwrap();
        assert!(shelf.find(dir.path(), &wanted).is_none(), "a placeholder of somebody else");
        drop(second);
        assert!(shelf.find(dir.path(), &wanted).is_none(), "gone with its last user");
    }

    /// As a crash between the steps of making it, or an older version, leaves it.
    #[test]
    fn one_left_behind_by_a_crash_is_taken_over() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join(".obey")).unwrap();
        std::fs::set_permissions(dir.path().join(".obey"), std::fs::Permissions::from_mode(MODE)).unwrap();
        drop(Placeholders::lay(dir.path(), &names(&[".obey"])).unwrap());
        assert!(!dir.path().join(".obey").exists());
    }

    /// Git takes a repository with it for what it is without.
    #[test]
    fn at_commondir_a_file_stands_that_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join(".git")).unwrap();
        let wanted = names(&[".git/commondir"]);
        let file = dir.path().join(".git/commondir");
        let first = Placeholders::lay(dir.path(), &wanted).unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), ".\n");
        let second = Placeholders::lay(dir.path(), &wanted).unwrap();
        drop(first);
        assert!(file.exists(), "still needed by the second");
        second.let_go();
        assert!(file.exists(), "as a crash leaves it");
        assert!(clear_project(dir.path()) && !file.exists());
        std::fs::write(&file, "../elsewhere\n").unwrap();
        drop(Placeholders::lay(dir.path(), &wanted).unwrap());
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "../elsewhere\n", "the user's own stays");
        assert_eq!(std::fs::read_dir(dir.path().join(".git")).unwrap().count(), 1, "nothing else is left");
    }

    /// Git ends at a folder there, so that what an agent makes beside it is no repository.
    #[test]
    fn at_commondir_outside_a_repository_a_folder_stands() {
        let dir = tempfile::tempdir().unwrap();
        let wanted = names(&[NO_REDIRECTION]);
        let first = Placeholders::lay(dir.path(), &wanted).unwrap();
        assert!(dir.path().join("commondir").is_dir());
        first.let_go();
        drop(Placeholders::lay(dir.path(), &wanted).unwrap());
        assert!(!dir.path().join("commondir").exists());
        Placeholders::lay(dir.path(), &wanted).unwrap().let_go();
        assert!(clear_project(dir.path()) && !dir.path().join("commondir").exists());
    }

    /// The user's own programs can use the folder; it is theirs from then on.
    #[test]
    fn what_the_user_puts_in_makes_it_the_users_own() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let wanted = names(&[".vscode", ".claude"]);
        let held = Placeholders::lay(dir.path(), &wanted).unwrap();
        let folder = dir.path().join(".vscode");
        let mode = std::fs::metadata(&folder).unwrap().permissions().mode();
        assert_eq!(mode & 0o700, 0o700, "its owner can use it: {mode:o}");
        std::fs::write(folder.join("settings.json"), "{}").unwrap();
        let second = Placeholders::lay(dir.path(), &wanted).unwrap();
        drop((held, second));
        assert_eq!(std::fs::read_to_string(folder.join("settings.json")).unwrap(), "{}");
        let mode = std::fs::metadata(&folder).unwrap().permissions().mode();
        assert_eq!(mode & STICKY, 0, "the mark is gone: {mode:o}");
        assert!(!dir.path().join(".claude").exists());
        // Empty again, it is still the user's.
        std::fs::remove_file(folder.join("settings.json")).unwrap();
        drop(Placeholders::lay(dir.path(), &wanted).unwrap());
        assert!(folder.is_dir());
        assert!(clear_project(dir.path()) && folder.is_dir());
    }

    #[test]
    fn a_marked_one_that_was_left_behind_is_taken_over() {
        let dir = tempfile::tempdir().unwrap();
        Placeholders::lay(dir.path(), &names(&[".claude"])).unwrap().let_go();
        assert!(dir.path().join(".claude").is_dir());
        assert!(clear_project(dir.path()) && !dir.path().join(".claude").exists());
    }

    #[test]
    fn an_empty_folder_of_the_user_stays() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join(".vscode")).unwrap();
        drop(Placeholders::lay(dir.path(), &names(&[".vscode"])).unwrap());
        assert!(dir.path().join(".vscode").is_dir());
    }

    #[test]
    fn a_link_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("elsewhere", dir.path().join(".claude")).unwrap();
        let error = Placeholders::lay(dir.path(), &names(&[".claude"])).unwrap_err();
        assert_eq!(error.code, ErrorCode::SandboxFailed);
        assert!(error.message.contains(".claude"), "{error}");
    }

    #[test]
    fn many_at_once_never_lose_one() {
        let dir = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let held = Placeholders::lay(dir.path(), &names(&[".claude"])).unwrap();
                        assert!(dir.path().join(".claude").is_dir());
                        drop(held);
                    }
                });
            }
        });
        assert!(!dir.path().join(".claude").exists());
    }
}

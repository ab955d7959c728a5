//! Copies of what a command could destroy of a repository: its loose objects, references, index and logs, which git must be
//! able to write. They are made before a command begins and only of what changed since the last one; when it has ended,
//! what is missing or damaged is put back. What is covered in the sandbox (configuration, packs) needs no copy. Knows the
//! layout of a repository, not git; nothing in the repository is believed.
//!
//! References that a command moves or deletes are left as it made them, as long as there is a repository: objects that are
//! put back are all that is needed to undo that. Where the command destroyed the repository itself, all of it comes back.

mod files;

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::limits;
use files::{Folder, Stamp};

const OBJECTS: &str = "objects";

/// What a repository cannot be without.
const HEAD: &str = "HEAD";

/// Beside the objects: what is covered or makes git run code, and what other programs keep here, which may be large.
const LEFT_OUT: &[&str] = &[
    OBJECTS,
    "config",
    "config.worktree",
    "commondir",
    "hooks",
    "packed-refs",
    "modules",
    "worktrees",
    "lfs",
];

/// In the folder of copies: where the repository is, and that it was not looked at since a command ran in it.
const SOURCE: &str = "source";
const UNCHECKED: &str = "unchecked";
const FILES: &str = "files";

/// Objects never change; everything else is written by its owner.
const OBJECT_MODE: u32 = 0o444;
const FILE_MODE: u32 = 0o644;

/// The copies of all repositories in which commands run.
#[derive(Debug)]
pub(crate) struct HistoryCopies {
    folder: PathBuf,
    all: Mutex<HashMap<PathBuf, Arc<HistoryCopy>>>,
}

/// The copies of one repository.
#[derive(Debug)]
struct HistoryCopy {
    git: PathBuf,
    store: PathBuf,
    known: Mutex<Known>,
}

/// What the copies were made of.
#[derive(Debug, Default)]
struct Known {
    /// The repository's folder; another one at the same path is another repository.
    identity: Option<String>,
    /// What is beside the objects.
    files: HashMap<PathBuf, Stamp>,
    fan_outs: HashMap<OsString, FanOut>,
    bytes: u64,
    checked_at: Option<Instant>,
    /// Commands that run.
    users: usize,
}

/// One of the folders that loose objects are in.
#[derive(Debug, Default)]
struct FanOut {
    /// The folder when all of its known objects were there.
    stamp: Option<Stamp>,
    objects: HashMap<OsString, Stamp>,
}

/// What is kept for a command while it runs. Dropping it puts back what is missing, which may wait for the disk.
#[derive(Debug)]
pub(crate) struct KeptHistory(Arc<HistoryCopy>);

impl HistoryCopies {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { folder, all: Mutex::default() }
    }

    /// Copies what changed in a repository since the last command. Nothing if there is nothing worth copying. What cannot
    /// be copied is logged: a disk that is full must not keep commands from running.
    pub(crate) fn take(&self, git: &Path) -> Option<KeptHistory> {
        let copy = self.of(git);
        let mut known = copy.lock();
        match copy.refresh(&mut known) {
            Ok(true) => {}
            Ok(false) => return None,
            Err(error) => {
                tracing::warn!(repository = %git.display(), %error, "a repository's history is not kept for its commands");
                return None;
            }
        }
        known.users += 1;
        drop(known);
        Some(KeptHistory(copy))
    }

    /// Puts back what commands destroyed whose daemon was killed, and removes copies that nobody needs.
    pub(crate) fn recover(&self) {
        for entry in std::fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let store = entry.path();
            // A folder without it is just being made.
            let Ok(mut git) = std::fs::read(store.join(SOURCE)) else { continue };
            // The last line is the folder's identity.
            git.truncate(git.iter().rposition(|byte| *byte == b'\n').unwrap_or_default());
            let git: OsString = std::os::unix::ffi::OsStringExt::from_vec(git);
            let copy = self.of(Path::new(&git));
            let mut known = copy.lock();
            if copy.store != store || known.identity.is_some() {
                continue;
            }
            copy.recover(&mut known);
            let used = std::fs::metadata(store.join(SOURCE)).and_then(|source| source.modified());
            if !used.is_ok_and(|at| at.elapsed().is_ok_and(|age| age < limits::HISTORY_KEEP)) {
                // One that stays is tried again by the next daemon.
                let _ = std::fs::remove_dir_all(&store);
            }
        }
    }

    fn of(&self, git: &Path) -> Arc<HistoryCopy> {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= limits::HISTORIES_MAX {
            // Those that no command uses: their copies are on disk.
            all.retain(|_, copy| Arc::strong_count(copy) > 1);
        }
        let made = || {
            let mut hasher = DefaultHasher::new();
            git.hash(&mut hasher);
            let store = self.folder.join(format!("{:016x}", hasher.finish()));
            Arc::new(HistoryCopy { git: git.to_owned(), store, known: Mutex::default() })
        };
        Arc::clone(all.entry(git.to_owned()).or_insert_with(made))
    }
}

/// Whether there is a repository that git would take for one.
fn is_whole(git: &Folder) -> bool {
    let folder = |name: &str| git.stamp(Path::new(name)).is_some_and(|found| found.is_folder());
    let head = git.start_of(Path::new(HEAD)).unwrap_or_default();
    (head.starts_with(b"ref: refs/") || (head.len() >= 40 && head[..40].iter().all(u8::is_ascii_hexdigit)))
        && folder(OBJECTS)
        && folder("refs")
}

/// Lists what is beside the objects.
fn files_below(git: &Folder, folder: &Path, into: &mut Vec<(PathBuf, Stamp)>) {
    for name in git.names(folder) {
        let path = folder.join(&name);
        if into.len() >= limits::HISTORY_FILES_MAX
            || (folder.as_os_str().is_empty() && LEFT_OUT.iter().any(|out| name == *out))
        {
            continue;
        }
        match git.stamp(&path) {
            Some(found) if found.is_folder() => files_below(git, &path, into),
            Some(found) if found.is_file() => into.push((path, found)),
            // Gone since it was listed, or nothing of git's.
            _ => {}
        }
    }
}

fn is_fan_out(name: &OsString) -> bool {
    let name = name.as_encoded_bytes();
    name.len() == 2 && name.iter().all(u8::is_ascii_hexdigit)
}

impl HistoryCopy {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn copy_of(&self, path: &Path) -> PathBuf {
        self.store.join(FILES).join(path)
    }

    /// Brings the copies up to date; false if there is no repository.
    fn refresh(&self, known: &mut Known) -> io::Result<bool> {
        let mut git = Folder::open(&self.git)?;
        let identity = git.identity()?;
        if known.identity.as_ref() != Some(&identity) {
            if known.users == 0 {
                self.recover(known);
                git = Folder::open(&self.git)?;
            }
            self.begin(known, &identity)?;
        }
        if !is_whole(&git) {
            return Ok(false);
        }
        if known.users == 0 {
            std::fs::write(self.store.join(UNCHECKED), &identity)?;
        }
        // Whatever makes objects that are worth keeping moves a reference or writes the index. What the user removed shows in
        // the objects alone.
        if self.copy_files(known, &git)? || known.users == 0 {
            self.copy_objects(known, &git)?;
        }
        Ok(true)
    }

    /// Begins with a repository that was not seen yet. Copies of another one that was here are removed.
    fn begin(&self, known: &mut Known, identity: &str) -> io::Result<()> {
        use std::os::unix::ffi::OsStrExt;
        use std::os::unix::fs::DirBuilderExt;
        *known = Known { identity: Some(identity.to_owned()), users: known.users, ..Known::default() };
        let source = self.store.join(SOURCE);
        let text = [self.git.as_os_str().as_bytes(), b"\n", identity.as_bytes()].concat();
        if std::fs::read(&source).ok().as_ref() != Some(&text) {
            match std::fs::remove_dir_all(&self.store) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        // Objects never change; of everything else nobody knows when it was copied.
        for entry in std::fs::read_dir(self.store.join(FILES)).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if !kind.is_dir() => std::fs::remove_file(entry.path())?,
                _ if entry.file_name() != OBJECTS => std::fs::remove_dir_all(entry.path())?,
                _ => {}
            }
        }
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.store)?;
        std::fs::write(source, text)
    }

    /// Copies what is beside the objects and changed; returns whether anything had.
    fn copy_files(&self, known: &mut Known, git: &Folder) -> io::Result<bool> {
        let mut all = Vec::new();
        files_below(git, Path::new(""), &mut all);
        let (mut is_changed, count) = (false, all.len());
        for (path, found) in &all {
            if known.files.get(path) == Some(found) {
                continue;
            }
            is_changed = true;
            let before = known.files.remove(path).map_or(0, |before| before.size);
            known.bytes = known.bytes.saturating_sub(before);
            if self.copy_one(git, path, *found, &mut known.bytes)? {
                known.files.insert(path.clone(), *found);
            }
        }
        // What the user removed while no command ran, such as a branch, is forgotten.
        if known.users == 0 && known.files.len() > count {
            let there: HashSet<PathBuf> = all.into_iter().map(|(path, _)| path).collect();
            let gone: Vec<PathBuf> =
                known.files.keys().filter(|path| !there.contains(*path)).cloned().collect();
            for path in gone {
                // One that stays is not known any more, and is not put back.
                let _ = std::fs::remove_file(self.copy_of(&path));
                let before = known.files.remove(&path).map_or(0, |before| before.size);
                known.bytes = known.bytes.saturating_sub(before);
            }
            is_changed = true;
        }
        Ok(is_changed)
    }

    fn copy_objects(&self, known: &mut Known, git: &Folder) -> io::Result<()> {
        let Known { fan_outs, bytes, users, .. } = known;
        let mut names: Vec<OsString> = git.names(Path::new(OBJECTS)).into_iter().filter(is_fan_out).collect();
        if *users == 0 {
            // Folders whose last object the user removed are gone, too.
            let copied = std::fs::read_dir(self.copy_of(Path::new(OBJECTS))).into_iter().flatten().flatten();
            names.extend(copied.map(|entry| entry.file_name()));
            names.sort_unstable();
            names.dedup();
        }
        for name in names {
            let folder = Path::new(OBJECTS).join(&name);
            let stamp = git.stamp(&folder).filter(Stamp::is_folder);
            let fan_out = fan_outs.entry(name).or_default();
            if stamp.is_some() && fan_out.stamp == stamp {
                continue;
            }
            for object in git.names(&folder) {
                let path = folder.join(&object);
                let Some(found) = git.stamp(&path).filter(Stamp::is_file) else { continue };
                // What has the name of a copy is what was copied, or was damaged since.
                if fan_out.objects.contains_key(&object) || object.as_encoded_bytes().starts_with(b"tmp_") {
                    continue;
                }
                if self.copy_one(git, &path, found, bytes)? {
                    fan_out.objects.insert(object, found);
                }
            }
            if *users == 0 {
                self.forget_missing(fan_out, git, &folder, bytes);
            }
            // A command that still runs may have removed some: they are put back when it has ended.
            if fan_out.objects.keys().all(|object| git.stamp(&folder.join(object)).is_some()) {
                fan_out.stamp = stamp;
            }
        }
        Ok(())
    }

    /// Copies a file; false if there is no room for it, or it is gone.
    fn copy_one(&self, git: &Folder, path: &Path, found: Stamp, bytes: &mut u64) -> io::Result<bool> {
        if bytes.saturating_add(found.size) > limits::HISTORY_BYTES_MAX {
            tracing::warn!(repository = %self.git.display(), "too much of a repository is not packed to be kept; run git gc");
            return Ok(false);
        }
        let copy = self.copy_of(path);
        // A copy that an earlier daemon made of an object is as good.
        let is_there =
            path.starts_with(OBJECTS) && std::fs::metadata(&copy).is_ok_and(|copy| copy.len() == found.size);
        if !is_there {
            match git.copy_out(path, &copy, found.size) {
                // Git removes and replaces files all the time.
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
                copied => copied?,
            }
        }
        *bytes += found.size;
        Ok(true)
    }

    /// Forgets objects that the user packed or removed while no command ran.
    fn forget_missing(&self, fan_out: &mut FanOut, git: &Folder, folder: &Path, bytes: &mut u64) {
        for entry in std::fs::read_dir(self.copy_of(folder)).into_iter().flatten().flatten() {
            if git.stamp(&folder.join(entry.file_name())).is_none() {
                // One that stays is looked at again.
                let _ = std::fs::remove_file(entry.path());
                if let Some(stamp) = fan_out.objects.remove(&entry.file_name()) {
                    *bytes = bytes.saturating_sub(stamp.size);
                }
            }
        }
    }

    /// Looks after a daemon that was killed: only it knew what it had copied.
    fn recover(&self, known: &mut Known) {
        let Ok(identity) = std::fs::read_to_string(self.store.join(UNCHECKED)) else { return };
        let git = Folder::open(&self.git).ok();
        let git = git.filter(|git| git.identity().is_ok_and(|own| own == identity));
        if let Some(git) = git {
            let mut copied = Vec::new();
            paths_below(&self.store.join(FILES), Path::new(""), &mut copied);
            self.put_back_missing(&git, copied.into_iter(), true);
        }
        known.fan_outs.clear();
        // One that stays is looked at again.
        let _ = std::fs::remove_file(self.store.join(UNCHECKED));
    }

    /// Puts back what is missing. Files beside the objects only where the repository was destroyed; damaged objects only if
    /// all are to be compared.
    fn put_back_missing(&self, git: &Folder, copied: impl Iterator<Item = PathBuf>, compare: bool) -> usize {
        let is_whole = is_whole(git);
        let mut count = 0;
        for path in copied {
            let (is_object, copy) = (path.starts_with(OBJECTS), self.copy_of(&path));
            let needed = match git.has_file(&path) {
                false => is_object || !is_whole,
                true if !is_whole && path == Path::new(HEAD) => true,
                true => is_object && compare && !git.is_same(&path, &copy).unwrap_or(false),
            };
            if !needed {
                continue;
            }
            let mode = if is_object { OBJECT_MODE } else { FILE_MODE };
            match git.put_back(&path, &copy, mode) {
                Ok(()) => count += 1,
                Err(error) => {
                    tracing::warn!(repository = %self.git.display(), file = %path.display(), %error, "a file is not put back");
                }
            }
        }
        if count > 0 {
            tracing::warn!(repository = %self.git.display(), count, "a command destroyed a part of a repository; it was put back");
        }
        count
    }

    /// Looks at the objects in folders that changed, and at all of a repository that was destroyed.
    fn check(&self, known: &Known) -> io::Result<()> {
        let git = Folder::open(&self.git)?;
        let is_whole = is_whole(&git);
        let mut paths: Vec<PathBuf> = Vec::new();
        for (name, fan_out) in &known.fan_outs {
            let folder = Path::new(OBJECTS).join(name);
            if !is_whole || fan_out.stamp.is_none() || git.stamp(&folder) != fan_out.stamp {
                paths.extend(fan_out.objects.keys().map(|object| folder.join(object)));
            }
        }
        if !is_whole {
            paths.extend(known.files.keys().cloned());
        }
        self.put_back_missing(&git, paths.into_iter(), false);
        Ok(())
    }

    /// Looks for objects that were changed in their place, one folder at a time, so that a command need not wait for it.
    fn check_contents(&self) {
        let names: Vec<OsString> = self.lock().fan_outs.keys().cloned().collect();
        for name in names {
            let mut known = self.lock();
            let Ok(git) = Folder::open(&self.git) else { return };
            let folder = Path::new(OBJECTS).join(&name);
            let Some(fan_out) = known.fan_outs.get_mut(&name) else { continue };
            for (object, stamp) in &mut fan_out.objects {
                let path = folder.join(object);
                if git.stamp(&path).is_some_and(|found| found != *stamp) {
                    self.put_back_missing(&git, std::iter::once(path.clone()), true);
                    *stamp = git.stamp(&path).unwrap_or(*stamp);
                }
            }
        }
    }
}

/// Lists the files below a folder of copies, which is the daemon's own.
fn paths_below(store: &Path, folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(store.join(folder)).into_iter().flatten().flatten() {
        let path = folder.join(entry.file_name());
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => paths_below(store, &path, into),
            Ok(_) => into.push(path),
            Err(_) => {}
        }
    }
}

impl KeptHistory {
    /// Whether the repository is none any more. Costs next to nothing.
    pub(crate) fn is_destroyed(&self) -> bool {
        !Folder::open(&self.0.git).is_ok_and(|git| is_whole(&git))
    }
}

impl Drop for KeptHistory {
    fn drop(&mut self) {
        let mut known = self.0.lock();
        known.users = known.users.saturating_sub(1);
        let is_last = known.users == 0;
        let is_due = known.checked_at.is_none_or(|at| at.elapsed() > limits::HISTORY_CHECK_STEP);
        // While commands follow each other at once, one look serves several.
        if is_last || is_due || self.is_destroyed() {
            if let Err(error) = self.0.check(&known) {
                tracing::warn!(repository = %self.0.git.display(), %error, "a repository cannot be looked at");
            }
            known.checked_at = Some(Instant::now());
        }
        drop(known);
        if is_last {
            self.0.check_contents();
            let known = self.0.lock();
            if known.users == 0 {
                // One that stays is looked at again.
                let _ = std::fs::remove_file(self.0.store.join(UNCHECKED));
            }
        }
    }
}

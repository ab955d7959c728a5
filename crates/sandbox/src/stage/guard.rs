//! Keeps protected names covered while an agent or a command runs. The kernel takes a cover away when the file below it is replaced
//! or removed by somebody outside (git and editors save by renaming), and from then on the name could be written to. The init of
//! the namespaces watches the folders, stops everything inside at the first sign, covers what lies open, looks whether it
//! was written to meanwhile, and lets the processes go on. Where that cannot be ruled out, everything inside is ended.
//!
//! Runs in the init, which has the right to mount in its own namespaces and which nobody inside can reach.

mod events;
mod freeze;
mod git_settings;
mod judge;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, StatVfsMountFlags, StatxAttributes, StatxFlags};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;

use self::events::{Change, Events};
use self::judge::Finding;
use super::root;
use crate::limits;
use crate::order::Report;
use crate::protect::{Placeholders, is_outside_repository};

/// Why everything inside must be ended: what happened at which path, for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Breach {
    pub(super) path: PathBuf,
    pub(super) why: String,
}

impl Breach {
    pub(super) fn report(self) -> Report {
        Report::Unprotected { path: self.path, why: self.why }
    }
}

/// A protected name, and what is known of it.
struct Guarded {
    name: OsString,
    /// The name under which something is put there.
    laid_as: OsString,
    /// Nothing needs to stand there.
    is_optional: bool,
    /// It was optional, and was removed.
    is_gone: bool,
    /// What a configuration of git said when it was last covered.
    settings: Option<Vec<u8>>,
}

/// A folder with protected names.
struct Place {
    path: PathBuf,
    folder: OwnedFd,
    watch: Option<i32>,
    /// Another place is above it: moved away, it could be made again.
    is_below: bool,
    names: Vec<Guarded>,
}

/// What is protected in the namespaces of this process.
pub(super) struct Guard {
    /// None where the system has no more of them: then covers are looked at from time to time.
    inotify: Option<OwnedFd>,
    places: Vec<Place>,
    /// What was put at names that became absent.
    laid: Vec<(PathBuf, Placeholders)>,
}

/// Names that git removes when they are empty; an agent that makes them anew gains nothing. `worktrees` is not among them: what
/// lies in it says where the repositories of other trees are, also of trees that are made later.
const OPTIONAL: &[&str] = &["packed-refs", "objects/pack", "objects/info", "modules"];

impl Guard {
    /// Looks at everything that is covered: folders, and the paths in them. Must be called in the root in which they are.
    pub(super) fn new<'a>(
        protected: impl IntoIterator<Item = (&'a OsStr, &'a [OsString])>,
    ) -> io::Result<Self> {
        let mut by_folder: BTreeMap<PathBuf, Vec<Guarded>> = BTreeMap::new();
        for (folder, names) in protected {
            for name in names {
                let path = Path::new(folder).join(name);
                let (Some(parent), Some(own)) = (path.parent(), path.file_name()) else { continue };
                let is_optional = OPTIONAL.iter().any(|optional| path.ends_with(optional));
                let laid_as = if is_outside_repository(name) { name.as_os_str() } else { own };
                let guarded = Guarded {
                    name: own.to_owned(),
                    laid_as: laid_as.to_owned(),
                    is_optional,
                    is_gone: false,
                    settings: None,
                };
                by_folder.entry(parent.to_owned()).or_default().push(guarded);
            }
        }
        // A folder on the way to a place could be moved away with it, and made anew.
        let tops: Vec<PathBuf> = by_folder.keys().cloned().collect();
        for place in &tops {
            for between in place.ancestors().skip(1) {
                if tops.iter().any(|top| between.starts_with(top)) {
                    by_folder.entry(between.to_owned()).or_default();
                }
            }
        }
        let folders: Vec<PathBuf> = by_folder.keys().cloned().collect();
        let mut places = Vec::with_capacity(by_folder.len());
        for (path, names) in by_folder {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let folder = rustix::fs::open(&path, flags, Mode::empty())?;
            let is_below = folders.iter().any(|other| path != *other && path.starts_with(other));
            let mut place = Place { path, folder, watch: None, is_below, names };
            place.remember_settings();
            places.push(place);
        }
        Ok(Self { inotify: None, places, laid: Vec::new() })
    }

    /// Begins to be told of changes. What was replaced before is found by [`Self::check`].
    pub(super) fn watch(&mut self) -> io::Result<()> {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        for place in &mut self.places {
            let own = WatchFlags::DELETE_SELF | WatchFlags::MOVE_SELF | WatchFlags::ONLYDIR;
            let inside = WatchFlags::CREATE
                | WatchFlags::MOVED_FROM
                | WatchFlags::MOVED_TO
                | WatchFlags::DELETE
                | WatchFlags::MODIFY
                | WatchFlags::CLOSE_WRITE;
            let wanted = if place.names.is_empty() { own } else { own | inside };
            // By the descriptor: the path could lead elsewhere by now.
            let by_descriptor = format!("/proc/self/fd/{}", place.folder.as_raw_fd());
            place.watch = Some(inotify::add_watch(&inotify, by_descriptor, wanted)?);
        }
        self.inotify = Some(inotify);
        Ok(())
    }

    /// Something to poll that can be read when something changed.
    pub(super) fn changes(&self) -> Option<BorrowedFd<'_>> {
        self.inotify.as_ref().map(AsFd::as_fd)
    }

    /// Takes what changed, and sees to it that every name is covered.
    pub(super) fn handle(&mut self) -> Result<(), Breach> {
        let mut events = Events::default();
        self.read(&mut events);
        if !events.matters(&self.places) {
            return Ok(());
        }
        let frozen = freeze::all();
        // What is noticed up to here may be the work of a process inside; what comes later is not.
        self.read(&mut events);
        events.end_of_running();
        let held = self.cover_again(&mut events);
        if held.is_ok() {
            frozen.thaw();
        }
        held
    }

    /// Looks at every cover, without being told that anything changed.
    pub(super) fn check(&mut self) -> Result<(), Breach> {
        if self.open_names().is_empty() {
            return Ok(());
        }
        let frozen = freeze::all();
        let mut events = Events::default();
        events.lost_some();
        events.end_of_running();
        let held = self.cover_again(&mut events);
        if held.is_ok() {
            frozen.thaw();
        }
        held
    }

    fn read(&self, events: &mut Events) {
        if let Some(inotify) = &self.inotify {
            events.read(inotify, &self.places);
        }
    }

    /// Covers what lies open until nothing does and nobody is about to replace something. Everything inside is stopped.
    fn cover_again(&mut self, events: &mut Events) -> Result<(), Breach> {
        let began = Instant::now();
        loop {
            self.stand_where_they_were(events)?;
            let mut waits = began.elapsed() < limits::REPLACEMENT_WAIT && self.is_coming(events);
            for (place, name) in self.open_names() {
                if self.is_settled(place, name, began) {
                    self.take_in(place, name, events)?;
                } else {
                    waits = true;
                }
            }
            if !waits && self.open_names().is_empty() {
                return Ok(());
            }
            if began.elapsed() > limits::ABSENT_WAIT + limits::REPLACEMENT_WAIT {
                let path = self.open_names().first().map(|(place, name)| self.path(*place, *name));
                let path = path.unwrap_or_default();
                return Err(Breach { path, why: "is replaced again and again".to_owned() });
            }
            self.wait_for_change();
            self.read(events);
        }
    }

    fn wait_for_change(&self) {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let wait = Timespec::try_from(limits::CLEAR_STEP).ok();
        let mut fds: Vec<PollFd<'_>> =
            self.inotify.iter().map(|inotify| PollFd::new(inotify, PollFlags::IN)).collect();
        let _ = poll(&mut fds, wait.as_ref());
    }

    /// Whether every folder is where it was: one that was moved or removed took its covers with it.
    fn stand_where_they_were(&self, events: &Events) -> Result<(), Breach> {
        for (at, place) in self.places.iter().enumerate() {
            let is_same = || {
                let (mine, there) =
                    (rustix::fs::fstat(&place.folder).ok()?, rustix::fs::lstat(&place.path).ok()?);
                Some((mine.st_dev, mine.st_ino) == (there.st_dev, there.st_ino) && mine.st_nlink > 0)
            };
            if (place.is_below && events.moved_away(at)) || is_same() != Some(true) {
                let why = "was moved or removed, and with it what protects it".to_owned();
                return Err(Breach { path: place.path.clone(), why });
            }
        }
        Ok(())
    }

    /// Whether a file is there that looks as if it were about to replace a protected one.
    fn is_coming(&self, events: &Events) -> bool {
        events.drafts().any(|(place, name)| {
            let folder = &self.places[place].folder;
            rustix::fs::statat(folder, Path::new(name), AtFlags::SYMLINK_NOFOLLOW).is_ok()
        })
    }

    /// The names that nothing covers.
    fn open_names(&self) -> Vec<(usize, usize)> {
        let mut open = Vec::new();
        for (at, place) in self.places.iter().enumerate() {
            let names = place.names.iter().enumerate();
            open.extend(
                names
                    .filter(|(_, name)| !name.is_gone && !place.is_covered(name))
                    .map(|(name, _)| (at, name)),
            );
        }
        open
    }

    /// Whether what stands at an open name is what will stand there: whoever replaces it may not have finished.
    fn is_settled(&self, place: usize, name: usize, began: Instant) -> bool {
        let place = &self.places[place];
        match place.kind_of(&place.names[name].name) {
            Some(FileType::RegularFile) => {
                let is_written = judge::is_open_for_writing(&place.folder, &place.names[name].name);
                !is_written || began.elapsed() > limits::REPLACEMENT_WAIT
            }
            Some(_) => true,
            None => place.names[name].is_optional || began.elapsed() > limits::ABSENT_WAIT,
        }
    }

    fn path(&self, place: usize, name: usize) -> PathBuf {
        self.places[place].path.join(&self.places[place].names[name].name)
    }

    /// Covers what stands at an open name, or puts something there; then judges whether it is what the user put there.
    fn take_in(&mut self, at: usize, name: usize, events: &Events) -> Result<(), Breach> {
        let path = self.path(at, name);
        let breach = |why: &str| Breach { path: path.clone(), why: why.to_owned() };
        let place = &mut self.places[at];
        let own = place.names[name].name.clone();
        if place.kind_of(&own).is_none() {
            if place.names[name].is_optional {
                place.names[name].is_gone = true;
                return Ok(());
            }
            if place.names[name].settings.is_some() {
                // A folder in its place would be no configuration.
                return Err(breach("was removed"));
            }
            let laid = Placeholders::lay(&place.path, std::slice::from_ref(&place.names[name].laid_as));
            let laid = laid.map_err(|_| breach("was removed, and nothing could be put in its place"))?;
            self.laid.push((path.clone(), laid));
        }
        let place = &mut self.places[at];
        if place.kind_of(&own) == Some(FileType::Symlink) {
            return Err(breach("was replaced by a symbolic link, which cannot be protected"));
        }
        match root::cover(&place.folder, Path::new(&own), root::READ_ONLY) {
            Ok(()) => {}
            // It was replaced once more: the next round looks at it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(_) => return Err(breach("was replaced, and could not be protected again")),
        }
        match judge::look(place, name, events.about(at, &own)) {
            Finding::Fine => {
                place.remember_settings();
                Ok(())
            }
            Finding::Suspicious(why) => Err(breach(&why)),
            Finding::RunsPrograms(keys) => {
                let aside = judge::put_back(place, name, &path).map_or_else(
                    |_| {
                        "; it could not be put back: use no git there before you have looked at it".to_owned()
                    },
                    |aside| {
                        format!(
                            "; what it said is in {}, and its former content was put back",
                            aside.display()
                        )
                    },
                );
                Err(breach(&format!("got settings by which git runs programs ({keys}){aside}")))
            }
        }
    }

    /// Takes away what was put at names that became absent. Nothing inside is left by now.
    pub(super) fn clear(&mut self) {
        for (path, laid) in self.laid.drain(..) {
            // What is covered cannot be removed from here.
            let _ = rustix::mount::unmount(&path, UnmountFlags::DETACH);
            drop(laid);
        }
    }
}

impl Place {
    fn kind_of(&self, name: &OsStr) -> Option<FileType> {
        let stat = rustix::fs::statat(&self.folder, Path::new(name), AtFlags::SYMLINK_NOFOLLOW).ok()?;
        Some(FileType::from_raw_mode(stat.st_mode))
    }

    /// Whether a read-only mount lies at a name. Nobody inside can make one.
    fn is_covered(&self, guarded: &Guarded) -> bool {
        let look = || -> Result<bool, Errno> {
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let there = rustix::fs::openat(&self.folder, Path::new(&guarded.name), flags, Mode::empty())?;
            let stat = rustix::fs::statx(&there, "", AtFlags::EMPTY_PATH, StatxFlags::TYPE)?;
            let flags = rustix::fs::fstatvfs(&there)?.f_flag;
            Ok(stat.stx_attributes.contains(StatxAttributes::MOUNT_ROOT)
                && flags.contains(StatVfsMountFlags::RDONLY))
        };
        look().unwrap_or(false)
    }

    /// Keeps what configurations of git say at this moment.
    fn remember_settings(&mut self) {
        for guarded in &mut self.names {
            if git_settings::is_configuration(&guarded.name) {
                guarded.settings = judge::read(&self.folder, &guarded.name);
            }
        }
    }

    /// Whether a file of this name looks like one that is about to replace a protected name.
    fn is_draft(&self, name: &OsStr) -> bool {
        self.names.iter().any(|guarded| events::is_draft_of(name, &guarded.name))
    }

    /// Whether a change may mean that a cover is gone. A write may be the first that is told of a replacement.
    fn concerns(&self, change: &Change) -> bool {
        self.names.iter().any(|guarded| guarded.name == change.name)
    }
}

//! What the kernel tells of the folders with protected names, in its order. Knows who could have done what only by the moment at
//! which everything inside was stopped.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use rustix::fs::inotify::{ReadFlags, Reader};

use super::Place;
use crate::limits;

/// One thing that happened to a name.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub(super) place: usize,
    pub(super) name: OsString,
    what: ReadFlags,
    /// Joins the two halves of a move.
    cookie: u32,
}

impl Change {
    /// Whether the name stands for something else afterwards.
    pub(super) fn detaches(&self) -> bool {
        self.what
            .intersects(ReadFlags::CREATE | ReadFlags::MOVED_FROM | ReadFlags::MOVED_TO | ReadFlags::DELETE)
    }

    pub(super) fn is(&self, what: ReadFlags) -> bool {
        self.what.intersects(what)
    }
}

/// What happened since nothing was open.
#[derive(Default)]
pub(super) struct Events {
    all: Vec<Change>,
    /// How many of them came while processes inside ran.
    running: Option<usize>,
    moved: BTreeSet<usize>,
    drafts: BTreeSet<(usize, OsString)>,
    overflowed: bool,
}

/// What is known of one name.
pub(super) struct AboutName<'a> {
    pub(super) name: &'a OsStr,
    /// All changes of its folder while processes inside ran.
    pub(super) running: Vec<&'a Change>,
    /// The name under which it was made, where it was moved in from beside.
    pub(super) draft: Option<&'a OsStr>,
    /// Some changes are not known.
    pub(super) is_incomplete: bool,
}

impl Events {
    /// Reads what there is. An error counts as changes that are not known.
    pub(super) fn read(&mut self, inotify: &OwnedFd, places: &[Place]) {
        let mut space = [MaybeUninit::uninit(); limits::GUARD_READ_BYTES];
        let mut reader = Reader::new(inotify, &mut space);
        loop {
            let event = match reader.next() {
                Ok(event) => event,
                Err(rustix::io::Errno::AGAIN) => return,
                Err(rustix::io::Errno::INTR) => continue,
                Err(_) => {
                    self.overflowed = true;
                    return;
                }
            };
            let what = event.events();
            if what.contains(ReadFlags::QUEUE_OVERFLOW) {
                self.overflowed = true;
                continue;
            }
            let Some(place) = places.iter().position(|place| place.watch == Some(event.wd())) else {
                continue;
            };
            let own = ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF | ReadFlags::IGNORED | ReadFlags::UNMOUNT;
            if what.intersects(own) {
                self.moved.insert(place);
                continue;
            }
            let Some(name) = event.file_name() else { continue };
            let name = OsString::from_vec(name.to_bytes().to_vec());
            let is_known = places[place].names.iter().any(|guarded| guarded.name == name);
            let is_draft = !is_known && places[place].is_draft(&name);
            if is_draft && what.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO) {
                self.drafts.insert((place, name.clone()));
            }
            let moves = what.intersects(ReadFlags::MOVED_FROM | ReadFlags::MOVED_TO);
            if (is_known || is_draft || moves) && self.all.len() < limits::GUARD_EVENTS_MAX {
                self.all.push(Change { place, name, what, cookie: event.cookie() });
            } else if is_known || is_draft {
                self.overflowed = true;
            }
        }
    }

    /// Changes may have been missed.
    pub(super) fn lost_some(&mut self) {
        self.overflowed = true;
    }

    /// From here on everything inside is stopped.
    pub(super) fn end_of_running(&mut self) {
        self.running = Some(self.all.len());
    }

    /// Whether a cover may be gone, or is about to go.
    pub(super) fn matters(&self, places: &[Place]) -> bool {
        self.overflowed
            || !self.drafts.is_empty()
            || !self.moved.is_empty()
            || self.all.iter().any(|change| places[change.place].concerns(change))
    }

    pub(super) fn moved_away(&self, place: usize) -> bool {
        self.moved.contains(&place)
    }

    /// The files that looked as if they were about to replace something.
    pub(super) fn drafts(&self) -> impl Iterator<Item = (usize, &OsStr)> {
        self.drafts.iter().map(|(place, name)| (*place, name.as_os_str()))
    }

    pub(super) fn about<'a>(&'a self, place: usize, name: &'a OsStr) -> AboutName<'a> {
        let here = |change: &&Change| change.place == place;
        let arrived = self
            .all
            .iter()
            .filter(here)
            .find(|change| change.name == name && change.is(ReadFlags::MOVED_TO))
            .map(|change| change.cookie);
        let left = |change: &&Change| change.is(ReadFlags::MOVED_FROM) && Some(change.cookie) == arrived;
        let draft = self.all.iter().filter(here).find(left).map(|change| change.name.as_os_str());
        let running = self.running.unwrap_or(self.all.len());
        let running = self.all[..running].iter().filter(here).collect();
        AboutName { name, running, draft, is_incomplete: self.overflowed }
    }
}

/// Whether a file of this name may be about to replace a protected one: git's lock, and what editors write beside a file before they
/// rename it, which bears its name in some way, or none that anybody else would choose.
pub(super) fn is_draft_of(name: &OsStr, protected: &OsStr) -> bool {
    const EDITORS: &[&[u8]] = &[b"4913", b".goutputstream-"];
    let (name, protected) = (name.as_bytes(), protected.as_bytes());
    if name == protected {
        return false;
    }
    let is_dotted = protected.starts_with(b".");
    let bears = name.windows(protected.len()).any(|part| part == protected);
    // `config` is part of many names; only what git makes of it counts there.
    let is_lock = name.strip_prefix(protected).is_some_and(|rest| rest == b".lock" || rest == b".new");
    is_lock || (is_dotted && (bears || EDITORS.iter().any(|editor| name.starts_with(editor))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_and_what_editors_write_beside_a_file_are_known() {
        let is = |name: &str, protected: &str| is_draft_of(OsStr::new(name), OsStr::new(protected));
        for (name, protected) in [
            ("config.lock", "config"),
            ("packed-refs.new", "packed-refs"),
            (".mcp.json.tmp.123", ".mcp.json"),
            (".envrc~", ".envrc"),
            ("..envrc.swp", ".envrc"),
            ("#.mcp.json#", ".mcp.json"),
            ("4913", ".envrc"),
        ] {
            assert!(is(name, protected), "{name}");
        }
        for (name, protected) in [("config", "config"), ("index.lock", "config"), ("config.toml", "config")] {
            assert!(!is(name, protected), "{name}");
        }
    }
}

//! Writes the mark behind the rows: a separate thread writes it after the rows it counts are on disk, so that
//! it never counts a row that a power failure loses. It lags by `limits::AUDIT_MARK_EVERY` and the time of
//! two syncs; after an orderly shutdown it does not lag. What a killed daemon could not mark is in `head_file`.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::AuditShared;
use super::chain::Head;
use super::head_file::HeadFile;
use super::keys::{self, Keys, hex};
use super::mark::{Found, Mark};
use crate::limits;
use crate::writer::LOG_SYNC_FAILED;

/// Writes the mark in the background.
#[derive(Debug)]
pub(super) struct Marker {
    folder: PathBuf,
    /// SQLite's write-ahead log, where committed rows go first.
    log: PathBuf,
    /// The newest row, for a daemon that is killed before the mark is written.
    head_file: HeadFile,
    state: Mutex<State>,
    bell: Condvar,
}

#[derive(Debug, Default)]
struct State {
    mark: Mark,
    /// The newest row that this daemon wrote.
    newest: Option<Head>,
    thread: Option<std::thread::JoinHandle<()>>,
    closing: bool,
}

impl Marker {
    pub(super) fn new(database: &Path, folder: &Path, mark: Mark, head_file: HeadFile) -> Self {
        let mut log = database.as_os_str().to_owned();
        log.push("-wal");
        let state = Mutex::new(State { mark, ..State::default() });
        Self { folder: folder.to_owned(), log: log.into(), head_file, state, bell: Condvar::new() }
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn newest(&self) -> Option<Head> {
        self.locked().newest.clone()
    }

    /// Reads the mark; one that cannot be read counts as forged.
    pub(super) fn read(&self, keys: &Keys) -> Found {
        Mark::read(&self.folder, keys).unwrap_or_else(|error| {
            tracing::warn!(%error, "the audit's mark cannot be read");
            Found::Forged
        })
    }

    /// Returns whether the key file of this daemon still exists.
    pub(super) fn has_key_file(&self) -> bool {
        self.folder.join(keys::KEY_FILE).is_file()
    }

    /// Records a committed row; calls may arrive out of order.
    pub(super) fn note(shared: &Arc<AuditShared>, head: Head) {
        let marker = &shared.marker;
        let mut state = marker.locked();
        if state.newest.as_ref().is_some_and(|newest| newest.seq >= head.seq) {
            return;
        }
        if let Err(error) = marker.head_file.write(&shared.keys, &head) {
            tracing::warn!(%error, "the newest row of the audit is not noted; its mark follows");
        }
        state.newest = Some(head);
        if state.thread.is_none() && !state.closing {
            // Weak, so that the thread does not keep the audit alive.
            let weak = Arc::downgrade(shared);
            let spawned = std::thread::Builder::new().name("audit-mark".to_owned()).spawn(move || run(&weak));
            match spawned {
                Ok(thread) => state.thread = Some(thread),
                Err(error) => tracing::warn!(%error, "the audit's mark is not kept"),
            }
        }
        drop(state);
        marker.bell.notify_all();
    }

    /// Writes the mark for the last row and ends the thread.
    pub(super) fn close(&self, keys: &Keys, head: Head) {
        let thread = {
            let mut state = self.locked();
            state.closing = true;
            state.thread.take()
        };
        self.bell.notify_all();
        if let Some(thread) = thread {
            // The thread has logged its errors, if any.
            let _ = thread.join();
        }
        if self.locked().mark.seq < head.seq {
            self.write(keys, &head);
        }
    }

    fn write(&self, keys: &Keys, head: &Head) {
        let mark = Mark { seq: head.seq, mac: hex(&head.mac), ..self.locked().mark.clone() };
        match self.sync_rows().and_then(|()| mark.write(&self.folder, keys)) {
            Ok(()) => self.locked().mark = mark,
            Err(error) => tracing::warn!(%error, "the audit's mark cannot be written"),
        }
    }

    fn sync_rows(&self) -> io::Result<()> {
        match File::open(&self.log) {
            // A failed sync is reported once, to whoever asks first, so that the writer must be told.
            Ok(log) => log.sync_data().inspect_err(|_| LOG_SYNC_FAILED.store(true, Ordering::Release)),
            // The log was moved into the database, which was synced before.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }
}

fn run(shared: &std::sync::Weak<AuditShared>) {
    loop {
        let Some(shared) = shared.upgrade() else { return };
        let marker = &shared.marker;
        let mut state = marker.locked();
        let behind = |state: &State| state.newest.as_ref().is_some_and(|newest| newest.seq > state.mark.seq);
        if !behind(&state) && !state.closing {
            // Wakes now and then to check whether the audit still exists.
            let waited = marker.bell.wait_timeout(state, limits::AUDIT_MARK_IDLE_WAIT);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        if state.closing {
            return;
        }
        let newest = state.newest.clone().filter(|_| behind(&state));
        drop(state);
        let Some(newest) = newest else { continue };
        marker.write(&shared.keys, &newest);
        let state = marker.locked();
        if !state.closing {
            // A pause, so that many rows share a mark; closing cuts it short.
            let pause =
                marker.bell.wait_timeout_while(state, limits::AUDIT_MARK_EVERY, |state| !state.closing);
            drop(pause);
        }
    }
}

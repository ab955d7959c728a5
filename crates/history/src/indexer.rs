//! The thread that indexes past events: waits for sessions with new ones, reads those from the journal, and writes what is
//! found in them together with how far it read. A daemon that is killed goes on where its index ends.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, mpsc};

use domain::{Error, SessionId};
use storage::history::{HistoryIndex, IndexWrite};
use storage::{Store, sessions, storage_error};
use tokio::sync::oneshot;

use super::passages::PassageFold;
use crate::limits;

/// Events that are read at once.
const EVENTS_AT_ONCE: usize = 1_000;

/// What the thread is asked for.
pub(super) enum IndexMessage {
    /// Sessions have new events.
    Changed,
    /// Answer once everything that is stored now is indexed.
    CatchUp(oneshot::Sender<()>),
    /// Remove what is no longer stored.
    ForgetRemoved(oneshot::Sender<Result<(), Error>>),
}

/// The state of the thread.
pub(super) struct Indexer {
    store: Store,
    path: PathBuf,
    dirty: Arc<Mutex<HashSet<i64>>>,
    /// Opened with the first work.
    index: Option<HistoryIndex>,
    folds: HashMap<i64, PassageFold>,
    /// Sessions whose events a former daemon left unindexed were looked for.
    is_caught_up: bool,
}

impl Indexer {
    pub(super) fn new(store: Store, path: PathBuf, dirty: Arc<Mutex<HashSet<i64>>>) -> Self {
        Self { store, path, dirty, index: None, folds: HashMap::new(), is_caught_up: false }
    }

    /// Works until the history is dropped.
    pub(super) fn run(mut self, messages: &mpsc::Receiver<IndexMessage>) {
        // Whoever works for a person goes first. A failure costs nothing but that.
        let _ = rustix::process::nice(10);
        while let Ok(message) = messages.recv() {
            match message {
                IndexMessage::Changed => {
                    // More will come: an agent that streams makes a hundred events a second.
                    let waiting = match messages.recv_timeout(limits::INDEX_GATHER_WAIT) {
                        Ok(message) => Some(message),
                        Err(mpsc::RecvTimeoutError::Timeout) => None,
                        Err(mpsc::RecvTimeoutError::Disconnected) => return,
                    };
                    self.index_dirty();
                    if let Some(message) = waiting {
                        self.answer(message);
                    }
                }
                message => self.answer(message),
            }
        }
    }

    fn answer(&mut self, message: IndexMessage) {
        match message {
            IndexMessage::Changed => drop(self.index_dirty()),
            IndexMessage::CatchUp(done) => {
                // Also what was stored without a word, as by an import.
                self.is_caught_up = false;
                if self.index_dirty() {
                    // Whoever asked may have stopped waiting.
                    let _ = done.send(());
                }
            }
            IndexMessage::ForgetRemoved(done) => {
                let _ = done.send(self.forget_removed());
            }
        }
    }

    /// Indexes the sessions with new events. Returns whether all of them were; what was not is tried again with the next
    /// event.
    fn index_dirty(&mut self) -> bool {
        match self.try_index_dirty() {
            Ok(()) => true,
            Err(error) => {
                tracing::warn!(%error, detail = error.detail, "past events cannot be indexed");
                // It is opened anew with the next attempt, and made anew if it is damaged.
                self.index = None;
                self.folds.clear();
                self.is_caught_up = false;
                // The next event wakes this thread only if none waits; what is behind is found by the next attempt.
                self.dirty.lock().unwrap_or_else(PoisonError::into_inner).clear();
                false
            }
        }
    }

    fn try_index_dirty(&mut self) -> Result<(), Error> {
        if !self.is_caught_up {
            self.find_unindexed()?;
            self.is_caught_up = true;
        }
        loop {
            let key = {
                let mut dirty = self.dirty.lock().unwrap_or_else(PoisonError::into_inner);
                let Some(key) = dirty.iter().next().copied() else { return Ok(()) };
                // Removed before it is read: an event that comes meanwhile adds it again.
                dirty.remove(&key);
                key
            };
            self.index_session(key)?;
        }
    }

    fn index(&mut self) -> Result<&mut HistoryIndex, Error> {
        match &mut self.index {
            Some(_) => {}
            empty => *empty = Some(HistoryIndex::open(&self.path)?),
        }
        self.index.as_mut().ok_or_else(|| storage_error("open its index", &"it is gone"))
    }

    /// Marks the sessions whose events a former daemon did not index.
    fn find_unindexed(&mut self) -> Result<(), Error> {
        let stored = self.store.read_now(sessions::newest_events)?;
        let indexed: HashMap<i64, u64> = self
            .index()?
            .all_progress()
            .map_err(|error| storage_error("read its index", &error))?
            .into_iter()
            .collect();
        let behind =
            stored.into_iter().filter(|(key, newest)| indexed.get(key).is_none_or(|seq| seq < newest));
        self.dirty.lock().unwrap_or_else(PoisonError::into_inner).extend(behind.map(|(key, _)| key));
        Ok(())
    }

    fn index_session(&mut self, key: i64) -> Result<(), Error> {
        let failed = |error: rusqlite::Error| storage_error("write its index", &error);
        if !self.folds.contains_key(&key) {
            let progress = self.index()?.progress(key).map_err(failed)?;
            self.folds.insert(key, PassageFold::resume(progress));
        }
        loop {
            let Some(fold) = self.folds.get_mut(&key) else { return Ok(()) };
            let after = fold.read_up_to();
            // Rows are found by the key; the id of the session is not needed.
            let nobody = SessionId::new("");
            let events = self.store.read_now(|connection| {
                sessions::events_after(connection, key, &nobody, after, EVENTS_AT_ONCE)
            })?;
            let Some(last) = events.last().map(|event| event.seq) else {
                // Memory is kept for sessions in the middle of a text only.
                if fold.is_at_rest() {
                    self.folds.remove(&key);
                }
                return Ok(());
            };
            let (mut passages, mut usage) = (Vec::new(), Vec::new());
            for event in &events {
                fold.take(event, &mut passages, &mut usage);
            }
            fold.skip_to(last);
            let progress = fold.progress();
            let write = IndexWrite { session_key: key, passages, usage, progress };
            self.index()?.write(&write).map_err(failed)?;
        }
    }

    /// Removes texts whose events were removed, and everything of sessions that were.
    fn forget_removed(&mut self) -> Result<(), Error> {
        if self.index.is_none() && !self.path.exists() {
            return Ok(());
        }
        let failed = |error: rusqlite::Error| storage_error("write its index", &error);
        let indexed = self.index()?.all_progress().map_err(failed)?;
        for (key, _) in indexed {
            let has_events = self.store.read_now(|connection| sessions::has_events(connection, key))?;
            let index = self.index()?;
            match has_events {
                Some(true) => {}
                Some(false) => {
                    if index.has_passages(key).map_err(failed)? {
                        index.forget(key, false).map_err(failed)?;
                    }
                }
                None => {
                    index.forget(key, true).map_err(failed)?;
                    self.folds.remove(&key);
                }
            }
        }
        Ok(())
    }
}

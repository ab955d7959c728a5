//! Memories' vectors on a Qdrant server, kept in step with the tables. The tables are the record: whatever a server lost,
//! missed or has too much of is made good from them, and while it cannot be used nobody asks it. Decides what is sent
//! when; `crate::qdrant` knows how.

mod rows;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::{Error, ErrorCode};
use rusqlite::Connection;
use storage::Store;
use tokio::sync::{Notify, OnceCell};

use super::MemorySearch;
use crate::embed::Embedder;
use crate::limits::{QDRANT_BATCH, QDRANT_CHECK_WAIT, QDRANT_RETRY_WAIT, QDRANT_UNSENT_MAX};
use crate::place::Scope;
use crate::qdrant::{QdrantServer, Wanted, fingerprint};
use crate::vectors::Vector;

/// A server and what it has been told.
#[derive(Debug)]
pub(super) struct Mirror {
    server: QdrantServer,
    store: Store,
    embedder: String,
    collection: String,
    /// Whose points ours are: several daemons may share a server.
    owner: OnceCell<String>,
    state: Mutex<State>,
    wake: Notify,
    begun: AtomicBool,
    /// The collection is there, as far as anybody knows.
    prepared: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    /// The server has everything but what is listed below, and may be asked.
    serving: bool,
    /// Rows that changed since they were sent.
    unsent: BTreeSet<i64>,
    /// Rows that are being sent.
    sending: BTreeSet<i64>,
    /// What was last complained about; a complaint is made once.
    trouble: Option<String>,
}

impl Mirror {
    pub(super) fn new(server: QdrantServer, store: Store, embedder: &str) -> Self {
        Self {
            collection: server.collection(embedder),
            server,
            store,
            embedder: embedder.to_owned(),
            owner: OnceCell::new(),
            state: Mutex::default(),
            wake: Notify::new(),
            begun: AtomicBool::new(false),
            prepared: AtomicBool::new(false),
        }
    }

    /// Begins to keep the server in step, for as long as the daemon runs.
    pub(super) fn begin(self: &Arc<Self>) {
        if !self.begun.swap(true, Ordering::SeqCst) {
            tokio::spawn(Arc::clone(self).run());
        }
    }

    /// Notes that rows have changed.
    pub(super) fn changed(&self, keys: impl IntoIterator<Item = i64>) {
        self.state().unsent.extend(keys);
        self.wake.notify_one();
    }

    /// Returns the rows worth looking at, those that the server does not know yet included. None: look at all, it cannot be
    /// asked.
    pub(super) async fn nearest(
        &self,
        vector: &Vector,
        search: &MemorySearch,
        least: f32,
    ) -> Option<BTreeSet<i64>> {
        // Taken before the server is asked: what has been sent by then, it knows.
        let mut keys: BTreeSet<i64> = {
            let state = self.state();
            let unsent = state.unsent.iter().chain(&state.sending).copied();
            if !state.serving || state.unsent.len() + state.sending.len() > QDRANT_UNSENT_MAX {
                return None;
            }
            unsent.collect()
        };
        let wanted = self.wanted(search)?;
        let numbers = vector.numbers().iter().map(|number| f32::from(*number)).collect();
        let found = match self.server.nearest(&self.collection, numbers, &wanted, least).await {
            // Nothing near, or nothing there at all?
            Ok(found) if found.is_empty() => self.check().await.map(|()| found),
            found => found,
        };
        match found {
            Ok(found) => {
                keys.extend(found);
                Some(keys)
            }
            Err(error) => {
                self.fail(&error);
                None
            }
        }
    }

    fn wanted(&self, search: &MemorySearch) -> Option<Wanted> {
        let at = |scope| (search.scope == scope).then_some(());
        Some(Wanted {
            store: self.owner.get()?.clone(),
            tenant: Some(fingerprint(&search.place.tenant)),
            team: at(Scope::Team).map(|()| fingerprint(&search.place.team)),
            project: at(Scope::Project).map(|()| fingerprint(&search.place.project)),
            outcome: (!search.outcome.is_empty()).then(|| fingerprint(&search.outcome)),
            // A little less than asked for: the tables have the last word.
            standing: (search.min_confidence > 0.0)
                .then(|| rows::standing(search.min_confidence, search.now) - 1e-4),
        })
    }

    async fn run(self: Arc<Self>) {
        loop {
            match self.make_good().await {
                Ok(()) => self.follow().await,
                Err(error) => self.fail(&error),
            }
            tokio::time::sleep(QDRANT_RETRY_WAIT).await;
        }
    }

    /// Sends what changes, and returns when that fails or somebody's search did.
    async fn follow(&self) {
        {
            let mut state = self.state();
            state.serving = true;
            state.trouble = None;
        }
        tracing::info!(
            url = self.server.url(),
            collection = self.collection,
            "memories are searched in Qdrant"
        );
        loop {
            let ended = tokio::select! {
                () = self.wake.notified() => self.send().await,
                () = tokio::time::sleep(QDRANT_CHECK_WAIT) => self.check().await,
            };
            if let Err(error) = ended {
                self.fail(&error);
            }
            if !self.state().serving {
                return;
            }
        }
    }

    /// Sends all rows that have changed.
    async fn send(&self) -> Result<(), Error> {
        loop {
            let keys: Vec<i64> = {
                let mut state = self.state();
                state.sending = state.unsent.iter().take(QDRANT_BATCH).copied().collect();
                let State { unsent, sending, .. } = &mut *state;
                unsent.retain(|key| !sending.contains(key));
                sending.iter().copied().collect()
            };
            if keys.is_empty() {
                return Ok(());
            }
            let sent = self.send_some(keys).await;
            let mut state = self.state();
            let sending = std::mem::take(&mut state.sending);
            if sent.is_err() {
                state.unsent.extend(sending);
                return sent;
            }
        }
    }

    async fn send_some(&self, keys: Vec<i64>) -> Result<(), Error> {
        let (owner, embedder) = (self.owner().await?, self.embedder.clone());
        let read = move |connection: &Connection| rows::of_keys(connection, &owner, &embedder, &keys);
        let changed = self.store.read(read).await?;
        if let Some(point) = changed.there.first() {
            self.prepare_once(point.vector.len()).await?;
            self.server.put(&self.collection, &changed.there).await?;
        }
        match self.server.remove(&self.collection, &changed.gone).await {
            // Nothing was ever sent.
            Err(error) if error.code == ErrorCode::ItemNotFound && changed.there.is_empty() => Ok(()),
            ended => ended,
        }
    }

    async fn prepare_once(&self, width: usize) -> Result<(), Error> {
        if !self.prepared.load(Ordering::SeqCst) {
            self.server.prepare(&self.collection, width).await?;
            self.prepared.store(true, Ordering::SeqCst);
        }
        Ok(())
    }

    /// Compares everything the server has with the tables and sends or removes what differs.
    async fn make_good(&self) -> Result<(), Error> {
        let owner = self.owner().await?;
        // What changed before this is read below.
        self.state().unsent.clear();
        self.prepared.store(false, Ordering::SeqCst);
        self.server.version().await?;
        let embedder = self.embedder.clone();
        let first = self.store.read(move |connection| rows::width(connection, &embedder)).await?;
        let mut there = match first {
            Some(width) => {
                self.prepare_once(width).await?;
                self.server.prints(&self.collection, &owner).await?
            }
            None => match self.server.prints(&self.collection, &owner).await {
                Err(error) if error.code == ErrorCode::ItemNotFound => Default::default(),
                prints => prints?,
            },
        };
        let (mut last, mut sent) = (i64::MIN, 0);
        loop {
            let (owner, embedder) = (owner.clone(), self.embedder.clone());
            let page =
                self.store.read(move |db| rows::page(db, &owner, &embedder, last, QDRANT_BATCH)).await?;
            let Some(end) = page.last() else { break };
            last = end.key;
            let missing: Vec<_> =
                page.into_iter().filter(|point| there.remove(&point.id) != Some(point.print())).collect();
            sent += missing.len();
            if let Some(point) = missing.first() {
                // The first of all memories may have been kept since the collection was asked for.
                self.prepare_once(point.vector.len()).await?;
            }
            self.server.put(&self.collection, &missing).await?;
        }
        let surplus: Vec<u128> = there.into_keys().collect();
        self.server.remove(&self.collection, &surplus).await?;
        if sent + surplus.len() > 0 {
            let removed = surplus.len();
            tracing::info!(sent, removed, collection = self.collection, "Qdrant was brought up to date");
        }
        self.forget_elsewhere(&owner).await;
        Ok(())
    }

    /// Removes what was sent with the vectors of other makers. Not every key may list collections; nothing depends on it.
    async fn forget_elsewhere(&self, owner: &str) {
        let others = self.server.others(&self.collection).await.unwrap_or_default();
        for other in others {
            if let Err(error) = self.server.clear(&other, owner).await {
                tracing::debug!(%error, collection = other, "vectors of another maker stay");
            }
        }
    }

    /// Notices that somebody emptied the server. What has yet to be sent cannot be missed.
    async fn check(&self) -> Result<(), Error> {
        if self.is_sending() {
            return Ok(());
        }
        let (owner, embedder) = (self.owner().await?, self.embedder.clone());
        let wanted = self.store.read(move |connection| rows::count(connection, &embedder)).await?;
        let found = match self.server.count(&self.collection, &owner).await {
            Err(error) if error.code == ErrorCode::ItemNotFound => 0,
            count => count?,
        };
        if found >= wanted || self.is_sending() {
            return Ok(());
        }
        let message = format!("Qdrant's collection {} has {found} of {wanted} memories", self.collection);
        Err(Error::new(ErrorCode::ConnectionLost, message))
    }

    fn is_sending(&self) -> bool {
        let state = self.state();
        !state.unsent.is_empty() || !state.sending.is_empty()
    }

    /// Stops asking the server.
    fn fail(&self, error: &Error) {
        self.prepared.store(false, Ordering::SeqCst);
        let mut state = self.state();
        state.serving = false;
        let new = state.trouble.as_ref() != Some(&error.message);
        state.trouble = Some(error.message.clone());
        drop(state);
        if new {
            let detail = &error.detail;
            tracing::warn!(%error, detail, "memories are searched in the daemon's own file until Qdrant can be used");
        }
        self.wake.notify_one();
    }

    async fn owner(&self) -> Result<String, Error> {
        self.owner.get_or_try_init(|| rows::owner(&self.store)).await.cloned()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How a server stands to a daemon's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirrored {
    pub version: String,
    pub collection: String,
    /// Memories with a vector, and how many of them the server has.
    pub memories: u64,
    pub there: u64,
}

impl Mirrored {
    /// Asks the server and looks into the file, without changing either.
    pub async fn of_file(path: &Path, embedder: &Embedder, server: &QdrantServer) -> Result<Self, Error> {
        let version = server.version().await?;
        let collection = server.collection(embedder.name());
        let seen = rows::seen(path, embedder.name())?;
        // Asked even where there is nothing to count: everybody may know the version, whatever their key.
        let exists = server.check(&collection, seen.width).await?;
        let there = match &seen.owner {
            Some(owner) if exists => server.count(&collection, owner).await?,
            _ => 0,
        };
        Ok(Self { version, collection, memories: seen.memories, there })
    }
}

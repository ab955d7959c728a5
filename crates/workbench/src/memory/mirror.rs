//! Keeps a Qdrant server in sync with the memories' vectors in the tables. The tables are authoritative:
//! whatever the server lost, missed or has in excess is repaired from them, and while it is unavailable it is
//! not queried. Decides what is sent when; `crate::qdrant` knows how.

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

/// A server and its sync state.
#[derive(Debug)]
pub(super) struct Mirror {
    server: QdrantServer,
    store: Store,
    embedder: String,
    collection: String,
    /// Identifies our points: several daemons may share a server.
    owner: OnceCell<String>,
    state: Mutex<State>,
    wake: Notify,
    begun: AtomicBool,
    /// The collection exists, as far as we know.
    prepared: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    /// The server has everything except what is listed below, and may be queried.
    serving: bool,
    /// Rows that changed since they were sent.
    unsent: BTreeSet<i64>,
    /// Rows that are being sent.
    sending: BTreeSet<i64>,
    /// The last reported error, so that it is reported once.
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

    /// Starts to keep the server in sync, for as long as the daemon runs.
    pub(super) fn begin(self: &Arc<Self>) {
        if !self.begun.swap(true, Ordering::SeqCst) {
            tokio::spawn(Arc::clone(self).run());
        }
    }

    /// Records that rows have changed.
    pub(super) fn changed(&self, keys: impl IntoIterator<Item = i64>) {
        self.state().unsent.extend(keys);
        self.wake.notify_one();
    }

    /// Returns the rows worth ranking, including those not sent yet. `None`: the server cannot be queried;
    /// rank all.
    pub(super) async fn nearest(
        &self,
        vector: &Vector,
        search: &MemorySearch,
        least: f32,
    ) -> Option<BTreeSet<i64>> {
        // Copied before the query: the server knows what was sent by then.
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
            // Either nothing is similar, or the server is empty.
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

    /// Converts a search to the server's filter; `None` until the owner is known.
    fn wanted(&self, search: &MemorySearch) -> Option<Wanted> {
        let at = |scope| (search.scope == scope).then_some(());
        Some(Wanted {
            store: self.owner.get()?.clone(),
            tenant: Some(fingerprint(&search.place.tenant)),
            team: at(Scope::Team).map(|()| fingerprint(&search.place.team)),
            project: at(Scope::Project).map(|()| fingerprint(&search.place.project)),
            outcome: search.outcome.map(|outcome| fingerprint(outcome.name())),
            // Slightly less than requested: the tables decide.
            standing: (search.min_confidence > 0.0)
                .then(|| rows::standing(search.min_confidence, search.now) - 1e-4),
        })
    }

    /// Repairs and follows, and retries after errors.
    async fn run(self: Arc<Self>) {
        loop {
            match self.make_good().await {
                Ok(()) => self.follow().await,
                Err(error) => self.fail(&error),
            }
            tokio::time::sleep(QDRANT_RETRY_WAIT).await;
        }
    }

    /// Sends changes as they happen; returns after an error, here or in a search.
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

    /// Sends changed rows and removes deleted ones.
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

    /// Creates the collection before its first use.
    async fn prepare_once(&self, width: usize) -> Result<(), Error> {
        if !self.prepared.load(Ordering::SeqCst) {
            self.server.prepare(&self.collection, width).await?;
            self.prepared.store(true, Ordering::SeqCst);
        }
        Ok(())
    }

    /// Compares all points of the server with the tables, and sends or removes the differences.
    async fn make_good(&self) -> Result<(), Error> {
        let owner = self.owner().await?;
        // Earlier changes are read below.
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
                // The very first memory may have been stored since the width was read.
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

    /// Removes points with vectors of other embedders. The key may not permit listing collections; nothing
    /// depends on it.
    async fn forget_elsewhere(&self, owner: &str) {
        let others = self.server.others(&self.collection).await.unwrap_or_default();
        for other in others {
            if let Err(error) = self.server.clear(&other, owner).await {
                tracing::debug!(%error, collection = other, "vectors of another maker stay");
            }
        }
    }

    /// Detects that the server was emptied. Skipped while changes are pending, because counts differ then.
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

    /// Stops querying the server.
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

/// The sync state of a server relative to a daemon's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirrored {
    pub version: String,
    pub collection: String,
    /// Memories with a vector, and how many of them the server has.
    pub memories: u64,
    pub there: u64,
}

impl Mirrored {
    /// Queries the server and reads the file, without changing either.
    pub async fn of_file(path: &Path, embedder: &Embedder, server: &QdrantServer) -> Result<Self, Error> {
        let version = server.version().await?;
        let collection = server.collection(embedder.name());
        let seen = rows::seen(path, embedder.name())?;
        // Checked even if there is nothing to count: the version is readable without a valid key, so this
        // also checks the key.
        let exists = server.check(&collection, seen.width).await?;
        let there = match &seen.owner {
            Some(owner) if exists => server.count(&collection, owner).await?,
            _ => 0,
        };
        Ok(Self { version, collection, memories: seen.memories, there })
    }
}

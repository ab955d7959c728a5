//! Search and sums of usage over past events: keeps an index of them up to date and answers queries from it. Its own thread
//! reads the journal after each commit and writes a separate file, so that no session waits for it. The journal remains the
//! authority: events that are not indexed yet are read from it, and what was removed there is removed here.

mod indexer;
pub mod limits;
mod passages;

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};

use domain::{Error, ErrorCode, Timestamp};
use rusqlite::Connection;
use storage::history::{self, PassageHit, PassageKind, PassageQuery, UsageQuery, UsageSum};
use storage::sessions::{self, SessionLabel};
use storage::{Store, storage_error};
use tokio::sync::oneshot;

use indexer::{IndexMessage, Indexer};

/// Past events of all sessions. Cheap to clone; its thread ends with the last clone.
#[derive(Clone)]
pub struct History {
    shared: Arc<HistoryShared>,
}

struct HistoryShared {
    store: Store,
    path: PathBuf,
    /// Sessions with events that are not indexed.
    dirty: Arc<Mutex<HashSet<i64>>>,
    wake: mpsc::Sender<IndexMessage>,
    reader: Mutex<Option<Connection>>,
}

/// What is looked for.
#[derive(Clone, Debug, Default)]
pub struct SearchRequest {
    pub text: String,
    /// Only in this session; nothing: in all.
    pub session_id: Option<String>,
    /// Empty: all.
    pub kinds: Vec<PassageKind>,
    pub since: Option<Timestamp>,
    /// 0: the default.
    pub limit: usize,
}

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct SearchResult {
    /// Newest first, each with its session.
    pub hits: Vec<(SessionLabel, PassageHit)>,
    pub has_more: bool,
    /// Everything was indexed when it was looked for.
    pub is_complete: bool,
}

/// What was used.
#[derive(Clone, Debug, Default)]
pub struct UsageResult {
    /// By time, each with its session.
    pub sums: Vec<(SessionLabel, UsageSum)>,
    pub is_complete: bool,
}

impl History {
    /// Starts the thread that indexes the events of a store.
    pub fn start(store: &Store) -> Result<Self, Error> {
        let path = history::path_of(store.path());
        let dirty = Arc::new(Mutex::new(HashSet::new()));
        let (wake, messages) = mpsc::channel();
        let indexer = Indexer::new(store.clone(), path.clone(), Arc::clone(&dirty));
        std::thread::Builder::new()
            .name("history-index".to_owned())
            .spawn(move || indexer.run(&messages))
            .map_err(|error| storage_error("start its indexer", &error))?;
        let shared = HistoryShared { store: store.clone(), path, dirty, wake, reader: Mutex::new(None) };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Notes that a session has new events. Costs a lock; the work is done elsewhere and later.
    pub fn note(&self, session_key: i64) {
        let mut dirty = self.shared.dirty();
        let was_clean = dirty.is_empty();
        if dirty.insert(session_key) && was_clean {
            // The thread ends only with this sender.
            let _ = self.shared.wake.send(IndexMessage::Changed);
        }
    }

    /// Searches the prompts, answers, commands and outputs.
    pub async fn search(&self, request: SearchRequest) -> Result<SearchResult, Error> {
        if request.text.len() > limits::SEARCH_TEXT_MAX_BYTES {
            let message = format!("is longer than {} bytes", limits::SEARCH_TEXT_MAX_BYTES);
            return Err(Error::invalid("text", message));
        }
        let Some(expression) = history::match_expression(&request.text) else {
            return Err(Error::invalid("text", "has no word to look for; give one with letters or digits"));
        };
        if request.limit > limits::SEARCH_HITS_MAX {
            return Err(Error::invalid("limit", format_args!("is at most {}", limits::SEARCH_HITS_MAX)));
        }
        let limit = if request.limit == 0 { limits::SEARCH_HITS_DEFAULT } else { request.limit };
        let labels = self.labels().await?;
        let session_key = find_key(&labels, request.session_id.as_deref())?;
        let is_complete = self.catch_up().await;
        let query =
            PassageQuery { expression, session_key, kinds: request.kinds, since: request.since, limit };
        let mut hits = self.read(move |connection| history::search(connection, &query)).await?;
        let has_more = hits.len() > limit;
        hits.truncate(limit);
        // A session that was removed meanwhile is not shown.
        let labelled = hits.into_iter().filter_map(|hit| Some((labels.get(&hit.session_key)?.clone(), hit)));
        Ok(SearchResult { hits: labelled.collect(), has_more, is_complete })
    }

    /// Sums up what was used.
    pub async fn usage(&self, mut query: UsageQuery, session_id: Option<&str>) -> Result<UsageResult, Error> {
        let labels = self.labels().await?;
        query.session_key = find_key(&labels, session_id)?;
        let is_complete = self.catch_up().await;
        let sums = self.read(move |connection| history::sums(connection, &query)).await?;
        let labelled = sums.into_iter().filter_map(|sum| Some((labels.get(&sum.session_key)?.clone(), sum)));
        Ok(UsageResult { sums: labelled.collect(), is_complete })
    }

    /// Removes what is indexed of sessions and events that are no longer stored. When this returns, no search finds them.
    pub async fn forget_removed(&self) -> Result<(), Error> {
        let (done, removed) = oneshot::channel();
        if self.shared.wake.send(IndexMessage::ForgetRemoved(done)).is_err() {
            return Ok(());
        }
        removed.await.unwrap_or_else(|_| {
            Err(Error::new(ErrorCode::StorageFailed, "the index of past events has ended"))
        })
    }

    /// Waits until everything that is stored now is indexed. Returns whether it is.
    async fn catch_up(&self) -> bool {
        let (done, caught_up) = oneshot::channel();
        if self.shared.wake.send(IndexMessage::CatchUp(done)).is_err() {
            return false;
        }
        tokio::time::timeout(limits::INDEX_CATCH_UP_WAIT, caught_up).await.is_ok_and(|done| done.is_ok())
    }

    async fn labels(&self) -> Result<HashMap<i64, SessionLabel>, Error> {
        let labels = self.shared.store.read(sessions::labels).await?;
        Ok(labels.into_iter().map(|label| (label.key, label)).collect())
    }

    /// Reads the index off the async threads.
    async fn read<T, F>(&self, read: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        let shared = Arc::clone(&self.shared);
        let read = move || {
            let idle = shared.reader.lock().unwrap_or_else(PoisonError::into_inner).take();
            let connection = match idle {
                Some(connection) => connection,
                None => history::open_reader(&shared.path)?,
            };
            let result = read(&connection).map_err(|error| storage_error("read its index", &error))?;
            *shared.reader.lock().unwrap_or_else(PoisonError::into_inner) = Some(connection);
            Ok(result)
        };
        tokio::task::spawn_blocking(read).await.map_err(|error| storage_error("read its index", &error))?
    }
}

impl HistoryShared {
    fn dirty(&self) -> MutexGuard<'_, HashSet<i64>> {
        self.dirty.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the key of the session that is asked for; nothing: of all.
fn find_key(labels: &HashMap<i64, SessionLabel>, id: Option<&str>) -> Result<Option<i64>, Error> {
    let Some(id) = id else { return Ok(None) };
    let found = labels.values().find(|label| label.id == id).map(|label| label.key);
    found.map(Some).ok_or_else(|| {
        Error::new(ErrorCode::SessionNotFound, format!("session_id: there is no session {id}"))
    })
}

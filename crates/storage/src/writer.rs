//! The writer: runs operations in order, commits them in groups, and answers when they are durable. A thread
//! does the work, except for a small write that finds no other write in progress: its caller commits that
//! itself. A second thread syncs what was committed and keeps the log short.

mod engine;

use std::collections::VecDeque;
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use domain::Error;
use rusqlite::Connection;
use tokio::sync::oneshot;

use super::storage_error;
use crate::limits;
use engine::Engine;
use host::{failpoint, metric};

/// Somebody else's sync of the log has failed. The kernel reports that once, so the writer's own next sync would succeed
/// although what it waited for is lost.
pub(crate) static LOG_SYNC_FAILED: AtomicBool = AtomicBool::new(false);

/// When a write counts as done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// On disk before the answer: for everything that is confirmed to a client.
    Synced,
    /// Safe against the daemon's death at once, against power loss within `limits::SYNC_WAIT`: for streamed
    /// output.
    Soon,
}

/// One operation: runs inside the transaction, then reports the result of the commit to its caller.
trait WriteOperation: Send {
    fn run(&mut self, connection: &Connection) -> rusqlite::Result<()>;
    fn finish(self: Box<Self>, committed: Result<(), Error>);
}

struct Write<T, F> {
    write: Option<F>,
    result: Option<Result<T, Error>>,
    reply: oneshot::Sender<Result<T, Error>>,
}

impl<T, F> Write<T, F>
where
    T: Send + 'static,
    F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
{
    fn boxed(write: F) -> (Box<dyn WriteOperation>, oneshot::Receiver<Result<T, Error>>) {
        let (reply, answer) = oneshot::channel();
        (Box::new(Self { write: Some(write), result: None, reply }), answer)
    }
}

impl<T, F> WriteOperation for Write<T, F>
where
    T: Send,
    F: FnOnce(&Connection) -> rusqlite::Result<T> + Send,
{
    fn run(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let Some(write) = self.write.take() else { return Ok(()) };
        // A panic in one write must not end the thread that writes for every session.
        match catch_unwind(AssertUnwindSafe(|| write(connection)))
            .unwrap_or(Err(rusqlite::Error::UnwindingPanic))
        {
            Ok(value) => {
                self.result = Some(Ok(value));
                Ok(())
            }
            Err(error) => {
                self.result = Some(Err(storage_error("write", &error)));
                Err(error)
            }
        }
    }

    fn finish(self: Box<Self>, committed: Result<(), Error>) {
        let result = match (self.result, committed) {
            (Some(Err(error)), _) | (_, Err(error)) => Err(error),
            (Some(Ok(value)), Ok(())) => Ok(value),
            (None, Ok(())) => Err(storage_error("write", &"the operation did not run")),
        };
        // A caller that disconnected does not need the answer.
        let _ = self.reply.send(result);
    }
}

/// Which thread may run an operation.
enum OperationOwner {
    /// Only the writer thread.
    Thread,
    /// Small enough to be written by its caller.
    Anywhere,
}

struct QueuedWrite {
    durability: Durability,
    place: OperationOwner,
    operation: Box<dyn WriteOperation>,
}

/// State shared by callers and the writer thread.
struct WriterShared {
    queue: Mutex<WriteQueue>,
    /// Signalled when there is something to commit.
    bell: Condvar,
    /// Signalled when there is something to sync.
    dirty: Condvar,
    /// The holder of this lock writes. Commits are in the order of the queue because it is drained only under
    /// this lock.
    engine: Mutex<Engine>,
    log: PathBuf,
    syncs: AtomicU64,
}

#[derive(Default)]
struct WriteQueue {
    waiting: VecDeque<QueuedWrite>,
    /// There are commits that are not synced.
    is_unsynced: bool,
    /// Since when commits wait for a sync and a checkpoint.
    since: Option<Instant>,
    stage: WriterStage,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum WriterStage {
    #[default]
    Open,
    /// No more operations are accepted.
    Closing,
    /// Nothing more will be committed.
    Committed,
}

/// The handle of the writer; dropping it closes the store.
pub(super) struct Writer {
    shared: Arc<WriterShared>,
    threads: Mutex<Vec<std::thread::JoinHandle<()>>>,
}

impl Writer {
    /// Starts writing with `connection`; `sweeper` checkpoints the log concurrently.
    pub(super) fn start(connection: Connection, sweeper: Connection, path: &Path) -> Result<Self, Error> {
        // SQLite resolves a link to the file before it derives the name of the log.
        let path = path.canonicalize().map_err(|error| storage_error("be found", &error))?;
        let mut log = path.into_os_string();
        log.push("-wal");
        let shared = Arc::new(WriterShared {
            queue: Mutex::default(),
            bell: Condvar::new(),
            dirty: Condvar::new(),
            engine: Mutex::new(Engine::new(connection)),
            log: log.into(),
            syncs: AtomicU64::new(0),
        });
        let sweeper = CheckpointThread { shared: Arc::clone(&shared), connection: sweeper, log: None };
        let writer = Self { shared, threads: Mutex::default() };
        let shared = Arc::clone(&writer.shared);
        writer.spawn("store", move || commit_groups(&shared))?;
        writer.spawn("store-sync", move || sweeper.run())?;
        Ok(writer)
    }

    fn spawn(&self, name: &str, run: impl FnOnce() + Send + 'static) -> Result<(), Error> {
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(run)
            .map_err(|error| storage_error("start its writer", &error))?;
        self.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
        Ok(())
    }

    pub(super) async fn run<T, F>(&self, durability: Durability, write: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        let (operation, answer) = Write::boxed(write);
        self.queue(QueuedWrite { durability, place: OperationOwner::Thread, operation }).await?;
        self.shared.bell.notify_one();
        answer.await.unwrap_or_else(|_| Err(closed()))
    }

    /// Like `run` with [`Durability::Soon`], but on the calling thread if no other write is in progress:
    /// saves two thread switches.
    pub(super) async fn run_here<T, F>(&self, write: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        let (operation, answer) = Write::boxed(write);
        let is_first = self
            .queue(QueuedWrite { durability: Durability::Soon, place: OperationOwner::Anywhere, operation })
            .await?;
        if !(is_first && self.shared.commit_here()) {
            self.shared.bell.notify_one();
        }
        answer.await.unwrap_or_else(|_| Err(closed()))
    }

    /// Queues an operation, waiting for room. Returns whether it is the only one.
    async fn queue(&self, mut waiting: QueuedWrite) -> Result<bool, Error> {
        loop {
            match self.shared.lock().push(waiting)? {
                Ok(is_first) => return Ok(is_first),
                Err(back) => waiting = back,
            }
            tokio::task::yield_now().await;
        }
    }

    /// Refuses new operations, commits the queued ones and ends the threads.
    pub(super) fn close(&self) {
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        if threads.is_empty() {
            return;
        }
        self.shared.lock().stage = WriterStage::Closing;
        self.shared.bell.notify_one();
        for thread in threads {
            // Fails only if the thread has already ended.
            let _ = thread.join();
        }
    }

    /// Returns how many writes wait.
    pub(super) fn depth(&self) -> usize {
        self.shared.lock().waiting.len()
    }

    /// Returns how often earlier commits were synced separately.
    #[cfg(test)]
    pub(super) fn syncs(&self) -> u64 {
        self.shared.syncs.load(Ordering::Relaxed)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.close();
    }
}

fn closed() -> Error {
    storage_error("write", &"the store is closed")
}

impl WriteQueue {
    /// Queues an operation, or returns it if there is no room. Returns whether it is the only one.
    fn push(&mut self, waiting: QueuedWrite) -> Result<Result<bool, QueuedWrite>, Error> {
        if self.stage != WriterStage::Open {
            return Err(closed());
        }
        if self.waiting.len() >= limits::STORE_QUEUE_MAX {
            return Ok(Err(waiting));
        }
        self.waiting.push_back(waiting);
        Ok(Ok(self.waiting.len() == 1))
    }
}

impl WriterShared {
    fn lock(&self) -> MutexGuard<'_, WriteQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there is something to commit. Returns false if the writer is closed and the queue is
    /// empty.
    fn wait_for_work(&self) -> bool {
        let idle = |queue: &mut WriteQueue| queue.waiting.is_empty() && queue.stage == WriterStage::Open;
        let queue = self.bell.wait_while(self.lock(), idle).unwrap_or_else(PoisonError::into_inner);
        !queue.waiting.is_empty()
    }

    /// Waits until commits have waited long enough for a sync. Returns false if there will be no more
    /// commits.
    fn wait_for_sync(&self) -> bool {
        let mut queue = self.lock();
        while queue.stage != WriterStage::Committed {
            let by = queue.since.map(|since| since + limits::SYNC_WAIT);
            let wait = by.map(|by| by.saturating_duration_since(Instant::now()));
            queue = match wait {
                Some(Duration::ZERO) => {
                    queue.since = None;
                    return true;
                }
                Some(wait) => {
                    let waited = self.dirty.wait_timeout(queue, wait);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.dirty.wait(queue).unwrap_or_else(PoisonError::into_inner),
            };
        }
        false
    }

    /// Commits the first operation of the queue, if that is allowed here and no other write is in progress.
    /// Returns false if the writer thread must be woken.
    fn commit_here(&self) -> bool {
        let mut engine = match self.engine.try_lock() {
            Ok(engine) => engine,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        let began = Instant::now();
        if began < engine.here_not_before {
            return false;
        }
        let first =
            self.lock().waiting.pop_front_if(|waiting| matches!(waiting.place, OperationOwner::Anywhere));
        // The writer thread has already taken it.
        let Some(first) = first else { return true };
        self.commit(&mut engine, vec![first]);
        if began.elapsed() > limits::HERE_SLOW {
            engine.here_not_before = Instant::now() + limits::HERE_PAUSE;
        }
        drop(engine);
        // Operations queued meanwhile have woken the writer thread themselves.
        true
    }

    /// Commits a group and answers its callers.
    fn commit(&self, engine: &mut Engine, group: Vec<QueuedWrite>) {
        let full = group.iter().any(|waiting| waiting.durability == Durability::Synced);
        let mut group: Vec<Box<dyn WriteOperation>> =
            group.into_iter().map(|waiting| waiting.operation).collect();
        let began = Instant::now();
        let committed = engine.transact(full, &mut group);
        metric::commit_took(began.elapsed());
        if committed.is_err() {
            metric::writes_failed(1);
        }
        if committed.is_ok() {
            let mut queue = self.lock();
            // The log is one file: a synced commit takes all earlier commits to disk with it.
            queue.is_unsynced = !full;
            if queue.since.is_none() {
                queue.since = Some(Instant::now());
                self.dirty.notify_one();
            }
        }
        for operation in group {
            operation.finish(committed.clone());
        }
    }
}

/// Commits everything queued, group by group, until the store is closed.
fn commit_groups(shared: &WriterShared) {
    while shared.wait_for_work() {
        let mut engine = shared.engine.lock().unwrap_or_else(PoisonError::into_inner);
        let group: Vec<QueuedWrite> = {
            let mut queue = shared.lock();
            let count = queue.waiting.len().min(limits::COMMIT_OPS_MAX);
            queue.waiting.drain(..count).collect()
        };
        if !group.is_empty() {
            shared.commit(&mut engine, group);
        }
    }
    // Wait for a caller that may still be committing its own write.
    drop(shared.engine.lock());
    shared.lock().stage = WriterStage::Committed;
    shared.dirty.notify_one();
}

/// Syncs commits and checkpoints the log into the file, on its own thread and connection: commits continue
/// meanwhile.
struct CheckpointThread {
    shared: Arc<WriterShared>,
    connection: Connection,
    /// The write-ahead log, once it exists. It stays the same file as long as the store is open.
    log: Option<File>,
}

impl CheckpointThread {
    fn run(mut self) {
        loop {
            let goes_on = self.shared.wait_for_sync();
            self.sync();
            if !goes_on {
                return;
            }
            self.sweep();
        }
    }

    fn sync(&mut self) {
        if !std::mem::take(&mut self.shared.lock().is_unsynced) {
            return;
        }
        failpoint!("sync.before");
        let began = Instant::now();
        let synced = self.sync_log();
        metric::sync_took(began.elapsed());
        match synced {
            Ok(()) => {
                self.shared.syncs.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => {
                let mut engine = self.shared.engine.lock().unwrap_or_else(PoisonError::into_inner);
                engine.distrust_log(&error);
            }
        }
    }

    fn sync_log(&mut self) -> std::io::Result<()> {
        let log = match &self.log {
            Some(log) => log,
            None => self.log.insert(File::open(&self.shared.log)?),
        };
        log.sync_data()
    }

    /// Checkpoints the log once it is long. A log that writers keep extending cannot restart from its
    /// beginning; if it gets too long, writers wait.
    fn sweep(&self) {
        let swept = self.checkpoint("NOOP").and_then(|(length, moved)| {
            if length - moved < limits::LOG_PAGES {
                return Ok(());
            }
            let (length, _) = self.checkpoint("PASSIVE")?;
            if length >= limits::LOG_PAGES_MAX {
                let _nobody_writes = self.shared.engine.lock().unwrap_or_else(PoisonError::into_inner);
                self.checkpoint("PASSIVE")?;
            }
            Ok(())
        });
        if let Err(error) = swept {
            tracing::warn!(%error, "cannot move the log into the database; trying again");
        }
    }

    /// Runs a checkpoint. Returns how many pages the log has and how many of them are in the file.
    fn checkpoint(&self, mode: &str) -> rusqlite::Result<(i64, i64)> {
        self.connection
            .prepare_cached(&format!("PRAGMA wal_checkpoint({mode})"))?
            .query_row([], |row| Ok((row.get(1)?, row.get(2)?)))
    }
}

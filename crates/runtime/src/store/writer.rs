//! The writer thread: takes operations in order, commits them in groups, answers when they are durable.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use domain::Error;
use rusqlite::Connection;
use tokio::sync::oneshot;

use super::storage_error;
use crate::limits;

/// When a write counts as done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// On disk before the answer: for everything a client is told was accepted.
    Synced,
    /// Safe against the daemon's death at once, against power loss within `limits::SYNC_WAIT`: for streamed output.
    Soon,
}

/// One operation: runs inside the transaction, then tells its caller how the commit went.
trait Operation: Send {
    fn run(&mut self, connection: &Connection) -> rusqlite::Result<()>;
    fn finish(self: Box<Self>, committed: Result<(), Error>);
}

struct Write<T, F> {
    write: Option<F>,
    result: Option<Result<T, Error>>,
    reply: oneshot::Sender<Result<T, Error>>,
}

impl<T, F> Operation for Write<T, F>
where
    T: Send,
    F: FnOnce(&Connection) -> rusqlite::Result<T> + Send,
{
    fn run(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let Some(write) = self.write.take() else { return Ok(()) };
        // A mistake in one write must not end the thread that writes for every session.
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
        // A caller that went away does not need the answer.
        let _ = self.reply.send(result);
    }
}

enum Message {
    Run(Durability, Box<dyn Operation>),
    Close,
}

pub(super) struct Writer {
    queue: SyncSender<Message>,
    thread: Mutex<Option<std::thread::JoinHandle<()>>>,
}

impl Writer {
    pub(super) fn start(connection: Connection) -> Result<Self, Error> {
        let (queue, operations) = sync_channel(limits::STORE_QUEUE_MAX);
        let thread = std::thread::Builder::new()
            .name("store".to_owned())
            .spawn(move || Loop { connection, operations, synced: true, full: true }.run())
            .map_err(|error| storage_error("start its writer", &error))?;
        Ok(Self { queue, thread: Mutex::new(Some(thread)) })
    }

    pub(super) async fn run<T, F>(&self, durability: Durability, write: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let operation = Box::new(Write { write: Some(write), result: None, reply });
        let mut message = Message::Run(durability, operation);
        loop {
            match self.queue.try_send(message) {
                Ok(()) => break,
                Err(TrySendError::Full(back)) => {
                    message = back;
                    tokio::task::yield_now().await;
                }
                Err(TrySendError::Disconnected(_)) => return Err(closed()),
            }
        }
        answer.await.unwrap_or_else(|_| Err(closed()))
    }

    pub(super) fn close(&self) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // Both fail only when the thread is gone already.
            let _ = self.queue.send(Message::Close);
            let _ = thread.join();
        }
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

struct Loop {
    connection: Connection,
    operations: Receiver<Message>,
    /// No commit is waiting to be synced.
    synced: bool,
    /// What `PRAGMA synchronous` is set to.
    full: bool,
}

impl Loop {
    fn run(mut self) {
        let mut sync_by = Instant::now();
        loop {
            let first = if self.synced {
                self.operations.recv().map_err(|_| RecvTimeoutError::Disconnected)
            } else {
                self.operations.recv_timeout(sync_by.saturating_duration_since(Instant::now()))
            };
            match first {
                Ok(Message::Run(durability, operation)) => {
                    // Without this a queue that is never empty would put the sync off for ever.
                    if !self.synced && Instant::now() >= sync_by {
                        self.sync();
                    }
                    let was_synced = self.synced;
                    let closing = self.commit_group(durability, operation);
                    if was_synced && !self.synced {
                        sync_by = Instant::now() + limits::SYNC_WAIT;
                    }
                    if closing {
                        return self.sync();
                    }
                }
                Err(RecvTimeoutError::Timeout) => self.sync(),
                Ok(Message::Close) | Err(RecvTimeoutError::Disconnected) => return self.sync(),
            }
        }
    }

    /// Commits one operation and all that wait behind it. Returns whether closing was asked for.
    fn commit_group(&mut self, durability: Durability, first: Box<dyn Operation>) -> bool {
        let mut group = vec![first];
        let mut full = durability == Durability::Synced;
        let mut closing = false;
        while group.len() < limits::COMMIT_OPS_MAX {
            match self.operations.try_recv() {
                Ok(Message::Run(durability, operation)) => {
                    full |= durability == Durability::Synced;
                    group.push(operation);
                }
                Ok(Message::Close) => {
                    closing = true;
                    break;
                }
                Err(_) => break,
            }
        }
        let committed = self.transact(full, &mut group);
        for operation in group {
            operation.finish(committed.clone());
        }
        closing
    }

    fn transact(&mut self, full: bool, group: &mut [Box<dyn Operation>]) -> Result<(), Error> {
        let result = self.set_full(full).and_then(|()| self.connection.execute_batch("BEGIN IMMEDIATE"));
        if let Err(error) = result {
            return Err(storage_error("begin a transaction", &error));
        }
        for operation in group.iter_mut() {
            if let Err(error) = self.run_one(operation.as_mut()) {
                // The whole transaction is unusable; nobody in the group may be told it went well.
                let _ = self.connection.execute_batch("ROLLBACK");
                return Err(storage_error("write", &error));
            }
        }
        if let Err(error) = self.connection.execute_batch("COMMIT") {
            let _ = self.connection.execute_batch("ROLLBACK");
            return Err(storage_error("commit", &error));
        }
        self.synced = full;
        Ok(())
    }

    /// Runs one operation so that its failure undoes only itself. Fails when the transaction itself is lost.
    fn run_one(&self, operation: &mut dyn Operation) -> rusqlite::Result<()> {
        self.connection.prepare_cached("SAVEPOINT one")?.execute([])?;
        if operation.run(&self.connection).is_err() {
            self.connection.prepare_cached("ROLLBACK TO one")?.execute([])?;
        }
        self.connection.prepare_cached("RELEASE one")?.execute([])?;
        Ok(())
    }

    fn set_full(&mut self, full: bool) -> rusqlite::Result<()> {
        if self.full != full {
            self.connection.execute_batch(if full {
                "PRAGMA synchronous = FULL"
            } else {
                "PRAGMA synchronous = NORMAL"
            })?;
            self.full = full;
        }
        Ok(())
    }

    /// Makes earlier commits durable: one tiny commit that is synced carries the log before it to disk.
    fn sync(&mut self) {
        if self.synced {
            return;
        }
        let result = self.set_full(true).and_then(|()| {
            self.connection.execute_batch("UPDATE meta SET value = value + 1 WHERE key = 'synced'")
        });
        match result {
            Ok(()) => self.synced = true,
            Err(error) => {
                tracing::error!(%error, "cannot sync the journal; trying again");
                std::thread::park_timeout(limits::STORE_RETRY_WAIT);
            }
        }
    }
}

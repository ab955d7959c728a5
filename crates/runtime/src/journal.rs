//! The journal of every session. What is in it is visible, nothing else is. Readers are cursors; replay and
//! live are one loop. Owns the in-memory tails and the wake-ups; the rows belong to `storage`.

mod tail;

#[cfg(test)]
pub(crate) mod tests;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use agent_port::past::{EventReader, Read};
use domain::{Error, ErrorCode, Event, EventKind, SessionId};
use tokio::sync::broadcast;

use crate::limits;
use storage::{Store, sessions};
use tail::Tail;

/// The journals of all sessions.
#[derive(Clone)]
pub struct Journal {
    shared: Arc<JournalShared>,
}

/// How many events of a session's journal are kept in memory and returned at once.
#[derive(Clone, Copy, Debug)]
struct JournalBounds {
    tail_events: usize,
    tail_bytes: usize,
    batch: usize,
}

const BOUNDS: JournalBounds = JournalBounds {
    tail_events: limits::TAIL_EVENTS_MAX,
    tail_bytes: limits::TAIL_BYTES_MAX,
    batch: limits::READ_BATCH_MAX,
};

struct JournalShared {
    store: Store,
    bounds: JournalBounds,
    streams: Mutex<HashMap<SessionId, Weak<SessionJournal>>>,
    statuses: broadcast::Sender<Arc<Event>>,
}

impl Journal {
    /// Returns the journals kept in a store.
    pub fn new(store: Store) -> Self {
        Self::with_bounds(store, BOUNDS)
    }

    /// Tests use small bounds so that a few events reach them.
    fn with_bounds(store: Store, bounds: JournalBounds) -> Self {
        let (statuses, _) = broadcast::channel(limits::WATCH_LAG_MAX);
        Self {
            shared: Arc::new(JournalShared { store, bounds, streams: Mutex::new(HashMap::new()), statuses }),
        }
    }

    /// Returns the one stream of a session, shared by its actor and all its readers. `last_seq` is the newest
    /// number in the store; it is used only if the stream does not exist yet.
    pub fn stream(&self, session: &SessionId, key: i64, last_seq: u64) -> Arc<SessionJournal> {
        let mut streams = self.shared.streams.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(stream) = streams.get(session).and_then(Weak::upgrade) {
            return stream;
        }
        // Dropped streams leave their map entries behind. Remove them whenever the map has doubled.
        if streams.len() > 64 && streams.len().is_power_of_two() {
            streams.retain(|_, stream| stream.strong_count() > 0);
        }
        let stream = Arc::new(SessionJournal {
            session: session.clone(),
            key,
            tail: Tail::new(last_seq, self.shared.bounds),
            batch: self.shared.bounds.batch,
            store: self.shared.store.clone(),
            statuses: self.shared.statuses.clone(),
        });
        streams.insert(session.clone(), Arc::downgrade(&stream));
        stream
    }

    /// Subscribes to the status changes of all sessions from now on, and to requests that wait for a person. A subscriber that lags too far gets an
    /// error.
    pub fn watch_statuses(&self) -> broadcast::Receiver<Arc<Event>> {
        self.shared.statuses.subscribe()
    }
}

/// The journal of one session.
pub struct SessionJournal {
    session: SessionId,
    key: i64,
    tail: Tail,
    batch: usize,
    store: Store,
    statuses: broadcast::Sender<Arc<Event>>,
}

impl SessionJournal {
    /// Returns the sequence number of the newest event.
    pub fn last_seq(&self) -> u64 {
        self.tail.last_seq()
    }

    /// Makes events visible that are already stored. Only the session's actor calls this, in order.
    pub(crate) fn publish(&self, events: Vec<Arc<Event>>) {
        for event in &events {
            let waits = matches!(event.kind, EventKind::RequestOpened { automatic: false, .. });
            if waits || matches!(event.kind, EventKind::StatusChanged { .. }) {
                // Sending fails if there are no watchers, which is fine.
                let _ = self.statuses.send(Arc::clone(event));
            }
        }
        self.tail.extend(events);
    }

    /// Returns a reader that starts strictly after a sequence number.
    pub fn read_after(self: &Arc<Self>, seq: u64) -> Cursor {
        Cursor { stream: Arc::clone(self), seq, wake: self.tail.subscribe() }
    }
}

/// A reader of one session's journal.
pub struct Cursor {
    stream: Arc<SessionJournal>,
    seq: u64,
    wake: tokio::sync::watch::Receiver<u64>,
}

impl Cursor {
    /// Returns the sequence number of the last event returned.
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// Returns another reader at the same position.
    pub fn again(&self) -> Self {
        self.stream.read_after(self.seq)
    }

    /// Returns the sequence number of the newest event.
    pub fn newest(&self) -> u64 {
        self.stream.last_seq()
    }

    /// Waits for the next events; never returns an empty batch. Cancel-safe: events count as returned only
    /// when this returns.
    pub async fn next(&mut self) -> Result<Vec<Arc<Event>>, Error> {
        loop {
            let events = self.available().await?;
            if !events.is_empty() {
                return Ok(events);
            }
            // The stream owns the sender, so this cannot fail while we hold the stream.
            let _ = self.wake.changed().await;
        }
    }

    /// Like `next`, for readers that need not know of events that were removed. Cancel-safe.
    pub async fn next_kept(&mut self) -> Result<Vec<Arc<Event>>, Error> {
        loop {
            match self.next().await {
                Err(error) if error.code == ErrorCode::EventsExpired => self.skip_removed().await?,
                events => return events,
            }
        }
    }

    /// Returns the next events if they are in memory, without waiting; never an empty batch.
    pub fn at_hand(&mut self) -> Option<Vec<Arc<Event>>> {
        if self.seq >= *self.wake.borrow_and_update() {
            return None;
        }
        let events = self.stream.tail.after(self.seq, self.stream.batch)?;
        self.seq = events.last()?.seq;
        Some(events)
    }

    /// Returns the events available now; empty if the reader is at the end.
    pub async fn available(&mut self) -> Result<Vec<Arc<Event>>, Error> {
        if let Some(events) = self.at_hand() {
            return Ok(events);
        }
        let last = *self.wake.borrow();
        if self.seq >= last {
            return Ok(Vec::new());
        }
        let events = self.read_store(last).await?;
        match (events.first(), events.last()) {
            (Some(first), Some(newest)) if first.seq == self.seq + 1 => {
                self.seq = newest.seq;
                Ok(events)
            }
            // A gap is never skipped silently.
            (first, _) => Err(expired(self.seq, first.map(|event| event.seq))),
        }
    }

    /// Skips events that were removed, to the oldest that is kept. For readers that were informed of the gap.
    pub async fn skip_removed(&mut self) -> Result<(), Error> {
        let (key, session, after) = (self.stream.key, self.stream.session.clone(), self.seq);
        let oldest = self
            .stream
            .store
            .read(move |connection| sessions::events_after(connection, key, &session, after, 1))
            .await?;
        self.seq = oldest.first().map_or_else(|| self.stream.last_seq(), |event| event.seq - 1);
        Ok(())
    }

    /// Reads stored events up to `last`. Events that are stored but not yet published stay hidden, so that a
    /// reader who sees an event finds the session's state at or after that event.
    async fn read_store(&self, last: u64) -> Result<Vec<Arc<Event>>, Error> {
        let (key, session, after) = (self.stream.key, self.stream.session.clone(), self.seq);
        let most = self.stream.batch;
        let read = move |connection: &_| sessions::events_after(connection, key, &session, after, most);
        let mut events = self.stream.store.read(read).await?;
        events.retain(|event| event.seq <= last);
        Ok(events)
    }
}

impl EventReader for Cursor {
    fn seq(&self) -> u64 {
        Self::seq(self)
    }

    fn available(&mut self) -> Read<'_, Vec<Arc<Event>>> {
        Box::pin(Self::available(self))
    }

    fn skip_removed(&mut self) -> Read<'_, ()> {
        Box::pin(Self::skip_removed(self))
    }

    fn fork(&self) -> Box<dyn EventReader> {
        Box::new(self.again())
    }
}

fn expired(after: u64, oldest: Option<u64>) -> Error {
    let oldest = oldest.map_or_else(|| "none are left".to_owned(), |seq| format!("the oldest kept is {seq}"));
    Error::new(
        ErrorCode::EventsExpired,
        format!("events after {after} are no longer kept ({oldest}); see the retention settings"),
    )
}

//! Every reader sees exactly the log after its start: in order, without gaps or repeats, replayed or live.

mod interleavings;
mod live;
mod tails;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use domain::{Event, EventKind, SessionId, State, Timestamp};

use super::{Cursor, Journal, JournalBounds, SessionJournal};
use storage::sessions::{self, SessionWrite, StoredEvent};
use storage::{Durability, Store};

const DEADLINE: Duration = Duration::from_secs(30);

async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, future).await.expect("not in time")
}

/// Returns the spec of a session with this id.
pub(crate) fn spec(id: &str) -> domain::SessionSpec {
    domain::SessionSpec {
        campaign_id: Some(domain::CampaignId::new("camp_1")),
        model: "m".to_owned(),
        name: "n".to_owned(),
        created_at: Timestamp(1),
        ..domain::SessionSpec::new(SessionId::new(id), domain::ProviderKind::Scripted, "/w".into())
    }
}

/// One session's journal as its actor uses it, and the events written to it.
struct Log {
    store: Store,
    bounds: JournalBounds,
    id: SessionId,
    key: i64,
    stream: Arc<SessionJournal>,
    written: Vec<Event>,
}

impl Log {
    async fn new(store: &Store, bounds: JournalBounds, id: &str) -> Self {
        let spec = spec(id);
        let insert =
            move |connection: &rusqlite::Connection| sessions::insert(connection, &spec, &State::default());
        let key = soon(store.write(Durability::Soon, insert)).await.unwrap();
        let id = SessionId::new(id);
        let stream = Journal::with_bounds(store.clone(), bounds).stream(&id, key, 0);
        Self { store: store.clone(), bounds, id, key, stream, written: Vec::new() }
    }

    /// Stores events of these sizes, then publishes them.
    async fn append(&mut self, sizes: &[usize]) {
        let kinds = sizes.iter().map(|size| EventKind::TextDelta { text: "x".repeat(*size), parent: None });
        self.append_kinds(kinds.collect()).await;
    }

    async fn append_kinds(&mut self, kinds: Vec<EventKind>) {
        let mut events = Vec::new();
        for kind in kinds {
            let seq = self.written.len() as u64 + 1;
            let event = Event { session: self.id.clone(), seq, at: Timestamp(seq as i64 * 10), kind };
            self.written.push(event.clone());
            events.push(Arc::new(event));
        }
        let stored = |event: &Arc<Event>| StoredEvent {
            seq: event.seq,
            at: event.at,
            body: sessions::json(&event.kind),
        };
        let step = SessionWrite {
            key: self.key,
            events: events.iter().map(stored).collect(),
            last_seq: self.written.len() as u64,
            ..SessionWrite::default()
        };
        soon(self.store.write(Durability::Soon, move |connection| sessions::write(connection, &step)))
            .await
            .unwrap();
        self.stream.publish(events);
    }

    /// Starts with nothing in memory, as after a restart of the daemon.
    fn restart(&mut self) {
        let journal = Journal::with_bounds(self.store.clone(), self.bounds);
        self.stream = journal.stream(&self.id, self.key, self.written.len() as u64);
    }

    /// Returns the events that a reader started after `seq` must have seen by now.
    fn after(&self, seq: u64) -> &[Event] {
        let from = usize::try_from(seq).unwrap_or(usize::MAX).min(self.written.len());
        &self.written[from..]
    }
}

fn plain(events: Vec<Arc<Event>>) -> Vec<Event> {
    events.iter().map(|event| (**event).clone()).collect()
}

/// Reads everything available now.
async fn drain(cursor: &mut Cursor) -> Vec<Event> {
    let mut all = Vec::new();
    loop {
        let before = cursor.seq();
        let events = soon(cursor.available()).await.unwrap();
        if events.is_empty() {
            return all;
        }
        // Without progress this loop would never end.
        assert!(cursor.seq() > before, "a repeat after {before}");
        all.extend(plain(events));
    }
}

/// Returns whether a reader has to wait.
async fn waits(cursor: &mut Cursor) -> bool {
    tokio::select! {
        biased;
        _ = cursor.next() => false,
        () = std::future::ready(()) => true,
    }
}

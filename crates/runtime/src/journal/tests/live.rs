//! Readers concurrent with a writer, on their own threads: tests the transition from replay to live.

use std::sync::Arc;

use domain::session::Status;
use domain::{ErrorCode, Event, EventKind, SessionId};
use tokio::sync::broadcast::error::RecvError;
use tokio::task::JoinSet;

use super::{Log, drain, plain, soon, waits};
use crate::journal::{BOUNDS, Journal, JournalBounds};
use storage::{Durability, Store};

const TIGHT: JournalBounds = JournalBounds { tail_events: 16, tail_bytes: 64 * 1024, batch: 7 };

fn store() -> (tempfile::TempDir, Store) {
    let home = tempfile::tempdir().unwrap();
    let store = Store::open(&home.path().join("obey.db")).unwrap();
    (home, store)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn replay_equals_live_at_the_join() {
    const BATCHES: usize = 400;
    const EACH: usize = 5;
    let (_home, store) = store();
    let mut log = Log::new(&store, TIGHT, "sess_1").await;
    let total = (BATCHES * EACH) as u64;
    let mut readers = JoinSet::new();
    for batch in 0..BATCHES {
        // New readers arrive all the time, at the beginning, in the middle and at the very end.
        if batch % 40 == 0 {
            let last = log.stream.last_seq();
            for from in [0, last / 2, last.saturating_sub(1), last, last + 3] {
                let mut cursor = log.stream.read_after(from);
                readers.spawn(async move {
                    let mut seen = Vec::new();
                    while cursor.seq().max(from) < total {
                        seen.extend(plain(soon(cursor.next()).await.unwrap()));
                    }
                    (from, seen)
                });
            }
        }
        log.append(&[batch % 50; EACH]).await;
    }
    let mut count = 0;
    while let Some(reader) = soon(readers.join_next()).await {
        let (from, seen) = reader.unwrap();
        assert_eq!(seen, log.after(from), "reader from {from}");
        count += 1;
    }
    assert_eq!(count, 50);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_reader_that_is_cancelled_again_and_again_misses_nothing() {
    let (_home, store) = store();
    let mut log = Log::new(&store, TIGHT, "sess_1").await;
    let mut cursor = log.stream.read_after(0);
    let reading = tokio::spawn(async move {
        let mut seen: Vec<Event> = Vec::new();
        for attempt in 1_usize.. {
            if seen.len() == 500 {
                break;
            }
            // On a busy machine the store may answer none of many attempts: some are left alone.
            if attempt.is_multiple_of(50) {
                seen.extend(plain(cursor.next().await.unwrap()));
                continue;
            }
            // Usually dropped in the middle of its work.
            tokio::select! {
                biased;
                events = cursor.next() => seen.extend(plain(events.unwrap())),
                () = tokio::task::yield_now() => {}
            }
        }
        seen
    });
    for _ in 0..100 {
        log.append(&[3; 5]).await;
    }
    assert_eq!(soon(reading).await.unwrap(), log.written);
}

#[tokio::test]
async fn a_reader_ahead_of_the_log_waits_for_what_follows() {
    let (_home, store) = store();
    let mut log = Log::new(&store, BOUNDS, "sess_1").await;
    log.append(&[1; 5]).await;
    let mut ahead = log.stream.read_after(8);
    assert!(waits(&mut ahead).await);
    log.append(&[1; 3]).await;
    assert!(waits(&mut ahead).await, "8 is what it has already");
    let waiting = tokio::spawn(async move { plain(soon(ahead.next()).await.unwrap()) });
    tokio::task::yield_now().await;
    log.append(&[1; 2]).await;
    assert_eq!(soon(waiting).await.unwrap(), log.after(8));
    let mut never = log.stream.read_after(u64::MAX);
    assert!(waits(&mut never).await);
    assert_eq!(drain(&mut never).await, []);
}

#[tokio::test]
async fn a_reader_of_events_that_are_gone_is_told_and_does_not_hang() {
    let (_home, store) = store();
    let mut log = Log::new(&store, BOUNDS, "sess_1").await;
    log.append(&[1; 10]).await;
    log.restart();
    let key = log.key;
    let prune = move |connection: &rusqlite::Connection| {
        connection.execute("DELETE FROM journal WHERE id <= ?1", [(key << storage::limits::SEQ_BITS) + 4])
    };
    soon(store.write(Durability::Soon, prune)).await.unwrap();
    for from in 0..4 {
        let error = soon(log.stream.read_after(from).next()).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::EventsExpired, "from {from}");
        assert!(error.message.contains("the oldest kept is 5"), "{error}");
    }
    assert_eq!(drain(&mut log.stream.read_after(4)).await, log.after(4));
}

#[tokio::test]
async fn a_reader_at_the_end_is_woken_by_the_next_event() {
    let (_home, store) = store();
    let mut log = Log::new(&store, BOUNDS, "sess_1").await;
    let mut cursor = log.stream.read_after(0);
    assert!(waits(&mut cursor).await, "an empty journal");
    for nth in 0..20 {
        log.append(&[nth]).await;
        assert_eq!(plain(soon(cursor.next()).await.unwrap()), log.after(nth as u64));
        assert!(waits(&mut cursor).await);
    }
    // An empty write wakes no reader.
    log.append(&[]).await;
    assert!(waits(&mut cursor).await);
}

#[tokio::test]
async fn actor_and_readers_share_one_stream() {
    let (_home, store) = store();
    let journal = Journal::new(store.clone());
    let id = SessionId::new("sess_1");
    let one = journal.stream(&id, 1, 0);
    let two = journal.clone().stream(&id, 1, 99);
    assert!(Arc::ptr_eq(&one, &two));
    assert_eq!(two.last_seq(), 0, "what the holder knows counts");
    drop((one, two));
    assert_eq!(journal.stream(&id, 1, 99).last_seq(), 99, "nobody has it any more");
    // Entries of dropped streams do not accumulate.
    for nth in 0..10_000 {
        journal.stream(&SessionId::new(format!("sess_{nth}")), nth, 0);
    }
    assert!(journal.shared.streams.lock().unwrap().len() <= 128);
}

#[tokio::test]
async fn status_changes_of_all_sessions_are_watched_and_lagging_is_told() {
    let (_home, store) = store();
    let mut log = Log::new(&store, BOUNDS, "sess_1").await;
    let journal = Journal::new(store.clone());
    log.stream = journal.stream(&log.id, log.key, 0);
    let mut watch = journal.watch_statuses();
    let change = || EventKind::StatusChanged {
        from: Status::Running,
        to: Status::Working,
        message: String::new(),
        code: None,
    };
    let text = || EventKind::TextDelta { text: "t".to_owned(), parent: None };
    log.append_kinds(vec![text(), change(), text()]).await;
    assert_eq!(soon(watch.recv()).await.unwrap().seq, 2);
    log.append_kinds((0..5_000).map(|_| change()).collect()).await;
    assert!(matches!(soon(watch.recv()).await, Err(RecvError::Lagged(_))));
}

//! Writes that share a transaction: all or nothing on disk, and a failure affects no other write.

use std::sync::mpsc;
use std::time::Instant;

use domain::ErrorCode;
use tokio::task::JoinSet;

use super::{DEADLINE, note, notes, soon, store, syncs};
use crate::{Durability, Store};

/// Keeps the writer busy until released, so that the writes queued meanwhile become one group.
async fn hold(store: &Store) -> (mpsc::Sender<()>, tokio::task::JoinHandle<()>) {
    let (release, held) = mpsc::channel::<()>();
    let (begun, has_begun) = tokio::sync::oneshot::channel();
    let store = store.clone();
    let holding = tokio::spawn(async move {
        let wait = move |_: &rusqlite::Connection| {
            let _ = begun.send(());
            let _ = held.recv_timeout(DEADLINE);
            Ok(())
        };
        store.write(Durability::Soon, wait).await.unwrap();
    });
    soon(has_begun).await.unwrap();
    (release, holding)
}

/// Yields until everything that can run has run, so that all spawned writes are queued.
async fn settle() {
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn one_failed_write_undoes_only_itself() {
    let (_home, store) = store();
    let (release, holding) = hold(&store).await;
    let mut writes = JoinSet::new();
    for nth in 0..100 {
        let store = store.clone();
        writes.spawn(async move {
            let result = store
                .write(Durability::Synced, move |connection| {
                    note(connection, &format!("{nth:03}"))?;
                    if nth == 42 {
                        // Half done, then failed: the name is taken.
                        note(connection, "042-second")?;
                        note(connection, "042")?;
                    }
                    Ok(nth)
                })
                .await;
            (nth, result)
        });
    }
    settle().await;
    release.send(()).unwrap();
    while let Some(done) = soon(writes.join_next()).await {
        let (nth, result) = done.unwrap();
        match result {
            Ok(value) => assert_eq!(value, nth),
            Err(error) => assert_eq!((nth, error.code), (42, ErrorCode::StorageFailed)),
        }
    }
    soon(holding).await.unwrap();
    let expected: Vec<_> = (0..100).filter(|nth| *nth != 42).map(|nth| format!("{nth:03}")).collect();
    assert_eq!(notes(&store), expected);
}

#[tokio::test]
async fn waiting_writes_become_one_transaction() {
    let (_home, store) = store();
    let (release, holding) = hold(&store).await;
    let mut writes = JoinSet::new();
    for nth in 0..10 {
        let (store, reader) = (store.clone(), store.clone());
        writes.spawn(async move {
            store
                .write(Durability::Synced, move |connection| {
                    note(connection, &nth.to_string())?;
                    // Readers see nothing of the group before it is committed.
                    Ok(notes(&reader).len())
                })
                .await
                .unwrap()
        });
    }
    settle().await;
    release.send(()).unwrap();
    while let Some(visible) = soon(writes.join_next()).await {
        assert_eq!(visible.unwrap(), 0);
    }
    soon(holding).await.unwrap();
    assert_eq!(notes(&store).len(), 10);
}

#[tokio::test]
async fn a_lost_transaction_is_a_failure_for_its_whole_group() {
    let (_home, store) = store();
    let (release, holding) = hold(&store).await;
    let mut writes = JoinSet::new();
    for nth in 0..10 {
        let store = store.clone();
        writes.spawn(async move {
            store
                .write(Durability::Synced, move |connection| {
                    note(connection, &nth.to_string())?;
                    if nth == 5 {
                        // What SQLite itself does if the disk is full or broken.
                        connection.execute_batch("ROLLBACK")?;
                    }
                    Ok(())
                })
                .await
        });
    }
    settle().await;
    release.send(()).unwrap();
    while let Some(result) = soon(writes.join_next()).await {
        assert_eq!(result.unwrap().unwrap_err().code, ErrorCode::StorageFailed);
    }
    soon(holding).await.unwrap();
    assert_eq!(notes(&store), [] as [&str; 0]);
    soon(store.write(Durability::Synced, |connection| note(connection, "after"))).await.unwrap();
    assert_eq!(notes(&store), ["after"]);
}

#[tokio::test]
async fn a_write_that_panics_is_only_its_callers_problem() {
    let (_home, store) = store();
    let result: Result<(), _> = soon(store.write(Durability::Synced, |connection| {
        note(connection, "half")?;
        panic!("a mistake of ours");
    }))
    .await;
    assert_eq!(result.unwrap_err().code, ErrorCode::StorageFailed);
    soon(store.write(Durability::Synced, |connection| note(connection, "after"))).await.unwrap();
    assert_eq!(notes(&store), ["after"]);
}

#[tokio::test]
async fn writes_of_one_caller_keep_their_order() {
    let (_home, store) = store();
    for nth in 0..200 {
        let durability = if nth % 7 == 0 { Durability::Synced } else { Durability::Soon };
        let before = soon(store.write(durability, move |connection| {
            note(connection, &format!("{nth:03}"))?;
            connection.query_row("SELECT count(*) FROM campaigns", [], |row| row.get::<_, i64>(0))
        }))
        .await
        .unwrap();
        assert_eq!(before, nth + 1);
    }
}

#[tokio::test]
async fn output_is_synced_soon_after_it_was_written() {
    let (_home, store) = store();
    soon(store.write(Durability::Soon, |connection| note(connection, "a"))).await.unwrap();
    assert_eq!(notes(&store), ["a"], "visible at once");
    let deadline = Instant::now() + DEADLINE;
    while syncs(&store) == 0 {
        assert!(Instant::now() < deadline, "never synced");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_synced_write_needs_no_second_sync() {
    let (home, store) = store();
    soon(store.write(Durability::Soon, |connection| note(connection, "a"))).await.unwrap();
    soon(store.write(Durability::Synced, |connection| note(connection, "b"))).await.unwrap();
    store.close();
    assert_eq!(syncs(&store), 0);
    let store = Store::open(&home.path().join("obey.db")).unwrap();
    assert_eq!(notes(&store).len(), 2);
}

#[tokio::test]
async fn a_stream_of_output_without_pause_is_synced_all_the_same() {
    let (_home, store) = store();
    let deadline = Instant::now() + DEADLINE;
    let mut writes = JoinSet::new();
    let mut successor: Option<mpsc::Sender<()>> = None;
    while syncs(&store) < 2 {
        assert!(Instant::now() < deadline, "never synced");
        // Each write runs until the next one is queued, so the writer never finds its queue empty.
        let (queued, is_queued) = mpsc::channel::<()>();
        let writing = store.clone();
        writes.spawn(async move {
            let wait = move |_: &rusqlite::Connection| {
                let _ = is_queued.recv_timeout(DEADLINE);
                Ok(())
            };
            writing.write(Durability::Soon, wait).await
        });
        // Lets the write be queued, then the previous one end.
        tokio::task::yield_now().await;
        if let Some(before) = successor.replace(queued) {
            before.send(()).unwrap();
        }
    }
    drop(successor);
    while let Some(done) = soon(writes.join_next()).await {
        done.unwrap().unwrap();
    }
}

#[tokio::test]
async fn closing_commits_what_was_accepted_and_refuses_the_rest() {
    let (home, store) = store();
    soon(store.write(Durability::Soon, |connection| note(connection, "before"))).await.unwrap();
    let closing = store.clone();
    tokio::task::spawn_blocking(move || closing.close()).await.unwrap();
    let error =
        soon(store.write(Durability::Synced, |connection| note(connection, "late"))).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::StorageFailed);
    let store = Store::open(&home.path().join("obey.db")).unwrap();
    assert_eq!(notes(&store), ["before"]);
}

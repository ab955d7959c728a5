//! Small writes that their callers commit themselves keep every guarantee of the others.

use std::sync::mpsc;

use domain::ErrorCode;
use tokio::task::JoinSet;

use super::{DEADLINE, note, notes, soon, store, syncs};
use crate::limits;
use crate::{Durability, Store};

#[tokio::test]
async fn a_small_write_is_done_on_the_calling_thread_and_synced_soon() {
    let (_home, store) = store();
    let caller = std::thread::current().id();
    let ran_on = soon(store.write_here(move |connection| {
        note(connection, "a")?;
        Ok(std::thread::current().id())
    }))
    .await
    .unwrap();
    assert_eq!((ran_on, notes(&store)), (caller, vec!["a".to_owned()]));
    let deadline = std::time::Instant::now() + DEADLINE;
    while syncs(&store) == 0 {
        assert!(std::time::Instant::now() < deadline, "never synced");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_small_write_waits_its_turn_behind_a_large_one() {
    let (_home, store) = store();
    let (release, held) = mpsc::channel::<()>();
    let (begun, has_begun) = tokio::sync::oneshot::channel();
    let large = store.clone();
    let large = tokio::spawn(async move {
        let wait = move |connection: &rusqlite::Connection| {
            let _ = begun.send(());
            let _ = held.recv_timeout(DEADLINE);
            note(connection, "first")
        };
        large.write(Durability::Soon, wait).await
    });
    soon(has_begun).await.unwrap();
    let small = store.clone();
    let small = tokio::spawn(async move {
        let count = |connection: &rusqlite::Connection| {
            note(connection, "second")?;
            connection.query_row("SELECT count(*) FROM campaigns", [], |row| row.get::<_, i64>(0))
        };
        small.write_here(count).await
    });
    tokio::task::yield_now().await;
    release.send(()).unwrap();
    soon(large).await.unwrap().unwrap();
    assert_eq!(soon(small).await.unwrap().unwrap(), 2);
}

#[tokio::test]
async fn a_small_write_that_fails_or_panics_leaves_nothing_behind() {
    let (_home, store) = store();
    let failed = soon(store.write_here(|connection| {
        note(connection, "half")?;
        note(connection, "half")
    }))
    .await;
    assert_eq!(failed.unwrap_err().code, ErrorCode::StorageFailed);
    let broken: Result<(), _> = soon(store.write_here(|connection| {
        note(connection, "half")?;
        panic!("a mistake of ours");
    }))
    .await;
    assert_eq!(broken.unwrap_err().code, ErrorCode::StorageFailed);
    soon(store.write_here(|connection| note(connection, "after"))).await.unwrap();
    assert_eq!(notes(&store), ["after"]);
}

#[tokio::test]
async fn after_a_slow_disk_only_the_writers_thread_waits_for_it() {
    let (_home, store) = store();
    let slow = |_: &rusqlite::Connection| {
        std::thread::sleep(limits::HERE_SLOW * 2);
        Ok(())
    };
    soon(store.write_here(slow)).await.unwrap();
    let ran_on = soon(store.write_here(|_| Ok(std::thread::current().id()))).await.unwrap();
    assert_ne!(ran_on, std::thread::current().id());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn small_large_and_synced_writes_of_many_all_arrive_in_their_callers_order() {
    let (home, store) = store();
    let mut callers = JoinSet::new();
    for caller in 0..8 {
        let store = store.clone();
        callers.spawn(async move {
            for nth in 0..50 {
                let write = move |connection: &rusqlite::Connection| {
                    note(connection, &format!("{caller}-{nth:02}"))?;
                    let sql = "SELECT count(*) FROM campaigns WHERE id LIKE ?1";
                    connection.query_row(sql, [format!("{caller}-%")], |row| row.get::<_, i64>(0))
                };
                let count = match nth % 5 {
                    0 => store.write(Durability::Synced, write).await,
                    1 => store.write(Durability::Soon, write).await,
                    _ => store.write_here(write).await,
                };
                assert_eq!(count.unwrap(), nth + 1);
            }
        });
    }
    while let Some(done) = soon(callers.join_next()).await {
        done.unwrap();
    }
    store.close();
    let store = Store::open(&home.path().join("obey.db")).unwrap();
    assert_eq!(notes(&store).len(), 400);
}

#[tokio::test]
async fn a_long_log_is_moved_into_the_file_whoever_writes() {
    for durability in [Durability::Soon, Durability::Synced] {
        let (home, store) = store();
        let file = home.path().join("obey.db");
        let pages = limits::LOG_PAGES as u64;
        let many = move |connection: &rusqlite::Connection| {
            let page = "x".repeat(3_000);
            (0..pages).try_for_each(|nth| note(connection, &format!("{nth}-{page}")))
        };
        soon(store.write(durability, many)).await.unwrap();
        let deadline = std::time::Instant::now() + DEADLINE;
        while std::fs::metadata(&file).unwrap().len() < pages * 4_096 {
            assert!(std::time::Instant::now() < deadline, "never moved");
            tokio::task::yield_now().await;
        }
    }
}

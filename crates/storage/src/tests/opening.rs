//! Opening: existing data stays, and a file we cannot use is refused with a reason and left unchanged.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use domain::ErrorCode;

use super::disk::Mount;
use super::{is_sound, note, notes, soon, store};
use crate::open::MIGRATIONS;
use crate::{Durability, Store};

#[tokio::test]
async fn reopening_keeps_everything() {
    let (home, store) = store();
    let path = home.path().join("obey.db");
    soon(store.write(Durability::Synced, |connection| note(connection, "synced"))).await.unwrap();
    soon(store.write(Durability::Soon, |connection| note(connection, "soon"))).await.unwrap();
    drop(store);
    for _ in 0..3 {
        let store = Store::open(&path).unwrap();
        assert_eq!(notes(&store), ["soon", "synced"]);
    }
    assert!(is_sound(&path));
}

/// Copies the files of a store in the state a killed daemon would leave.
fn copy_as_if_killed(from: &Path, to: &Path) {
    for suffix in ["", "-wal"] {
        fs::copy(format!("{}{suffix}", from.display()), format!("{}{suffix}", to.display())).unwrap();
    }
}

#[tokio::test]
async fn a_killed_daemon_loses_nothing_it_answered() {
    let (home, store) = store();
    let copy = home.path().join("copy.db");
    soon(store.write(Durability::Synced, |connection| note(connection, "synced"))).await.unwrap();
    soon(store.write(Durability::Soon, |connection| note(connection, "soon"))).await.unwrap();
    copy_as_if_killed(&home.path().join("obey.db"), &copy);
    assert_eq!(notes(&Store::open(&copy).unwrap()), ["soon", "synced"]);
    assert!(is_sound(&copy));
}

#[tokio::test]
async fn only_the_owner_can_read_the_files() {
    let (home, store) = store();
    soon(store.write(Durability::Synced, |connection| note(connection, "a"))).await.unwrap();
    let mut seen = 0;
    for entry in fs::read_dir(home.path()).unwrap() {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{:?}", entry.file_name());
        seen += 1;
    }
    assert!(seen >= 2);
}

#[tokio::test]
async fn a_file_of_any_earlier_version_is_brought_forward_with_all_it_holds() {
    for version in 1..MIGRATIONS.len() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("obey.db");
        let old = rusqlite::Connection::open(&path).unwrap();
        old.execute_batch("PRAGMA journal_mode = WAL").unwrap();
        for step in &MIGRATIONS[..version] {
            old.execute_batch(step).unwrap();
        }
        old.pragma_update(None, "user_version", version as i64).unwrap();
        note(&old, "old").unwrap();
        // Still open, as that of a daemon that was killed.
        let store = Store::open(&path).unwrap();
        soon(store.write(Durability::Synced, |connection| note(connection, "new"))).await.unwrap();
        assert_eq!(notes(&store), ["new", "old"], "from version {version}");
        let now: i64 = store
            .read_now(|connection| connection.query_row("PRAGMA user_version", [], |row| row.get(0)))
            .unwrap();
        assert_eq!(now, MIGRATIONS.len() as i64);
        drop((old, store));
        assert!(is_sound(&path));
    }
}

#[tokio::test]
async fn a_file_of_a_newer_version_is_refused_and_not_touched() {
    let (home, store) = store();
    let newer = home.path().join("newer.db");
    // Left by a newer daemon that was killed: the newest commits are only in the log beside the file.
    soon(store.write(Durability::Synced, |connection| {
        note(connection, "precious")?;
        connection.pragma_update(None, "user_version", 99)
    }))
    .await
    .unwrap();
    copy_as_if_killed(&home.path().join("obey.db"), &newer);
    let log = format!("{}-wal", newer.display());
    let before = (fs::read(&newer).unwrap(), fs::read(&log).unwrap());
    assert!(!before.1.is_empty());
    let error = Store::open(&newer).expect_err("must be refused");
    assert_eq!(error.code, ErrorCode::StorageTooNew);
    assert!(error.message.contains("format 99") && error.message.contains("newer.db"), "{error}");
    assert!((fs::read(&newer).unwrap(), fs::read(&log).unwrap()) == before, "the files changed");
}

#[test]
fn a_closed_file_of_a_newer_version_is_refused_and_not_touched() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("obey.db");
    for mode in ["WAL", "DELETE"] {
        let connection = rusqlite::Connection::open(&path).unwrap();
        connection.pragma_update(None, "journal_mode", mode).unwrap();
        connection.pragma_update(None, "user_version", 2_000_000_000).unwrap();
        drop(connection);
        let before = fs::read(&path).unwrap();
        assert_eq!(Store::open(&path).err().unwrap().code, ErrorCode::StorageTooNew);
        assert!(fs::read(&path).unwrap() == before, "{mode}");
        // Reading may leave an empty log.
        assert!(fs::read(home.path().join("obey.db-wal")).map_or(true, |log| log.is_empty()), "{mode}");
    }
}

#[test]
fn a_file_that_is_no_database_is_refused_and_not_touched() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("obey.db");
    let text = "Dear diary, this is not a database. ".repeat(100);
    fs::write(&path, &text).unwrap();
    let error = Store::open(&path).expect_err("must be refused");
    assert_eq!(error.code, ErrorCode::StorageFailed);
    assert!(error.message.contains("obey.db") && error.message.contains("not a database"), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
}

#[test]
fn a_folder_that_is_missing_or_read_only_is_named() {
    let home = tempfile::tempdir().unwrap();
    let refused = |path: &Path| {
        let error = Store::open(path).expect_err("must be refused");
        assert_eq!(error.code, ErrorCode::StorageFailed);
        assert!(error.message.contains(&path.display().to_string()), "{error}");
        assert!(!error.message.contains("disk is full"), "{error}");
    };
    // A word in the path must not be taken for the reason.
    refused(&home.path().join("full/of/nothing.db"));
    let Some(mount) = Mount::new("1m") else { return };
    drop(Store::open(&mount.path().join("old.db")).unwrap());
    mount.make_read_only();
    refused(&mount.path().join("new.db"));
    refused(&mount.path().join("old.db"));
}

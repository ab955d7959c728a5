//! A full disk: refused writes are reported as refused, accepted ones stay, and writing works again when
//! there is room.

use std::fs;
use std::path::Path;
use std::process::Command;

use domain::ErrorCode;

use super::{is_sound, note, notes, soon};
use crate::{Durability, Store};

/// A small file system, if the machine permits one.
pub(super) struct Mount {
    home: tempfile::TempDir,
}

impl Mount {
    /// Mounts a file system of this size; reports if that is not permitted.
    pub(super) fn new(size: &str) -> Option<Self> {
        let home = tempfile::tempdir().unwrap();
        let options = format!("size={size},mode=0700");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", &options, "none"]).arg(home.path()).output();
        if mounted.is_ok_and(|output| output.status.success()) {
            return Some(Self { home });
        }
        println!("skipped: mounting a small tmpfs is not permitted here");
        None
    }

    pub(super) fn path(&self) -> &Path {
        self.home.path()
    }

    pub(super) fn make_read_only(&self) {
        let remounted = Command::new("mount").args(["-o", "remount,ro"]).arg(self.path()).status().unwrap();
        assert!(remounted.success());
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // Lazy: a test that failed may still have files open.
        let _ = Command::new("umount").arg("-l").arg(self.path()).status();
    }
}

/// Writes large names until the disk refuses, and returns those that were accepted.
async fn fill(store: &Store, durability: Durability, prefix: &str) -> (Vec<String>, domain::Error) {
    let mut accepted = Vec::new();
    for nth in 0..10_000 {
        let name = format!("{prefix}{nth:05}-{}", "x".repeat(3_000));
        let noted = name.clone();
        match soon(store.write(durability, move |connection| note(connection, &noted))).await {
            Ok(()) => accepted.push(name),
            Err(error) => return (accepted, error),
        }
    }
    panic!("the disk never filled");
}

#[tokio::test]
async fn a_full_disk_loses_nothing_and_passes() {
    let Some(mount) = Mount::new("3m") else { return };
    let path = mount.path().join("obey.db");
    let store = Store::open(&path).unwrap();
    let ballast = mount.path().join("ballast");
    fs::write(&ballast, vec![0; 1024 * 1024]).unwrap();
    let mut expected = Vec::new();
    for (prefix, durability) in [("a", Durability::Synced), ("b", Durability::Soon)] {
        let (accepted, error) = fill(&store, durability, prefix).await;
        assert_eq!(error.code, ErrorCode::StorageFailed);
        assert!(error.message.contains("disk is full"), "{error} {:?}", error.detail);
        expected.extend(accepted);
        assert_eq!(notes(&store), expected, "reading goes on, and what was refused is not there");
    }
    // Several writes at once all fail, and none is reported as accepted.
    let mut together = tokio::task::JoinSet::new();
    for nth in 0..20 {
        let (store, name) = (store.clone(), format!("c{nth:02}-{}", "x".repeat(100_000)));
        together.spawn(async move {
            store.write(Durability::Synced, move |connection| note(connection, &name)).await
        });
    }
    while let Some(result) = soon(together.join_next()).await {
        assert_eq!(result.unwrap().unwrap_err().code, ErrorCode::StorageFailed);
    }
    fs::remove_file(&ballast).unwrap();
    for nth in 0..20 {
        let name = format!("d{nth:02}");
        expected.push(name.clone());
        soon(store.write(Durability::Synced, move |connection| note(connection, &name))).await.unwrap();
    }
    assert_eq!(notes(&store), expected);
    drop(store);
    assert_eq!(notes(&Store::open(&path).unwrap()), expected);
    assert!(is_sound(&path));
}

#[tokio::test]
async fn a_daemon_can_be_closed_and_started_on_a_full_disk() {
    let Some(mount) = Mount::new("3m") else { return };
    let path = mount.path().join("obey.db");
    let store = Store::open(&path).unwrap();
    let (accepted, _) = fill(&store, Durability::Soon, "a").await;
    drop(store);
    match Store::open(&path) {
        Ok(store) => assert_eq!(notes(&store), accepted),
        Err(error) => assert_eq!(error.code, ErrorCode::StorageFailed),
    }
    assert!(is_sound(&path));
}

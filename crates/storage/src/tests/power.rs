//! Power loss: only the synced part of the log is guaranteed to survive, and the rest may be torn or garbage.
//! Everything that a caller was told is on disk is found again, and nothing is half written.

use rusqlite::Connection;

use super::{note, soon, store};
use crate::Durability;

const WRITES: u32 = 200;
const CUTS: u64 = 1_000;

/// Pseudo-random numbers, the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

#[tokio::test]
async fn what_was_acknowledged_survives_a_thousand_power_cuts() {
    let (home, store) = store();
    let log = home.path().join("obey.db-wal");
    let mut random = Random(20_261);
    // The length of the log when a synced write was confirmed: at least this much of it survives.
    let mut synced = Vec::new();
    for number in 0..WRITES {
        let durability = if random.below(3) == 0 { Durability::Synced } else { Durability::Soon };
        let name = format!("{number:05}");
        soon(store.write(durability, move |connection| note(connection, &name))).await.unwrap();
        if durability == Durability::Synced {
            synced.push((std::fs::metadata(&log).unwrap().len(), number));
        }
    }
    let whole = std::fs::read(&log).unwrap();
    let file = std::fs::read(home.path().join("obey.db")).unwrap();
    for cut in 0..CUTS {
        let length = random.below(whole.len() as u64 + 1);
        let mut left = whole[..length as usize].to_vec();
        // The file system may have extended the file before its content arrived.
        left.extend((0..random.below(9_000)).map(|_| random.below(256) as u8));
        let told = synced.iter().rev().find(|(by, _)| *by <= length).map(|(_, number)| *number);
        check(&file, &left, told, cut);
    }
}

/// Opens the remaining files: every note up to the last confirmed one is there, and none after a missing one.
fn check(file: &[u8], log: &[u8], told: Option<u32>, cut: u64) {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("obey.db");
    std::fs::write(&path, file).unwrap();
    std::fs::write(home.path().join("obey.db-wal"), log).unwrap();
    let connection = Connection::open(&path).unwrap();
    // This file is read only once, so there is no need to wait for the disk.
    connection.execute_batch("PRAGMA synchronous = OFF").unwrap();
    let sound: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(sound, "ok", "cut {cut}");
    // A log that begins with garbage counts as empty: the tables themselves were never synced.
    let notes: Vec<String> = match connection.prepare("SELECT id FROM campaigns ORDER BY id") {
        Ok(mut found) => found.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect(),
        Err(_) => Vec::new(),
    };
    let expected: Vec<String> = (0..notes.len()).map(|number| format!("{number:05}")).collect();
    assert_eq!(notes, expected, "cut {cut}: there is a hole");
    if let Some(told) = told {
        assert!(notes.len() > told as usize, "cut {cut}: {told} was acknowledged, {} are there", notes.len());
    }
}

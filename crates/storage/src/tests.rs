//! The store keeps what it confirmed.

mod disk;
mod group;
mod here;
mod opening;
mod power;
mod reports;
mod rows;

use std::future::Future;
use std::path::Path;
use std::time::Duration;

use domain::{CampaignId, ProviderKind, SessionId, SessionSpec, State, Timestamp};
use tempfile::TempDir;

use super::{Durability, SessionRow, SessionWrite, Store, sessions};

const DEADLINE: Duration = Duration::from_secs(30);

async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, future).await.expect("not in time")
}

/// A store in a temporary folder.
fn store() -> (TempDir, Store) {
    let home = tempfile::tempdir().unwrap();
    let store = Store::open(&home.path().join("obey.db")).unwrap();
    (home, store)
}

/// Returns the spec of a session with this id.
fn spec(id: &str) -> SessionSpec {
    SessionSpec {
        campaign_id: Some(CampaignId::new("camp_1")),
        model: "m".to_owned(),
        name: "n".to_owned(),
        created_at: Timestamp(1),
        ..SessionSpec::new(SessionId::new(id), ProviderKind::Scripted, "/w".into())
    }
}

/// Inserts a session and returns its key.
async fn insert(store: &Store, spec: SessionSpec, state: State) -> i64 {
    let write = move |connection: &rusqlite::Connection| sessions::insert(connection, &spec, &state);
    soon(store.write(Durability::Synced, write)).await.unwrap()
}

async fn write(store: &Store, write: SessionWrite) {
    soon(store.write(Durability::Synced, move |connection| sessions::write(connection, &write)))
        .await
        .unwrap();
}

fn find(store: &Store, id: &str) -> SessionRow {
    store.read_now(|connection| sessions::find(connection, &SessionId::new(id))).unwrap().unwrap()
}

/// Adds a campaign with this name; the simplest write there is.
fn note(connection: &rusqlite::Connection, name: &str) -> rusqlite::Result<()> {
    connection.execute("INSERT INTO campaigns (id, name, path, description, created_at, updated_at) VALUES (?1, ?1, ?1, '', 0, 0)", [name])?;
    Ok(())
}

fn notes(store: &Store) -> Vec<String> {
    let read = |connection: &rusqlite::Connection| {
        connection.prepare("SELECT id FROM campaigns ORDER BY id")?.query_map([], |row| row.get(0))?.collect()
    };
    store.read_now(read).unwrap()
}

/// Returns how often earlier commits were synced separately.
fn syncs(store: &Store) -> u64 {
    store.shared.writer.syncs()
}

fn is_sound(path: &Path) -> bool {
    let connection = rusqlite::Connection::open(path).unwrap();
    connection.query_row("PRAGMA integrity_check", [], |row| row.get::<_, String>(0)).unwrap() == "ok"
}

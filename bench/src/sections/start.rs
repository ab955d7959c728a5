//! From starting the program to its ready line, with ten thousand old sessions in the database.

use anyhow::{Context, Result};
use rusqlite::Connection;
use wire::obey::local::v1 as local;

use crate::daemon::{Floor, Home};
use crate::stats::{median, millis, worst};
use crate::table::{Goal, Table};

const STARTS: usize = 20;
const STORED: usize = 10_000;
const MOST_MS: f64 = 100.0;

pub(crate) async fn run(table: &mut Table) -> Result<()> {
    let mut home = Home::new("start")?;
    let empty = starts(&mut home)?;
    make_past(&mut home).await?;
    let full = starts(&mut home)?;
    let mut floors = Vec::new();
    for _ in 0..STARTS {
        floors.push(millis(Floor::start()?.started));
    }
    let words = |took: &[f64]| format!("{:.0} ms (worst {:.0})", median(took), worst(took));
    let goal = Goal::AtMost(MOST_MS, format!("{MOST_MS} ms"));
    let floor = format!("{:.0} ms", median(&floors));
    table.row("start to ready, empty", words(&empty), floor.clone(), median(&empty), Goal::None);
    table.row("start to ready, 10,000 old sessions", words(&full), floor, worst(&full), goal);
    Ok(())
}

fn starts(home: &mut Home) -> Result<Vec<f64>> {
    let mut took = Vec::new();
    for _ in 0..STARTS {
        took.push(millis(home.start()?));
        home.end()?;
    }
    Ok(took)
}

/// Runs one session to its end, then copies everything stored for it.
async fn make_past(home: &mut Home) -> Result<()> {
    home.start()?;
    let peer = home.peer().await?;
    let campaign = home.campaign(&peer).await?;
    let session = home.session(&peer, &campaign).await?;
    let stop = local::StopSessionRequest { session_id: session.id.clone(), graceful: false };
    peer.daemon.clone().stop_session(stop).await?;
    drop(peer);
    home.end()?;
    let mut database = Connection::open(home.database())?;
    copy(&mut database, &session.id).context("copying a session")
}

fn copy(database: &mut Connection, id: &str) -> Result<()> {
    let columns: Vec<String> = database
        .prepare("SELECT name FROM pragma_table_info('session_records') WHERE name NOT IN ('key', 'id')")?
        .query_map([], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    let value = |name: &String| match name.as_str() {
        "spec" | "state" => format!("replace({name}, ?1, ?2)"),
        _ => name.clone(),
    };
    let insert = format!(
        "INSERT INTO session_records (id, {}) SELECT ?2, {} FROM session_records WHERE id = ?1",
        columns.join(", "),
        columns.iter().map(value).collect::<Vec<_>>().join(", ")
    );
    let transaction = database.transaction()?;
    let key: i64 =
        transaction.query_row("SELECT key FROM session_records WHERE id = ?1", [id], |row| row.get(0))?;
    for number in 1..STORED {
        // As long and as unique as a real one.
        let other = format!("{}{number:06}", &id[..id.len() - 6]);
        transaction.prepare_cached(&insert)?.execute([id, &other])?;
        let its_key = transaction.last_insert_rowid();
        transaction
            .prepare_cached(
                "INSERT INTO journal SELECT ((?2 - ?1) << 32) + id, at, body FROM journal
                 WHERE id >> 32 = ?1 AND id >= ?1 << 32 AND id < (?1 + 1) << 32",
            )?
            .execute([key, its_key])?;
    }
    Ok(transaction.commit()?)
}

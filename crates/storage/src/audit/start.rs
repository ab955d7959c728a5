//! Prepares the audit when the store is opened: key and mark are read or created, rows of older versions are
//! imported, the triggers are created again, and every problem is recorded in the mark before the first new
//! row could hide it.

use std::path::Path;
use std::sync::Arc;

use domain::{Error, ErrorCode};
use rusqlite::{Connection, OptionalExtension as _};
use tokio::sync::watch;

use super::chain::{self, Head};
use super::entry::{AuditEntry, AuditOutcome};
use super::head_file::{FoundHead, HeadFile};
use super::keys::{self, Keys, hex};
use super::mark::{Found, Mark};
use super::marker::Marker;
use super::{AuditShared, head_file, mark};
use host::clock;

/// Opens the audit in a database that is up to date.
pub fn open(connection: &mut Connection, database: &Path) -> Result<Arc<AuditShared>, Error> {
    let folder = database.parent().unwrap_or(Path::new("."));
    let failed = |error: &dyn std::fmt::Display| {
        Error::new(
            ErrorCode::StorageFailed,
            format!("the audit cannot be opened: {error}; see docs/operations.md"),
        )
    };
    let (keys, is_new) = match Keys::load(folder) {
        Ok(Some(keys)) => (keys, false),
        Ok(None) => (Keys::create(folder).map_err(|error| failed(&error))?, true),
        Err(error) => {
            return Err(failed(&format_args!("{}: {error}", folder.join(keys::KEY_FILE).display())));
        }
    };
    let found = Mark::read(folder, &keys).map_err(|error| failed(&error))?;
    let head = head_file::read(folder, &keys).map_err(|error| failed(&error))?;
    let mut mark = prepare(connection, &keys, is_new, &found, &head).map_err(|error| failed(&error))?;
    let head_file = HeadFile::open(folder).map_err(|error| failed(&error))?;
    let newest = chain::head(connection).map_err(|error| failed(&error))?;
    head_file.write(&keys, &newest).map_err(|error| failed(&error))?;
    mark.has_head_file = true;
    if found != Found::Mark(mark.clone()) {
        mark.write(folder, &keys).map_err(|error| failed(&error))?;
    }
    for breach in &mark.breaches {
        tracing::error!(
            entry = breach.seq,
            "the audit was tampered with: {}; see obey audit verify",
            breach.what
        );
    }
    let newest = watch::Sender::new(0);
    Ok(Arc::new(AuditShared { keys, newest, marker: Marker::new(database, folder, mark, head_file) }))
}

/// Checks the end of the chain and returns the mark to continue with.
fn prepare(
    connection: &mut Connection,
    keys: &Keys,
    is_new_key: bool,
    found: &Found,
    newest: &FoundHead,
) -> rusqlite::Result<Mark> {
    let transaction = connection.transaction()?;
    let mut head = chain::head(&transaction)?;
    let mut mark = match found {
        Found::Mark(mark) => mark.clone(),
        Found::Missing | Found::Forged => Mark::default(),
    };
    let has_seals = !head.mac.is_empty();
    match found {
        Found::Mark(known) => compare(&transaction, known, &head, &mut mark)?,
        // A new key cannot have signed the existing mark: it is the key that was deleted.
        Found::Forged if is_new_key => {}
        Found::Forged => mark.note(0, format!("{} was not written with this daemon's key", mark::MARK_FILE)),
        Found::Missing if is_new_key => {}
        Found::Missing => mark.note(0, format!("{} was deleted", mark::MARK_FILE)),
    }
    if is_new_key && (has_seals || *found == Found::Forged) {
        mark.note(
            head.seq,
            format!("{} was deleted, and with it what proves the entries before", keys::KEY_FILE),
        );
    }
    if !is_new_key {
        compare_newest(&transaction, newest, &head, &mut mark)?;
    }
    let is_first = is_new_key && *found == Found::Missing && !has_seals;
    restore_triggers(&transaction, is_first, &mut mark)?;
    if is_first && head.seq == 0 {
        head = take_over(&transaction, keys)?;
    }
    transaction.commit()?;
    mark.seq = head.seq;
    mark.mac = hex(&head.mac);
    Ok(mark)
}

/// Compares the end of the chain with the mark. Rows beyond the mark come from a daemon that died before it
/// could mark them; their seals prove them.
fn compare(connection: &Connection, known: &Mark, head: &Head, mark: &mut Mark) -> rusqlite::Result<()> {
    if known.seq == 0 {
        return Ok(());
    }
    match chain::mac_of(connection, known.seq)? {
        Some(mac) if hex(&mac) == known.mac => {}
        Some(_) => mark.note(known.seq, "it is not the entry that the mark knows".to_owned()),
        None if head.seq == 0 => {
            mark.note(known.seq, format!("the audit was emptied: entries 1 to {} are missing", known.seq));
        }
        None => mark.note(
            known.seq,
            format!("the end was cut off: entries {} to {} are missing", head.seq + 1, known.seq),
        ),
    }
    Ok(())
}

/// Compares the end of the chain with the newest row that the daemon before noted.
fn compare_newest(
    connection: &Connection,
    newest: &FoundHead,
    head: &Head,
    mark: &mut Mark,
) -> rusqlite::Result<()> {
    let file = head_file::HEAD_FILE;
    match newest {
        FoundHead::Row { seq, mac } => match chain::mac_of(connection, *seq)? {
            Some(found) if found == *mac => {}
            Some(_) => mark.note(*seq, format!("it is not the entry that {file} knows")),
            None => {
                mark.note(*seq, format!("the end was cut off: entries {} to {seq} are missing", head.seq + 1))
            }
        },
        FoundHead::Nothing => {}
        FoundHead::Missing if mark.has_head_file => mark.note(0, format!("{file} was deleted")),
        FoundHead::Missing => {}
        FoundHead::Forged => mark.note(0, format!("{file} was not written with this daemon's key")),
    }
    Ok(())
}

fn restore_triggers(connection: &Connection, is_first: bool, mark: &mut Mark) -> rusqlite::Result<()> {
    for name in chain::missing_triggers(connection)? {
        if !is_first {
            mark.note(0, format!("the trigger {name}, which protects the rows, was dropped"));
        }
        connection.execute_batch(&format!("DROP TRIGGER IF EXISTS {name}"))?;
        for (_, sql) in chain::TRIGGERS.iter().filter(|(known, _)| *known == name) {
            connection.execute_batch(sql)?;
        }
    }
    Ok(())
}

/// Imports the rows of versions that had no key, unchanged, and seals them with the first new row. The
/// workbench removes their table.
fn take_over(connection: &Connection, keys: &Keys) -> rusqlite::Result<Head> {
    let sql = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'bench_audit'";
    if connection.query_row(sql, [], |_| Ok(())).optional()?.is_none() {
        return Ok(Head::default());
    }
    connection.execute(
        "INSERT INTO audit (seq, body, session, hash) SELECT seq, body, session, hash FROM bench_audit ORDER BY seq",
        [],
    )?;
    let head = chain::head(connection)?;
    if head.seq == 0 {
        return Ok(head);
    }
    let entry = AuditEntry {
        at: clock::now(),
        caller: "daemon".to_owned(),
        operation: "Audit.Seal".to_owned(),
        outcome: AuditOutcome::Done,
        summary: format!("{} entries from before there was a key, ending with {}", head.seq, hex(&head.hash)),
        ..AuditEntry::default()
    };
    chain::append(connection, keys, &entry)
}

//! The hash chain: how rows are added, and how all of them are verified. Works on a connection passed by the
//! caller.

use ring::digest;
use rusqlite::{Connection, OptionalExtension as _};

use super::entry::AuditEntry;
use super::keys::Keys;

/// The last row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    pub(super) seq: i64,
    pub(super) hash: Vec<u8>,
    /// Empty if there is no sealed row yet.
    pub(super) mac: Vec<u8>,
}

/// Triggers that prevent accidental changes of rows; created again at every start.
pub(super) const TRIGGERS: [(&str, &str); 2] = [
    (
        "audit_no_change",
        "CREATE TRIGGER audit_no_change BEFORE UPDATE ON audit BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END",
    ),
    (
        "audit_no_removal",
        "CREATE TRIGGER audit_no_removal BEFORE DELETE ON audit BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END",
    ),
];

/// Returns the last row; the default if there is none.
pub(super) fn head(connection: &Connection) -> rusqlite::Result<Head> {
    let mut select = connection
        .prepare_cached("SELECT seq, hash, ifnull(mac, x'') FROM audit ORDER BY seq DESC LIMIT 1")?;
    let read = |row: &rusqlite::Row<'_>| Ok(Head { seq: row.get(0)?, hash: row.get(1)?, mac: row.get(2)? });
    Ok(select.query_row([], read).optional()?.unwrap_or_default())
}

/// Adds a row and returns the new end of the chain.
pub(super) fn append(connection: &Connection, keys: &Keys, entry: &AuditEntry) -> rusqlite::Result<Head> {
    let before = head(connection)?;
    let body = serde_json::to_string(entry).unwrap_or_default();
    let (seq, hash) = (before.seq + 1, hash(&before.hash, &body));
    let mac = keys.seal(&before.mac, seq, &hash);
    let mut insert = connection
        .prepare_cached("INSERT INTO audit (seq, body, session, hash, mac) VALUES (?1, ?2, ?3, ?4, ?5)")?;
    insert.execute(rusqlite::params![seq, body, entry.session, hash, mac])?;
    Ok(Head { seq, hash, mac })
}

/// Returns the hash of a row. It needs no key.
pub(super) fn hash(before: &[u8], body: &str) -> Vec<u8> {
    let mut context = digest::Context::new(&digest::SHA256);
    context.update(before);
    context.update(body.as_bytes());
    context.finish().as_ref().to_vec()
}

/// Returns the seal of one row; `None` if there is no such row.
pub(super) fn mac_of(connection: &Connection, seq: i64) -> rusqlite::Result<Option<Vec<u8>>> {
    let sql = "SELECT ifnull(mac, x'') FROM audit WHERE seq = ?1";
    connection.query_row(sql, [seq], |row| row.get(0)).optional()
}

/// Returns the triggers that are missing or changed.
pub(super) fn missing_triggers(connection: &Connection) -> rusqlite::Result<Vec<&'static str>> {
    let mut missing = Vec::new();
    for (name, wanted) in TRIGGERS {
        let sql = "SELECT sql FROM sqlite_master WHERE type = 'trigger' AND name = ?1";
        let found: Option<String> = connection.query_row(sql, [name], |row| row.get(0)).optional()?;
        if found.as_deref() != Some(wanted) {
            missing.push(name);
        }
    }
    Ok(missing)
}

/// The result of verifying every row.
#[derive(Clone, Debug, Default)]
pub(super) struct Walked {
    pub(super) entries: u64,
    pub(super) head: Head,
    /// The first invalid row, and why.
    pub(super) broken: Option<(u64, String)>,
}

/// Recomputes every hash and seal.
pub(super) fn walk(connection: &Connection, keys: &Keys) -> rusqlite::Result<Walked> {
    let mut walked = Walked::default();
    let mut select = connection.prepare("SELECT seq, body, session, hash, mac FROM audit ORDER BY seq")?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let (seq, body): (i64, String) = (row.get(0)?, row.get(1)?);
        let (session, stored): (String, Vec<u8>) = (row.get(2)?, row.get(3)?);
        let mac: Option<Vec<u8>> = row.get(4)?;
        walked.entries += 1;
        let number = u64::try_from(seq).unwrap_or(0);
        let computed = hash(&walked.head.hash, &body);
        let wrong = if number != walked.entries {
            Some(format!("entry {} is missing", walked.entries))
        } else if stored != computed {
            Some("its hash does not fit its text and the entries before".to_owned())
        } else if serde_json::from_str::<AuditEntry>(&body).is_ok_and(|entry| entry.session != session) {
            Some("its session is not the one in its text".to_owned())
        } else {
            match &mac {
                Some(mac) if *mac == keys.seal(&walked.head.mac, seq, &stored) => None,
                Some(_) => Some("it was not sealed with this daemon's key".to_owned()),
                None if walked.head.mac.is_empty() => None,
                None => Some("it has no seal".to_owned()),
            }
        };
        if let Some(reason) = wrong {
            walked.broken = Some((number, reason));
            return Ok(walked);
        }
        walked.head = Head { seq, hash: stored, mac: mac.unwrap_or_default() };
    }
    Ok(walked)
}

//! Keys that clients give to commands, with what was answered: the same key with the same request gets the same answer,
//! across crashes. Bounded by number and age.

use domain::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use crate::limits;

/// A client's key and the digest of the request it came with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientKey {
    pub key: String,
    pub fingerprint: String,
}

/// A key to keep with its answer.
#[derive(Clone, Debug)]
pub struct KeptKey {
    /// The session; empty for a key that creates one.
    pub scope: String,
    pub key: ClientKey,
    pub answer: String,
    pub at: Timestamp,
}

/// Returns the digest of the request and the answer that belong to a key.
pub fn find(connection: &Connection, scope: &str, key: &str) -> rusqlite::Result<Option<(String, String)>> {
    connection
        .prepare_cached("SELECT fingerprint, answer FROM client_keys WHERE scope = ?1 AND key = ?2")?
        .query_row([scope, key], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()
}

/// Keeps a key; the oldest of its scope beyond the limit is forgotten.
pub fn keep(connection: &Connection, kept: &KeptKey) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO client_keys (scope, key, fingerprint, answer, at) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![kept.scope, kept.key.key, kept.key.fingerprint, kept.answer, kept.at.0])?;
    connection
        .prepare_cached(
            "DELETE FROM client_keys WHERE scope = ?1 AND at < (
                 SELECT at FROM client_keys WHERE scope = ?1 ORDER BY at DESC LIMIT 1 OFFSET ?2)",
        )?
        .execute(params![kept.scope, limits::CLIENT_KEYS_MAX - 1])?;
    Ok(())
}

/// Forgets the keys of a session, and the one that created it.
pub fn forget(connection: &Connection, session: &str) -> rusqlite::Result<()> {
    connection
        .prepare_cached("DELETE FROM client_keys WHERE scope = ?1 OR (scope = '' AND answer = ?1)")?
        .execute([session])?;
    Ok(())
}

/// Forgets keys that no client will use again. Returns how many.
pub fn forget_before(connection: &Connection, at: Timestamp) -> rusqlite::Result<u64> {
    let forgotten = connection.execute("DELETE FROM client_keys WHERE at < ?1", [at.0])?;
    Ok(forgotten as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open() -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(include_str!("schema_client_keys.sql")).unwrap();
        connection
    }

    fn kept(scope: &str, key: &str, at: i64) -> KeptKey {
        let key = ClientKey { key: key.to_owned(), fingerprint: "f".to_owned() };
        KeptKey { scope: scope.to_owned(), key, answer: "sess_1".to_owned(), at: Timestamp(at) }
    }

    #[test]
    fn the_oldest_keys_of_a_session_are_forgotten_and_no_others() {
        let connection = open();
        keep(&connection, &kept("other", "old", 0)).unwrap();
        for at in 0..limits::CLIENT_KEYS_MAX + 2 {
            keep(&connection, &kept("sess_1", &format!("k{at}"), at)).unwrap();
        }
        assert_eq!(find(&connection, "sess_1", "k1").unwrap(), None);
        assert!(find(&connection, "sess_1", "k2").unwrap().is_some());
        assert!(find(&connection, "other", "old").unwrap().is_some());
    }

    #[test]
    fn a_removed_session_takes_its_keys_with_it() {
        let connection = open();
        keep(&connection, &kept("sess_1", "a", 1)).unwrap();
        keep(&connection, &kept("", "create", 1)).unwrap();
        keep(&connection, &kept("sess_2", "a", 1)).unwrap();
        forget(&connection, "sess_1").unwrap();
        assert_eq!(find(&connection, "sess_1", "a").unwrap(), None);
        assert_eq!(find(&connection, "", "create").unwrap(), None);
        assert!(find(&connection, "sess_2", "a").unwrap().is_some());
        assert_eq!(forget_before(&connection, Timestamp(2)).unwrap(), 1);
    }
}

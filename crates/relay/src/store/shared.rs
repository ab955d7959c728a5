//! What relays of one cluster share: accounts, machines with their certificates, and the tokens of devices, as records that two
//! relays can merge in any order. Codes and calls that wait stay where they are.

use std::collections::{BTreeMap, BTreeSet};

use domain::{Error, Timestamp};
use host::clock;
use prost::Message as _;
use rusqlite::{Connection, OptionalExtension as _, params};
use tunnel::keys;
use wire::obey::v1 as pb;

use super::{Store, failed};
use crate::limits;

const USER: &str = "user.";
const MACHINE: &str = "machine.";

impl Store {
    /// Returns all of it, by key.
    pub(crate) fn shared(&self) -> Result<BTreeMap<String, Vec<u8>>, Error> {
        read_shared(&self.locked()).map_err(|error| failed(&error))
    }

    /// Merges a record of another relay. Returns whether anything changed.
    pub(crate) fn take_shared(&self, key: &str, value: &[u8]) -> Result<bool, Error> {
        let unreadable = |_| Error::invalid(key, "is no record of this kind");
        if self.removed()?.contains(key) {
            return Ok(false);
        }
        let before = self.changes();
        if key.starts_with(USER) {
            let user = pb::ClusterUser::decode(value).map_err(unreadable)?;
            self.change(|db| take_user(db, &user).map_err(|error| failed(&error)))?;
        } else if key.starts_with(MACHINE) {
            let machine = pb::ClusterMachine::decode(value).map_err(unreadable)?;
            self.change(|db| take_machine(db, &machine).map_err(|error| failed(&error)))?;
        }
        Ok(self.changes() != before)
    }

    /// Removes what another relay has removed. Returns whether anything changed. The owner stays.
    pub(crate) fn remove_shared(&self, key: &str) -> Result<bool, Error> {
        let before = self.changes();
        if let Some(id) = key.strip_prefix(USER) {
            self.change(|db| remove_user_rows(db, id).map_err(|error| failed(&error)))?;
        } else if let Some(id) = key.strip_prefix(MACHINE) {
            self.remove_machine(id)?;
        }
        Ok(self.changes() != before)
    }

    /// Returns the keys of what was ever removed: it never comes back.
    pub(crate) fn removed(&self) -> Result<BTreeSet<String>, Error> {
        let db = self.locked();
        let read = || -> rusqlite::Result<BTreeSet<String>> {
            let mut statement = db.prepare("SELECT key FROM removed_records")?;
            let keys = statement.query_map([], |row| row.get(0))?;
            keys.collect()
        };
        read().map_err(|error| failed(&error))
    }

    /// Returns how many rows this connection has changed so far.
    fn changes(&self) -> i64 {
        let count = self.locked().query_row("SELECT total_changes()", [], |row| row.get(0));
        count.unwrap_or(0)
    }

    /// Notes a one-time code with which another relay joins.
    pub(crate) fn add_relay_code(&self, secret: &str) -> Result<Timestamp, Error> {
        let expires_at = clock::now().after(limits::CODE_LIFE);
        let db = self.locked();
        let done =
            db.execute("DELETE FROM relay_codes WHERE expires_at <= ?1", [clock::now().0]).and_then(|_| {
                let values = params![keys::hash(secret.as_bytes()), expires_at.0];
                db.execute("INSERT INTO relay_codes (secret_hash, expires_at) VALUES (?1, ?2)", values)
            });
        done.map(|_| expires_at).map_err(|error| failed(&error))
    }

    /// Uses up a code of another relay. Returns whether it was one.
    pub(crate) fn take_relay_code(&self, secret: &str) -> Result<bool, Error> {
        let values = params![keys::hash(secret.as_bytes()), clock::now().0];
        let sql = "DELETE FROM relay_codes WHERE secret_hash = ?1 AND expires_at > ?2";
        let taken = self.locked().execute(sql, values);
        taken.map(|count| count > 0).map_err(|error| failed(&error))
    }

    /// Keeps the owner of the cluster that this relay joins.
    pub(crate) fn add_owner(&self, id: &str, name: &str, token: &str) -> Result<(), Error> {
        let user = pb::ClusterUser {
            id: id.to_owned(),
            name: name.to_owned(),
            token_hash: keys::hash(token.as_bytes()),
            is_owner: true,
            created_at_micros: clock::now().0,
        };
        self.change(|db| take_user(db, &user).map_err(|error| failed(&error)))
    }
}

fn read_shared(db: &Connection) -> rusqlite::Result<BTreeMap<String, Vec<u8>>> {
    let mut records = BTreeMap::new();
    let mut statement = db.prepare("SELECT id, name, token_hash, is_owner, created_at FROM users")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let user = pb::ClusterUser {
            id: row.get(0)?,
            name: row.get(1)?,
            token_hash: row.get(2)?,
            is_owner: row.get(3)?,
            created_at_micros: row.get(4)?,
        };
        records.insert(format!("{USER}{}", user.id), user.encode_to_vec());
    }
    for machine in machines(db)?.into_values() {
        records.insert(format!("{MACHINE}{}", machine.id), machine.encode_to_vec());
    }
    Ok(records)
}

fn machines(db: &Connection) -> rusqlite::Result<BTreeMap<String, pb::ClusterMachine>> {
    let mut machines = BTreeMap::new();
    let mut statement = db.prepare(
        "SELECT id, name, user_id, generation, is_locked, seen_at, capabilities, created_at FROM machines",
    )?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let capabilities: String = row.get(6)?;
        let machine = pb::ClusterMachine {
            id: row.get(0)?,
            name: row.get(1)?,
            user_id: row.get(2)?,
            generation: row.get(3)?,
            is_locked: row.get(4)?,
            seen_at_micros: row.get::<_, Option<i64>>(5)?.unwrap_or(0),
            capabilities: capabilities.lines().map(str::to_owned).collect(),
            created_at_micros: row.get(7)?,
            ..Default::default()
        };
        machines.insert(machine.id.clone(), machine);
    }
    let mut statement = db.prepare(
        "SELECT machine_id, fingerprint, generation, not_after FROM certificates ORDER BY fingerprint",
    )?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        if let Some(machine) = machines.get_mut(&row.get::<_, String>(0)?) {
            machine.certificates.push(pb::ClusterCertificate {
                fingerprint: row.get(1)?,
                generation: row.get(2)?,
                not_after_micros: row.get(3)?,
            });
        }
    }
    let mut statement =
        db.prepare("SELECT machine_id, token_hash, label, created_at FROM reaches ORDER BY token_hash")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        if let Some(machine) = machines.get_mut(&row.get::<_, String>(0)?) {
            machine.reaches.push(pb::ClusterReach {
                token_hash: row.get(1)?,
                label: row.get(2)?,
                created_at_micros: row.get(3)?,
            });
        }
    }
    Ok(machines)
}

/// Removes a user who is not the owner, with the machines.
pub(super) fn remove_user_rows(db: &Connection, id: &str) -> rusqlite::Result<()> {
    db.execute(
        "INSERT OR IGNORE INTO removed_records (key) SELECT ?2 || id FROM machines WHERE user_id = ?1
         AND user_id NOT IN (SELECT id FROM users WHERE is_owner = 1)",
        params![id, MACHINE],
    )?;
    db.execute(
        "INSERT OR IGNORE INTO removed_records (key) SELECT ?2 || id FROM users WHERE id = ?1 AND is_owner = 0",
        params![id, USER],
    )?;
    db.execute("DELETE FROM users WHERE id = ?1 AND is_owner = 0", [id]).map(drop)
}

pub(super) fn remove_machine_rows(db: &Connection, id: &str) -> rusqlite::Result<()> {
    let key = format!("{MACHINE}{id}");
    db.execute("INSERT OR IGNORE INTO removed_records (key) VALUES (?1)", [key])?;
    db.execute("DELETE FROM machines WHERE id = ?1", [id]).map(drop)
}

fn take_user(db: &Connection, user: &pb::ClusterUser) -> rusqlite::Result<()> {
    // The same owner may have been noted at two relays; the older note wins at both.
    db.execute(
        "UPDATE users SET created_at = ?2 WHERE id = ?1 AND created_at > ?2",
        params![user.id, user.created_at_micros],
    )?;
    // Of two accounts with one name the one that was here first stays.
    db.execute(
        "INSERT OR IGNORE INTO users (id, name, token_hash, is_owner, created_at) VALUES (?1, ?2, ?3, ?4, ?5)",
        params![user.id, user.name, user.token_hash, user.is_owner, user.created_at_micros],
    )
    .map(drop)
}

fn take_machine(db: &Connection, machine: &pb::ClusterMachine) -> rusqlite::Result<()> {
    let seen = Some(machine.seen_at_micros).filter(|seen| *seen > 0);
    let capabilities = machine.capabilities.join("\n");
    let known: Option<i64> = db
        .query_row("SELECT coalesce(seen_at, 0) FROM machines WHERE id = ?1", [&machine.id], |row| row.get(0))
        .optional()?;
    match known {
        None => {
            db.execute(
                "INSERT OR IGNORE INTO machines (id, name, user_id, generation, is_locked, seen_at, capabilities, created_at)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
                params![
                    machine.id,
                    machine.name,
                    machine.user_id,
                    machine.generation,
                    machine.is_locked,
                    seen,
                    capabilities,
                    machine.created_at_micros
                ],
            )?;
        }
        Some(known) => {
            // What only grows is merged in any order.
            db.execute(
                "UPDATE machines SET generation = max(generation, ?2), is_locked = max(is_locked, ?3)
                 WHERE id = ?1 AND (generation < ?2 OR is_locked < ?3)",
                params![machine.id, machine.generation, machine.is_locked],
            )?;
            if machine.seen_at_micros > known {
                db.execute(
                    "UPDATE machines SET seen_at = ?2, capabilities = ?3 WHERE id = ?1",
                    params![machine.id, machine.seen_at_micros, capabilities],
                )?;
            }
        }
    }
    for certificate in &machine.certificates {
        db.execute(
            "INSERT OR IGNORE INTO certificates (fingerprint, machine_id, generation, not_after)
             SELECT ?1, id, ?3, ?4 FROM machines WHERE id = ?2",
            params![
                certificate.fingerprint,
                machine.id,
                certificate.generation,
                certificate.not_after_micros
            ],
        )?;
    }
    for reach in &machine.reaches {
        db.execute(
            "INSERT OR IGNORE INTO reaches (token_hash, machine_id, label, created_at)
             SELECT ?1, id, ?3, ?4 FROM machines WHERE id = ?2",
            params![reach.token_hash, machine.id, reach.label, reach.created_at_micros],
        )?;
    }
    Ok(())
}

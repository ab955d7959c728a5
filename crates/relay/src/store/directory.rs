//! What a relay knows of users, machines and certificates, in memory: every call asks it.

use std::collections::HashMap;
use std::sync::Arc;

use domain::Timestamp;
use rusqlite::Connection;
use tunnel::keys;

/// Somebody with an account at the relay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserRecord {
    pub id: String,
    pub name: String,
    /// Reaches every machine and administers the relay.
    pub is_owner: bool,
    pub created_at: Timestamp,
}

/// A machine that joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineRecord {
    pub id: String,
    pub name: String,
    pub user_id: String,
    /// Grows with every certificate that came into use.
    pub generation: i64,
    /// An older certificate was presented after a newer one: two have the identity.
    pub is_locked: bool,
    pub seen_at: Option<Timestamp>,
    pub capabilities: Vec<String>,
}

/// Everything that a call asks, by what it presents.
#[derive(Debug, Default)]
pub(crate) struct Directory {
    pub(crate) users: HashMap<String, Arc<UserRecord>>,
    pub(crate) machines: HashMap<String, Arc<MachineRecord>>,
    /// By the hash of the token.
    user_tokens: HashMap<String, String>,
    pub(super) reach_tokens: HashMap<String, String>,
    /// The machine and the generation of each certificate.
    certificates: HashMap<String, (String, i64)>,
}

/// Who calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Principal {
    User(Arc<UserRecord>),
    /// A device that may open sealed connections to this machine.
    Device {
        machine_id: String,
    },
}

impl Directory {
    pub(crate) fn by_token(&self, token: &str) -> Option<Principal> {
        let hash = keys::hash(token.as_bytes());
        if let Some(user) = self.user_tokens.get(&hash).and_then(|id| self.users.get(id)) {
            return Some(Principal::User(Arc::clone(user)));
        }
        self.reach_tokens.get(&hash).map(|machine_id| Principal::Device { machine_id: machine_id.clone() })
    }

    /// Returns the machine of a certificate, and the certificate's generation.
    pub(crate) fn by_certificate(&self, fingerprint: &str) -> Option<(Arc<MachineRecord>, i64)> {
        let (machine, generation) = self.certificates.get(fingerprint)?;
        Some((Arc::clone(self.machines.get(machine)?), *generation))
    }

    /// Returns a machine by its id or name, if the caller may reach it.
    pub(crate) fn machine(&self, principal: &Principal, named: &str) -> Option<Arc<MachineRecord>> {
        let found =
            self.machines.get(named).or_else(|| self.machines.values().find(|one| one.name == named))?;
        let may = match principal {
            Principal::User(user) => user.is_owner || user.id == found.user_id,
            Principal::Device { machine_id } => *machine_id == found.id,
        };
        may.then(|| Arc::clone(found))
    }
}

/// Reads all of it from the file.
pub(super) fn read_directory(db: &Connection) -> rusqlite::Result<Directory> {
    let mut directory = Directory::default();
    let mut statement = db.prepare("SELECT id, name, is_owner, created_at, token_hash FROM users")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let user = UserRecord {
            id: row.get(0)?,
            name: row.get(1)?,
            is_owner: row.get(2)?,
            created_at: Timestamp(row.get(3)?),
        };
        directory.user_tokens.insert(row.get(4)?, user.id.clone());
        directory.users.insert(user.id.clone(), Arc::new(user));
    }
    let mut statement =
        db.prepare("SELECT id, name, user_id, generation, is_locked, seen_at, capabilities FROM machines")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let capabilities: String = row.get(6)?;
        let machine = MachineRecord {
            id: row.get(0)?,
            name: row.get(1)?,
            user_id: row.get(2)?,
            generation: row.get(3)?,
            is_locked: row.get(4)?,
            seen_at: row.get::<_, Option<i64>>(5)?.map(Timestamp),
            capabilities: capabilities.lines().map(str::to_owned).collect(),
        };
        directory.machines.insert(machine.id.clone(), Arc::new(machine));
    }
    let mut statement = db.prepare("SELECT fingerprint, machine_id, generation FROM certificates")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        directory.certificates.insert(row.get(0)?, (row.get(1)?, row.get(2)?));
    }
    let mut statement = db.prepare("SELECT token_hash, machine_id FROM reaches")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        directory.reach_tokens.insert(row.get(0)?, row.get(1)?);
    }
    Ok(directory)
}

//! What a relay keeps: one SQLite file, and all of it but waiting calls in memory as a directory that every call asks.
//! Secrets are kept as hashes. Other processes (`obey relay code`) may write the same file.

mod audit;
mod calls;
mod directory;
mod shared;
mod traffic;

use std::fs::OpenOptions;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use domain::{Error, ErrorCode, Timestamp};
use host::clock;
use rusqlite::{Connection, OptionalExtension as _, params};
use tunnel::keys;

use crate::authority::MachineCertificate;
use crate::limits;
pub use audit::RelayAuditEntry;
pub(crate) use calls::{Kept, WaitingCall};
use directory::read_directory;
pub(crate) use directory::{Directory, Principal};
pub use directory::{MachineRecord, UserRecord};

const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS relay (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS users (
    id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, token_hash TEXT NOT NULL UNIQUE, is_owner INTEGER NOT NULL,
    created_at INTEGER NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS machines (
    id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, user_id TEXT NOT NULL REFERENCES users(id) ON DELETE CASCADE,
    generation INTEGER NOT NULL, is_locked INTEGER NOT NULL DEFAULT 0, seen_at INTEGER, capabilities TEXT NOT NULL DEFAULT '',
    created_at INTEGER NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS certificates (
    fingerprint TEXT PRIMARY KEY, machine_id TEXT NOT NULL REFERENCES machines(id) ON DELETE CASCADE,
    generation INTEGER NOT NULL, not_after INTEGER NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS codes (
    secret_hash TEXT PRIMARY KEY, user_id TEXT NOT NULL REFERENCES users(id) ON DELETE CASCADE,
    expires_at INTEGER NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS removed_records (key TEXT PRIMARY KEY) STRICT;
CREATE TABLE IF NOT EXISTS relay_codes (secret_hash TEXT PRIMARY KEY, expires_at INTEGER NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS reaches (
    token_hash TEXT PRIMARY KEY, machine_id TEXT NOT NULL REFERENCES machines(id) ON DELETE CASCADE,
    label TEXT NOT NULL, created_at INTEGER NOT NULL) STRICT;
DROP TABLE IF EXISTS waiting_calls;
CREATE TABLE IF NOT EXISTS buffered_calls (
    id INTEGER PRIMARY KEY AUTOINCREMENT, machine_id TEXT NOT NULL REFERENCES machines(id) ON DELETE CASCADE,
    delivery_id TEXT NOT NULL, priority INTEGER NOT NULL, path TEXT NOT NULL, head BLOB NOT NULL, body BLOB NOT NULL,
    user TEXT NOT NULL, expires_at INTEGER NOT NULL, UNIQUE (machine_id, delivery_id)) STRICT;
CREATE TABLE IF NOT EXISTS audit (
    id INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL, event TEXT NOT NULL, subject TEXT NOT NULL, detail TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS traffic (
    machine_id TEXT PRIMARY KEY REFERENCES machines(id) ON DELETE CASCADE, day INTEGER NOT NULL, bytes INTEGER NOT NULL) STRICT;
CREATE INDEX IF NOT EXISTS buffered_calls_in_order ON buffered_calls (machine_id, priority, id);
";

/// The file.
pub(crate) struct Store {
    connection: Mutex<Connection>,
    directory: RwLock<Arc<Directory>>,
    /// What the file's version was when it was read.
    version: Mutex<i64>,
}

impl Store {
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        // SQLite makes its other files as this one is.
        let private = OpenOptions::new().append(true).create(true).mode(0o600).open(path).and_then(|file| {
            let mut permissions = file.metadata()?.permissions();
            permissions.set_mode(0o600);
            file.set_permissions(permissions)
        });
        private
            .map_err(|error| Error::new(ErrorCode::StorageFailed, format!("{}: {error}", path.display())))?;
        let connection = Connection::open(path).map_err(|error| failed(&error))?;
        let prepared = connection
            .execute_batch("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON; PRAGMA busy_timeout=5000;")
            .and_then(|()| connection.execute_batch(SCHEMA));
        prepared.map_err(|error| failed(&error))?;
        let store =
            Self { connection: Mutex::new(connection), directory: RwLock::default(), version: Mutex::new(0) };
        store.reload()?;
        Ok(store)
    }

    pub(crate) fn directory(&self) -> Arc<Directory> {
        Arc::clone(&self.directory.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads the file again if another process changed it. Returns whether it did.
    pub(crate) fn refresh(&self) -> Result<bool, Error> {
        let version = self.file_version()?;
        if *self.version.lock().unwrap_or_else(PoisonError::into_inner) == version {
            return Ok(false);
        }
        self.reload()?;
        Ok(true)
    }

    fn file_version(&self) -> Result<i64, Error> {
        let version = self.locked().query_row("PRAGMA data_version", [], |row| row.get(0));
        version.map_err(|error| failed(&error))
    }

    fn reload(&self) -> Result<(), Error> {
        let version = self.file_version()?;
        let directory = read_directory(&self.locked()).map_err(|error| failed(&error))?;
        *self.directory.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(directory);
        *self.version.lock().unwrap_or_else(PoisonError::into_inner) = version;
        Ok(())
    }

    /// Changes the file, and then the directory.
    fn change<T>(&self, change: impl FnOnce(&Connection) -> Result<T, Error>) -> Result<T, Error> {
        let done = change(&self.locked())?;
        self.reload()?;
        Ok(done)
    }

    pub(crate) fn setting(&self, key: &str) -> Result<Option<String>, Error> {
        let found =
            self.locked().query_row("SELECT value FROM relay WHERE key = ?1", [key], |row| row.get(0));
        found.optional().map_err(|error| failed(&error))
    }

    pub(crate) fn set(&self, key: &str, value: &str) -> Result<(), Error> {
        self.change(|db| {
            db.execute("INSERT OR REPLACE INTO relay (key, value) VALUES (?1, ?2)", [key, value])
                .map(drop)
                .map_err(|error| failed(&error))
        })
    }

    /// Makes an account and returns its token, which is kept nowhere.
    pub(crate) fn add_user(&self, name: &str, is_owner: bool) -> Result<(UserRecord, String), Error> {
        check_name(name)?;
        let directory = self.directory();
        if directory.users.values().any(|user| user.name == name) {
            return Err(Error::invalid("name", format!("there is a user {name} already")));
        }
        if directory.users.len() >= limits::USERS_MAX {
            return Err(Error::new(ErrorCode::LimitReached, "this relay has no room for another user"));
        }
        let token = format!("obey-relay-{}", keys::secret()?);
        let user = UserRecord {
            id: format!("user_{}", host::ids::unique()),
            name: name.to_owned(),
            is_owner,
            created_at: clock::now(),
        };
        self.change(|db| {
            db.execute(
                "INSERT INTO users (id, name, token_hash, is_owner, created_at) VALUES (?1, ?2, ?3, ?4, ?5)",
                params![user.id, user.name, keys::hash(token.as_bytes()), user.is_owner, user.created_at.0],
            )
            .map_err(|error| failed(&error))
        })?;
        Ok((user, token))
    }

    /// Forgets an account with its machines.
    pub(crate) fn remove_user(&self, name: &str) -> Result<UserRecord, Error> {
        let found =
            self.directory().users.values().find(|user| user.name == name || user.id == name).cloned();
        let user = found
            .ok_or_else(|| Error::new(ErrorCode::ItemNotFound, format!("name: there is no user {name:?}")))?;
        if user.is_owner {
            return Err(Error::invalid("name", "the owner of the relay cannot be removed"));
        }
        self.change(|db| shared::remove_user_rows(db, &user.id).map_err(|error| failed(&error)))?;
        Ok(UserRecord::clone(&user))
    }

    /// Notes a one-time code of a user.
    pub(crate) fn add_code(&self, secret: &str, user_id: &str) -> Result<Timestamp, Error> {
        let (now, hash) = (clock::now(), keys::hash(secret.as_bytes()));
        let expires_at = now.after(limits::CODE_LIFE);
        self.change(|db| {
            let work = || -> rusqlite::Result<bool> {
                db.execute("DELETE FROM codes WHERE expires_at <= ?1", [now.0])?;
                let waiting: i64 = db.query_row("SELECT count(*) FROM codes", [], |row| row.get(0))?;
                if usize::try_from(waiting).unwrap_or(usize::MAX) >= limits::CODES_MAX {
                    return Ok(false);
                }
                db.execute(
                    "INSERT INTO codes (secret_hash, user_id, expires_at) VALUES (?1, ?2, ?3)",
                    params![hash, user_id, expires_at.0],
                )?;
                Ok(true)
            };
            match work().map_err(|error| failed(&error))? {
                true => Ok(expires_at),
                false => Err(Error::new(
                    ErrorCode::LimitReached,
                    "too many codes wait to be used; they end by themselves",
                )),
            }
        })
    }

    /// Whether a code would work now.
    pub(crate) fn has_code(&self, secret: &str) -> Result<bool, Error> {
        let found = self.locked().query_row(
            "SELECT 1 FROM codes WHERE secret_hash = ?1 AND expires_at > ?2",
            params![keys::hash(secret.as_bytes()), clock::now().0],
            |_| Ok(()),
        );
        found.optional().map(|found| found.is_some()).map_err(|error| failed(&error))
    }

    /// Uses up a code. Returns whose machine it makes; nothing for one that is wrong, used or expired.
    pub(crate) fn take_code(&self, secret: &str) -> Result<Option<String>, Error> {
        let (now, hash) = (clock::now(), keys::hash(secret.as_bytes()));
        self.change(|db| {
            let taken = db.query_row(
                "DELETE FROM codes WHERE secret_hash = ?1 AND expires_at > ?2 RETURNING user_id",
                params![hash, now.0],
                |row| row.get(0),
            );
            taken.optional().map_err(|error| failed(&error))
        })
    }

    pub(crate) fn add_machine(
        &self,
        id: &str,
        name: &str,
        user_id: &str,
        certificate: &MachineCertificate,
    ) -> Result<(), Error> {
        check_name(name)?;
        let directory = self.directory();
        if directory.machines.values().any(|machine| machine.name == name) {
            let message =
                format!("name: there is a machine {name} already; choose another one, or remove that one");
            return Err(Error::new(ErrorCode::RelayRefused, message));
        }
        let is_owner = directory.users.get(user_id).is_some_and(|user| user.is_owner);
        let of_user = directory.machines.values().filter(|machine| machine.user_id == user_id).count();
        if !is_owner && of_user >= limits::MACHINES_PER_USER_MAX {
            return Err(Error::new(ErrorCode::LimitReached, "this user has no room for another machine"));
        }
        if directory.machines.len() >= limits::MACHINES_MAX {
            return Err(Error::new(ErrorCode::LimitReached, "this relay has no room for another machine"));
        }
        self.change(|db| {
            db.execute(
                "INSERT INTO machines (id, name, user_id, generation, created_at) VALUES (?1, ?2, ?3, 1, ?4)",
                params![id, name, user_id, clock::now().0],
            )
            .and_then(|_| insert_certificate(db, id, 1, certificate))
            .map_err(|error| failed(&error))
        })
    }

    /// Notes the next certificate of a machine. Older ones than that which is in use are forgotten.
    pub(crate) fn add_certificate(
        &self,
        machine: &MachineRecord,
        certificate: &MachineCertificate,
    ) -> Result<(), Error> {
        self.change(|db| {
            insert_certificate(db, &machine.id, machine.generation + 1, certificate)
                .and_then(|()| drop_unused_certificates(db, machine))
                .map_err(|error| failed(&error))
        })
    }

    /// Whether a certificate is not known, or ended longer ago than this.
    pub(crate) fn is_too_late(&self, fingerprint: &str, most: std::time::Duration) -> Result<bool, Error> {
        let found: rusqlite::Result<i64> = self.locked().query_row(
            "SELECT not_after FROM certificates WHERE fingerprint = ?1",
            [fingerprint],
            |row| row.get(0),
        );
        let end = found.optional().map_err(|error| failed(&error))?;
        Ok(end.is_none_or(|end| clock::now() > Timestamp(end).after(most)))
    }

    /// Notes that a certificate came into use: those before it are worth nothing from now on.
    pub(crate) fn use_generation(&self, machine_id: &str, generation: i64) -> Result<(), Error> {
        self.change(|db| {
            db.execute(
                "UPDATE machines SET generation = ?2 WHERE id = ?1 AND generation < ?2",
                params![machine_id, generation],
            )
            .map(drop)
            .map_err(|error| failed(&error))
        })
    }

    pub(crate) fn lock_machine(&self, machine_id: &str) -> Result<(), Error> {
        self.change(|db| {
            db.execute("UPDATE machines SET is_locked = 1 WHERE id = ?1", [machine_id])
                .map(drop)
                .map_err(|error| failed(&error))
        })
    }

    pub(crate) fn remove_machine(&self, machine_id: &str) -> Result<(), Error> {
        self.change(|db| shared::remove_machine_rows(db, machine_id).map_err(|error| failed(&error)))
    }

    /// Notes when a machine was there, and what it can do.
    pub(crate) fn note_seen(&self, machine_id: &str, capabilities: &[String]) -> Result<(), Error> {
        let capabilities = capabilities.join("\n");
        self.change(|db| {
            db.execute(
                "UPDATE machines SET seen_at = ?2, capabilities = ?3 WHERE id = ?1",
                params![machine_id, clock::now().0, capabilities],
            )
            .map(drop)
            .map_err(|error| failed(&error))
        })
    }

    /// Makes a token with which a device reaches a machine.
    pub(crate) fn add_reach(&self, machine_id: &str, label: &str) -> Result<String, Error> {
        if label.len() > limits::NAME_MAX_BYTES {
            return Err(Error::invalid("label", "is longer than 64 bytes"));
        }
        let of_machine = self.directory().reach_tokens.values().filter(|of| *of == machine_id).count();
        if of_machine >= limits::REACHES_PER_MACHINE_MAX {
            let message =
                "this machine has no room for another device at the relay; remove it and join again";
            return Err(Error::new(ErrorCode::LimitReached, message));
        }
        if self.directory().reach_tokens.len() >= limits::REACHES_MAX {
            return Err(Error::new(ErrorCode::LimitReached, "this relay has no room for another device"));
        }
        let token = format!("obey-reach-{}", keys::secret()?);
        self.change(|db| {
            db.execute(
                "INSERT INTO reaches (token_hash, machine_id, label, created_at) VALUES (?1, ?2, ?3, ?4)",
                params![keys::hash(token.as_bytes()), machine_id, label, clock::now().0],
            )
            .map_err(|error| failed(&error))
        })?;
        Ok(token)
    }

    fn locked(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Forgets the oldest of the certificates that a machine was given and does not use.
fn drop_unused_certificates(db: &Connection, machine: &MachineRecord) -> rusqlite::Result<()> {
    db.execute(
        "DELETE FROM certificates WHERE machine_id = ?1 AND generation > ?2 AND rowid NOT IN
         (SELECT rowid FROM certificates WHERE machine_id = ?1 ORDER BY rowid DESC LIMIT ?3)",
        params![machine.id, machine.generation, limits::UNUSED_CERTIFICATES_MAX as i64],
    )
    .map(drop)
}

fn insert_certificate(
    db: &Connection,
    machine_id: &str,
    generation: i64,
    certificate: &MachineCertificate,
) -> rusqlite::Result<()> {
    let values = params![certificate.fingerprint, machine_id, generation, certificate.not_after.0];
    let sql =
        "INSERT INTO certificates (fingerprint, machine_id, generation, not_after) VALUES (?1, ?2, ?3, ?4)";
    db.execute(sql, values).map(drop)
}

/// Checks a name of a machine or a user.
pub(crate) fn check_name(name: &str) -> Result<(), Error> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    if name.is_empty() || name.len() > limits::NAME_MAX_BYTES || !name.bytes().all(is_plain) {
        let most = limits::NAME_MAX_BYTES;
        return Err(Error::invalid(
            "name",
            format!("takes letters, digits, `.`, `_` and `-`, 1 to {most} of them"),
        ));
    }
    if name.starts_with(host::machine::MACHINE_ID_PREFIX) {
        return Err(Error::invalid("name", "must not begin as ids do"));
    }
    Ok(())
}

fn failed(error: &rusqlite::Error) -> Error {
    Error::new(ErrorCode::StorageFailed, "the relay's file cannot be read or written")
        .with_detail(error.to_string())
}

#[cfg(test)]
mod tests;

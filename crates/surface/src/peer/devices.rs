//! The devices on other machines that may call: their names, their roles, and hashes of what they prove themselves with,
//! in one file that only the daemon writes. Read once, when the daemon starts. Knows no connection and no service.

pub(super) mod file;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::{Error, ErrorCode, Timestamp};
use host::clock;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;
use tokio::time;

use super::device_authority::{Certificate, DeviceAuthority};
use super::{Device, Role, limits, token};
use crate::server::folder;

/// What ids of devices begin with.
const ID_PREFIX: &str = "dev_";

/// What tokens of devices begin with, so that people and scanners know one when they see it.
const TOKEN_PREFIX: &str = "obey-device-";

/// The devices that are known.
pub struct Devices {
    path: PathBuf,
    /// Held while the file is written, so that callers never wait for the disk.
    writing: Mutex<()>,
    records: Mutex<Records>,
    changes: watch::Sender<()>,
}

#[derive(Default)]
struct Records {
    /// By name.
    all: Vec<DeviceRecord>,
    /// Whether a device was seen since the file was written.
    unsaved: bool,
}

/// A device as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceRecord {
    pub id: String,
    pub name: String,
    pub role: Role,
    proof: ProofHash,
    pub added_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// When it called last, and from which address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen_from: Option<IpAddr>,
}

/// What a device proves itself with, as SHA-256 in hexadecimal. A token is random, so that a slow hash would add nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ProofHash {
    Token(String),
    Certificate(String),
}

/// What a device is given to prove itself with. It is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProofKind {
    Token,
    Certificate,
}

/// The proof itself, for whoever added the device.
#[derive(Clone)]
pub enum Proof {
    Token(String),
    Certificate(Certificate),
}

/// What a caller presents.
#[derive(Clone, Copy)]
pub enum Credential<'a> {
    Token(&'a [u8]),
    /// The fingerprint of a certificate that our authority signed.
    Certificate(&'a str),
}

/// Why nobody is found for a credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoDevice {
    Unknown,
    Expired,
}

impl Devices {
    /// Reads the devices in a file; none where there is no file. One that others can change or that cannot be read is
    /// refused (OBEY-1014): nobody is let in by guess.
    pub fn load(path: PathBuf) -> Result<Self, Error> {
        let all = match file::read(&path) {
            Ok(all) => all,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => {
                let (path, problem) = (path.display(), folder::plain(&error));
                let message =
                    format!("the devices in {path} cannot be used: {problem}; remove the file to begin anew");
                return Err(Error::new(ErrorCode::ConfigInvalid, message));
            }
        };
        let records = Mutex::new(Records { all, unsaved: false });
        Ok(Self { path, writing: Mutex::default(), records, changes: watch::Sender::new(()) })
    }

    /// Makes a device known and returns what it proves itself with. Waits for the disk.
    pub fn add(
        &self,
        name: &str,
        role: Role,
        expires_at: Option<Timestamp>,
        kind: ProofKind,
    ) -> Result<(DeviceRecord, Proof), Error> {
        check_name(name)?;
        let now = clock::now();
        if expires_at.is_some_and(|end| end <= now) {
            return Err(Error::invalid("expires_at", "must be in the future"));
        }
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut next = self.locked().all.clone();
        if next.iter().any(|one| one.name == name) {
            let message =
                format!("name: there is a device {name} already; revoke it first: obey device revoke {name}");
            return Err(Error::new(ErrorCode::InvalidArgument, message));
        }
        if next.len() >= limits::DEVICES_MAX {
            let message = format!("there are {} devices already; revoke one first", next.len());
            return Err(Error::new(ErrorCode::LimitReached, message));
        }
        let (hash, proof) = self.prove(name, kind, expires_at)?;
        let random = token::random().map_err(|error| self.unwritable(&error))?;
        let record = DeviceRecord {
            id: format!("{ID_PREFIX}{}", &random[..limits::DEVICE_ID_DIGITS]),
            name: name.to_owned(),
            role,
            proof: hash,
            added_at: now,
            expires_at,
            seen_at: None,
            seen_from: None,
        };
        next.push(record.clone());
        next.sort_by(|one, other| one.name.cmp(&other.name));
        file::write(&self.path, &next).map_err(|error| self.unwritable(&error))?;
        self.locked().all = next;
        Ok((record, proof))
    }

    fn prove(
        &self,
        name: &str,
        kind: ProofKind,
        expires_at: Option<Timestamp>,
    ) -> Result<(ProofHash, Proof), Error> {
        match kind {
            ProofKind::Token => {
                let token =
                    format!("{TOKEN_PREFIX}{}", token::random().map_err(|error| self.unwritable(&error))?);
                Ok((ProofHash::Token(hash(token.as_bytes())), Proof::Token(token)))
            }
            ProofKind::Certificate => {
                let authority = DeviceAuthority::create_or_load(self.path.parent().unwrap_or(&self.path))?;
                let certificate = authority.certify(name, expires_at)?;
                Ok((ProofHash::Certificate(hash(&certificate.der)), Proof::Certificate(certificate)))
            }
        }
    }

    /// Returns all devices by name.
    pub fn list(&self) -> Vec<DeviceRecord> {
        self.locked().all.clone()
    }

    /// Forgets a device, by its name or id; whoever serves it is told. Waits for the disk.
    pub fn revoke(&self, device: &str) -> Result<DeviceRecord, Error> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut records = self.locked();
        let Some(at) = records.all.iter().position(|one| one.name == device || one.id == device) else {
            let message = format!("device: there is no device {device:?}; obey device list names them");
            return Err(Error::new(ErrorCode::ItemNotFound, message));
        };
        // Refused from here on, even if the disk fails: better one who must be added again than one who stays.
        let revoked = records.all.remove(at);
        let next = records.all.clone();
        drop(records);
        self.changes.send_replace(());
        file::write(&self.path, &next).map_err(|error| self.unwritable(&error))?;
        Ok(revoked)
    }

    /// Finds the device that has a credential, and notes that it was seen.
    pub fn identify(
        &self,
        credential: Credential<'_>,
        from: IpAddr,
        now: Timestamp,
    ) -> Result<(Device, String), NoDevice> {
        let claimed = match credential {
            Credential::Token(token) => hash(token),
            Credential::Certificate(fingerprint) => fingerprint.to_owned(),
        };
        let mut records = self.locked();
        let mut found = None;
        // All of them are compared, and each as a whole: how long that takes tells nothing.
        for (at, record) in records.all.iter().enumerate() {
            let kept = match (&record.proof, credential) {
                (ProofHash::Token(kept), Credential::Token(_)) => kept,
                (ProofHash::Certificate(kept), Credential::Certificate(_)) => kept,
                _ => continue,
            };
            if token::equal(kept.as_bytes(), claimed.as_bytes()) {
                found = Some(at);
            }
        }
        let record = found.and_then(|at| records.all.get_mut(at)).ok_or(NoDevice::Unknown)?;
        if record.is_expired(now) {
            return Err(NoDevice::Expired);
        }
        (record.seen_at, record.seen_from) = (Some(now), Some(from));
        let device = Device { name: record.name.clone(), role: record.role };
        let identity = (device, record.id.clone());
        records.unsaved = true;
        Ok(identity)
    }

    /// Waits until one of the devices that called is revoked or has expired.
    pub async fn ended(&self, mut used: watch::Receiver<BTreeSet<String>>) {
        let mut changes = self.changes.subscribe();
        loop {
            let Some(rest) = self.remaining(&used.borrow_and_update()) else { return };
            tokio::select! {
                // The sender lives as long as we do.
                changed = changes.changed() => if changed.is_err() { return },
                more = used.changed() => if more.is_err() { return },
                () = time::sleep(rest) => {}
            }
        }
    }

    /// Returns after how long these devices must be looked at again; nothing where one of them is over.
    fn remaining(&self, used: &BTreeSet<String>) -> Option<Duration> {
        let (records, now) = (self.locked(), clock::now());
        let mut rest = limits::DEVICE_EXPIRY_CHECK;
        for id in used {
            let record = records.all.iter().find(|one| one.id == *id)?;
            if record.is_expired(now) {
                return None;
            }
            rest = record.expires_at.map_or(rest, |end| rest.min(end.since(now)));
        }
        Some(rest)
    }

    /// Writes down which devices were seen, if any were. Waits for the disk.
    pub fn save_seen(&self) -> io::Result<()> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut records = self.locked();
        if !std::mem::take(&mut records.unsaved) {
            return Ok(());
        }
        let all = records.all.clone();
        drop(records);
        file::write(&self.path, &all)
    }

    fn locked(&self) -> MutexGuard<'_, Records> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unwritable(&self, error: &io::Error) -> Error {
        let message = format!("{} cannot be written: {}", self.path.display(), folder::plain(error));
        Error::new(ErrorCode::StorageFailed, message)
    }
}

impl DeviceRecord {
    /// Returns what it proves itself with.
    pub fn proof(&self) -> ProofKind {
        match self.proof {
            ProofHash::Token(_) => ProofKind::Token,
            ProofHash::Certificate(_) => ProofKind::Certificate,
        }
    }

    fn is_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|end| end <= now)
    }
}

impl ProofKind {
    /// Returns it as people write it.
    pub fn name(self) -> &'static str {
        match self {
            ProofKind::Token => "token",
            ProofKind::Certificate => "certificate",
        }
    }
}

fn check_name(name: &str) -> Result<(), Error> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    if name.is_empty() || name.len() > limits::DEVICE_NAME_MAX_BYTES || !name.bytes().all(is_plain) {
        let most = limits::DEVICE_NAME_MAX_BYTES;
        return Err(Error::invalid(
            "name",
            format!("takes letters, digits, `.`, `_` and `-`, 1 to {most} of them"),
        ));
    }
    if name.starts_with(ID_PREFIX) {
        return Err(Error::invalid("name", format!("must not begin with {ID_PREFIX}, as ids do")));
    }
    Ok(())
}

/// Returns SHA-256 in hexadecimal.
pub fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

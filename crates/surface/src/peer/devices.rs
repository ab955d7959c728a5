//! The devices on other machines that may call: their names, their roles, and hashes of what they prove themselves with,
//! in one file that only the daemon writes. Read once, when the daemon starts. Knows no connection and no service.

pub(super) mod file;
pub(super) mod keys;
mod pages;
mod renewal;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::{Error, ErrorCode, Timestamp};
use host::clock;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;
use tokio::time;

use super::device_authority::{Certificate, DeviceAuthority};
use super::{Device, DeviceKind, MayAnswer, Role, limits, token};
use crate::server::folder;

/// What ids of devices begin with.
const ID_PREFIX: &str = "dev_";

/// What tokens of devices begin with, so that people and scanners know one when they see it.
const TOKEN_PREFIX: &str = "obey-device-";

/// What keys of pages begin with.
const PAGE_PREFIX: &str = "obey-page-";

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
    /// Its key is kept on this machine, where agents may find it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_kept_here: bool,
    /// The user lets it answer requests nevertheless.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub may_answer_here: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// When its certificate ends, if it renews that itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate_ends_at: Option<Timestamp>,
    /// The certificate before, until the present one is used: the answer to a renewal may have been lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    former_certificate: Option<String>,
    /// When it called last, and from which address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen_from: Option<IpAddr>,
    /// What an API key may do; nothing else has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<keys::KeyGrant>,
}

/// What a device proves itself with, as SHA-256 in hexadecimal. A token is random, so that a slow hash would add nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ProofHash {
    Token(String),
    Certificate(String),
    /// The key of a page, which is a token that one page got for a code.
    Page(String),
    /// A key of roz.v1, which is no device: it has scopes, and no role.
    ApiKey(String),
}

/// What a device is given to prove itself with. It is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProofKind {
    Token,
    Certificate,
    Page,
    ApiKey,
}

/// The proof itself, for whoever added the device.
#[derive(Clone)]
pub enum Proof {
    Token(String),
    Certificate(Certificate),
}

/// Where the key of a device is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyPlace {
    Elsewhere,
    /// On this machine, where agents may find it.
    Here,
    /// On this machine, and the user lets it answer requests.
    HereAllowed,
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
        self.add_kept(name, role, expires_at, (kind, KeyPlace::Elsewhere))
    }

    fn add_kept(
        &self,
        name: &str,
        role: Role,
        expires_at: Option<Timestamp>,
        (kind, place): (ProofKind, KeyPlace),
    ) -> Result<(DeviceRecord, Proof), Error> {
        check_name(name)?;
        let now = clock::now();
        if expires_at.is_some_and(|end| end <= now) {
            return Err(Error::invalid("expires_at", "must be in the future"));
        }
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let next = self.with_room(name)?;
        let (hash, proof) = self.prove(name, kind, expires_at)?;
        let record = self.append(next, (name, role, expires_at), hash, (place, None))?;
        Ok((record, proof))
    }

    /// Makes a device known that keeps its own key, and signs its certificate. Waits for the disk.
    pub fn pair(
        &self,
        name: &str,
        role: Role,
        csr_pem: &str,
        place: KeyPlace,
    ) -> Result<(DeviceRecord, String), Error> {
        check_name(name)?;
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let next = self.with_room(name)?;
        let ends_at = clock::now().after(limits::DEVICE_CERTIFICATE_LIFE);
        let signed = self.authority()?.certify_request(name, csr_pem, ends_at)?;
        let hash = ProofHash::Certificate(hash(&signed.der));
        Ok((self.append(next, (name, role, None), hash, (place, Some(ends_at)))?, signed.pem))
    }

    /// Returns the devices there are, if another one of this name may be added.
    fn with_room(&self, name: &str) -> Result<Vec<DeviceRecord>, Error> {
        let next = self.locked().all.clone();
        if next.iter().any(|one| one.name == name && one.key.is_none()) {
            let message =
                format!("name: there is a device {name} already; revoke it first: obey device revoke {name}");
            return Err(Error::new(ErrorCode::InvalidArgument, message));
        }
        let count = next.iter().filter(|one| one.key.is_none()).count();
        if count >= limits::DEVICES_MAX {
            let message = format!("there are {count} devices already; revoke one first");
            return Err(Error::new(ErrorCode::LimitReached, message));
        }
        Ok(next)
    }

    fn append(
        &self,
        mut next: Vec<DeviceRecord>,
        (name, role, expires_at): (&str, Role, Option<Timestamp>),
        proof: ProofHash,
        (place, certificate_ends_at): (KeyPlace, Option<Timestamp>),
    ) -> Result<DeviceRecord, Error> {
        let random = token::random().map_err(|error| self.unwritable(&error))?;
        let record = DeviceRecord {
            id: format!("{ID_PREFIX}{}", &random[..limits::DEVICE_ID_DIGITS]),
            name: name.to_owned(),
            role,
            proof,
            added_at: clock::now(),
            is_kept_here: place != KeyPlace::Elsewhere,
            may_answer_here: place == KeyPlace::HereAllowed,
            expires_at,
            certificate_ends_at,
            former_certificate: None,
            seen_at: None,
            seen_from: None,
            key: None,
        };
        next.push(record.clone());
        next.sort_by(|one, other| one.name.cmp(&other.name));
        file::write(&self.path, &next).map_err(|error| self.unwritable(&error))?;
        self.locked().all = next;
        Ok(record)
    }

    /// Returns the daemon's folder, in which the file is.
    pub fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(&self.path)
    }

    /// Returns the authority that signs devices' certificates.
    pub fn authority(&self) -> Result<DeviceAuthority, Error> {
        DeviceAuthority::create_or_load(self.folder())
    }

    /// Waits until this device is revoked or has expired.
    pub async fn ended_one(&self, id: &str) {
        let (_sender, used) = watch::channel(BTreeSet::from([id.to_owned()]));
        self.ended(used).await;
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
            ProofKind::Page => {
                let key =
                    format!("{PAGE_PREFIX}{}", token::random().map_err(|error| self.unwritable(&error))?);
                Ok((ProofHash::Page(hash(key.as_bytes())), Proof::Token(key)))
            }
            ProofKind::ApiKey => Err(Error::invalid("proof", "is made with a key's scopes")),
            ProofKind::Certificate => {
                let certificate = self.authority()?.certify(name, expires_at)?;
                Ok((ProofHash::Certificate(hash(&certificate.der)), Proof::Certificate(certificate)))
            }
        }
    }

    /// Returns all devices by name, but for pages that have expired: they are of no use to anybody.
    pub fn list(&self) -> Vec<DeviceRecord> {
        let now = clock::now();
        let is_over = |one: &DeviceRecord| one.proof() == ProofKind::Page && one.is_expired(now);
        self.locked().all.iter().filter(|one| one.key.is_none() && !is_over(one)).cloned().collect()
    }

    /// Forgets a device, by its name or id; whoever serves it is told. Waits for the disk.
    pub fn revoke(&self, device: &str) -> Result<DeviceRecord, Error> {
        let is_meant = |one: &DeviceRecord| one.key.is_none() && (one.name == device || one.id == device);
        self.forget(is_meant)?.ok_or_else(|| {
            let message = format!("device: there is no device {device:?}; obey device list names them");
            Error::new(ErrorCode::ItemNotFound, message)
        })
    }

    /// Forgets the first record that is meant; whoever serves it is told. Waits for the disk.
    fn forget(&self, is_meant: impl Fn(&DeviceRecord) -> bool) -> Result<Option<DeviceRecord>, Error> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut records = self.locked();
        let Some(at) = records.all.iter().position(is_meant) else { return Ok(None) };
        // Refused from here on, even if the disk fails: better one who must be added again than one who stays.
        let revoked = records.all.remove(at);
        let next = records.all.clone();
        drop(records);
        self.changes.send_replace(());
        file::write(&self.path, &next).map_err(|error| self.unwritable(&error))?;
        Ok(Some(revoked))
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
                (ProofHash::Token(kept) | ProofHash::Page(kept), Credential::Token(_)) => kept,
                (ProofHash::Certificate(kept), Credential::Certificate(_)) => kept,
                _ => continue,
            };
            let former = record.former_certificate.as_deref().unwrap_or_default();
            if token::equal(kept.as_bytes(), claimed.as_bytes())
                || token::equal(former.as_bytes(), claimed.as_bytes())
            {
                found = Some(at);
            }
        }
        let record = found.and_then(|at| records.all.get_mut(at)).ok_or(NoDevice::Unknown)?;
        if record.is_expired(now) {
            return Err(NoDevice::Expired);
        }
        (record.seen_at, record.seen_from) = (Some(now), Some(from));
        record.renew_page(now);
        // The one before is worth nothing once the present one is used.
        let is_present = |kept: &String| token::equal(kept.as_bytes(), claimed.as_bytes());
        if matches!(&record.proof, ProofHash::Certificate(kept) if is_present(kept)) {
            record.former_certificate = None;
        }
        let kind = match record.proof {
            ProofHash::Page(_) => DeviceKind::Page,
            ProofHash::Token(_) | ProofHash::Certificate(_) => DeviceKind::Machine,
            // No credential of a device finds one.
            ProofHash::ApiKey(_) => return Err(NoDevice::Unknown),
        };
        let answers = match record.is_kept_here && !record.may_answer_here {
            true => MayAnswer::KeyIsKeptHere,
            false => MayAnswer::Yes,
        };
        let device = Device { name: record.name.clone(), role: record.role, kind, answers };
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
        let (mut records, now) = (self.locked(), clock::now());
        let mut rest = limits::DEVICE_EXPIRY_CHECK;
        for id in used {
            let record = records.all.iter_mut().find(|one| one.id == *id)?;
            if record.is_expired(now) {
                return None;
            }
            // A page that is open and only looks on is in use.
            record.renew_page(now);
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
            ProofHash::Page(_) => ProofKind::Page,
            ProofHash::ApiKey(_) => ProofKind::ApiKey,
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
            ProofKind::Page => "page",
            ProofKind::ApiKey => "key",
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

//! Keys with which programs call roz.v1, kept beside the devices: their scopes and hashes. A key is no device and never the
//! user; what its scopes allow is decided by `access`. Knows no connection and no service.

use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use domain::{Error, ErrorCode, Timestamp};
use host::{clock, ids};
use serde::{Deserialize, Serialize};
use wire::access::ApiScope;

use super::{DeviceRecord, Devices, NoDevice, ProofHash, file, hash, limits, token};
use crate::peer::{ApiKey, Role};

/// What keys begin with, as published clients expect.
const KEY_PREFIX: &str = "roz_sk_";

/// What an API key may do, as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct KeyGrant {
    /// Published names.
    scopes: Vec<String>,
    /// How the key begins.
    prefix: String,
}

/// An API key for people; not the key itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiKeyRecord {
    pub id: String,
    pub name: String,
    pub prefix: String,
    pub scopes: Vec<ApiScope>,
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    pub seen_at: Option<Timestamp>,
    pub seen_from: Option<IpAddr>,
}

/// Whether a credential says of itself that it is an API key.
pub(in crate::peer) fn is_api_key(claimed: &[u8]) -> bool {
    claimed.starts_with(KEY_PREFIX.as_bytes())
}

impl Devices {
    /// Makes a key and returns it. Only its hash is kept. Waits for the disk.
    pub fn create_key(
        &self,
        name: &str,
        scopes: &[ApiScope],
        expires_at: Option<Timestamp>,
    ) -> Result<(ApiKeyRecord, String), Error> {
        check_name(name)?;
        if scopes.is_empty() {
            return Err(Error::invalid(
                "scopes",
                format_args!("is required: some of {}", names(&ApiScope::ALL).join(", ")),
            ));
        }
        let now = clock::now();
        if expires_at.is_some_and(|end| end <= now) {
            return Err(Error::invalid("expires_at", "must be in the future"));
        }
        let mut scopes = scopes.to_vec();
        scopes.sort();
        scopes.dedup();
        let _writing = self.writing.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut next = self.locked().all.clone();
        let count = next.iter().filter(|one| one.key.is_some()).count();
        if count >= limits::API_KEYS_MAX {
            let message = format!("there are {count} keys already; revoke one first: obey key revoke");
            return Err(Error::new(ErrorCode::LimitReached, message));
        }
        let secret = token::random_bytes().map_err(|error| self.unwritable(&error))?;
        let full = format!("{KEY_PREFIX}{}", URL_SAFE_NO_PAD.encode(secret));
        let prefix: String = full.chars().take(limits::API_KEY_PREFIX_CHARS).collect();
        let record = DeviceRecord {
            id: ids::uuid(),
            name: name.to_owned(),
            // Without effect: nothing reads the role of a key.
            role: Role::Viewer,
            proof: ProofHash::ApiKey(hash(full.as_bytes())),
            added_at: now,
            is_kept_here: false,
            may_answer_here: false,
            expires_at,
            certificate_ends_at: None,
            former_certificate: None,
            seen_at: None,
            seen_from: None,
            key: Some(KeyGrant { scopes: names(&scopes), prefix }),
        };
        let shown = shown(&record).ok_or_else(|| Error::invalid("scopes", "cannot be read"))?;
        next.push(record);
        file::write(&self.path, &next).map_err(|error| self.unwritable(&error))?;
        self.locked().all = next;
        Ok((shown, full))
    }

    /// Returns all keys, oldest first.
    pub fn keys(&self) -> Vec<ApiKeyRecord> {
        let mut keys: Vec<ApiKeyRecord> = self.locked().all.iter().filter_map(shown).collect();
        keys.sort_by(|one, other| (one.created_at, &one.id).cmp(&(other.created_at, &other.id)));
        keys
    }

    /// Forgets a key, by its id or prefix, or by its name where no other key has it. Waits for the disk.
    pub fn revoke_key(&self, key: &str) -> Result<ApiKeyRecord, Error> {
        let id = self.find_key(key)?.id;
        let revoked = self.forget(|one| one.key.is_some() && one.id == id)?;
        revoked.as_ref().and_then(shown).ok_or_else(|| no_key(key))
    }

    /// Makes a new key with the name, the scopes and the end of another, which is forgotten. Waits for the disk.
    pub fn rotate_key(&self, key: &str) -> Result<(ApiKeyRecord, String), Error> {
        let old = self.revoke_key(key)?;
        self.create_key(&old.name, &old.scopes, old.expires_at)
    }

    fn find_key(&self, key: &str) -> Result<ApiKeyRecord, Error> {
        let mut keys = self.keys();
        if let Some(at) = keys.iter().position(|one| one.id == key || one.prefix == key) {
            return Ok(keys.swap_remove(at));
        }
        keys.retain(|one| one.name == key);
        match (keys.pop(), keys.len()) {
            (Some(one), 0) => Ok(one),
            (Some(_), more) => {
                let message = format!("{} keys have the name {key:?}; use an id: obey key list", more + 1);
                Err(Error::invalid("api_key", message))
            }
            (None, _) => Err(no_key(key)),
        }
    }

    /// Finds the key that a caller presents, and notes that it was seen. Scopes that this daemon does not know give nothing.
    pub fn identify_key(
        &self,
        claimed: &[u8],
        from: Option<IpAddr>,
        now: Timestamp,
    ) -> Result<(ApiKey, String), NoDevice> {
        let claimed = hash(claimed);
        let mut records = self.locked();
        let mut found = None;
        // All of them are compared, and each as a whole: how long that takes tells nothing.
        for (at, record) in records.all.iter().enumerate() {
            let ProofHash::ApiKey(kept) = &record.proof else { continue };
            if token::equal(kept.as_bytes(), claimed.as_bytes()) {
                found = Some(at);
            }
        }
        let record = found.and_then(|at| records.all.get_mut(at)).ok_or(NoDevice::Unknown)?;
        if record.is_expired(now) {
            return Err(NoDevice::Expired);
        }
        let key = shown(record).ok_or(NoDevice::Unknown)?;
        (record.seen_at, record.seen_from) = (Some(now), from);
        records.unsaved = true;
        Ok((ApiKey { name: key.name, scopes: key.scopes }, key.id))
    }
}

/// Returns a record as a key; none where it is a device.
fn shown(record: &DeviceRecord) -> Option<ApiKeyRecord> {
    let grant = record.key.as_ref()?;
    Some(ApiKeyRecord {
        id: record.id.clone(),
        name: record.name.clone(),
        prefix: grant.prefix.clone(),
        scopes: grant.scopes.iter().filter_map(|name| ApiScope::parse(name)).collect(),
        created_at: record.added_at,
        expires_at: record.expires_at,
        seen_at: record.seen_at,
        seen_from: record.seen_from,
    })
}

fn names(scopes: &[ApiScope]) -> Vec<String> {
    scopes.iter().map(|scope| scope.name().to_owned()).collect()
}

fn no_key(key: &str) -> Error {
    Error::new(ErrorCode::ItemNotFound, format!("api_key: there is no key {key:?}; obey key list names them"))
}

fn check_name(name: &str) -> Result<(), Error> {
    if name.trim().is_empty()
        || name.len() > limits::API_KEY_NAME_MAX_BYTES
        || name.chars().any(char::is_control)
    {
        let most = limits::API_KEY_NAME_MAX_BYTES;
        return Err(Error::invalid(
            "name",
            format_args!("takes 1 to {most} bytes without control characters"),
        ));
    }
    Ok(())
}

/// Reads the scopes of a request.
pub fn scopes(given: &[String]) -> Result<Vec<ApiScope>, Error> {
    let known = |name: &String| {
        ApiScope::parse(name).ok_or_else(|| {
            let all = names(&ApiScope::ALL).join(", ");
            Error::invalid("scopes", format_args!("{name:?} is no scope; use some of {all}"))
        })
    };
    given.iter().map(known).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::devices::Credential;

    #[test]
    fn keys_are_kept_as_hashes_found_once_and_gone_when_revoked() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("devices.json");
        let devices = Devices::load(path.clone()).unwrap();
        let (record, full) = devices.create_key("robot", &[ApiScope::ReadTasks], None).unwrap();
        assert!(full.starts_with("roz_sk_") && full.len() > 40 && full.starts_with(&record.prefix), "{full}");
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(!text.contains(&full[16..]), "the key itself is kept: {text}");
        let again = Devices::load(path).unwrap();
        let now = clock::now();
        let (key, id) = again.identify_key(full.as_bytes(), None, now).unwrap();
        assert_eq!((key.scopes.as_slice(), &id), ([ApiScope::ReadTasks].as_slice(), &record.id));
        assert_eq!(again.identify_key(&full.as_bytes()[..full.len() - 1], None, now), Err(NoDevice::Unknown));
        // It is no device, by any way to find one.
        let from = IpAddr::from([127, 0, 0, 1]);
        assert_eq!(
            again.identify(Credential::Token(full.as_bytes()), from, now).err(),
            Some(NoDevice::Unknown)
        );
        assert!(again.list().is_empty() && again.revoke("robot").is_err());
        let (rotated, new) = again.rotate_key("robot").unwrap();
        assert!(again.identify_key(full.as_bytes(), None, now).is_err() && rotated.scopes == record.scopes);
        again.revoke_key(&rotated.id).unwrap();
        assert!(again.identify_key(new.as_bytes(), None, now).is_err() && again.keys().is_empty());
    }

    #[test]
    fn bad_keys_are_refused_by_field() {
        let folder = tempfile::tempdir().unwrap();
        let devices = Devices::load(folder.path().join("devices.json")).unwrap();
        let refused = |name: &str, scopes: &[ApiScope], expires| {
            devices.create_key(name, scopes, expires).unwrap_err().message
        };
        assert!(refused("", &ApiScope::ALL, None).starts_with("name: "));
        assert!(refused("a", &[], None).starts_with("scopes: "));
        assert!(refused("a", &ApiScope::ALL, Some(Timestamp(1))).starts_with("expires_at: "));
        assert!(
            scopes(&["Everything".to_owned()]).unwrap_err().message.contains("\"Everything\" is no scope")
        );
        for _ in 0..2 {
            devices.create_key("twin", &ApiScope::ALL, None).unwrap();
        }
        assert!(devices.revoke_key("twin").unwrap_err().message.contains("2 keys have the name"));
    }
}

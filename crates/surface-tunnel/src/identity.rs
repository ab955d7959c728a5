//! The relay that a machine has joined, and its certificate for it: one file that only the daemon writes.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use domain::{Error, ErrorCode, Timestamp};
use serde::{Deserialize, Serialize};
use tunnel::pinned::TlsIdentity;

use crate::limits;

const FILE: &str = "relay.json";

/// Who this machine is at a relay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RelayIdentity {
    pub(crate) url: String,
    /// The key of the relay's authority.
    pub(crate) pin: String,
    pub(crate) machine_id: String,
    pub(crate) name: String,
    pub(crate) certificate_pem: String,
    pub(crate) key_pem: String,
    pub(crate) expires_at: Timestamp,
}

impl RelayIdentity {
    /// Reads the file; none where there is none. One that others can read is refused, never repaired.
    pub(crate) fn load(data_dir: &Path) -> Result<Option<Self>, Error> {
        let path = data_dir.join(FILE);
        match read(&path) {
            Ok(text) => serde_json::from_str(&text).map(Some).map_err(|error| unusable(&path, &error)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(unusable(&path, &error)),
        }
    }

    /// Keeps it in the place of an earlier one.
    pub(crate) fn save(&self, data_dir: &Path) -> Result<(), Error> {
        let (path, draft) = (data_dir.join(FILE), data_dir.join(format!("{FILE}.{}", std::process::id())));
        let write = || -> io::Result<()> {
            let mut file =
                fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
            file.write_all(&serde_json::to_vec_pretty(self)?)?;
            file.sync_all()?;
            fs::rename(&draft, &path)
        };
        write().map_err(|error| {
            Error::new(ErrorCode::StorageFailed, format!("{} cannot be written: {error}", path.display()))
        })
    }

    /// Forgets it.
    pub(crate) fn remove(data_dir: &Path) -> Result<(), Error> {
        let path: PathBuf = data_dir.join(FILE);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                let message = format!("{} cannot be removed: {error}", path.display());
                Err(Error::new(ErrorCode::StorageFailed, message))
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn tls(&self) -> TlsIdentity {
        TlsIdentity { certificate_pem: self.certificate_pem.clone(), key_pem: self.key_pem.clone() }
    }
}

fn read(path: &Path) -> io::Result<String> {
    let file = fs::File::open(path)?;
    if file.metadata()?.mode() & 0o077 != 0 {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "others can read it; chmod 600"));
    }
    let mut text = String::new();
    file.take(limits::IDENTITY_FILE_MAX_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

fn unusable(path: &Path, problem: &dyn std::fmt::Display) -> Error {
    let message = format!("{} cannot be used: {problem}; remove it and join the relay again", path.display());
    Error::new(ErrorCode::ConfigInvalid, message)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn an_identity_is_kept_for_its_owner_only() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(RelayIdentity::load(folder.path()).unwrap(), None);
        let identity = RelayIdentity {
            url: "https://r:1".to_owned(),
            pin: "p".to_owned(),
            machine_id: "mach_1".to_owned(),
            name: "box".to_owned(),
            certificate_pem: "c".to_owned(),
            key_pem: "k".to_owned(),
            expires_at: Timestamp(7),
        };
        identity.save(folder.path()).unwrap();
        assert_eq!(RelayIdentity::load(folder.path()).unwrap(), Some(identity));
        let path = folder.path().join(FILE);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(RelayIdentity::load(folder.path()).unwrap_err().code, ErrorCode::ConfigInvalid);
        RelayIdentity::remove(folder.path()).unwrap();
        RelayIdentity::remove(folder.path()).unwrap();
    }
}

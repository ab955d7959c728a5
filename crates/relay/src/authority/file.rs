//! The file of a relay's authority: one, so that an exchange is there as a whole or not at all. Knows no certificate.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use domain::{Error, ErrorCode, Timestamp};
use serde::{Deserialize, Serialize};

use crate::limits;

const FILE: &str = "authority.json";

/// Where relays kept the key before there was one file.
const KEY_FILE: &str = "ca.key";

/// All of an authority.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AuthorityFile {
    /// The name in its certificate.
    pub(super) name: String,
    pub(super) key_pem: String,
    pub(super) certificate_pem: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) former: Option<FormerAuthority>,
}

/// The authority before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FormerAuthority {
    pub(super) name: String,
    /// Nothing once the exchange is complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) key_pem: Option<String>,
    pub(super) certificate_pem: String,
    /// The present key, vouched for by the former one.
    pub(super) successor_pem: String,
    /// The former key, vouched for by the present one.
    pub(super) predecessor_pem: String,
    /// Says to those who know the former key which one is next.
    pub(super) announcement_pem: String,
    pub(super) since: Timestamp,
}

impl AuthorityFile {
    /// Reads it from a relay's folder. One that others can read is refused, never repaired.
    pub(super) fn read(folder: &Path, certificate: &Path) -> Result<Self, Error> {
        let path = folder.join(FILE);
        match private(&path) {
            Ok(text) => Self::parse(text.as_bytes()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let key_path = folder.join(KEY_FILE);
                let key_pem = private(&key_path).map_err(|error| unreadable(&key_path, &error))?;
                let certificate_pem =
                    fs::read_to_string(certificate).map_err(|error| unreadable(certificate, &error))?;
                Ok(Self { name: super::NAME.to_owned(), key_pem, certificate_pem, former: None })
            }
            Err(error) => Err(unreadable(&path, &error)),
        }
    }

    pub(super) fn parse(bytes: &[u8]) -> Result<Self, Error> {
        serde_json::from_slice(bytes).map_err(|error| {
            Error::new(ErrorCode::ConfigInvalid, "the relay's authority cannot be read")
                .with_detail(error.to_string())
        })
    }

    pub(super) fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        serde_json::to_vec_pretty(self).map_err(|error| {
            Error::new(ErrorCode::StorageFailed, "the relay's authority cannot be written")
                .with_detail(error.to_string())
        })
    }

    /// Keeps it in the place of an earlier one.
    pub(super) fn write(&self, folder: &Path) -> Result<(), Error> {
        let (path, draft) = (folder.join(FILE), folder.join(format!("{FILE}.{}", std::process::id())));
        let bytes = self.to_bytes()?;
        let write = || -> io::Result<()> {
            let mut file =
                fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
            file.write_all(&bytes)?;
            file.sync_all()?;
            fs::rename(&draft, &path)?;
            match fs::remove_file(folder.join(KEY_FILE)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            }
        };
        write().map_err(|error| unwritable(&path, &error))
    }
}

fn private(path: &Path) -> io::Result<String> {
    let file = fs::File::open(path)?;
    if file.metadata()?.mode() & 0o077 != 0 {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "others can read it; chmod 600"));
    }
    let mut text = String::new();
    file.take(limits::AUTHORITY_FILE_MAX_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

/// Writes a new file that nobody else can read.
pub(crate) fn write_private(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    file.and_then(|mut file| file.write_all(bytes)).map_err(|error| unwritable(path, &error))
}

fn unreadable(path: &Path, error: &io::Error) -> Error {
    let message = format!("{} cannot be read: {error}; make a relay first: obey relay init", path.display());
    Error::new(ErrorCode::ConfigInvalid, message)
}

pub(super) fn unwritable(path: &Path, error: &io::Error) -> Error {
    Error::new(ErrorCode::StorageFailed, format!("{} cannot be written: {error}", path.display()))
}

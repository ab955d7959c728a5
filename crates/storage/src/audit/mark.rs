//! The high-water mark: how far the audit had come, signed, in a file beside the database. Rows that it
//! counts and that are missing were removed. It also keeps the problems found at a start, so that later rows
//! do not cover them up.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use domain::Timestamp;
use serde::{Deserialize, Serialize};

use super::keys::{Keys, hex, is_signed, unhex};
use crate::limits;

pub(super) const MARK_FILE: &str = "audit.mark";
const DRAFT_FILE: &str = "audit.mark.new";

/// How far the audit had come.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Mark {
    pub(super) seq: i64,
    /// In hexadecimal.
    pub(super) mac: String,
    /// Problems found when a daemon started, oldest first.
    pub(super) breaches: Vec<Breach>,
    /// There is a file with the newest row. Marks of older versions do not say so, and are signed without it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) has_head_file: bool,
}

/// A problem that was found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Breach {
    pub(super) at: Timestamp,
    /// The row it was found at; 0 if none in particular.
    pub(super) seq: i64,
    pub(super) what: String,
}

#[derive(Serialize, Deserialize)]
struct Signed {
    mark: Mark,
    signature: String,
}

/// What was found in the mark's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Mark(Mark),
    Missing,
    /// It was not signed with this key.
    Forged,
}

impl Mark {
    /// Reads the mark and checks its signature.
    pub(super) fn read(folder: &Path, keys: &Keys) -> io::Result<Found> {
        let path = folder.join(MARK_FILE);
        let mut file = match OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW).open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Missing),
            Err(error) => return Err(error),
        };
        let mut text = Vec::new();
        (&mut file).take(limits::AUDIT_MARK_MAX_BYTES).read_to_end(&mut text)?;
        let Ok(Signed { mark, signature }) = serde_json::from_slice(&text) else { return Ok(Found::Forged) };
        let signed = unhex(&signature).is_some_and(|signed| is_signed(&keys.public(), &mark.text(), &signed));
        Ok(if signed { Found::Mark(mark) } else { Found::Forged })
    }

    /// Replaces the mark's file; it is on disk when this returns.
    pub(super) fn write(&self, folder: &Path, keys: &Keys) -> io::Result<()> {
        let signature = hex(&keys.sign(&self.text()));
        let text = serde_json::to_vec(&Signed { mark: self.clone(), signature })?;
        let draft = folder.join(DRAFT_FILE);
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
        file.write_all(&text)?;
        file.sync_data()?;
        std::fs::rename(&draft, folder.join(MARK_FILE))?;
        File::open(folder)?.sync_all()
    }

    /// Records a problem. The first ones are kept, since they tell most.
    pub(super) fn note(&mut self, seq: i64, what: String) {
        let known = self.breaches.iter().any(|breach| breach.seq == seq && breach.what == what);
        if !known && self.breaches.len() < limits::AUDIT_BREACHES_MAX {
            self.breaches.push(Breach { at: host::clock::now(), seq, what });
        }
    }

    fn text(&self) -> Vec<u8> {
        let mut text = b"obey audit mark 1\n".to_vec();
        text.extend(serde_json::to_vec(self).unwrap_or_default());
        text
    }
}

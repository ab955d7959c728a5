//! Which calls that waited at a relay have come already, in one file of lines. A relay delivers a call until it was answered, so
//! the same one may come twice; only the first is executed. Knows no call.

use std::collections::HashMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use domain::{Error, ErrorCode, Timestamp};
use host::clock;

use crate::limits;

const FILE: &str = "relay-deliveries";

/// The calls that have come.
pub(crate) struct Deliveries {
    path: PathBuf,
    /// When each one came; read from the file at the first use.
    known: Mutex<Option<HashMap<String, Timestamp>>>,
}

impl Deliveries {
    pub(crate) fn in_folder(data_dir: &Path) -> Self {
        Self { path: data_dir.join(FILE), known: Mutex::default() }
    }

    /// Notes a call, on disk. Returns false for one that has come before. Waits for the disk.
    pub(crate) fn note(&self, id: &str) -> Result<bool, Error> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let failed = |error: io::Error| {
            let message = format!("{} cannot be read or written: {error}", self.path.display());
            Error::new(ErrorCode::StorageFailed, message)
        };
        if id.len() > limits::DELIVERY_ID_MAX_BYTES || id.contains(['\n', ' ']) {
            return Err(Error::invalid("delivery_id", "is too long or has spaces"));
        }
        if known.is_none() {
            *known = Some(self.read().map_err(failed)?);
        }
        let Some(calls) = known.as_mut() else { return Ok(false) };
        if calls.contains_key(id) {
            return Ok(false);
        }
        let now = clock::now();
        let mut file =
            OpenOptions::new().append(true).create(true).mode(0o600).open(&self.path).map_err(failed)?;
        writeln!(file, "{id} {}", now.0).and_then(|()| file.sync_data()).map_err(failed)?;
        calls.insert(id.to_owned(), now);
        if calls.len() > limits::DELIVERIES_MAX {
            calls.retain(|_, came| now.since(*came) < limits::DELIVERY_KEPT);
            self.write(calls).map_err(failed)?;
        }
        Ok(true)
    }

    fn read(&self) -> io::Result<HashMap<String, Timestamp>> {
        let file = match fs::File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(HashMap::new()),
            Err(error) => return Err(error),
        };
        let mut text = String::new();
        file.take(limits::DELIVERIES_FILE_MAX_BYTES).read_to_string(&mut text)?;
        let now = clock::now();
        // A line that was cut off by a loss of power is that of a call that was not executed.
        let parse = |line: &str| {
            let (id, came) = line.split_once(' ')?;
            Some((id.to_owned(), Timestamp(came.parse().ok()?)))
        };
        let is_kept = |(_, came): &(String, Timestamp)| now.since(*came) < limits::DELIVERY_KEPT;
        Ok(text.lines().filter_map(parse).filter(is_kept).collect())
    }

    fn write(&self, calls: &HashMap<String, Timestamp>) -> io::Result<()> {
        let draft = self.path.with_extension("draft");
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
        for (id, came) in calls {
            writeln!(file, "{id} {}", came.0)?;
        }
        file.sync_all()?;
        fs::rename(&draft, &self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_new_once_also_for_the_next_daemon() {
        let folder = tempfile::tempdir().unwrap();
        let deliveries = Deliveries::in_folder(folder.path());
        assert!(deliveries.note("a").unwrap());
        assert!(!deliveries.note("a").unwrap());
        assert!(deliveries.note("b").unwrap());
        let next = Deliveries::in_folder(folder.path());
        assert!(!next.note("a").unwrap() && !next.note("b").unwrap());
        assert!(next.note("c").unwrap());
        assert!(next.note("c d").is_err());
    }
}

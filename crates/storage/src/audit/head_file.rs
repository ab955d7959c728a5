//! The newest row, in a file beside the database that is written with every commit and never synced: it survives the death of
//! the daemon, not that of the machine. Rows that were cut off between the last mark and a `kill -9` are missed by it. After
//! the machine went down it says nothing: the kernel may have kept this file and lost the last rows.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;

use super::chain::Head;
use super::keys::{Keys, hex, unhex};

pub(super) const HEAD_FILE: &str = "audit.head";

/// Every record is this long, so that a new one replaces all of the one before.
const RECORD_BYTES: usize = 256;

/// What names the time since the machine was started. Without it, as on other systems, nothing is compared.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// What was found in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FoundHead {
    /// The newest row that was committed since the machine was started.
    Row {
        seq: i64,
        mac: Vec<u8>,
    },
    /// It says nothing: it is of an earlier start of the machine, or there is no row.
    Nothing,
    Missing,
    /// It was not written with this key.
    Forged,
}

/// The file, open for writing.
#[derive(Debug)]
pub(super) struct HeadFile {
    file: File,
    boot: String,
}

impl HeadFile {
    /// Opens the file, and makes it if it is absent.
    pub(super) fn open(folder: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600).custom_flags(libc::O_NOFOLLOW);
        Ok(Self { file: options.open(folder.join(HEAD_FILE))?, boot: boot_id() })
    }

    /// Replaces the record. Takes some microseconds: nothing is synced.
    pub(super) fn write(&self, keys: &Keys, head: &Head) -> io::Result<()> {
        let seal = keys.seal_head(&self.boot, head.seq, &head.mac);
        let text = format!("{} {} {} {}", head.seq, hex(&head.mac), self.boot, hex(&seal));
        self.file.write_all_at(format!("{text:<width$}\n", width = RECORD_BYTES - 1).as_bytes(), 0)
    }
}

/// Reads the record and checks its seal.
pub(super) fn read(folder: &Path, keys: &Keys) -> io::Result<FoundHead> {
    let path = folder.join(HEAD_FILE);
    let file = match OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(FoundHead::Missing),
        Err(error) => return Err(error),
    };
    let mut text = String::new();
    // One that is no text was not written by us.
    let _ = file.take(RECORD_BYTES as u64).read_to_string(&mut text);
    Ok(judge(&text, &boot_id(), keys).unwrap_or(FoundHead::Forged))
}

fn judge(text: &str, boot: &str, keys: &Keys) -> Option<FoundHead> {
    let mut fields = text.trim_end().split(' ');
    let (seq, mac) = (fields.next()?.parse::<i64>().ok()?, unhex(fields.next()?)?);
    let (written, seal) = (fields.next()?, unhex(fields.next()?)?);
    if keys.seal_head(written, seq, &mac) != seal {
        return None;
    }
    let is_known = !boot.is_empty() && written == boot && seq > 0;
    Some(if is_known { FoundHead::Row { seq, mac } } else { FoundHead::Nothing })
}

fn boot_id() -> String {
    std::fs::read_to_string(BOOT_ID).unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_back_and_a_changed_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let keys = Keys::create(folder.path()).unwrap();
        assert_eq!(read(folder.path(), &keys).unwrap(), FoundHead::Missing);
        let file = HeadFile::open(folder.path()).unwrap();
        for seq in [1_000_000, 7] {
            let head = Head { seq, hash: Vec::new(), mac: vec![1; 32] };
            file.write(&keys, &head).unwrap();
            let expected = FoundHead::Row { seq, mac: vec![1; 32] };
            assert_eq!(read(folder.path(), &keys).unwrap(), expected);
        }
        let path = folder.path().join(HEAD_FILE);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, text.replacen('7', "6", 1)).unwrap();
        assert_eq!(read(folder.path(), &keys).unwrap(), FoundHead::Forged);
        assert_eq!(judge(&text, "another start", &keys), Some(FoundHead::Nothing));
    }
}

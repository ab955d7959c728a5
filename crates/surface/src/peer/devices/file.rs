//! The file of devices: how it is read and written. Knows nothing of what is in it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use super::{DeviceRecord, limits};

pub(super) fn read(path: &Path) -> io::Result<Vec<DeviceRecord>> {
    let refused = |problem: String| io::Error::new(io::ErrorKind::InvalidData, problem);
    let text = private(path, limits::DEVICES_FILE_MAX_BYTES)?;
    serde_json::from_str(&text).map_err(|error| refused(format!("it holds no devices: {error}")))
}

/// Reads a file that nobody else can use.
pub(in crate::peer) fn private(path: &Path, max_bytes: u64) -> io::Result<String> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let found = file.metadata()?;
    if !found.is_file() || found.uid() != host::own_uid() || found.mode() & 0o077 != 0 {
        let problem = "it must be a file of yours that nobody else can use";
        return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
    }
    let mut text = String::new();
    file.take(max_bytes).read_to_string(&mut text)?;
    Ok(text)
}

pub(super) fn write(path: &Path, records: &[DeviceRecord]) -> io::Result<()> {
    write_private(path, &serde_json::to_vec_pretty(records)?)
}

/// Writes beside and renames: whoever reads it sees all of it or what was there before, also after a loss of power.
pub(in crate::peer) fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let draft = path.with_added_extension("new");
    // Left by a daemon that died; nobody else can write here.
    let _absent = fs::remove_file(&draft);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&draft, path)?;
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

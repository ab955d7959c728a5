//! A configuration file of another program: read whole, replaced in one step, and only if it was not written
//! meanwhile.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use domain::ErrorCode;

use crate::limits;
use config::failure::{Failure, Result};
use config::paths::PRIVATE_FILE;

/// A file as it was read; a missing file counts as empty.
#[derive(Debug)]
pub(super) struct ConfigFile {
    path: PathBuf,
    text: String,
    exists: bool,
}

impl ConfigFile {
    /// Reads a file; a missing one is empty. Links are resolved, so that the target is replaced.
    pub(super) fn read(path: &Path) -> Result<Self> {
        // Such files are often links to another location; the link stays.
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        if path.is_symlink() {
            return Err(Failure::failed(format!("{} is a link that leads nowhere", path.display())));
        }
        let (text, exists) = match read(&path)? {
            Some(text) => (text, true),
            None => (String::new(), false),
        };
        Ok(Self { path, text, exists })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn exists(&self) -> bool {
        self.exists
    }

    /// Replaces the file. Returns false, and changes nothing, if another process has written it since.
    pub(super) fn replace(&self, text: &str, private: bool) -> Result<bool> {
        let failed =
            |error: io::Error| Failure::failed(format!("{} cannot be written: {error}", self.path.display()));
        let folder = self.path.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(folder).map_err(failed)?;
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let draft = folder.join(format!(".{name}.{}.obey", std::process::id()));
        let written = self.draft(&draft, text, private).and_then(|()| {
            if self.is_as_it_was()? { fs::rename(&draft, &self.path).map(|()| true) } else { Ok(false) }
        });
        if !matches!(written, Ok(true)) {
            // It may not exist; only the first error matters.
            let _ = fs::remove_file(&draft);
        }
        written.map_err(failed)
    }

    /// Writes the new text to a draft with the mode of the existing file.
    fn draft(&self, draft: &Path, text: &str, private: bool) -> io::Result<()> {
        let mode = match fs::metadata(&self.path) {
            Ok(there) => there.permissions().mode() & 0o7777,
            Err(_) if private => PRIVATE_FILE,
            Err(_) => 0o644,
        };
        // A crash may have left a draft of ours.
        match fs::remove_file(draft) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(PRIVATE_FILE).open(draft)?;
        file.write_all(text.as_bytes())?;
        file.set_permissions(fs::Permissions::from_mode(mode))?;
        file.sync_all()
    }

    fn is_as_it_was(&self) -> io::Result<bool> {
        match fs::read(&self.path) {
            Ok(bytes) => Ok(self.exists && bytes == self.text.as_bytes()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(!self.exists),
            Err(error) => Err(error),
        }
    }
}

/// Reads a regular file; `None` if it does not exist.
fn read(path: &Path) -> Result<Option<String>> {
    let failed = |error: io::Error| Failure::failed(format!("{} cannot be read: {error}", path.display()));
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(Failure::failed(format!("{} is no file", path.display())));
    }
    let mut bytes = Vec::new();
    file.take(limits::CLIENT_CONFIG_MAX_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > limits::CLIENT_CONFIG_MAX_BYTES {
        return Err(Failure::failed(format!("{} is too large to be settings", path.display())));
    }
    String::from_utf8(bytes).map(Some).map_err(|_| {
        let message = format!("{} is not UTF-8; nothing was changed", path.display());
        Failure::coded(ErrorCode::ConfigInvalid, message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_keeps_its_mode_and_its_link() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real.json"), folder.path().join("link.json"));
        fs::write(&real, "{}").unwrap();
        fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let file = ConfigFile::read(&link).unwrap();
        assert!(file.replace("{\"a\": 1}", true).unwrap());
        assert!(link.is_symlink());
        assert_eq!(fs::read_to_string(&link).unwrap(), "{\"a\": 1}");
        assert_eq!(fs::metadata(&real).unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "the draft is gone");
    }

    #[test]
    fn what_somebody_else_wrote_meanwhile_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sub/a.json");
        let absent = ConfigFile::read(&path).unwrap();
        fs::create_dir(folder.path().join("sub")).unwrap();
        fs::write(&path, "theirs").unwrap();
        assert!(!absent.replace("ours", true).unwrap());
        let there = ConfigFile::read(&path).unwrap();
        fs::write(&path, "newer").unwrap();
        assert!(!there.replace("ours", true).unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), "newer");
    }

    #[test]
    fn what_is_no_file_or_leads_nowhere_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        assert!(ConfigFile::read(folder.path()).unwrap_err().message.contains("is no file"));
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(folder.path().join("gone"), &link).unwrap();
        assert!(ConfigFile::read(&link).unwrap_err().message.contains("leads nowhere"));
        fs::write(folder.path().join("b"), b"\xff").unwrap();
        assert!(ConfigFile::read(&folder.path().join("b")).unwrap_err().message.contains("UTF-8"));
    }
}

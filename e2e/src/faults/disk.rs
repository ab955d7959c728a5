//! A disk that fills up: a small file system under the daemon's data, filled to the last page again and again while
//! agents work and clients send. Agents pause and go on; what was accepted is kept, what was refused leaves no trace.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

/// A file system of a few megabytes. Unmounted when dropped.
pub struct SmallDisk {
    root: PathBuf,
}

/// The file that takes the room.
const FILLER: &str = "filler";

/// The least the file system gives to a file.
pub const PAGE: u64 = 4096;

impl SmallDisk {
    /// Mounts one over an empty folder. `None`: that is not permitted here, which is said where people look.
    pub fn mount(folder: &Path, megabytes: u32) -> Result<Option<SmallDisk>> {
        fs::remove_dir_all(folder).or_else(|error| match error.kind() {
            std::io::ErrorKind::NotFound => Ok(()),
            _ => Err(error),
        })?;
        fs::create_dir(folder)?;
        let options = format!("size={megabytes}m,mode=0700");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(folder).output()?;
        if !mounted.status.success() {
            crate::tools::announce_skip("mounting a small file system is not permitted here");
            return Ok(None);
        }
        Ok(Some(SmallDisk { root: folder.to_owned() }))
    }

    /// Takes all room but this many pages.
    pub fn fill(&self, pages_left: u64) -> Result<()> {
        let path = self.root.join(FILLER);
        let mut file = File::options().append(true).create(true).open(&path)?;
        let page = vec![b'x'; PAGE as usize];
        while file.write_all(&page).is_ok() {}
        // Whole pages only: the last write may have been cut short.
        let taken = file.metadata()?.len() / PAGE;
        file.set_len(taken.saturating_sub(pages_left) * PAGE).context("giving back some pages")
    }

    /// Gives the room back.
    pub fn free(&self) -> Result<()> {
        fs::remove_file(self.root.join(FILLER)).context("removing the filler")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily, because somebody may still have a file open there.
        let _ = Command::new("umount").arg("-l").arg(&self.root).status();
    }
}

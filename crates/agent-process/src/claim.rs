//! Cleans up a directory that a dead daemon left. Its shim may be alive, dead, or not started yet. Taking the
//! lock tells the first case from the others, and prevents a late shim from ever starting its agent. Must not
//! be used for a directory in which this daemon itself is about to start an agent.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use shim::LOCK_NAME;
use shim::record::Meta;
use shim::spool::{read_meta, segment_number};
use tokio::time::{self, Instant};

use super::{run_limits, scan};
use host::limits::{KILL_TREE_INTERVAL, KILL_TREE_TIMEOUT};
use host::process_tree as tree;

/// A directory that no shim holds, nor can take while this value exists.
#[derive(Debug)]
pub struct Claim {
    dir: PathBuf,
    /// Never read: closing it releases the lock.
    _lock: File,
}

impl Claim {
    /// Takes the lock of `dir`; `None` if a living shim has it.
    pub fn take(dir: &Path) -> io::Result<Option<Claim>> {
        let lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(dir.join(LOCK_NAME))?;
        match lock.try_lock() {
            Ok(()) => Ok(Some(Claim { dir: dir.to_owned(), _lock: lock })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Kills the shim that holds `dir` and waits until the lock is free. Returns whether there was one. Only
    /// for a shim that is no longer needed: how its agent ended will not be known.
    pub async fn end_holder(dir: &Path) -> io::Result<bool> {
        let deadline = Instant::now() + KILL_TREE_TIMEOUT;
        let mut was_held = false;
        while scan::is_held(dir)? {
            was_held = true;
            if Instant::now() >= deadline {
                return Err(io::ErrorKind::TimedOut.into());
            }
            scan::kill_holder(dir);
            time::sleep(KILL_TREE_INTERVAL).await;
        }
        Ok(was_held)
    }

    /// Kills the shim that holds `dir` and everything its agent started. Their output stays.
    pub async fn end_holder_and_tree(dir: &Path) -> io::Result<()> {
        Self::end_holder(dir).await?;
        match Self::take(dir)? {
            Some(claim) => claim.kill_left_behind().await,
            None => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    /// Returns the agent that ran here; `None` if none was ever started.
    pub fn meta(&self) -> Option<Meta> {
        let names = fs::read_dir(&self.dir).ok()?.flatten();
        let first = names.filter_map(|entry| segment_number(&entry.file_name())).min()?;
        read_meta(&self.dir, first).unwrap_or_default()
    }

    /// Kills what the agent left running and removes the directory. A late shim then finds no directory, or
    /// one in which nothing can be created.
    pub async fn clear(self) -> io::Result<()> {
        self.kill_left_behind().await?;
        run_limits::remove_group(&self.dir).await;
        match fs::remove_dir_all(&self.dir) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    async fn kill_left_behind(&self) -> io::Result<()> {
        run_limits::kill_group(&self.dir).await;
        let left = tree::kill_tree(self.meta().as_ref(), &tree::mark_of(&self.dir)?).await?;
        if left > 0 {
            tracing::warn!(left, dir = %self.dir.display(), "processes of an agent resist being killed");
        }
        Ok(())
    }
}

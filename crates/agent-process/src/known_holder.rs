//! Shims as the daemon knows them, and those that were killed. What an agent started outlives a killed shim, and then has
//! nothing above it that tells it from the user's processes but its age. Must not know sessions.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use shim::proc_table;
use shim::spool::{read_meta, segment_number};

/// The shim of a running agent; none while none runs.
#[derive(Debug, Default)]
pub struct KnownHolder {
    pid: AtomicU32,
    /// The kernel's start time.
    start_ticks: AtomicU64,
}

impl KnownHolder {
    pub fn set(&self, pid: Option<u32>) {
        let found = pid.and_then(|pid| proc_table::find(i32::try_from(pid).ok()?));
        self.start_ticks.store(found.map_or(0, |shim| shim.start_ticks), Ordering::Relaxed);
        self.pid.store(pid.unwrap_or(0), Ordering::Release);
    }

    /// Returns whether it is this process.
    pub fn is(&self, pid: u32) -> bool {
        pid != 0 && self.pid.load(Ordering::Acquire) == pid
    }

    /// Returns the start time of a shim that is gone, although its agent has not ended as far as is known here.
    pub fn lost_since(&self) -> Option<u64> {
        let pid = i32::try_from(self.pid.load(Ordering::Acquire)).ok().filter(|pid| *pid != 0)?;
        let start_ticks = self.start_ticks.load(Ordering::Relaxed);
        let is_there =
            proc_table::find(pid).is_some_and(|now| now.start_ticks == start_ticks && !now.is_zombie);
        (!is_there).then_some(start_ticks)
    }
}

/// No shim was killed since the machine started.
const NONE: u64 = u64::MAX;

/// When the oldest agent started whose shim was killed since the machine started. On disk, because what the agent
/// started outlives the daemon, too.
#[derive(Debug)]
pub struct KilledHolders {
    file: PathBuf,
    since: AtomicU64,
}

impl KilledHolders {
    /// Reads what an earlier daemon wrote.
    pub fn load(agents_dir: &Path) -> Self {
        // Beside the folder, in which only agents have something.
        let file = agents_dir.with_file_name("killed-shims");
        let since = fs::read_to_string(&file).ok().and_then(|text| {
            let (boot, ticks) = text.trim().split_once(' ')?;
            ticks.parse().ok().filter(|_| boot == this_boot())
        });
        Self { file, since: AtomicU64::new(since.unwrap_or(NONE)) }
    }

    /// Notes that the shim of the agent in a folder was killed.
    pub fn note(&self, dir: &Path) {
        let Some(ticks) = agent_start(dir) else { return };
        if self.since.fetch_min(ticks, Ordering::AcqRel) <= ticks {
            return;
        }
        let text = format!("{} {ticks}\n", this_boot());
        let written = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(&self.file)
            .and_then(|mut file| file.write_all(text.as_bytes()));
        if let Err(error) = written {
            tracing::warn!(%error, file = %self.file.display(), "the next daemon will not know of a killed shim");
        }
    }

    /// Returns the start time of the oldest agent whose shim was killed.
    pub fn since(&self) -> Option<u64> {
        Some(self.since.load(Ordering::Acquire)).filter(|ticks| *ticks != NONE)
    }
}

/// Returns the kernel's start time of the agent of a run, if it started since the machine did.
fn agent_start(dir: &Path) -> Option<u64> {
    let first =
        fs::read_dir(dir).ok()?.flatten().filter_map(|entry| segment_number(&entry.file_name())).min()?;
    let meta = read_meta(dir, first).ok()??;
    (meta.boot_id == proc_table::boot_id()).then_some(meta.start_ticks)
}

fn this_boot() -> String {
    proc_table::boot_id().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shim_that_is_gone_is_lost_until_its_agent_has_ended() {
        let holder = KnownHolder::default();
        assert_eq!(holder.lost_since(), None);
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        holder.set(Some(child.id()));
        assert!(holder.is(child.id()) && !holder.is(0));
        assert_eq!(holder.lost_since(), None);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(holder.lost_since().is_some_and(|ticks| ticks > 0));
        holder.set(None);
        assert_eq!(holder.lost_since(), None);
    }

    #[test]
    fn what_another_boot_wrote_does_not_count() {
        let folder = tempfile::tempdir().unwrap();
        let (agents, file) = (folder.path().join("agents"), folder.path().join("killed-shims"));
        assert_eq!(KilledHolders::load(&agents).since(), None);
        fs::write(&file, format!("{} 42\n", this_boot())).unwrap();
        assert_eq!(KilledHolders::load(&agents).since(), Some(42));
        fs::write(&file, "00000000000000000000000000000000 42\n").unwrap();
        assert_eq!(KilledHolders::load(&agents).since(), None);
        fs::write(&file, "nonsense").unwrap();
        assert_eq!(KilledHolders::load(&agents).since(), None);
    }
}

//! The machine itself: what it is called, what it has, and the id under which others know this daemon. Knows no relay.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// The file that keeps the id and the name, in the daemon's data folder: two lines.
const IDENTITY_FILE: &str = "machine";

/// What ids of machines begin with.
pub const MACHINE_ID_PREFIX: &str = "mach_";

/// Who this daemon is among other machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineIdentity {
    pub id: String,
    pub name: String,
}

impl MachineIdentity {
    /// Reads the identity in a data folder, or makes one that stays.
    pub fn load_or_create(data_dir: &Path) -> io::Result<Self> {
        let path = data_dir.join(IDENTITY_FILE);
        match fs::read_to_string(&path) {
            Ok(text) => {
                let mut lines = text.lines().map(str::to_owned);
                if let (Some(id), Some(name)) = (lines.next(), lines.next())
                    && id.starts_with(MACHINE_ID_PREFIX)
                {
                    return Ok(Self { id, name });
                }
                Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    format!("{} holds no machine id; remove it to get a new one", path.display()),
                ))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let made = Self { id: new_machine_id(), name: hostname() };
                made.save(data_dir)?;
                Ok(made)
            }
            Err(error) => Err(error),
        }
    }

    /// Keeps the identity in a data folder, in the place of an earlier one.
    pub fn save(&self, data_dir: &Path) -> io::Result<()> {
        let draft = data_dir.join(format!("{IDENTITY_FILE}.{}", std::process::id()));
        let mut file =
            fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
        writeln!(file, "{}\n{}", self.id, self.name)?;
        file.sync_all()?;
        fs::rename(&draft, data_dir.join(IDENTITY_FILE))
    }
}

/// Returns a new machine id.
pub fn new_machine_id() -> String {
    format!("{MACHINE_ID_PREFIX}{}", crate::ids::unique())
}

/// Returns the machine's name in its network; `machine` where it has none.
#[allow(unsafe_code)]
pub fn hostname() -> String {
    let mut buffer = [0_u8; 256];
    // SAFETY: the buffer is writable and its length is given; the kernel writes no more than that.
    let result = unsafe { libc::gethostname(buffer.as_mut_ptr().cast(), buffer.len()) };
    let name = buffer.split(|byte| *byte == 0).next().unwrap_or_default();
    match std::str::from_utf8(name) {
        Ok(name) if result == 0 && !name.is_empty() => name.to_owned(),
        _ => "machine".to_owned(),
    }
}

/// Returns the id that the system gave this machine; empty where it has none.
pub fn system_id() -> String {
    let text =
        fs::read_to_string("/etc/machine-id").or_else(|_| fs::read_to_string("/var/lib/dbus/machine-id"));
    text.map(|text| text.trim().to_owned()).unwrap_or_default()
}

pub fn cpu_cores() -> u32 {
    std::thread::available_parallelism().map_or(1, |cores| u32::try_from(cores.get()).unwrap_or(u32::MAX))
}

/// Returns the machine's memory; 0 where the system does not say.
pub fn memory_bytes() -> u64 {
    meminfo("MemTotal:")
}

/// Returns how much of the machine's memory is in use; 0 where the system does not say.
pub fn memory_used_bytes() -> u64 {
    meminfo("MemTotal:").saturating_sub(meminfo("MemAvailable:"))
}

fn meminfo(key: &str) -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kilobytes =
        text.lines().find_map(|line| line.strip_prefix(key)?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kilobytes.unwrap_or(0).saturating_mul(1024)
}

/// Returns the room that is left on the disk of a folder; 0 where it cannot be asked.
pub fn disk_free_bytes(folder: &Path) -> u64 {
    rustix::fs::statvfs(folder).map_or(0, |found| found.f_bavail.saturating_mul(found.f_frsize))
}

/// How busy the processors were between two looks.
#[derive(Debug, Default)]
pub struct CpuMeter {
    /// Ticks in which they worked, and all of them.
    last: (u64, u64),
}

impl CpuMeter {
    /// Returns the share in percent since the last call; 0 the first time, and where the system does not say.
    pub fn percent(&mut self) -> f32 {
        let text = fs::read_to_string("/proc/stat").unwrap_or_default();
        let line = text.lines().next().unwrap_or_default();
        let ticks: Vec<u64> = line.split_whitespace().skip(1).filter_map(|word| word.parse().ok()).collect();
        let all: u64 = ticks.iter().take(8).sum();
        let idle = ticks.get(3).copied().unwrap_or(0) + ticks.get(4).copied().unwrap_or(0);
        let now = (all.saturating_sub(idle), all);
        let before = std::mem::replace(&mut self.last, now);
        let (busy, total) = (now.0.saturating_sub(before.0), now.1.saturating_sub(before.1));
        if before.1 == 0 || total == 0 {
            return 0.0;
        }
        busy as f32 * 100.0 / total as f32
    }
}

/// Lets this process open as many files as it may: each session and each connection needs some, and the usual soft limit of
/// 1,024 is too low.
pub fn raise_file_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        limit.current = limit.maximum;
        if let Err(error) = setrlimit(Resource::Nofile, limit) {
            tracing::warn!(%error, "cannot raise the limit of open files");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_made_once_and_kept() {
        let folder = tempfile::tempdir().unwrap();
        let made = MachineIdentity::load_or_create(folder.path()).unwrap();
        assert!(made.id.starts_with("mach_") && !made.name.is_empty());
        assert_eq!(MachineIdentity::load_or_create(folder.path()).unwrap(), made);
        let other = MachineIdentity { id: "mach_X".to_owned(), name: "box".to_owned() };
        other.save(folder.path()).unwrap();
        assert_eq!(MachineIdentity::load_or_create(folder.path()).unwrap(), other);
        fs::write(folder.path().join(IDENTITY_FILE), "nonsense\n").unwrap();
        assert!(MachineIdentity::load_or_create(folder.path()).is_err());
    }
}

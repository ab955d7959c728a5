//! How a run of an agent is limited, kept in the folder of the run: so that its control group is found again by the next
//! daemon, and goes when the run does. Must not decide what is limited.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use sandbox::session_group::RunLimits;

/// The file in the folder of a run.
const FILE_NAME: &str = "limits.json";

/// Keeps how a run is limited.
pub fn store(dir: &Path, limits: &RunLimits) -> io::Result<()> {
    let (file, next) = (dir.join(FILE_NAME), dir.join(format!("{FILE_NAME}.new")));
    let mut options = OpenOptions::new();
    let mut written = options.write(true).create(true).truncate(true).mode(0o600).open(&next)?;
    written.write_all(&serde_json::to_vec(limits)?)?;
    std::fs::rename(next, file)
}

/// Returns how the run in a folder is limited, if that was ever kept there.
pub fn load(dir: &Path) -> Option<RunLimits> {
    serde_json::from_slice(&std::fs::read(dir.join(FILE_NAME)).ok()?).ok()
}

/// Kills everything in the group of a run.
pub(super) async fn kill_group(dir: &Path) {
    if let Some(group) = load(dir).and_then(|limits| limits.group) {
        // What resists was logged.
        group.kill().await;
    }
}

/// Kills everything in the group of a run and removes the group. To be called before the run's folder is removed.
pub async fn remove_group(dir: &Path) {
    if let Some(group) = load(dir).and_then(|limits| limits.group) {
        group.remove().await;
    }
}

/// Returns what the shim is told about a run's limits.
pub(super) fn shim_words(limits: &RunLimits) -> Vec<OsString> {
    let mut words: Vec<OsString> = Vec::new();
    if let Some(group) = &limits.group {
        if let Some(folder) = group.unified_folder() {
            words.extend(["--group-folder".into(), folder.as_os_str().to_owned()]);
        }
        for file in group.thread_files() {
            words.extend(["--group-threads".into(), file.into_os_string()]);
        }
    }
    let own = &limits.per_process;
    let cpus = own.cpu_millis.map(|millis| millis.div_ceil(1_000));
    for (flag, amount) in
        [("--data-max", own.memory_bytes), ("--processes-max", own.processes), ("--cpus-max", cpus)]
    {
        if let Some(amount) = amount {
            words.extend([flag.into(), amount.to_string().into()]);
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use domain::ResourceLimits;
    use sandbox::session_group::{GroupHome, NAME_PREFIX};

    use super::*;

    #[test]
    fn a_group_is_known_by_its_name_to_whoever_makes_it_and_to_whoever_meets_it() {
        assert_eq!(NAME_PREFIX, shim::group_name::PREFIX);
    }

    #[test]
    fn how_a_run_is_limited_is_read_back() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(load(dir.path()), None);
        let most = ResourceLimits { memory_bytes: Some(4 << 30), cpu_millis: Some(1_500), processes: None };
        let limits = GroupHome::default().limit("sess_1.1", most).unwrap();
        store(dir.path(), &limits).unwrap();
        assert_eq!(load(dir.path()), Some(limits.clone()));
        let words = shim_words(&limits);
        assert_eq!(words, ["--data-max", "4294967296", "--cpus-max", "2"]);
    }
}

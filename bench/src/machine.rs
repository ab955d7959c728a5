//! The machine behind the measurements: its other load, and the cost of processes. Reads /proc.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

/// Runs this program again, so that the measuring process can begin a session of its own, and ends with its status.
pub(crate) fn rerun(mark: &str) -> Result<()> {
    let status =
        Command::new(std::env::current_exe()?).args(std::env::args_os().skip(1)).env(mark, "1").status()?;
    std::process::exit(status.code().unwrap_or(1));
}

/// Gives this process and all its children priority over other work: all sides are then measured as if there were little of it.
/// Not the real-time class: there, a thread that wakes up does not preempt another, and kernels may refuse to put such a process
/// into a control group. Without the permission it still measures, and prints a note.
pub(crate) fn go_first() {
    // Whoever started it was interrupted: this process is in no terminal's group.
    let follows = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM));
    let alone = follows.and_then(|()| rustix::process::setsid());
    // The scheduler weighs sessions first, and processes within them.
    let weighed = alone.is_ok() && fs::write("/proc/self/autogroup", "-17").is_ok();
    if rustix::process::nice(-15).is_err() || !weighed {
        println!("without priority (root is needed): other work will be in the figures");
    }
}

/// Load and pressure in one line.
pub(crate) fn pressure() -> String {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load: Vec<&str> = load.split(' ').take(4).collect();
    let steal = Steal::now();
    std::thread::sleep(Duration::from_millis(200));
    format!("load {} · busy {:.0} % · steal {:.1} %", load.join(" "), steal.busy(), steal.percent())
}

/// A snapshot of the processors' accounting.
pub(crate) struct Steal {
    fields: Vec<u64>,
}

impl Steal {
    pub(crate) fn now() -> Self {
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        let first = stat.lines().next().unwrap_or_default();
        Self { fields: first.split_whitespace().skip(1).filter_map(|word| word.parse().ok()).collect() }
    }

    /// The share of time since then that the host took away.
    pub(crate) fn percent(&self) -> f64 {
        self.share(|fields| fields.get(7).copied().unwrap_or(0))
    }

    /// The share of time since then that was not idle.
    fn busy(&self) -> f64 {
        100.0 - self.share(|fields| fields.get(3).copied().unwrap_or(0) + fields.get(4).copied().unwrap_or(0))
    }

    fn share(&self, of: impl Fn(&[u64]) -> u64) -> f64 {
        let now = Self::now();
        let total = now.fields.iter().sum::<u64>().saturating_sub(self.fields.iter().sum());
        let part = of(&now.fields).saturating_sub(of(&self.fields));
        100.0 * part as f64 / total.max(1) as f64
    }
}

/// A field of `/proc/PID/status`, in KiB or as it is.
pub(crate) fn status(pid: u32, field: &str) -> Result<u64> {
    of_lines(&format!("/proc/{pid}/status"), field)
}

/// A field of `/proc/PID/smaps_rollup`, in KiB.
pub(crate) fn smaps(pid: u32, field: &str) -> Result<u64> {
    of_lines(&format!("/proc/{pid}/smaps_rollup"), field)
}

fn of_lines(path: &str, field: &str) -> Result<u64> {
    let text = fs::read_to_string(path).with_context(|| path.to_owned())?;
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    let word = line.and_then(|rest| rest.split_whitespace().next()).with_context(|| field.to_owned())?;
    Ok(word.parse()?)
}

/// Resets the peak memory of a process, so that its next peak can be measured.
pub(crate) fn reset_peak(pid: u32) -> Result<()> {
    Ok(fs::write(format!("/proc/{pid}/clear_refs"), "5")?)
}

/// Processor time a process has used.
pub(crate) fn cpu(pid: u32) -> Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let rest = stat.rsplit_once(')').context("stat")?.1;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>()? + fields[12].parse::<u64>()?;
    // USER_HZ is 100 on every Linux.
    Ok(Duration::from_millis(ticks * 10))
}

/// The voluntary context switches of each thread of a process: one for every wake-up.
pub(crate) struct Wakeups {
    threads: BTreeMap<PathBuf, u64>,
}

impl Wakeups {
    pub(crate) fn of(pid: u32) -> Result<Self> {
        let mut threads = BTreeMap::new();
        for task in fs::read_dir(format!("/proc/{pid}/task"))? {
            let path = task?.path().join("status");
            // A thread that is just ending is skipped.
            if let Ok(count) = of_lines(&path.display().to_string(), "voluntary_ctxt_switches") {
                threads.insert(path, count);
            }
        }
        Ok(Self { threads })
    }

    /// The number since an earlier snapshot, in threads that still exist.
    pub(crate) fn since(&self, before: &Self) -> u64 {
        let grown =
            |(path, count): (&PathBuf, &u64)| count - before.threads.get(path).unwrap_or(&0).min(count);
        self.threads.iter().map(grown).sum()
    }
}

/// The parent of a process.
pub(crate) fn parent(pid: u32) -> Result<u32> {
    Ok(u32::try_from(status(pid, "PPid")?)?)
}

/// Open files of a process whose path contains `part`.
pub(crate) fn open_files(pid: u32, part: &str) -> usize {
    let Ok(files) = fs::read_dir(format!("/proc/{pid}/fd")) else { return 0 };
    let has_part = |path: std::path::PathBuf| path.to_str().is_some_and(|path| path.contains(part));
    files.flatten().filter(|file| fs::read_link(file.path()).is_ok_and(has_part)).count()
}

/// Kills a process with SIGKILL.
pub(crate) fn kill(pid: u32) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw) {
        // An error means that it has already ended.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
}

/// Kills a process and everything in its group with SIGKILL.
pub(crate) fn kill_group(pid: u32) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw) {
        // An error means that it has already ended.
        let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
    }
}

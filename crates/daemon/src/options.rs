//! What the daemon is started with, and how it tells the starting process that it is ready. Knows no command line.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use config::file::listen::Address;
use config::file::{self, Config, WorkerSettings};
use config::ready::ready_line;
use runtime::settings::SettingsSources;
use runtime::workers::WorkerLimits;
use surface_web::machines::OtherMachines;

use crate::inherited::Inherited;

/// Everything the daemon needs to start.
#[derive(Debug)]
pub struct ServeOptions {
    /// The configuration with file, environment and flags applied. The fields below are derived from it.
    pub config: Config,
    /// Absolute.
    pub socket: PathBuf,
    pub listen: Vec<Address>,
    /// Absolute.
    pub tls: file::listen::Tls,
    /// Absolute.
    pub data_dir: PathBuf,
    /// The folder of the configuration file, which also holds the user's rules and policies.
    pub config_dir: PathBuf,
    /// Settings of conversations.
    pub settings: SettingsSources,
    pub ready: Announcer,
    /// The flags to start another daemon like this one.
    pub flags: Vec<OsString>,
    /// What a service manager passed.
    pub inherited: Inherited,
    /// The machines that the page shows beside this one.
    pub machines: Machines,
}

/// The machines that this one's user paired it with. Whoever keeps them knows how they are reached; the daemon does not.
#[derive(Clone)]
pub struct Machines(pub Arc<dyn OtherMachines>);

impl std::fmt::Debug for Machines {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Machines")
    }
}

impl ServeOptions {
    /// Returns how many workers there may be, and for how long.
    pub(crate) fn worker_limits(&self) -> WorkerLimits {
        worker_limits(&self.config.workers)
    }
}

fn worker_limits(settings: &WorkerSettings) -> WorkerLimits {
    let minutes = u64::from(settings.timeout_minutes);
    WorkerLimits {
        at_once: settings.at_once as usize,
        timeout: (minutes > 0).then(|| Duration::from_secs(minutes * 60)),
        for_agents: settings.for_agents,
    }
}

/// Detaches from the terminal, so that closing it or Ctrl-C in it does not end the daemon.
pub fn leave_terminal() {
    // Fails only for a group leader, which already has its own session or was put there on purpose.
    let _already_leader = rustix::process::setsid();
}

/// Keeps other processes of this user, agents among them, from reading this one's environment and memory, which have keys, and
/// from attaching a debugger to it. There are no core dumps either. Root can read everything all the same.
pub fn hide_memory() {
    #[cfg(target_os = "linux")]
    use rustix::process::{DumpableBehavior, set_dumpable_behavior};
    #[cfg(target_os = "linux")]
    if let Err(error) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        tracing::warn!(%error, "other processes of this user can read the daemon's environment");
    }
}

/// Announces to the starting process that the daemon is ready.
#[derive(Debug)]
pub struct Announcer {
    pub background: bool,
}

impl Announcer {
    /// Prints `ready socket=… listen=…` on standard output. In the background standard output then becomes the log,
    /// because the pipe behind it ends with the command that started us.
    pub fn announce(self, socket: &Path, listen: &[String]) -> io::Result<()> {
        let mut stdout = io::stdout().lock();
        let told = writeln!(stdout, "{}", ready_line(socket, listen)).and_then(|()| stdout.flush());
        if !self.background {
            return told;
        }
        // The starting command may have given up; the daemon is ready nevertheless.
        let _nobody_waits = told;
        rustix::stdio::dup2_stdout(rustix::stdio::stderr()).map_err(io::Error::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_have_the_time_that_the_configuration_gives_them() {
        let of = |timeout_minutes| {
            worker_limits(&WorkerSettings { timeout_minutes, ..WorkerSettings::default() }).timeout
        };
        assert_eq!(of(0), None);
        assert_eq!(of(1), Some(Duration::from_secs(60)));
    }
}

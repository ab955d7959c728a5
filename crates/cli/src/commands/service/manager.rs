//! The two service managers of a user, systemd and launchd, called through their own programs. Knows the
//! service's names and not its files; a manager that does not answer counts as absent, not as an error.

use std::path::{Path, PathBuf};

use crate::limits;
use crate::programs::{self, ProgramOutput};
use cli_args::ServiceManager;
use config::failure::{Failure, Result};
use config::paths;
use config::vars::Vars;

/// The units of systemd; the socket is first, because the service needs it.
pub(super) const UNITS: [&str; 2] = ["obey.socket", "obey.service"];

/// The name of the service in launchd.
pub(super) const LABEL: &str = "dev.obey.daemon";

/// A manager that answered.
#[derive(Clone, Debug)]
pub(crate) struct RunningManager {
    kind: ServiceManager,
    program: PathBuf,
}

/// Returns the manager of this system.
pub(crate) fn native() -> ServiceManager {
    if cfg!(target_os = "macos") { ServiceManager::Launchd } else { ServiceManager::Systemd }
}

impl RunningManager {
    /// Finds a manager that answers.
    pub(crate) async fn find(kind: ServiceManager, vars: &Vars) -> Option<Self> {
        let (name, question): (_, &[&str]) = match kind {
            ServiceManager::Systemd => ("systemctl", &["--user", "show", "--property=Version", "--value"]),
            ServiceManager::Launchd => ("launchctl", &["managername"]),
        };
        let program = vars.find_program(name)?;
        let said = programs::ask(&program, question, limits::MANAGER_WAIT).await.ok()?;
        said.status.success().then_some(Self { kind, program })
    }

    pub(crate) fn kind(&self) -> ServiceManager {
        self.kind
    }

    /// Returns the process of the service, if the manager runs it.
    pub(crate) async fn main_pid(&self) -> Option<i32> {
        let pid = match self.kind {
            ServiceManager::Systemd => {
                self.ask(&["show", "obey.service", "--property=MainPID", "--value"]).await?.out.parse().ok()
            }
            ServiceManager::Launchd => {
                let said = self.ask(&["print", &self.target()]).await?;
                said.out.lines().find_map(|line| line.trim().strip_prefix("pid = ")?.parse().ok())
            }
        };
        pid.filter(|pid| *pid > 0)
    }

    /// Restarts the service; returns once it is started.
    pub(crate) async fn restart(&self) -> Result<()> {
        match self.kind {
            ServiceManager::Systemd => self.work(&["restart", "obey.service"]).await,
            ServiceManager::Launchd => self.work(&["kickstart", "-k", &self.target()]).await,
        }
    }

    /// Loads new or changed files, and enables the service for every login.
    pub(super) async fn enable(&self) -> Result<()> {
        match self.kind {
            ServiceManager::Systemd => {
                self.work(&["daemon-reload"]).await?;
                self.work(&["enable", UNITS[0], UNITS[1]]).await
            }
            // Files in the folder are started at every login.
            ServiceManager::Launchd => Ok(()),
        }
    }

    /// Starts the service.
    pub(super) async fn start(&self, files: &[PathBuf]) -> Result<()> {
        match self.kind {
            ServiceManager::Systemd => self.work(&["start", UNITS[0], UNITS[1]]).await,
            ServiceManager::Launchd => {
                let file = files.first().map(|file| file.to_string_lossy()).unwrap_or_default();
                self.work(&["bootstrap", &domain(), &file]).await
            }
        }
    }

    /// Stops and disables the service. It need not exist.
    pub(super) async fn disable(&self) {
        match self.kind {
            ServiceManager::Systemd => self.ask_long(&["disable", "--now", UNITS[0], UNITS[1]]).await,
            ServiceManager::Launchd => self.ask_long(&["bootout", &self.target()]).await,
        };
    }

    /// Notices removed files.
    pub(super) async fn reload(&self) {
        if self.kind == ServiceManager::Systemd {
            self.ask_long(&["daemon-reload"]).await;
        }
    }

    /// Returns the manager's state of a unit, such as `enabled` or `inactive`.
    pub(super) async fn says(&self, question: &str, unit: &str) -> String {
        let said = match self.kind {
            ServiceManager::Systemd => self.ask(&[question, unit]).await.map(|said| said.out),
            ServiceManager::Launchd => {
                let loaded = self.ask(&["print", &self.target()]).await;
                loaded.map(|said| if said.status.success() { "loaded" } else { "not loaded" }.to_owned())
            }
        };
        said.filter(|word| !word.is_empty()).unwrap_or_else(|| "unknown".to_owned())
    }

    fn target(&self) -> String {
        format!("{}/{LABEL}", domain())
    }

    fn words<'a>(&self, args: &[&'a str]) -> Vec<&'a str> {
        let scope = (self.kind == ServiceManager::Systemd).then_some("--user");
        scope.into_iter().chain(args.iter().copied()).collect()
    }

    async fn ask(&self, args: &[&str]) -> Option<ProgramOutput> {
        programs::ask(&self.program, &self.words(args), limits::MANAGER_WAIT).await.ok()
    }

    async fn ask_long(&self, args: &[&str]) -> Option<ProgramOutput> {
        programs::ask(&self.program, &self.words(args), limits::MANAGER_WORK_WAIT).await.ok()
    }

    /// Runs the manager's program; a failure contains its error output.
    async fn work(&self, args: &[&str]) -> Result<()> {
        let words = self.words(args);
        let said = programs::ask(&self.program, &words, limits::MANAGER_WORK_WAIT).await;
        let command = format!("{} {}", name_of(&self.program), words.join(" "));
        match said {
            Ok(said) if said.status.success() => Ok(()),
            Ok(said) => Err(Failure::failed(format!("{command} failed: {}", said.err))
                .with_hint(format!("its log: {}", log_command(self.kind)))),
            Err(problem) => Err(Failure::failed(format!("{command} {problem}"))),
        }
    }
}

/// Returns the command that shows the service's log.
pub(crate) fn log_command(kind: ServiceManager) -> &'static str {
    match kind {
        ServiceManager::Systemd => "journalctl --user --unit obey.service",
        ServiceManager::Launchd => "tail ~/.local/state/obey/daemon.log",
    }
}

/// Returns the commands that start the service, for people whose manager does not answer now.
pub(super) fn commands(kind: ServiceManager, files: &[PathBuf]) -> Vec<String> {
    match kind {
        ServiceManager::Systemd => vec![
            "systemctl --user daemon-reload".to_owned(),
            format!("systemctl --user enable --now {}", UNITS.join(" ")),
        ],
        ServiceManager::Launchd => {
            let file = files.first().map(|file| file.display().to_string()).unwrap_or_default();
            vec![format!("launchctl bootstrap {} {file}", domain())]
        }
    }
}

/// Keeps the user's services running without a login. The error contains the reason of a failure.
pub(super) async fn enable_linger(vars: &Vars) -> std::result::Result<(), String> {
    let program = vars.find_program("loginctl").ok_or_else(|| "loginctl was not found".to_owned())?;
    let said = programs::ask(&program, &["enable-linger"], limits::MANAGER_WAIT).await?;
    if said.status.success() { Ok(()) } else { Err(said.err) }
}

/// Returns whether the user's services keep running without a login, if known.
pub(super) async fn lingers(vars: &Vars) -> Option<bool> {
    let program = vars.find_program("loginctl")?;
    let user = paths::uid().to_string();
    let question = ["show-user", user.as_str(), "--property=Linger", "--value"];
    let said = programs::ask(&program, &question, limits::MANAGER_WAIT).await.ok()?;
    match said.out.as_str() {
        "yes" => Some(true),
        "no" => Some(false),
        _ => None,
    }
}

fn domain() -> String {
    format!("gui/{}", paths::uid())
}

fn name_of(program: &Path) -> String {
    program.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

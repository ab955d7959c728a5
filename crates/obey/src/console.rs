//! The environment of every command: streams, input, variables and the connection to the daemon. Created once
//! from the process, or by tests from buffers and channels.

use std::path::{Path, PathBuf};

use jiff::tz::TimeZone;

use crate::args::Global;
use crate::autostart::{self, Launch, StartDeadline, Started};
use crate::client::{self, Client, unreachable_daemon};
use crate::config::{self, Flags};
use crate::failure::{Failure, Result};
use crate::input::{Input, Interrupts};
use crate::output::{Output, TextStyle};
use crate::paths::{self, Paths};
use crate::serve;
use crate::vars::Vars;

/// The environment of a command.
pub(crate) struct Console {
    pub(crate) out: Output,
    pub(crate) input: Input,
    pub(crate) interrupts: Interrupts,
    pub(crate) vars: Vars,
    pub(crate) paths: Paths,
    pub(crate) global: Global,
    /// The folder the command was called in.
    pub(crate) folder: PathBuf,
    /// The program that becomes the daemon.
    pub(crate) program: PathBuf,
    pub(crate) zone: TimeZone,
}

/// Whether a command may start the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Autostart {
    Allowed,
    Never,
}

impl Console {
    /// Takes everything from this process.
    pub(crate) fn of_process(global: Global, interrupts: Interrupts) -> Self {
        let vars = Vars::of_process();
        Self {
            out: Output::of_process(&global, &vars),
            input: Input::of_process(),
            interrupts,
            paths: Paths::of(&vars, paths::uid()),
            // A removed folder belongs to no campaign; any other value would do.
            folder: std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/")),
            program: std::env::current_exe().unwrap_or_else(|_| PathBuf::from("obey")),
            zone: TimeZone::system(),
            vars,
            global,
        }
    }

    /// Returns the daemon's socket: from flag, environment, configuration file, or the default.
    pub(crate) fn socket(&self) -> Result<PathBuf> {
        let chosen = self.global.socket.as_deref().or_else(|| self.vars.get("OBEY_SOCKET").map(Path::new));
        if let Some(path) = chosen {
            return serve::absolute(path);
        }
        Ok(self.config()?.socket.map_or_else(|| self.paths.socket.clone(), |path| self.paths.expand(&path)))
    }

    /// Returns the configuration for commands: file and environment.
    pub(crate) fn config(&self) -> Result<config::Config> {
        let file = serve::config_file(None, &self.vars, &self.paths)?;
        let text = config::read_file(&file)?;
        config::load(text.as_deref().map(|text| (file.as_path(), text)), &self.vars, &Flags::default())
    }

    /// Connects to the daemon, starting it first if necessary and allowed.
    pub(crate) async fn connect(&mut self) -> Result<Client> {
        self.connect_with(self.autostart()).await
    }

    /// Whether commands here may start the daemon.
    pub(crate) fn autostart(&self) -> Autostart {
        if self.global.no_autostart { Autostart::Never } else { Autostart::Allowed }
    }

    /// Connects to the daemon with the given autostart policy.
    pub(crate) async fn connect_with(&mut self, autostart: Autostart) -> Result<Client> {
        let socket = self.socket()?;
        self.connect_starting(autostart, self.launch(&socket)).await
    }

    /// Connects to the daemon of a launch, starting it with that launch if necessary and allowed.
    pub(crate) async fn connect_starting(&mut self, autostart: Autostart, launch: Launch) -> Result<Client> {
        if !client::probe(&launch.socket).await? {
            if autostart == Autostart::Never {
                return Err(unreachable_daemon(&launch.socket, "it does not run"));
            }
            self.start_daemon(&launch).await?;
        }
        Ok(Client::on(&launch.socket))
    }

    async fn start_daemon(&mut self, launch: &Launch) -> Result<()> {
        self.out.status("starting the daemon…")?;
        let started = autostart::start(launch).await?;
        self.out.hide_status()?;
        if let Started::Ready { pid, .. } = started {
            self.out.note(TextStyle::Dim, &format!("Started the daemon (pid {pid})."))?;
        }
        Ok(())
    }

    /// Returns how the daemon is started.
    pub(crate) fn launch(&self, socket: &Path) -> Launch {
        Launch {
            program: self.program.clone(),
            flags: Vec::new(),
            variables: self.absolute_variables(),
            environment: None,
            socket: socket.to_owned(),
            paths: self.paths.clone(),
            deadline: StartDeadline::Short,
        }
    }

    fn absolute_variables(&self) -> Vec<(&'static str, PathBuf)> {
        let set = |name: &'static str| self.vars.get(name).map(|path| (name, self.folder.join(path)));
        ["OBEY_CONFIG", "OBEY_DATA_DIR"].into_iter().filter_map(set).collect()
    }

    /// Returns whether a person can be asked while a command runs.
    pub(crate) fn can_ask(&self) -> bool {
        self.input.is_terminal() && self.out.err_is_terminal() && !self.out.json
    }

    /// Returns the name of the person who answers requests from here, for the record.
    pub(crate) fn person(&self) -> String {
        self.vars.get("USER").map_or_else(|| "cli".to_owned(), |name| name.to_string_lossy().into_owned())
    }

    /// Reads standard input as a message.
    pub(crate) fn read_message(&mut self) -> Result<String> {
        let text = self.input.all().map_err(|error| Failure::usage(format!("standard input: {error}")))?;
        Ok(text.trim_end_matches('\n').to_owned())
    }
}

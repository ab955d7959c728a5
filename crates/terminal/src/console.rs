//! The environment of every command: streams, input, variables and the connection to the daemon. Created once
//! from the process, or by tests from buffers and channels.

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use jiff::tz::TimeZone;
use tokio::time::Instant;

use crate::editor;
use crate::input::{Input, Interrupts};
use crate::output::{Output, TextStyle};
use crate::prompt_line::{PromptLine, PromptPlace};
use cli_args::Global;
use client::autostart::{self, Launch, StartDeadline, Started};
use client::connection::{self, Client, unreachable_daemon};
use client::limits;
use client::machines::{KnownMachine, KnownMachines, THIS_MACHINE};
use config::failure::{Failure, Result};
use config::file::{self, Flags};
use config::paths::{self, Paths};
use config::vars::Vars;

/// The environment of a command.
pub struct Console {
    pub out: Output,
    pub input: Input,
    pub interrupts: Interrupts,
    pub vars: Vars,
    pub paths: Paths,
    pub global: Global,
    /// The folder the command was called in.
    pub folder: PathBuf,
    /// The program that becomes the daemon.
    pub program: PathBuf,
    /// Read with its first use: to find it reads a folder of hundreds of files.
    pub zone: LazyLock<TimeZone>,
}

/// Whether a command may start the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Autostart {
    Allowed,
    Never,
}

impl Console {
    /// Takes everything from this process.
    pub fn of_process(global: Global, interrupts: Interrupts) -> Self {
        let vars = Vars::of_process();
        Self {
            out: Output::of_process(&global, &vars),
            input: Input::of_process(),
            interrupts,
            paths: Paths::of(&vars, paths::uid()),
            // A removed folder belongs to no campaign; any other value would do.
            folder: std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/")),
            program: std::env::current_exe().unwrap_or_else(|_| PathBuf::from("obey")),
            zone: LazyLock::new(TimeZone::system),
            vars,
            global,
        }
    }

    /// Returns the daemon's socket: from flag, environment, configuration file, or the default.
    pub fn socket(&self) -> Result<PathBuf> {
        let chosen = self.global.socket.as_deref().or_else(|| self.vars.get("OBEY_SOCKET").map(Path::new));
        if let Some(path) = chosen {
            return config::paths::absolute(path);
        }
        Ok(self.config()?.socket.map_or_else(|| self.paths.socket.clone(), |path| self.paths.expand(&path)))
    }

    /// Returns the configuration for commands: file and environment.
    pub fn config(&self) -> Result<file::Config> {
        let file = config::paths::config_file(None, &self.vars, &self.paths)?;
        let text = file::read_file(&file)?;
        file::load(text.as_deref().map(|text| (file.as_path(), text)), &self.vars, &Flags::default())
    }

    /// Connects to the daemon, starting it first if necessary and allowed.
    pub async fn connect(&mut self) -> Result<Client> {
        self.connect_with(self.autostart()).await
    }

    /// Whether commands here may start the daemon.
    pub fn autostart(&self) -> Autostart {
        if self.global.no_autostart { Autostart::Never } else { Autostart::Allowed }
    }

    /// Returns the machine that commands go to; none: this one.
    pub fn machine(&self) -> Result<Option<Arc<KnownMachine>>> {
        let machines = KnownMachines::in_folder(&self.paths);
        let by_variable = || self.vars.get("OBEY_MACHINE").map(|name| name.to_string_lossy().into_owned());
        let chosen = self.global.machine.clone().or_else(by_variable);
        let chosen = match chosen {
            Some(chosen) => Some(chosen),
            // Where a daemon is named by its socket, that one is meant.
            None if self.global.socket.is_some() || self.vars.get("OBEY_SOCKET").is_some() => None,
            None => machines.current()?,
        };
        match chosen {
            None => Ok(None),
            Some(name) if name == THIS_MACHINE => Ok(None),
            Some(name) => machines.find(&name, self.relay()?).map(|found| Some(Arc::new(found))),
        }
    }

    /// Returns the relay that was named.
    pub fn relay(&self) -> Result<Option<&str>> {
        match self.global.relay.as_deref() {
            Some("") => {
                Err(Failure::usage("--relay: needs the URL of a relay, such as https://relay.example:7443"))
            }
            relay => Ok(relay),
        }
    }

    /// Connects to the daemon of this machine, whatever machine was chosen.
    pub async fn connect_here(&mut self) -> Result<Client> {
        let socket = self.socket()?;
        self.connect_starting(self.autostart(), self.launch(&socket)).await
    }

    /// Connects to the daemon with the given autostart policy.
    pub async fn connect_with(&mut self, autostart: Autostart) -> Result<Client> {
        if let Some(machine) = self.machine()? {
            return Client::through(&machine);
        }
        let socket = self.socket()?;
        self.connect_starting(autostart, self.launch(&socket)).await
    }

    /// Connects to the daemon of a launch, starting it with that launch if necessary and allowed.
    pub async fn connect_starting(&mut self, autostart: Autostart, launch: Launch) -> Result<Client> {
        if autostart == Autostart::Never {
            return match connection::probe(&launch.socket).await? {
                true => Ok(Client::on(&launch.socket)),
                false => Err(unreachable_daemon(&launch.socket, "it does not run")),
            };
        }
        let client = Client::reviving(launch.clone());
        let until = Instant::now() + limits::EXCHANGE_WAIT;
        while connection::probe(&launch.socket).await? {
            if client.is_alive().await || Instant::now() > until {
                return Ok(client);
            }
            tokio::time::sleep(limits::EXCHANGE_PAUSE).await;
        }
        self.start_daemon(&launch).await?;
        Ok(client)
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
    pub fn launch(&self, socket: &Path) -> Launch {
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
    pub fn can_ask(&self) -> bool {
        self.input.is_terminal() && self.out.err_is_terminal() && !self.out.json
    }

    /// Opens the prompt line at the bottom of the terminal, unless there is none or it is open.
    pub fn open_prompt(&mut self) {
        if !self.can_ask() || !self.input.is_unread_terminal() {
            return;
        }
        // The history is private; where its folder cannot be made there is none.
        let history = paths::make_private(&self.paths.state_dir).is_ok();
        let history = if history { self.paths.state_dir.join("prompts") } else { PathBuf::new() };
        let place = PromptPlace {
            history,
            folder: self.folder.clone(),
            width: self.out.width(),
            color: self.out.has_color(),
        };
        let prompt = PromptLine::open(&place, self.interrupts.presses());
        self.out.use_prompt(prompt.handle());
        self.input.use_prompt(prompt);
    }

    /// Closes the prompt line; what was printed stays.
    pub fn close_prompt(&mut self) {
        self.out.leave_prompt();
        self.input.close_prompt();
    }

    /// Opens a text in the person's editor; the prompt line waits meanwhile.
    pub async fn edit(&mut self, text: &str, suffix: &str) -> Result<String> {
        if let Some(prompt) = self.input.prompt() {
            prompt.release_terminal().await;
        }
        let edited = editor::edit(self, text, suffix).await;
        if let Some(prompt) = self.input.prompt() {
            prompt.take_terminal();
        }
        edited
    }

    /// Returns the name of the person who answers requests from here, for the record.
    pub fn person(&self) -> String {
        self.vars.get("USER").map_or_else(|| "cli".to_owned(), |name| name.to_string_lossy().into_owned())
    }

    /// Reads standard input as a message.
    pub fn read_message(&mut self) -> Result<String> {
        let text = self.input.all().map_err(|error| Failure::usage(format!("standard input: {error}")))?;
        Ok(text.trim_end_matches('\n').to_owned())
    }
}

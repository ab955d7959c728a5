//! The environment of one test: a folder, a small daemon on a socket in it, and commands run against it.

use std::path::{Path, PathBuf};

use clap::Parser as _;
use jiff::tz::TimeZone;
use tokio::sync::mpsc;

use super::fake::{DEADLINE, Fake};
use crate::commands;
use crate::local::{LocalCommands, RunningCommand, ServeLaunch};
use cli_args::acp::AcpArgs;
use cli_args::relay::RelayCommand;
use cli_args::{Cli, ServeArgs};
use config::exit::Exit;
use config::failure::{Failure, Result};
use config::paths::Paths;
use config::vars::Vars;
use terminal::console::Console;
use terminal::input::{Input, Interrupts};
use terminal::output::Output;
use terminal::output::test::Buffer;

pub(crate) struct World {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) daemon: Fake,
}

/// The result of a command.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ran {
    pub(crate) exit: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// A running command, with simulated input.
pub(crate) struct Running {
    pub(crate) lines: mpsc::Sender<String>,
    pub(crate) presses: mpsc::Sender<()>,
    pub(crate) out: Buffer,
    pub(crate) err: Buffer,
    ended: tokio::task::JoinHandle<Ran>,
}

impl Running {
    /// Waits until a text was shown, then types a line.
    pub(crate) async fn answer(&self, shown: &str, line: &str) {
        self.err.until(shown).await;
        self.lines.send(line.to_owned()).await.unwrap();
    }

    /// Waits until the command has ended.
    pub(crate) async fn end(self) -> Ran {
        tokio::time::timeout(DEADLINE, self.ended).await.expect("the command does not end").unwrap()
    }
}

impl World {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let daemon = Fake::serve(&folder.path().join("d.sock"));
        Self { folder, daemon }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("d.sock")
    }

    /// Runs a command as in a script: no terminal, no input.
    pub(crate) async fn run(&self, words: &[&str]) -> Ran {
        self.start(words, false).end().await
    }

    /// Starts a command as on a terminal.
    pub(crate) fn on_terminal(&self, words: &[&str]) -> Running {
        self.start(words, true)
    }

    fn start(&self, words: &[&str], terminal: bool) -> Running {
        let socket = self.socket();
        let all = ["obey", "--socket", socket.to_str().unwrap()].into_iter().chain(words.iter().copied());
        let cli = Cli::try_parse_from(all).unwrap();
        let (lines, typed) = mpsc::channel(8);
        let (presses, pressed) = mpsc::channel(8);
        let (out, err) = (Buffer::default(), Buffer::default());
        let home = self.folder.path().to_str().unwrap();
        let vars = Vars::of(&[("HOME", home), ("XDG_RUNTIME_DIR", home), ("TMPDIR", home)]);
        let mut console = Console {
            out: Output::to_buffers(out.clone(), err.clone(), &cli.global, terminal),
            input: Input::of_lines(typed, terminal),
            interrupts: Interrupts::of_presses(pressed),
            paths: Paths::of(&vars, 1),
            vars,
            global: cli.global,
            folder: self.folder.path().to_owned(),
            program: PathBuf::from("/bin/false"),
            zone: std::sync::LazyLock::new(|| TimeZone::UTC),
        };
        let (said, shown) = (out.clone(), err.clone());
        let ended = tokio::spawn(async move {
            let done = commands::run(&mut console, cli.command, &NoDaemonCode).await;
            let exit = match done {
                Ok(exit) => exit.0,
                Err(failure) => {
                    console.out.failure(&failure);
                    failure.exit.0
                }
            };
            Ran { exit, out: said.text(), err: shown.text() }
        });
        Running { lines, presses, out, err, ended }
    }
}

/// A program without the daemon's own code.
struct NoDaemonCode;

impl NoDaemonCode {
    fn missing<T>() -> Result<T> {
        Err(Failure::failed("this program has no daemon"))
    }
}

impl LocalCommands for NoDaemonCode {
    fn serve(&self, _: &Console, _: &ServeArgs) -> Result<Exit> {
        Self::missing()
    }

    fn serve_launch(&self, _: &Console, _: &ServeArgs) -> Result<ServeLaunch> {
        Self::missing()
    }

    fn acp<'a>(&'a self, _: &'a mut Console, _: &'a AcpArgs) -> RunningCommand<'a> {
        Box::pin(async { Self::missing() })
    }

    fn check_config(&self, _: &config::file::Config) -> Result<()> {
        Self::missing()
    }

    fn access_rows(&self) -> Vec<Vec<(&'static str, String)>> {
        Vec::new()
    }

    fn verify_audit_file(&self, _: &mut Console, _: &Path, _: Option<&str>) -> Result<Exit> {
        Self::missing()
    }

    fn relay<'a>(&'a self, _: &'a mut Console, _: RelayCommand) -> RunningCommand<'a> {
        Box::pin(async { Self::missing() })
    }

    fn remove_machine(&self, _: &Console, _: &str) -> Result<Option<String>> {
        Ok(None)
    }

    fn memory_setup<'a>(&'a self, _: &'a mut Console, _: Option<String>) -> RunningCommand<'a> {
        Box::pin(async { Self::missing() })
    }

    fn doctor<'a>(&'a self, _: &'a mut Console, _: &'a cli_args::doctor::DoctorArgs) -> RunningCommand<'a> {
        Box::pin(async { Self::missing() })
    }
}

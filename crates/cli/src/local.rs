//! The commands that need the daemon's own code. The command line parses them; the program that has both carries them
//! out, so that this crate stays a client.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::pin::Pin;

use config::exit::Exit;
use config::failure::Result;

use cli_args::ServeArgs;
use cli_args::acp::AcpArgs;
use cli_args::doctor::DoctorArgs;
use cli_args::relay::RelayCommand;
use terminal::console::Console;

/// A command that runs.
pub type RunningCommand<'a> = Pin<Box<dyn Future<Output = Result<Exit>> + Send + 'a>>;

/// How a daemon is started in the background.
pub struct ServeLaunch {
    /// Absolute.
    pub socket: PathBuf,
    /// Besides the socket.
    pub flags: Vec<OsString>,
}

/// The commands that need the daemon's own code.
pub trait LocalCommands: Send + Sync {
    /// Becomes the daemon until it ends.
    fn serve(&self, console: &Console, args: &ServeArgs) -> Result<Exit>;

    /// Checks the arguments of a daemon, so that mistakes appear on the terminal and not in a log.
    fn serve_launch(&self, console: &Console, args: &ServeArgs) -> Result<ServeLaunch>;

    /// `obey acp`.
    fn acp<'a>(&'a self, console: &'a mut Console, args: &'a AcpArgs) -> RunningCommand<'a>;

    /// Checks what the configuration file's own types cannot.
    fn check_config(&self, config: &config::file::Config) -> Result<()>;

    /// The rows of the access table as pairs of column and text.
    fn access_rows(&self) -> Vec<Vec<(&'static str, String)>>;

    /// `obey audit verify FILE`: verifies an export without a daemon.
    fn verify_audit_file(&self, console: &mut Console, file: &Path, key: Option<&str>) -> Result<Exit>;

    /// `obey relay …`.
    fn relay<'a>(&'a self, console: &'a mut Console, command: RelayCommand) -> RunningCommand<'a>;

    /// Forgets a machine of the relay in a folder of this machine. Nothing where there is no relay.
    fn remove_machine(&self, console: &Console, machine: &str) -> Result<Option<String>>;

    /// `obey memory setup`: fetches the model of memories.
    fn memory_setup<'a>(&'a self, console: &'a mut Console, from: Option<String>) -> RunningCommand<'a>;

    /// `obey doctor`.
    fn doctor<'a>(&'a self, console: &'a mut Console, args: &'a DoctorArgs) -> RunningCommand<'a>;
}

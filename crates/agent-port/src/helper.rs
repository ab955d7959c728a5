//! Helper programs of an agent inside the daemon, such as its MCP servers. Defines how one is started and how
//! its end is reported; running it is the runtime's job.

use std::ffi::OsString;
use std::path::PathBuf;

use tokio::io::DuplexStream;

use crate::toolbox::Work;

/// Starts helper programs for one session.
pub trait HelperPrograms: Send + Sync {
    /// Starts a program. Writes to the stream become its input; reads return its output until it ends.
    fn start(&self, program: HelperCommand) -> Work<(Box<dyn HelperProcess>, DuplexStream)>;
}

/// A running program. Dropping it ends the program and everything it started.
pub trait HelperProcess: Send + Sync {
    /// Returns the last line of its standard error, and how it ended if it has.
    fn last_words(&self) -> String;
}

/// A program to start, with its complete environment. It runs in the session's folder.
#[derive(Clone, Debug)]
pub struct HelperCommand {
    /// A path, or a name to look up in the `PATH` of the environment.
    pub command: PathBuf,
    pub args: Vec<OsString>,
    pub environment: Vec<(OsString, OsString)>,
}

//! Programs that an agent in the daemon needs beside it, such as its servers of tools. Says how one is started and what
//! became of it; how it is held is the runtime's.

use std::ffi::OsString;
use std::path::PathBuf;

use tokio::io::DuplexStream;

use crate::toolbox::Work;

/// Starts programs for one session.
pub trait HelperPrograms: Send + Sync {
    /// Starts a program. What is written to the stream is its input; what is read is its output, until it ends.
    fn start(&self, program: HelperCommand) -> Work<(Box<dyn HelperProcess>, DuplexStream)>;
}

/// A program that runs. Dropping it ends the program and everything it started.
pub trait HelperProcess: Send + Sync {
    /// Returns the last line of its standard error, and how it ended if it has.
    fn last_words(&self) -> String;
}

/// A program to start: its complete environment; it runs in the session's folder.
#[derive(Clone, Debug)]
pub struct HelperCommand {
    /// A path, or a name to be found in the `PATH` of the environment.
    pub command: PathBuf,
    pub args: Vec<OsString>,
    pub environment: Vec<(OsString, OsString)>,
}

//! The command line of `obey conformance`.

use clap::Args;

#[derive(Debug, Args)]
pub struct ConformanceArgs {
    /// The daemon to check, HOST:PORT; any that serves the published interfaces [default: the daemon of this user]
    #[arg(long, value_name = "ADDR")]
    pub address: Option<String>,
}

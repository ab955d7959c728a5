//! The command line of `obey web`.

use clap::{Args, Subcommand};

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct WebArgs {
    /// Only print the address, which works once and within a minute
    #[arg(long, visible_alias = "print")]
    pub no_open: bool,
    #[command(subcommand)]
    pub command: Option<WebCommand>,
}

#[derive(Debug, Subcommand)]
pub enum WebCommand {
    /// Print an address, also as a QR code, with which a phone or another machine gets a key; needs a listener with TLS
    Pair(PairArgs),
}

#[derive(Debug, Args)]
pub struct PairArgs {
    /// What the device may do: viewer reads, operator acts too, owner does what you may
    #[arg(long, value_parser = ["viewer", "operator", "owner"], default_value = "operator")]
    pub role: String,
}

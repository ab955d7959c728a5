//! Arguments of `obey device`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub enum DeviceCommand {
    /// Make a device known and print its token, or without a name a line with which one pairs through the relay
    Add(DeviceAddArgs),
    /// Pair this device with a machine, with the line that `obey device add` printed there
    Join(super::machine::DeviceJoinArgs),
    /// List the devices
    #[command(visible_alias = "ls")]
    List,
    /// Forget a device: its next call is refused, and its connections end
    #[command(visible_alias = "rm")]
    Revoke {
        /// Its name or id
        device: String,
    },
}

#[derive(Debug, Args)]
pub struct DeviceAddArgs {
    /// Its name: letters, digits, `.`, `_` and `-`; without one the device chooses when it pairs
    pub name: Option<String>,
    /// Let it answer requests although its key is kept on this machine, where agents may find it
    #[arg(long, conflicts_with = "name")]
    pub same_host: bool,
    /// What it may do: viewer reads, operator acts too, owner does what you may
    #[arg(long, value_parser = ["viewer", "operator", "owner"])]
    pub role: String,
    /// It ends after this long, such as 90d
    #[arg(long, value_parser = super::values::duration, value_name = "DURATION", requires = "name")]
    pub expires: Option<Duration>,
    /// Write a certificate and its key into this folder instead of printing a token
    #[arg(long, value_name = "DIR", requires = "name")]
    pub certificate: Option<PathBuf>,
}

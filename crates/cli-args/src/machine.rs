//! Arguments of `obey machine`, `obey connect` and `obey device join`.

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub enum MachineCommand {
    /// Join a relay with this machine
    Join(MachineJoinArgs),
    /// Forget the relay that this machine has joined
    Leave,
    /// List this machine and those that this device is paired with
    #[command(visible_alias = "ls")]
    List,
    /// Send later commands to a machine; `this` is the own one
    Switch {
        /// Its name
        name: String,
    },
    /// Show how this machine is connected to its relay
    Status,
    /// Forget a machine: the pairing with it, and at the relay's own machine the machine itself
    #[command(visible_alias = "rm")]
    Remove {
        /// Its name
        name: String,
    },
    /// Find out what does not work on the way to a machine, hop by hop
    Doctor {
        /// Its name; without one this machine's own connection to its relay
        name: Option<String>,
    },
}

#[derive(Debug, Args)]
pub struct MachineJoinArgs {
    /// What `obey relay code` printed
    pub code: String,
    /// The machine's name: letters, digits, `.`, `_` and `-` [default: its host name]
    #[arg(long)]
    pub name: Option<String>,
}

#[derive(Debug, Args)]
pub struct ConnectArgs {
    /// The machine's name
    pub name: String,
    /// Where to listen: 127.0.0.1:PORT, or unix:PATH which only you can use; port 0 picks a free one
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDR")]
    pub listen: String,
}

#[derive(Debug, Args)]
pub struct DeviceJoinArgs {
    /// The line
    pub line: String,
    /// What this device is called there [default: its host name]
    #[arg(long)]
    pub name: Option<String>,
}

//! Arguments of `obey key`.

use std::time::Duration;

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub enum KeyCommand {
    /// Make a key and print it, this once
    Create(KeyCreateArgs),
    /// List the keys
    #[command(visible_alias = "ls")]
    List,
    /// Forget a key: its next call is refused, and its connections end
    #[command(visible_alias = "rm")]
    Revoke {
        /// Its id or prefix, or its name where no other key has it
        key: String,
    },
}

#[derive(Debug, Args)]
pub struct KeyCreateArgs {
    /// What the key is for
    pub name: String,
    /// What it may do, several times or with commas
    #[arg(
        long = "scope",
        required = true,
        value_delimiter = ',',
        value_parser = ["ReadTasks", "WriteTasks", "ReadHosts", "WriteHosts", "ReadStreams", "WriteStreams", "Admin"]
    )]
    pub scopes: Vec<String>,
    /// It ends after this long, such as 90d
    #[arg(long, value_parser = super::values::duration, value_name = "DURATION")]
    pub expires: Option<Duration>,
}

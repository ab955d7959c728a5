//! Arguments of `obey relay`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub enum RelayCommand {
    /// Make a relay: its certificates, its file, and the owner's token, which is not shown again
    Init(RelayInitArgs),
    /// Serve the relay until it is told to end
    Serve(RelayFolderArgs),
    /// Print a code with which a machine joins, once and within ten minutes; with --relay one for another relay
    Code(RelayCodeArgs),
    /// Make a relay that is one with another: both serve the same machines, over NATS
    Join(RelayJoinArgs),
    /// The accounts of the relay; without a subcommand lists them
    Users(RelayUsersArgs),
    /// Show the relay, its machines and what it does now
    Status(RelayFolderArgs),
    /// Write a certificate, its key and the relay's own for a daemon that is not obey
    Issue(RelayIssueArgs),
    /// Exchange the relay's certificate authority for a new one; both count until --finish, or for 30 days
    Rotate(RelayRotateArgs),
    /// Show what was done to the relay: who joined, was removed, renewed or refused
    Audit(RelayAuditArgs),
    /// Show or set how many bytes each machine may exchange with its clients in a day
    Quota(RelayQuotaArgs),
}

#[derive(Clone, Debug, Default, Args)]
pub struct RelayFolderArgs {
    /// The relay's folder [default: `relay` in the data folder]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct RelayInitArgs {
    /// The address to listen on, such as 0.0.0.0:7443
    #[arg(long, value_name = "ADDR")]
    pub listen: SocketAddr,
    /// A name or address by which it is reached; the first one is in its URL; repeat for more
    #[arg(long, value_name = "NAME")]
    pub host: Vec<String>,
    /// The NATS server over which other relays can join this one, such as nats://10.0.0.1:4222; several with commas
    #[arg(long, value_name = "URL")]
    pub nats: Option<String>,
    #[command(flatten)]
    pub folder: RelayFolderArgs,
}

#[derive(Debug, Args)]
pub struct RelayJoinArgs {
    /// What `obey relay code --relay` printed
    pub code: String,
    /// The address to listen on, such as 0.0.0.0:7443
    #[arg(long, value_name = "ADDR")]
    pub listen: SocketAddr,
    /// The NATS server of the relays; several with commas
    #[arg(long, value_name = "URL")]
    pub nats: String,
    /// A name or address by which it is reached; the first one is in its URL; repeat for more
    #[arg(long, value_name = "NAME")]
    pub host: Vec<String>,
    #[command(flatten)]
    pub folder: RelayFolderArgs,
}

#[derive(Debug, Args)]
pub struct RelayCodeArgs {
    /// Whose machine it will be [default: the owner's]
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    #[command(flatten)]
    pub folder: RelayFolderArgs,
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct RelayUsersArgs {
    #[command(subcommand)]
    pub command: Option<RelayUsersCommand>,
    #[command(flatten)]
    pub folder: RelayFolderArgs,
}

#[derive(Debug, Subcommand)]
pub enum RelayUsersCommand {
    /// List the accounts
    #[command(visible_alias = "ls")]
    List(RelayFolderArgs),
    /// Make an account and print its token, which is not shown again
    Add(RelayUserArgs),
    /// Forget an account and its machines
    #[command(visible_alias = "rm")]
    Remove(RelayUserArgs),
}

#[derive(Debug, Args)]
pub struct RelayUserArgs {
    /// The account's name
    pub name: String,
    #[command(flatten)]
    pub folder: RelayFolderArgs,
}

#[derive(Debug, Args)]
pub struct RelayRotateArgs {
    /// Give up the former authority now: its key is destroyed, and its certificates are worth nothing
    #[arg(long, conflicts_with = "from")]
    pub finish: bool,
    /// Take over what another relay of the same cluster has; the code is what `obey relay code --relay` printed there
    #[arg(long, value_name = "CODE")]
    pub from: Option<String>,
    #[command(flatten)]
    pub folder: RelayFolderArgs,
}

#[derive(Debug, Args)]
pub struct RelayAuditArgs {
    /// How many, the latest first
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub limit: u32,
    #[command(flatten)]
    pub folder: RelayFolderArgs,
}

#[derive(Debug, Args)]
pub struct RelayQuotaArgs {
    /// Bytes of calls and answers together, per machine and day (UTC); 0: as many as they like
    #[arg(long, value_name = "BYTES")]
    pub bytes_per_day: Option<u64>,
    #[command(flatten)]
    pub folder: RelayFolderArgs,
}

#[derive(Debug, Args)]
pub struct RelayIssueArgs {
    /// The machine's name
    pub name: String,
    /// Where cert.pem, key.pem and ca.pem are written
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    #[command(flatten)]
    pub folder: RelayFolderArgs,
}

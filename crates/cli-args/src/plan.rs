//! The command line of `obey plan …` and `obey worker …`: plans of steps, and the workers that sessions have.

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub enum PlanCommand {
    /// Run a plan and follow it; the first line is its id, and the exit code is 7 if a step failed
    Run(PlanRunArgs),
    /// List the newest plans, of a session or of all, the oldest first
    #[command(visible_alias = "ls")]
    List(PlanListArgs),
    /// Show a plan as a tree, each step below one that it depends on, with their states
    Show(PlanArg),
    /// End a plan: what has not started does not start, what runs is ended
    Cancel(PlanCancelArgs),
}

#[derive(Debug, Args)]
pub struct PlanListArgs {
    /// Id, start of an id, or name of the session whose plans are listed
    #[arg(value_name = "SESSION")]
    pub session: Option<String>,
}

#[derive(Debug, Args)]
pub struct PlanRunArgs {
    /// The plan, in TOML or JSON; `-`: read from standard input
    #[arg(value_name = "FILE|-")]
    pub file: String,
    /// The session that the workers work for [default: one that is made for the plan and ends with it]
    #[arg(long, value_name = "SESSION")]
    pub session: Option<String>,
    /// The agent of steps that name none [default: the one that sessions run by default]
    #[arg(long, short, conflicts_with = "session", value_name = "PROVIDER")]
    pub provider: Option<String>,
    /// Print the id and return; the plan goes on
    #[arg(long, short)]
    pub detach: bool,
}

#[derive(Debug, Args)]
pub struct PlanArg {
    /// The plan's id
    #[arg(value_name = "ID")]
    pub plan: String,
}

#[derive(Debug, Args)]
pub struct PlanCancelArgs {
    /// The plan's id
    #[arg(value_name = "ID")]
    pub plan: String,
    /// Why, for the record
    #[arg(long, default_value = "", hide_default_value = true)]
    pub reason: String,
}

#[derive(Debug, Subcommand)]
pub enum WorkerCommand {
    /// List the workers of a session, or of all sessions
    #[command(visible_alias = "ls")]
    List(WorkerListArgs),
    /// Send a worker a message; during a turn it is added to that turn
    Send(WorkerSendArgs),
    /// End a worker
    Cancel(WorkerCancelArgs),
}

#[derive(Debug, Args)]
pub struct WorkerListArgs {
    /// Id, start of an id, or name of the session whose workers are listed
    #[arg(value_name = "SESSION")]
    pub session: Option<String>,
}

#[derive(Debug, Args)]
pub struct WorkerSendArgs {
    /// Id, start of an id, or name of the worker
    #[arg(value_name = "WORKER")]
    pub worker: String,
    /// The message; `-` or none: read from standard input
    #[arg(value_name = "MESSAGE")]
    pub message: Option<String>,
}

#[derive(Debug, Args)]
pub struct WorkerCancelArgs {
    /// Id, start of an id, or name of the worker
    #[arg(value_name = "WORKER")]
    pub worker: String,
    /// Why, for the record
    #[arg(long, default_value = "", hide_default_value = true)]
    pub reason: String,
    /// Do not give its turn time to end
    #[arg(long, short)]
    pub force: bool,
    /// Also remove the working tree that was made for it; with --force whatever it contains
    #[arg(long)]
    pub cleanup_worktree: bool,
}

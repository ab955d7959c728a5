//! The command line of what can be done with a session as a whole: fork, rename, archive, remove, budget.

use clap::{Args, Subcommand};

use super::budget::AmountArgs;
use super::{plan, queue, session};

/// Commands about a session as a whole, and about its queue, plans and workers.
#[derive(Debug, Subcommand)]
pub enum OperationCommand {
    /// Prompts that wait for their turn: add, list, edit, move, drop
    #[command(subcommand)]
    Queue(queue::QueueCommand),
    /// Plans of steps that run as workers, with dependencies: run, show, cancel
    #[command(subcommand, visible_alias = "plans")]
    Plan(plan::PlanCommand),
    /// Workers: sessions that work for another session
    #[command(subcommand, visible_alias = "workers")]
    Worker(plan::WorkerCommand),
    /// List the requests that wait for an answer
    Requests(session::RequestsArgs),
    /// Allow what an agent asks for
    Approve(session::ApproveArgs),
    /// Deny what an agent asks for
    Deny(session::DenyArgs),
    /// Answer a question of an agent
    Answer(session::AnswerArgs),
    /// Start another session with a copy of this one's history
    Fork(ForkArgs),
    /// Give a session another name
    Rename(RenameArgs),
    /// Remove ended sessions for good: record, journal and files
    Rm(RemoveSessionArgs),
}

#[derive(Debug, Args)]
pub struct ForkArgs {
    /// Id, start of an id, or name
    #[arg(value_name = "SESSION")]
    pub session: String,
    /// The last event that the new session knows, as `obey session log` prints it [default: the last one]
    #[arg(long, value_name = "SEQ", value_parser = clap::value_parser!(u64).range(1..))]
    pub at: Option<u64>,
    /// A name for the new session [default: the old one's with -fork]
    #[arg(long, short)]
    pub name: Option<String>,
}

#[derive(Debug, Args)]
pub struct RenameArgs {
    /// Id, start of an id, or name
    #[arg(value_name = "SESSION")]
    pub session: String,
    /// Its new name; no other living session may have it
    #[arg(value_name = "NAME")]
    pub name: String,
}

#[derive(Debug, Args)]
pub struct ArchiveArgs {
    /// Id, start of an id, or name
    #[arg(value_name = "SESSION")]
    pub session: String,
    /// Show it in lists again
    #[arg(long)]
    pub undo: bool,
}

#[derive(Debug, Args)]
pub struct RemoveSessionArgs {
    /// Ids, starts of ids, or names
    #[arg(value_name = "SESSION", required = true)]
    pub sessions: Vec<String>,
    /// Stop a session that has not ended, then remove it
    #[arg(long, short)]
    pub force: bool,
}

#[derive(Debug, Args)]
pub struct BudgetArgs {
    /// Id, start of an id, or name
    #[arg(value_name = "SESSION")]
    pub session: String,
    #[command(flatten)]
    pub amounts: AmountArgs,
}

//! The command line of `obey queue …`: prompts that wait for their turn.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::session::SessionArg;

#[derive(Debug, Subcommand)]
pub enum QueueCommand {
    /// Queue a prompt; it is sent when the turn, and what was queued before, has ended
    Add(QueueAddArgs),
    /// List the prompts that wait
    #[command(visible_alias = "ls")]
    List(SessionArg),
    /// Change the text of a prompt that waits
    Edit(QueueEditArgs),
    /// Move a prompt to another place
    Move(QueueMoveArgs),
    /// Take a prompt out of the queue; it is not sent
    #[command(visible_alias = "rm")]
    Drop(QueueEntryArgs),
    /// Send nothing until the queue is resumed
    Pause(SessionArg),
    /// Go on with a paused queue, as after a failed turn
    Resume(SessionArg),
}

#[derive(Debug, Args)]
pub struct QueueAddArgs {
    /// Id, start of an id, or name
    #[arg(value_name = "SESSION")]
    pub session: String,
    /// The prompt; `-` or none: read from standard input
    #[arg(value_name = "PROMPT")]
    pub prompt: Option<String>,
    /// An image or another file to send along; repeat for more
    #[arg(long, value_name = "FILE")]
    pub image: Vec<PathBuf>,
}

#[derive(Debug, Args)]
pub struct QueueEditArgs {
    /// Id, start of an id, or name
    #[arg(value_name = "SESSION")]
    pub session: String,
    /// The entry, as `obey queue list` prints it, such as q_1
    #[arg(value_name = "ENTRY")]
    pub entry: String,
    /// The new prompt; `-` or none: read from standard input
    #[arg(value_name = "PROMPT")]
    pub prompt: Option<String>,
}

#[derive(Debug, Args)]
pub struct QueueMoveArgs {
    /// Id, start of an id, or name
    #[arg(value_name = "SESSION")]
    pub session: String,
    /// The entry, such as q_1
    #[arg(value_name = "ENTRY")]
    pub entry: String,
    /// Its new place; 1 is sent next
    #[arg(value_name = "PLACE", value_parser = clap::value_parser!(u32).range(1..))]
    pub place: u32,
}

#[derive(Debug, Args)]
pub struct QueueEntryArgs {
    /// Id, start of an id, or name
    #[arg(value_name = "SESSION")]
    pub session: String,
    /// The entry, such as q_1
    #[arg(value_name = "ENTRY")]
    pub entry: String,
}

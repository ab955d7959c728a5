//! The command line of `obey gitlab …` and `obey github …`, which is the same for both.

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub enum ForgeCommand {
    /// Show merge requests, pipelines, jobs and issues of the project on GitLab
    Gitlab(ForgeArgs),
    /// Show pull requests, runs, jobs and issues of the project on GitHub
    Github(ForgeArgs),
}

#[derive(Debug, Args)]
pub struct ForgeArgs {
    /// The project: a path such as group/name, a number, or a full address, which chooses the server [default: that of the
    /// remote origin of the current folder]
    #[arg(long, short, global = true, value_name = "PROJECT")]
    pub project: Option<String>,
    #[command(subcommand)]
    pub subject: ForgeSubject,
}

#[derive(Debug, Subcommand)]
pub enum ForgeSubject {
    /// Merge requests (pull requests)
    #[command(subcommand, visible_alias = "pr")]
    Mr(ForgeItemCommand),
    /// Pipelines (runs of workflows)
    #[command(subcommand, visible_alias = "run")]
    Pipeline(ForgeItemCommand),
    /// Jobs of a pipeline, and their logs
    #[command(subcommand)]
    Job(ForgeJobCommand),
    /// Issues
    #[command(subcommand)]
    Issue(ForgeItemCommand),
}

#[derive(Debug, Subcommand)]
pub enum ForgeItemCommand {
    /// List them, newest first
    #[command(visible_alias = "ls")]
    List(ForgeListArgs),
    /// Show one
    #[command(visible_alias = "get")]
    Show(ForgeShowArgs),
}

#[derive(Debug, Args)]
pub struct ForgeListArgs {
    /// Only those in this state: opened, closed or merged; of pipelines a status such as failed or running [default: all]
    #[arg(long, short, visible_alias = "status", value_name = "STATE")]
    pub state: Option<String>,
    #[command(flatten)]
    pub rows: ForgeRowArgs,
}

#[derive(Debug, Args)]
pub struct ForgeRowArgs {
    /// How many at most
    #[arg(long, short = 'n', default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=300), value_name = "N")]
    pub limit: u32,
    /// How many to skip
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub offset: u32,
}

#[derive(Debug, Args)]
pub struct ForgeShowArgs {
    /// Its number, such as 12, #12 or !12
    #[arg(value_parser = item_number, value_name = "NUMBER")]
    pub id: u64,
}

#[derive(Debug, Subcommand)]
pub enum ForgeJobCommand {
    /// List the jobs of a pipeline
    #[command(visible_alias = "ls")]
    List(ForgeJobListArgs),
    /// Show one
    #[command(visible_alias = "get")]
    Show(ForgeShowArgs),
    /// Print the end of a job's log, without secrets
    #[command(visible_alias = "trace")]
    Log(ForgeJobLogArgs),
}

#[derive(Debug, Args)]
pub struct ForgeJobListArgs {
    /// The pipeline's id [default: the newest one]
    #[arg(value_parser = item_number, value_name = "PIPELINE")]
    pub pipeline: Option<u64>,
    /// Also those that were retried
    #[arg(long)]
    pub retried: bool,
    #[command(flatten)]
    pub rows: ForgeRowArgs,
}

#[derive(Debug, Args)]
pub struct ForgeJobLogArgs {
    /// The job's id
    #[arg(value_parser = item_number, value_name = "JOB")]
    pub id: u64,
    /// Only so many lines at its end
    #[arg(long, default_value_t = 0, hide_default_value = true, value_name = "N")]
    pub tail: u32,
}

/// Parses a number as people and servers write it.
pub fn item_number(text: &str) -> Result<u64, String> {
    let digits = text.trim_start_matches(['#', '!']);
    match digits.parse() {
        Ok(0) | Err(_) => Err("must be a number such as 12".to_owned()),
        Ok(number) => Ok(number),
    }
}

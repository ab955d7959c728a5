//! The command line of what is about all sessions: `obey ps`, `search`, `usage` and `export`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use domain::overview::SessionState;

use super::values;

#[derive(Debug, Default, Args)]
pub struct PsArgs {
    /// Also sessions that ended or are archived
    #[arg(long, short)]
    pub all: bool,
    /// Only sessions of this campaign
    #[arg(long, short, value_name = "ID|NAME")]
    pub campaign: Option<String>,
    /// Only sessions in this state: needs_you, failed, working, quiet, done, idle or ended; repeat for more
    #[arg(long, value_parser = session_state, value_name = "STATE")]
    pub state: Vec<SessionState>,
    /// Sessions of this machine and of all that this device is paired with; so unless --machine or `machine switch` chose one
    #[arg(long, conflicts_with = "machine")]
    pub machines: bool,
}

fn session_state(text: &str) -> Result<SessionState, String> {
    SessionState::parse(&text.replace('-', "_")).ok_or_else(|| {
        let names: Vec<&str> = SessionState::ALL.iter().map(|state| state.name()).collect();
        format!("{text:?} is none of {}", names.join(", "))
    })
}

#[derive(Debug, Args)]
pub struct SearchArgs {
    /// Words that must all occur; "several words" in quotes occur in this order; `word*` is a beginning
    #[arg(required = true, value_name = "TEXT")]
    pub words: Vec<String>,
    /// Only in this session
    #[arg(long, short, value_name = "SESSION")]
    pub session: Option<String>,
    /// Only prompts, answers, commands or outputs; repeat for more
    #[arg(long, value_enum, value_name = "KIND")]
    pub kind: Vec<SearchKindArg>,
    /// Only what is younger than this, such as 12h or 7d
    #[arg(long, value_parser = values::duration, value_name = "DURATION")]
    pub since: Option<Duration>,
    /// At most this many hits
    #[arg(long, short = 'n', default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=500), value_name = "N")]
    pub limit: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SearchKindArg {
    Prompt,
    Answer,
    Command,
    Output,
}

#[derive(Debug, Args)]
pub struct UsageArgs {
    /// Split by this; repeat for more [default: campaign and model]
    #[arg(long, value_enum, value_name = "WHAT")]
    pub by: Vec<UsageGroupArg>,
    /// One row per hour, day or week of local time
    #[arg(long, value_enum, value_name = "STEP")]
    pub per: Option<UsageStepArg>,
    /// Only what is younger than this, such as 12h or 7d [default: everything]
    #[arg(long, value_parser = values::duration, value_name = "DURATION")]
    pub since: Option<Duration>,
    /// Only of this campaign
    #[arg(long, short, value_name = "ID|NAME")]
    pub campaign: Option<String>,
    /// Only of this session
    #[arg(long, short, value_name = "SESSION")]
    pub session: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum UsageGroupArg {
    Campaign,
    Provider,
    Model,
    Session,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum UsageStepArg {
    Hour,
    Day,
    Week,
}

#[derive(Debug, Args)]
pub struct ExportArgs {
    /// Id, start of an id, or name
    #[arg(value_name = "SESSION")]
    pub session: String,
    /// The conversation as Markdown, or every event as JSON
    #[arg(long, short, value_enum, default_value_t, value_name = "FORMAT")]
    pub format: ExportFormatArg,
    /// Write it to this new file instead of standard output
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ExportFormatArg {
    #[default]
    Md,
    Json,
}

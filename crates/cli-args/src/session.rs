//! The command line of `obey session …`. A session is named by its id, the start of its id, or its name.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use domain::{AgentNetwork, Mode, ProviderKind, Status};

use super::{operations, values};

#[derive(Debug, Subcommand)]
pub enum SessionCommand {
    /// Start an agent in a campaign's folder
    Create(Box<SessionCreateArgs>),
    /// List sessions
    #[command(visible_alias = "ls")]
    List(SessionListArgs),
    /// Show one session
    Info(SessionArg),
    /// Send a message and watch the agent work on it
    Send(SendArgs),
    /// Open a conversation: see what the agent did, send messages, answer its requests
    Attach(AttachArgs),
    /// Follow the events of one session, or of all
    Watch(WatchArgs),
    /// Print the events of a session
    #[command(visible_alias = "logs")]
    Log(LogArgs),
    /// Write a session as Markdown or JSON
    Export(super::overview::ExportArgs),
    /// Show one event with the secrets that were removed from it, up to ten minutes after the event
    Reveal(RevealArgs),
    /// List the requests that wait for an answer
    Requests(RequestsArgs),
    /// Allow what an agent asks for
    Approve(ApproveArgs),
    /// Deny what an agent asks for
    Deny(DenyArgs),
    /// Answer an agent's question
    Answer(AnswerArgs),
    /// Interrupt the running turn
    Cancel(SessionArg),
    /// Change how much the agent may do without asking
    Mode(ModeArgs),
    /// Wait until sessions have finished their turns
    Wait(WaitArgs),
    /// Stop a session's agent
    Stop(SessionStopArgs),
    /// Start a session again under the same id
    Restart(RestartArgs),
    /// Show sessions as a tree: by campaign, each below the session that started it
    Tree(TreeArgs),
    /// Start another session with a copy of this one's history
    Fork(operations::ForkArgs),
    /// Give a session another name
    Rename(operations::RenameArgs),
    /// Hide a session from lists
    Archive(operations::ArchiveArgs),
    /// Remove ended sessions for good: record, journal and files
    #[command(visible_alias = "rm")]
    Remove(operations::RemoveSessionArgs),
    /// Show or change what a session may spend; raising a used-up budget goes on with its turn
    Budget(operations::BudgetArgs),
    /// Prompts that wait for their turn: add, list, edit, move, drop
    #[command(subcommand)]
    Queue(super::queue::QueueCommand),
    /// Show what a session changed in its working tree
    Diff(super::changes::DiffArgs),
    /// Merge a session's working tree into the branch it was made from
    Merge(super::changes::MergeArgs),
}

#[derive(Debug, Args)]
pub struct SessionArg {
    /// Id, start of an id, or name
    #[arg(value_name = "SESSION")]
    pub session: String,
}

#[derive(Debug, Args)]
pub struct SessionCreateArgs {
    /// Id or name of the campaign [default: the one the current folder belongs to]
    #[arg(long, short, value_name = "ID|NAME")]
    pub campaign: Option<String>,
    /// The agent: a provider, or an ACP agent such as gemini [default: sessions.default_provider, else one that is
    /// installed]
    #[arg(long, short, value_name = "AGENT")]
    pub provider: Option<String>,
    /// Record an agent that runs outside the daemon: a program of yours reports what it does (StreamAgentActivity)
    #[arg(
        long,
        conflicts_with_all = ["provider", "agent", "checkpoint", "message", "worktree", "sandbox", "memory", "cpus",
            "processes", "environment"]
    )]
    pub external: bool,
    /// The model [default: the provider's]
    #[arg(long, short)]
    pub model: Option<String>,
    /// A name for the session [default: the provider and the end of the id]
    #[arg(long, short)]
    pub name: Option<String>,
    /// Use a named agent (`obey agent`): its system prompt, skills and model; also names the session
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// Continue from a checkpoint (`obey checkpoint`): the agent is told what was done so far
    #[arg(long, value_name = "ID")]
    pub checkpoint: Option<String>,
    /// The festival that the session works on; recorded only
    #[arg(long)]
    pub festival: Option<String>,
    /// The task that the session works on; recorded only
    #[arg(long)]
    pub task: Option<String>,
    /// Work in a working tree of its own: an existing one, or a new one of this name [default name: from --message]
    #[arg(long, short, num_args = 0..=1, default_missing_value = "", value_name = "NAME")]
    pub worktree: Option<String>,
    /// The branch of a new working tree [default: its name]
    #[arg(long, requires = "worktree", value_name = "BRANCH")]
    pub branch: Option<String>,
    /// What a new branch starts from [default: what the campaign has checked out]
    #[arg(long, requires = "worktree", value_name = "BRANCH|COMMIT")]
    pub base: Option<String>,
    /// The mode: supervised, autonomous, plan or acceptEdits
    #[arg(long, value_parser = values::mode)]
    pub mode: Option<Mode>,
    /// Start the agent in the sandbox: it sees only its project and its own configuration
    #[arg(long)]
    pub sandbox: bool,
    /// What the sandboxed agent can reach: full, model (its model's endpoint only) or none [default: full]
    #[arg(long, requires = "sandbox", value_parser = values::network, value_name = "NETWORK")]
    pub network: Option<AgentNetwork>,
    /// Memory that the agent and everything it starts may use together, such as 4G or 512M
    #[arg(long, value_parser = values::memory, value_name = "SIZE")]
    pub memory: Option<String>,
    /// Processors they may use together, such as 2 or 0.5
    #[arg(long, value_parser = values::cpus, value_name = "NUMBER")]
    pub cpus: Option<String>,
    /// Processes and threads they may have at a time
    #[arg(long, value_parser = values::processes, value_name = "N")]
    pub processes: Option<String>,
    /// Workers that the agent may have at a time; without it, it gets no tools to start any [default: as configured]
    #[arg(long, value_parser = clap::value_parser!(u32).range(0..=100), value_name = "N")]
    pub workers: Option<u32>,
    /// Settings for the provider, as a JSON object
    #[arg(long, value_parser = values::config, value_name = "JSON")]
    pub config: Option<HashMap<String, String>>,
    /// An environment variable for the agent; repeat for more
    #[arg(long = "env", value_parser = values::assignment, value_name = "K=V")]
    pub environment: Vec<(String, String)>,
    /// Token budget; 0: unlimited
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(i64).range(0..), allow_negative_numbers = true, value_name = "N")]
    pub max_tokens: i64,
    /// Stop the session after this time, such as 90s, 10m or 1h30m
    #[arg(long, value_parser = values::duration, value_name = "DURATION")]
    pub timeout: Option<Duration>,
    /// Send this once the agent is ready
    #[arg(long, visible_alias = "initial-message", value_name = "TEXT")]
    pub message: Option<String>,
    /// Start from an issue of the project's GitLab or GitHub: its number, or its address; --message says what to do with it
    #[arg(long, value_name = "NUMBER|URL")]
    pub issue: Option<String>,
    /// The session that started this one
    #[arg(long, value_name = "SESSION")]
    pub parent: Option<String>,
}

#[derive(Debug, Default, Args)]
pub struct SessionListArgs {
    /// Only sessions of this campaign
    #[arg(long, short, value_name = "ID|NAME")]
    pub campaign: Option<String>,
    /// Also sessions that ended
    #[arg(long, short)]
    pub all: bool,
    /// Only sessions in this status; repeat for more
    #[arg(long, value_parser = values::status)]
    pub status: Vec<Status>,
    /// Only sessions of this provider
    #[arg(long, short, value_parser = values::provider)]
    pub provider: Option<ProviderKind>,
}

#[derive(Debug, Args)]
pub struct SendArgs {
    /// Id, start of an id, or name
    #[arg(value_name = "SESSION")]
    pub session: String,
    /// The message; `-` or none: read from standard input
    #[arg(value_name = "MESSAGE")]
    pub message: Option<String>,
    /// Return when the message is accepted
    #[arg(long)]
    pub no_wait: bool,
    /// Add the message to the turn that is running
    #[arg(long)]
    pub steer: bool,
    /// If a turn is running, queue the message: it is sent when that, and what was queued before, has ended
    #[arg(long, conflicts_with = "steer")]
    pub queue: bool,
    /// An image or another file to send along; repeat for more
    #[arg(long, value_name = "FILE", conflicts_with = "steer")]
    pub image: Vec<PathBuf>,
    /// Change the session's mode first; it stays changed
    #[arg(long, value_parser = values::mode)]
    pub mode: Option<Mode>,
    /// Look for the session's name in this campaign only
    #[arg(long, short, value_name = "ID|NAME", hide = true)]
    pub campaign: Option<String>,
}

#[derive(Debug, Args)]
pub struct AttachArgs {
    /// Id, start of an id, or name
    #[arg(value_name = "SESSION")]
    pub session: String,
    /// How many past turns to show first
    #[arg(long, default_value_t = 3, value_name = "N")]
    pub tail: usize,
}

#[derive(Debug, Args)]
pub struct WatchArgs {
    /// Id, start of an id, or name
    #[arg(value_name = "SESSION", required_unless_present = "all")]
    pub session: Option<String>,
    /// Follow every session, including those created later
    #[arg(long, short, conflicts_with = "session")]
    pub all: bool,
    /// With --all: only sessions of this campaign
    #[arg(long, short, requires = "all", value_name = "ID|NAME")]
    pub campaign: Option<String>,
    /// How many past events to show first
    #[arg(long, default_value_t = 10, value_name = "N")]
    pub tail: usize,
}

#[derive(Debug, Args)]
pub struct LogArgs {
    /// Id, start of an id, or name
    #[arg(value_name = "SESSION")]
    pub session: String,
    /// Start with the event of this number
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub from: u64,
    /// At most this many events
    #[arg(long, default_value_t = 0, hide_default_value = true, value_name = "N")]
    pub limit: u64,
    /// Print only the last N events
    #[arg(long, short = 'n', value_name = "N", conflicts_with = "limit")]
    pub tail: Option<usize>,
    /// Keep printing new events until the session ends
    #[arg(long, short)]
    pub follow: bool,
}

#[derive(Debug, Args)]
pub struct RevealArgs {
    /// Id, start of an id, or name
    #[arg(value_name = "SESSION")]
    pub session: String,
    /// The number of the event, as `obey session log` prints it
    #[arg(value_name = "SEQ")]
    pub seq: u64,
}

#[derive(Debug, Args)]
pub struct RequestsArgs {
    /// Id, start of an id, or name [default: every session]
    #[arg(value_name = "SESSION")]
    pub session: Option<String>,
    /// Also requests that are settled
    #[arg(long, short)]
    pub all: bool,
}

#[derive(Debug, Args)]
pub struct ApproveArgs {
    /// Id, start of an id, or name
    #[arg(value_name = "SESSION")]
    pub session: String,
    /// The request [default: the only one that is pending]
    pub request: Option<String>,
    /// Also remember it for the rest of the session, as its first proposal says (see `session requests`)
    #[arg(long = "session", conflicts_with = "grant")]
    pub whole_session: bool,
    /// Also remember this proposal of the request, such as prefix or file.project (see `session requests`)
    #[arg(long, value_name = "PROPOSAL")]
    pub grant: Option<String>,
    /// The remembered permission expires after this time
    #[arg(long, value_parser = values::duration, value_name = "DURATION")]
    pub expires: Option<Duration>,
    /// The remembered permission can be used this many times
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..), value_name = "N")]
    pub uses: Option<u32>,
    /// The remembered permission also applies to the agent's sub-agents
    #[arg(long)]
    pub sub_agents: bool,
    /// Run the tool with this input instead
    #[arg(long, value_parser = values::json_object, value_name = "JSON")]
    pub input: Option<String>,
}

#[derive(Debug, Args)]
pub struct DenyArgs {
    /// Id, start of an id, or name
    #[arg(value_name = "SESSION")]
    pub session: String,
    /// The request [default: the only one that is pending]
    pub request: Option<String>,
    /// Tell the agent why
    #[arg(long, short)]
    pub message: Option<String>,
    /// Also end the turn
    #[arg(long)]
    pub stop: bool,
}

#[derive(Debug, Args)]
pub struct AnswerArgs {
    /// Id, start of an id, or name
    #[arg(value_name = "SESSION")]
    pub session: String,
    /// The request (req_…; default: the only pending one), then the answer, or QUESTION=ANSWER for each of
    /// several
    #[arg(required = true, value_name = "REQUEST|ANSWER")]
    pub words: Vec<String>,
}

#[derive(Debug, Args)]
pub struct ModeArgs {
    /// Id, start of an id, or name
    #[arg(value_name = "SESSION")]
    pub session: String,
    /// The mode: supervised, autonomous, plan or acceptEdits
    #[arg(value_parser = values::mode)]
    pub mode: Mode,
}

#[derive(Debug, Args)]
pub struct WaitArgs {
    /// Id, start of an id, or name; several: all of them
    #[arg(value_name = "SESSION", required_unless_present_any = ["any", "all"])]
    pub sessions: Vec<String>,
    /// Return with the first that has finished; without names: of all that work now
    #[arg(long, conflicts_with = "all")]
    pub any: bool,
    /// Return when all of them have finished; without names: all that work now
    #[arg(long)]
    pub all: bool,
    /// Give up after this time, such as 90s, 10m or 1h30m
    #[arg(long, value_parser = values::duration, value_name = "DURATION")]
    pub timeout: Option<Duration>,
}

#[derive(Debug, Args)]
pub struct SessionStopArgs {
    /// Id, start of an id, or name
    #[arg(value_name = "SESSION")]
    pub session: String,
    /// Do not wait for the running turn
    #[arg(long, short)]
    pub force: bool,
}

#[derive(Debug, Args)]
pub struct RestartArgs {
    /// Id, start of an id, or name
    #[arg(value_name = "SESSION")]
    pub session: String,
    /// Changed settings for the provider, as a JSON object
    #[arg(long, value_parser = values::config, value_name = "JSON")]
    pub config: Option<HashMap<String, String>>,
}

#[derive(Debug, Default, Args)]
pub struct TreeArgs {
    /// Also sessions that ended
    #[arg(long, short)]
    pub all: bool,
}

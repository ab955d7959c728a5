//! The command line of `obey session …`. A session is named by its id, the start of its id, or its name.

use std::collections::HashMap;
use std::time::Duration;

use clap::{Args, Subcommand};
use domain::{AgentNetwork, Mode, ProviderKind, Status};

use super::values;

#[derive(Debug, Subcommand)]
pub(crate) enum SessionCommand {
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
    Log(LogArgs),
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
    /// Wait until a session is idle or has ended
    Wait(WaitArgs),
    /// Stop a session's agent
    Stop(SessionStopArgs),
    /// Start a session again under the same id
    Restart(RestartArgs),
    /// Show sessions as a tree: by campaign, each below the session that started it
    Tree(TreeArgs),
}

#[derive(Debug, Args)]
pub(crate) struct SessionArg {
    /// Id, start of an id, or name
    #[arg(value_name = "SESSION")]
    pub(crate) session: String,
}

#[derive(Debug, Args)]
pub(crate) struct SessionCreateArgs {
    /// Id or name of the campaign [default: the one the current folder belongs to]
    #[arg(long, short, value_name = "ID|NAME")]
    pub(crate) campaign: Option<String>,
    /// The provider: claude-code, codex, openclaw, openai-api, acp or scripted
    #[arg(long, short, value_parser = values::provider)]
    pub(crate) provider: ProviderKind,
    /// The model [default: the provider's]
    #[arg(long, short)]
    pub(crate) model: Option<String>,
    /// A name for the session [default: the provider and the end of the id]
    #[arg(long, short)]
    pub(crate) name: Option<String>,
    /// Use a named agent (`obey agent`): its system prompt, skills and model; also names the session
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// Continue from a checkpoint (`obey checkpoint`): the agent is told what was done so far
    #[arg(long, value_name = "ID")]
    pub(crate) checkpoint: Option<String>,
    /// The festival that the session works on; recorded only
    #[arg(long)]
    pub(crate) festival: Option<String>,
    /// The task that the session works on; recorded only
    #[arg(long)]
    pub(crate) task: Option<String>,
    /// The mode: supervised, autonomous, plan or acceptEdits
    #[arg(long, value_parser = values::mode)]
    pub(crate) mode: Option<Mode>,
    /// Start the agent in the sandbox: it sees only its project and its own configuration
    #[arg(long)]
    pub(crate) sandbox: bool,
    /// What the sandboxed agent can reach: full, model (its model's endpoint only) or none [default: full]
    #[arg(long, requires = "sandbox", value_parser = values::network, value_name = "NETWORK")]
    pub(crate) network: Option<AgentNetwork>,
    /// Memory that the agent and everything it starts may use together, such as 4G or 512M
    #[arg(long, value_parser = values::memory, value_name = "SIZE")]
    pub(crate) memory: Option<String>,
    /// Processors they may use together, such as 2 or 0.5
    #[arg(long, value_parser = values::cpus, value_name = "NUMBER")]
    pub(crate) cpus: Option<String>,
    /// Processes and threads they may have at a time
    #[arg(long, value_parser = values::processes, value_name = "N")]
    pub(crate) processes: Option<String>,
    /// Settings for the provider, as a JSON object
    #[arg(long, value_parser = values::config, value_name = "JSON")]
    pub(crate) config: Option<HashMap<String, String>>,
    /// An environment variable for the agent; repeat for more
    #[arg(long = "env", value_parser = values::assignment, value_name = "K=V")]
    pub(crate) environment: Vec<(String, String)>,
    /// Token budget; 0: unlimited
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(i64).range(0..), value_name = "N")]
    pub(crate) max_tokens: i64,
    /// Stop the session after this time, such as 90s, 10m or 1h30m
    #[arg(long, value_parser = values::duration, value_name = "DURATION")]
    pub(crate) timeout: Option<Duration>,
    /// Send this once the agent is ready
    #[arg(long, visible_alias = "initial-message", value_name = "TEXT")]
    pub(crate) message: Option<String>,
    /// The session that started this one
    #[arg(long, value_name = "SESSION")]
    pub(crate) parent: Option<String>,
}

#[derive(Debug, Default, Args)]
pub(crate) struct SessionListArgs {
    /// Only sessions of this campaign
    #[arg(long, short, value_name = "ID|NAME")]
    pub(crate) campaign: Option<String>,
    /// Also sessions that ended
    #[arg(long, short)]
    pub(crate) all: bool,
    /// Only sessions in this status; repeat for more
    #[arg(long, value_parser = values::status)]
    pub(crate) status: Vec<Status>,
    /// Only sessions of this provider
    #[arg(long, short, value_parser = values::provider)]
    pub(crate) provider: Option<ProviderKind>,
}

#[derive(Debug, Args)]
pub(crate) struct SendArgs {
    /// Id, start of an id, or name
    #[arg(value_name = "SESSION")]
    pub(crate) session: String,
    /// The message; `-` or none: read from standard input
    #[arg(value_name = "MESSAGE")]
    pub(crate) message: Option<String>,
    /// Return when the message is accepted
    #[arg(long)]
    pub(crate) no_wait: bool,
    /// Add the message to the turn that is running
    #[arg(long)]
    pub(crate) steer: bool,
    /// Change the session's mode first; it stays changed
    #[arg(long, value_parser = values::mode)]
    pub(crate) mode: Option<Mode>,
    /// Look for the session's name in this campaign only
    #[arg(long, short, value_name = "ID|NAME", hide = true)]
    pub(crate) campaign: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct AttachArgs {
    /// Id, start of an id, or name
    #[arg(value_name = "SESSION")]
    pub(crate) session: String,
    /// How many past events to show first
    #[arg(long, default_value_t = 20, value_name = "N")]
    pub(crate) tail: usize,
}

#[derive(Debug, Args)]
pub(crate) struct WatchArgs {
    /// Id, start of an id, or name
    #[arg(value_name = "SESSION", required_unless_present = "all")]
    pub(crate) session: Option<String>,
    /// Follow every session, including those created later
    #[arg(long, short, conflicts_with = "session")]
    pub(crate) all: bool,
    /// With --all: only sessions of this campaign
    #[arg(long, short, requires = "all", value_name = "ID|NAME")]
    pub(crate) campaign: Option<String>,
    /// How many past events to show first
    #[arg(long, default_value_t = 10, value_name = "N")]
    pub(crate) tail: usize,
}

#[derive(Debug, Args)]
pub(crate) struct LogArgs {
    /// Id, start of an id, or name
    #[arg(value_name = "SESSION")]
    pub(crate) session: String,
    /// Start with the event of this number
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) from: u64,
    /// At most this many events
    #[arg(long, default_value_t = 0, hide_default_value = true, value_name = "N")]
    pub(crate) limit: u64,
    /// Print only the last N events
    #[arg(long, value_name = "N", conflicts_with = "limit")]
    pub(crate) tail: Option<usize>,
    /// Keep printing new events until the session ends
    #[arg(long, short)]
    pub(crate) follow: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RevealArgs {
    /// Id, start of an id, or name
    #[arg(value_name = "SESSION")]
    pub(crate) session: String,
    /// The number of the event, as `obey session log` prints it
    #[arg(value_name = "SEQ")]
    pub(crate) seq: u64,
}

#[derive(Debug, Args)]
pub(crate) struct RequestsArgs {
    /// Id, start of an id, or name [default: every session]
    #[arg(value_name = "SESSION")]
    pub(crate) session: Option<String>,
    /// Also requests that are settled
    #[arg(long, short)]
    pub(crate) all: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ApproveArgs {
    /// Id, start of an id, or name
    #[arg(value_name = "SESSION")]
    pub(crate) session: String,
    /// The request [default: the only one that is pending]
    pub(crate) request: Option<String>,
    /// Also remember it for the rest of the session, as its first proposal says (see `session requests`)
    #[arg(long = "session", conflicts_with = "grant")]
    pub(crate) whole_session: bool,
    /// Also remember this proposal of the request, such as prefix or file.project (see `session requests`)
    #[arg(long, value_name = "PROPOSAL")]
    pub(crate) grant: Option<String>,
    /// The remembered permission expires after this time
    #[arg(long, value_parser = values::duration, value_name = "DURATION")]
    pub(crate) expires: Option<Duration>,
    /// The remembered permission can be used this many times
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..), value_name = "N")]
    pub(crate) uses: Option<u32>,
    /// The remembered permission also applies to the agent's sub-agents
    #[arg(long)]
    pub(crate) sub_agents: bool,
    /// Run the tool with this input instead
    #[arg(long, value_parser = values::json_object, value_name = "JSON")]
    pub(crate) input: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct DenyArgs {
    /// Id, start of an id, or name
    #[arg(value_name = "SESSION")]
    pub(crate) session: String,
    /// The request [default: the only one that is pending]
    pub(crate) request: Option<String>,
    /// Tell the agent why
    #[arg(long, short)]
    pub(crate) message: Option<String>,
    /// Also end the turn
    #[arg(long)]
    pub(crate) stop: bool,
}

#[derive(Debug, Args)]
pub(crate) struct AnswerArgs {
    /// Id, start of an id, or name
    #[arg(value_name = "SESSION")]
    pub(crate) session: String,
    /// The request (req_…; default: the only pending one), then the answer, or QUESTION=ANSWER for each of
    /// several
    #[arg(required = true, value_name = "REQUEST|ANSWER")]
    pub(crate) words: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ModeArgs {
    /// Id, start of an id, or name
    #[arg(value_name = "SESSION")]
    pub(crate) session: String,
    /// The mode: supervised, autonomous, plan or acceptEdits
    #[arg(value_parser = values::mode)]
    pub(crate) mode: Mode,
}

#[derive(Debug, Args)]
pub(crate) struct WaitArgs {
    /// Id, start of an id, or name
    #[arg(value_name = "SESSION")]
    pub(crate) session: String,
    /// Give up after this time, such as 90s, 10m or 1h30m
    #[arg(long, value_parser = values::duration, value_name = "DURATION")]
    pub(crate) timeout: Option<Duration>,
}

#[derive(Debug, Args)]
pub(crate) struct SessionStopArgs {
    /// Id, start of an id, or name
    #[arg(value_name = "SESSION")]
    pub(crate) session: String,
    /// Do not wait for the running turn
    #[arg(long, short)]
    pub(crate) force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RestartArgs {
    /// Id, start of an id, or name
    #[arg(value_name = "SESSION")]
    pub(crate) session: String,
    /// Changed settings for the provider, as a JSON object
    #[arg(long, value_parser = values::config, value_name = "JSON")]
    pub(crate) config: Option<HashMap<String, String>>,
}

#[derive(Debug, Default, Args)]
pub(crate) struct TreeArgs {
    /// Also sessions that ended
    #[arg(long, short)]
    pub(crate) all: bool,
}

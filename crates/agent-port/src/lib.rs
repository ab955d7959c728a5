//! The port every agent plugs into. A provider that is a program gives a plan to start it and a codec for its
//! lines; one that lives in the daemon gives an agent object. Nothing outside `providers` knows which one it is.

pub mod environment;
pub mod helper;
pub mod past;
pub mod toolbox;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use domain::{AgentEvent, AgentInput, Error, ErrorCode, ProviderKind, SessionId, SessionSpec, State};
use serde_json::Value;
use tokio::sync::mpsc;

pub use helper::{HelperCommand, HelperProcess, HelperPrograms};
pub use past::{EventReader, PastEvents};
use toolbox::Work;

/// A kind of agent that can be run.
pub trait Provider: Send + Sync {
    fn kind(&self) -> ProviderKind;

    fn capabilities(&self) -> Capabilities;

    /// Checks model and `provider_config` before anything is created. Names the field that is wrong.
    fn check(&self, spec: &SessionSpec) -> Result<(), Error>;

    /// Says how to start the agent. May look at the disk, starts nothing itself.
    fn launch(&self, request: &LaunchRequest<'_>) -> Result<LaunchPlan, Error>;

    /// Returns the codec of an agent that is running already, from what `Codec::save` gave.
    fn codec(&self, spec: &SessionSpec, saved: &str) -> Result<Box<dyn Codec>, Error>;

    /// Returns who handles the client requests of an agent that is a process, if it has any.
    fn helper(&self, _spec: &SessionSpec) -> Option<Arc<dyn ClientRequestHandler>> {
        None
    }

    /// Whether the agent reads the tools of its MCP servers again only when a turn begins. Otherwise it does so when it
    /// is told of a change, and a prompt must not overtake it.
    fn reads_tools_with_a_turn(&self) -> bool {
        false
    }

    /// Says whether the agent can be run here.
    fn availability(&self) -> Availability;

    /// The daemon ends: what the provider itself holds beside its agents ends with it.
    fn end(&self) {}

    /// Returns the models it is known to have without asking it; there may be more.
    fn models(&self) -> Vec<String> {
        Vec::new()
    }
}

/// What a provider can do; optional abilities that a surface may offer or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// It is a process of its own and outlives the daemon.
    pub process: bool,
    pub resume: bool,
    pub steer: bool,
    pub questions: bool,
    pub attachments: bool,
    pub compaction: bool,
}

/// Whether an agent can be run here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Availability {
    Installed {
        program: PathBuf,
        version: Option<String>,
    },
    /// Part of the daemon.
    BuiltIn,
    /// `remedy` says what to install or set.
    Missing {
        remedy: String,
    },
}

/// What a provider needs to know to start an agent.
pub struct LaunchRequest<'a> {
    pub spec: &'a SessionSpec,
    pub state: &'a State,
    /// Take up the conversation named by `state.native_session`.
    pub resume: bool,
    /// The complete environment for agents, cleaned, with the request's own entries added.
    pub environment: Vec<(OsString, OsString)>,
    /// The daemon's own MCP server; absent where nothing is offered through it.
    pub bridge: Option<BridgeServer>,
    /// What happened in the session so far, for an agent that has no memory of its own.
    pub past: Option<PastEvents>,
    /// Starts the programs that an agent inside the daemon needs; absent where none can be held.
    pub programs: Option<Arc<dyn HelperPrograms>>,
}

/// The daemon's MCP server as its agent starts it: a program that speaks the protocol over its standard streams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BridgeServer {
    pub command: PathBuf,
    pub args: Vec<String>,
}

impl BridgeServer {
    /// How the server is called in an agent's configuration.
    pub const NAME: &'static str = "obey";

    /// Returns the plain name of one of its tools, from the name an agent has for it.
    pub fn plain_name(tool: &str) -> Option<&str> {
        tool.strip_prefix("mcp__")?.strip_prefix(Self::NAME)?.strip_prefix("__")
    }
}

/// How to start an agent.
pub enum LaunchPlan {
    Process(Box<ProcessLaunch>),
    InProcess(Box<dyn InProcessAgent>),
}

/// A program to run and the codec for what it says.
pub struct ProcessLaunch {
    pub program: PathBuf,
    pub args: Vec<OsString>,
    pub environment: Vec<(OsString, OsString)>,
    pub codec: Box<dyn Codec>,
    pub places: Places,
}

/// What an agent needs of the machine beside its project and its program when it runs in the sandbox. What is not there is
/// passed over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// Files and folders it reads.
    pub read_only: Vec<PathBuf>,
    /// Files and folders it changes, for good.
    pub writable: Vec<PathBuf>,
    /// Folders in which it keeps conversations, for good. Of each it sees only what its own session put there.
    pub folders: Vec<PathBuf>,
    /// Files it finds as they are; what it changes is gone with it. For what would make another program run code.
    pub copies: Vec<CopiedFile>,
    /// Folders, other than the home, in which it finds nothing but the above.
    pub private: Vec<PathBuf>,
    /// Where its model is: URLs, or hosts with ports.
    pub endpoints: Vec<String>,
}

impl Places {
    /// Returns where the session's own part of one of `folders` is; the agent sees it in place of the folder.
    pub fn own_part(folder: &Path, session: &SessionId) -> PathBuf {
        folder.join(format!("obey-{session}"))
    }
}

/// A file of which an agent in the sandbox gets a copy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CopiedFile {
    pub path: PathBuf,
    /// A JSON file with an object of this name, of which it gets only these entries: the others are not its business.
    pub only: Option<(String, Vec<String>)>,
}

impl From<PathBuf> for CopiedFile {
    fn from(path: PathBuf) -> Self {
        Self { path, only: None }
    }
}

/// Translates between an agent's lines and our words. Pure: no I/O, no clock. Its state is saved in the same
/// transaction as the events it produced, so that a daemon that comes back goes on in the middle of a turn.
pub trait Codec: Send {
    /// Writes what the agent must be told first.
    fn open(&mut self, wire: &mut Vec<u8>);

    /// Takes one line of output, without its line end.
    fn decode(&mut self, line: &[u8], out: &mut Decoded);

    /// Writes the lines that tell the agent something. Writing nothing is fine where the agent needs nothing.
    fn encode(&mut self, input: &AgentInput, wire: &mut Vec<u8>) -> Result<(), Error>;

    /// Takes what the agent wants done and is to be begun now. Asked for once what led to it is on disk. A codec that
    /// `Provider::codec` made names those again that were under way.
    fn take_client_requests(&mut self) -> Vec<ClientRequest> {
        Vec::new()
    }

    /// Takes the result of a client request.
    fn client_request_done(&mut self, _id: &str, _result: Result<Value, Error>, _out: &mut Decoded) {}

    /// Returns what `Provider::codec` needs to go on from here.
    fn save(&self) -> String;
}

/// Something an agent wants its client to do, in the provider's own words.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientRequest {
    pub id: String,
    pub what: Value,
}

/// Handles the client requests of one session's agent.
pub trait ClientRequestHandler: Send + Sync {
    /// Does one; dropping the work ends it.
    fn run(&self, what: Value) -> Work<Value>;
}

/// What one line meant.
#[derive(Default)]
pub struct Decoded {
    pub events: Vec<AgentEvent>,
    /// Lines the agent must be answered, such as replies to its own calls.
    pub replies: Vec<u8>,
}

/// An agent that lives in the daemon. Reports through the channel it was started with.
pub trait InProcessAgent: Send {
    fn start(&mut self, events: mpsc::Sender<AgentEvent>);

    /// Refuses what the agent could not be told, before anything of it is recorded.
    fn check(&self, _input: &AgentInput) -> Result<(), Error> {
        Ok(())
    }

    /// Never blocks; long work goes to a task of its own.
    fn send(&mut self, input: AgentInput) -> Result<(), Error>;

    /// Ends it at once; what it has elsewhere goes as well. It has ended when it can report no more.
    fn stop(&mut self);

    /// Lets go of it because the daemon ends; the session goes on with the next one.
    fn detach(&mut self) {
        self.stop();
    }
}

/// The providers this daemon has.
#[derive(Clone, Default)]
pub struct Providers {
    all: Vec<Arc<dyn Provider>>,
}

impl Providers {
    /// Collects providers; a later one of the same kind replaces an earlier one.
    pub fn new(all: Vec<Arc<dyn Provider>>) -> Self {
        Self { all }
    }

    /// Returns the provider of a kind, or OBEY-2002.
    pub fn get(&self, kind: ProviderKind) -> Result<&Arc<dyn Provider>, Error> {
        self.all.iter().rev().find(|provider| provider.kind() == kind).ok_or_else(|| {
            Error::new(
                ErrorCode::ProviderUnsupported,
                format!("provider: {} is not supported by this daemon", kind.name()),
            )
        })
    }

    /// Returns every provider.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn Provider>> {
        self.all.iter()
    }
}

//! The port every agent plugs into. A provider that is a program supplies a plan to start it and a codec for
//! its lines; one that runs inside the daemon supplies an agent object. Nothing outside `providers` knows
//! which one it is.

pub mod conversations;
pub mod environment;
pub mod helper;
pub mod past;
mod revisioned;
pub mod toolbox;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use domain::{AgentEvent, AgentInput, Error, ErrorCode, Event, ProviderKind, SessionId, SessionSpec, State};
use serde_json::Value;
use tokio::sync::mpsc;

pub use helper::{HelperCommand, HelperProcess, HelperPrograms};
pub use past::{EventReader, PastEvents};
pub use revisioned::Revisioned;
use toolbox::Work;

/// A kind of agent that can be run.
pub trait Provider: Send + Sync {
    fn kind(&self) -> ProviderKind;

    fn capabilities(&self) -> Capabilities;

    /// Checks model and `provider_config` before anything is created. Names the field that is wrong.
    fn check(&self, spec: &SessionSpec) -> Result<(), Error>;

    /// Returns how to start the agent. May read the disk but starts nothing.
    fn launch(&self, request: &LaunchRequest<'_>) -> Result<LaunchPlan, Error>;

    /// Returns the codec of an agent that is already running, restored from the result of `Codec::save`.
    fn codec(&self, spec: &SessionSpec, saved: &str) -> Result<Box<dyn Codec>, Error>;

    /// Returns the handler for the client requests of an agent that is a process, if it has any.
    fn helper(&self, _spec: &SessionSpec) -> Option<Arc<dyn ClientRequestHandler>> {
        None
    }

    /// Returns whether the agent re-reads the tools of its MCP servers only when a turn starts. Otherwise it
    /// re-reads them when it is notified of a change, and a prompt must not overtake that.
    fn reads_tools_with_a_turn(&self) -> bool {
        false
    }

    /// Returns whether the agent can be run with a `PATH`.
    fn availability(&self, path: Option<&OsStr>) -> Availability;

    /// Ends what the provider itself holds besides its agents, because the daemon exits.
    fn end(&self) {}

    /// Returns the conversations that the agent keeps in files of its own, if it does.
    fn conversations(&self) -> Option<Box<dyn conversations::ConversationFiles>> {
        None
    }

    /// Returns the models known without asking the agent; there may be more.
    fn models(&self) -> Vec<String> {
        Vec::new()
    }
}

/// What a provider can do: optional features that a surface may offer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// It is a separate process and outlives the daemon.
    pub process: bool,
    pub resume: bool,
    pub steer: bool,
    pub questions: bool,
    pub attachments: bool,
    pub compaction: bool,
    /// It takes `append_system_prompt`.
    pub system_prompt: bool,
    /// It takes an earlier conversation as turns.
    pub history: bool,
    /// It takes system messages between turns.
    pub system_messages: bool,
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
    /// Resume the conversation named by `state.native_session`.
    pub resume: bool,
    /// The complete environment for agents, filtered, with the request's own entries added.
    pub environment: Vec<(OsString, OsString)>,
    /// The daemon's own MCP server; absent if nothing is offered through it.
    pub bridge: Option<BridgeServer>,
    /// The events of the session so far, for an agent that keeps no history.
    pub past: Option<PastEvents>,
    /// The conversation that the session was created with, for an agent that keeps its own history and has not begun it.
    pub given: Vec<Arc<Event>>,
    /// Starts the helper programs of an agent inside the daemon; absent if none can be run.
    pub programs: Option<Arc<dyn HelperPrograms>>,
}

/// The daemon's MCP server as its agent starts it: a program that speaks the protocol over its standard
/// streams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BridgeServer {
    pub command: PathBuf,
    pub args: Vec<String>,
}

impl BridgeServer {
    /// The name of the server in an agent's configuration.
    pub const NAME: &'static str = "obey";

    /// Returns the plain name of one of the server's tools from the name the agent uses.
    pub fn plain_name(tool: &str) -> Option<&str> {
        tool.strip_prefix("mcp__")?.strip_prefix(Self::NAME)?.strip_prefix("__")
    }
}

/// How to start an agent.
pub enum LaunchPlan {
    Process(Box<ProcessLaunch>),
    InProcess(Box<dyn InProcessAgent>),
}

/// A program to run and the codec for its output.
pub struct ProcessLaunch {
    pub program: PathBuf,
    pub args: Vec<OsString>,
    pub environment: Vec<(OsString, OsString)>,
    pub codec: Box<dyn Codec>,
    pub places: Places,
}

/// What an agent needs from the machine besides its project and its program when it runs in the sandbox.
/// Missing paths are skipped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// Files and folders it reads.
    pub read_only: Vec<PathBuf>,
    /// Files and folders it changes permanently.
    pub writable: Vec<PathBuf>,
    /// Folders in which it keeps conversations, for good. Of each it sees only what its own session put there.
    pub folders: Vec<PathBuf>,
    /// Files it finds as they are; what it changes is gone with it. For what would make another program run code.
    pub copies: Vec<CopiedFile>,
    /// Folders, other than the home, in which it finds nothing but the above.
    pub private: Vec<PathBuf>,
    /// The addresses of its model: URLs, or hosts with ports.
    pub endpoints: Vec<String>,
    /// Databases that it would make anew at every start, because it finds `private` folders empty.
    pub prepared: Option<PreparedState>,
}

/// SQLite files that an agent makes where it finds none. They are made once for each version of the program, by the program
/// itself with nothing to work on, and every agent in the sandbox gets copies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PreparedState {
    /// The folder in which the agent looks for them.
    pub folder: PathBuf,
    /// The variable that says where that folder is.
    pub variable: &'static str,
    /// What to run the program with.
    pub args: Vec<OsString>,
    /// What it is sent; once it has answered with a line, its files are there.
    pub input: Vec<u8>,
    /// Where prepared files are kept.
    pub cache: PathBuf,
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
    /// Writes the first message to the agent.
    fn open(&mut self, wire: &mut Vec<u8>);

    /// Handles one line of output, without its line end.
    fn decode(&mut self, line: &[u8], out: &mut Decoded);

    /// Encodes an input as lines for the agent. Writing nothing is fine if the agent needs nothing.
    fn encode(&mut self, input: &AgentInput, wire: &mut Vec<u8>) -> Result<(), Error>;

    /// Returns the client requests to start now. Called once the events that led to them are on disk. A codec
    /// restored by `Provider::codec` returns those again that were in progress.
    fn take_client_requests(&mut self) -> Vec<ClientRequest> {
        Vec::new()
    }

    /// Handles the result of a client request.
    fn client_request_done(&mut self, _id: &str, _result: Result<Value, Error>, _out: &mut Decoded) {}

    /// Returns the codec state that `Provider::codec` needs to resume.
    fn save(&self) -> String;

    /// Returns the revision of that state. As long as it stays the same, `save` returns the same.
    fn revision(&self) -> u64;

    /// Returns a copy. A command is decided on it, and it replaces the codec once the command is committed.
    fn boxed_clone(&self) -> Box<dyn Codec>;
}

impl Clone for Box<dyn Codec> {
    fn clone(&self) -> Self {
        // Through the box: a box of a codec is no codec.
        (**self).boxed_clone()
    }
}

/// Something an agent asks its client to do, in the provider's format.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientRequest {
    pub id: String,
    pub what: Value,
}

/// Handles the client requests of one session's agent.
pub trait ClientRequestHandler: Send + Sync {
    /// Runs one request; dropping the returned work cancels it.
    fn run(&self, what: Value) -> Work<Value>;
}

/// The meaning of one line.
#[derive(Default)]
pub struct Decoded {
    pub events: Vec<AgentEvent>,
    /// Lines to send back to the agent, such as replies to its own calls.
    pub replies: Vec<u8>,
}

/// An agent that runs inside the daemon. Reports through the channel it was started with.
pub trait InProcessAgent: Send {
    fn start(&mut self, events: mpsc::Sender<AgentEvent>);

    /// Refuses an input that the agent could not handle, before anything of it is recorded.
    fn check(&self, _input: &AgentInput) -> Result<(), Error> {
        Ok(())
    }

    /// Never blocks; long work goes to a separate task.
    fn send(&mut self, input: AgentInput) -> Result<(), Error>;

    /// Ends the agent at once, including what it has elsewhere. It has ended when it can report no more.
    fn stop(&mut self);

    /// Detaches because the daemon exits; the session continues with the next daemon.
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

//! Any agent that speaks the Agent Client Protocol, version 1, as one long-lived process with JSON-RPC lines.
//! Defines how it starts, what its lines mean (`rpc`, `translate`) and how input is sent to it (`encode`);
//! everything kept between two lines is in `state`. Files and commands the agent asks its client for are
//! handled by `client_requests`.

mod choices;
mod client_requests;
mod encode;
mod limits;
mod names;
mod options;
mod permitted;
mod rpc;
mod settings;
mod state;
mod translate;
mod typed;
mod versions;

#[cfg(test)]
mod tests;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use agent_port::environment::inherited;
use agent_port::toolbox::SessionToolbox;
use agent_port::{
    Availability, Capabilities, ClientRequest, ClientRequestHandler, Codec, Decoded, LaunchPlan,
    LaunchRequest, ProcessLaunch, Provider, Revisioned,
};
use domain::{AgentInput, Error, ErrorCode, ProviderKind, SessionSpec};
use serde_json::Value;

use crate::limits::MODEL_NAME_MAX_CHARS;
use client_requests::AcpClientRequestHandler;
use provider_common::codec_state;
use provider_common::config::{fill_servers, invalid};
use provider_common::program::{find, is_executable, npm_version, untrusted_dir, variable};
use settings::AcpSettings;
pub use settings::NamedAgents;
use state::{AcpState, BridgeCommand};

/// The provider `acp`.
pub struct Acp {
    named: NamedAgents,
    toolbox: Option<Arc<dyn SessionToolbox>>,
}

impl Acp {
    /// Creates the provider. Agents are known by these names, and their client requests are run with the
    /// toolbox.
    pub fn new(named: NamedAgents, toolbox: Option<Arc<dyn SessionToolbox>>) -> Self {
        Self { named, toolbox }
    }

    fn settings(&self, spec: &SessionSpec) -> Result<AcpSettings, Error> {
        let mut settings = AcpSettings::read(&spec.provider_config, &self.named)?;
        settings.client_tools &= self.toolbox.is_some();
        Ok(settings)
    }
}

impl Provider for Acp {
    fn kind(&self) -> ProviderKind {
        ProviderKind::Acp
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            process: true,
            resume: true,
            steer: false,
            questions: false,
            attachments: true,
            compaction: false,
            system_prompt: false,
            history: false,
            system_messages: false,
        }
    }

    fn check(&self, spec: &SessionSpec) -> Result<(), Error> {
        let plain = |letter: char| !letter.is_control() && !letter.is_whitespace();
        if spec.model.len() > MODEL_NAME_MAX_CHARS || !spec.model.chars().all(plain) {
            let shown: String = spec.model.chars().filter(|letter| !letter.is_control()).take(64).collect();
            let message = format!("model: {shown:?} cannot be the name of a model");
            return Err(Error::new(ErrorCode::ModelUnsupported, message));
        }
        self.settings(spec).map(drop)
    }

    fn launch(&self, request: &LaunchRequest<'_>) -> Result<LaunchPlan, Error> {
        let mut settings = self.settings(request.spec)?;
        fill_servers(&mut settings.mcp_servers, &request.environment)?;
        let (name, args) = settings.command.split_first().ok_or_else(|| invalid("command", "is empty"))?;
        let untrusted = untrusted_dir(request.spec, &request.environment);
        let path = variable(&request.environment, "PATH");
        let program = locate(name, path, untrusted).ok_or_else(|| {
            let message = format!("{name} cannot be found or run; {}", remedy(&settings.name));
            Error::new(ErrorCode::CreateFailed, message)
        })?;
        let args = args.iter().map(Into::into).collect();
        let places = settings.places.clone();
        let codec = Box::new(AcpCodec { state: first_memory(request).into(), settings, begun: Vec::new() });
        Ok(LaunchPlan::Process(Box::new(ProcessLaunch {
            program,
            args,
            environment: request.environment.clone(),
            codec,
            places,
        })))
    }

    fn codec(&self, spec: &SessionSpec, saved: &str) -> Result<Box<dyn Codec>, Error> {
        let state: AcpState = codec_state::read(saved)?;
        let mut settings = self.settings(spec)?;
        // A variable that no longer exists costs a server that was not sent yet, but no session.
        let _ = fill_servers(&mut settings.mcp_servers, &inherited(&spec.environment));
        Ok(Box::new(AcpCodec { state: state.into(), settings, begun: Vec::new() }))
    }

    fn helper(&self, spec: &SessionSpec) -> Option<Arc<dyn ClientRequestHandler>> {
        let toolbox = self.toolbox.as_ref()?;
        Some(Arc::new(AcpClientRequestHandler::new(toolbox.open(spec))))
    }

    fn availability(&self, path: Option<&OsStr>) -> Availability {
        let found = self.named.iter().find_map(|(_, command)| locate(command.first()?, path, None));
        match found {
            Some(program) => Availability::Installed { program, version: None },
            None => Availability::Missing {
                remedy: "no ACP agent is on the PATH; install one, such as goose".to_owned(),
            },
        }
    }
}

/// Returns for every named agent whether it can be run with a `PATH`.
pub fn availability(named: &NamedAgents, path: Option<&OsStr>) -> Vec<(String, Availability)> {
    let of = |name: &str, command: &[String]| match command
        .first()
        .and_then(|program| locate(program, path, None))
    {
        Some(program) => Availability::Installed { version: npm_version(&program), program },
        None => Availability::Missing { remedy: remedy(name) },
    };
    named.iter().map(|(name, command)| (name.to_owned(), of(name, command))).collect()
}

/// Finds an agent's program: an absolute path, or a name on the agent's `PATH` outside the repository.
fn locate(name: &str, path: Option<&std::ffi::OsStr>, untrusted: Option<&Path>) -> Option<PathBuf> {
    let program = Path::new(name);
    if program.is_absolute() {
        return is_executable(program).then(|| program.to_owned());
    }
    path.and_then(|path| find(name, path, untrusted))
}

/// Returns what to install.
fn remedy(name: &str) -> String {
    let package = match name {
        "codex-acp" => "npm install -g @zed-industries/codex-acp",
        "claude-agent-acp" => "npm install -g @agentclientprotocol/claude-agent-acp",
        "gemini" => "npm install -g @google/gemini-cli",
        "goose" => "npm install -g @aaif/goose",
        "opencode" => "npm install -g opencode-ai",
        _ => return "install it, or name it with its whole path".to_owned(),
    };
    format!("install it with `{package}`")
}

/// Returns the codec state of a new run.
fn first_memory(request: &LaunchRequest<'_>) -> AcpState {
    let (spec, state) = (request.spec, request.state);
    AcpState {
        cwd: spec.working_dir.to_string_lossy().into_owned(),
        resume: if request.resume { state.native_session.clone() } else { String::new() },
        had_turns: state.turns > 0,
        model_is_wanted: state.model == spec.model,
        asked_model: state.model.clone(),
        mode: state.mode,
        bridge: request.bridge.as_ref().map(|server| BridgeCommand {
            command: server.command.to_string_lossy().into_owned(),
            args: server.args.clone(),
        }),
        ..AcpState::default()
    }
}

#[derive(Clone)]
struct AcpCodec {
    state: Revisioned<AcpState>,
    settings: AcpSettings,
    /// Client requests that were already returned; not saved, so that the next daemon gets them again.
    begun: Vec<String>,
}

impl Codec for AcpCodec {
    fn open(&mut self, wire: &mut Vec<u8>) {
        encode::open(&mut self.state, &self.settings, wire);
    }

    fn decode(&mut self, line: &[u8], out: &mut Decoded) {
        translate::line(&mut self.state, &self.settings, line, out);
    }

    fn encode(&mut self, input: &AgentInput, wire: &mut Vec<u8>) -> Result<(), Error> {
        encode::input(&mut self.state, input, wire)
    }

    fn take_client_requests(&mut self) -> Vec<ClientRequest> {
        let fresh = self.state.errands.iter().filter(|(id, _)| !self.begun.contains(id));
        let fresh: Vec<ClientRequest> =
            fresh.map(|(id, wanted)| ClientRequest { id: id.clone(), what: wanted.what.clone() }).collect();
        self.begun.extend(fresh.iter().map(|errand| errand.id.clone()));
        fresh
    }

    fn client_request_done(&mut self, id: &str, result: Result<Value, Error>, out: &mut Decoded) {
        self.begun.retain(|begun| begun != id);
        translate::returned(&mut self.state, id, result, out);
    }

    fn save(&self) -> String {
        codec_state::write(&*self.state)
    }

    fn revision(&self) -> u64 {
        self.state.revision()
    }

    fn boxed_clone(&self) -> Box<dyn Codec> {
        Box::new(self.clone())
    }
}

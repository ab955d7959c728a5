//! Claude Code, as one long-lived process that speaks JSON lines (`--input-format stream-json`). Defines how
//! it starts (`launch`), what its lines mean (`wire`, `translate`) and how input is sent to it (`encode`);
//! everything kept between two lines is in `state`. Knows nothing of the clients of the session.

mod conversations;
mod encode;
mod given;
mod launch;
mod limits;
mod models;
mod settings;
mod state;
mod title;
mod translate;
mod usage;
mod uuid;
mod wire;

#[cfg(test)]
mod tests;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use agent_port::{
    Availability, Capabilities, Codec, Decoded, LaunchPlan, LaunchRequest, ProcessLaunch, Provider,
    Revisioned,
};
use domain::{AgentInput, Error, ProviderKind, SessionSpec};
use serde_json::{Map, Value};

use provider_common::codec_state;
use settings::ClaudeSettings;
use state::ClaudeState;

/// The version this code was tested with. Others of the same minor version are expected to work.
pub const TESTED_VERSION: &str = "2.1.325";

/// The tested range of versions, in words.
const TESTED_RANGE: &str = "2.1.0 up to, but not including, 2.2.0";

/// Returns whether a version has the tested protocol: the same minor version, `2.1`.
fn is_tested(version: &str) -> bool {
    provider_common::program::has_same_minor(TESTED_VERSION, version)
}

/// The provider `claude-code`.
pub struct ClaudeCode {
    binary: Option<PathBuf>,
}

impl ClaudeCode {
    /// Creates the provider; without a program from the configuration, `claude` is searched on the `PATH`.
    pub fn new(binary: Option<PathBuf>) -> Self {
        Self { binary }
    }
}

impl Provider for ClaudeCode {
    fn kind(&self) -> ProviderKind {
        ProviderKind::ClaudeCode
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            process: true,
            resume: true,
            steer: true,
            questions: true,
            attachments: true,
            compaction: true,
            system_prompt: true,
            history: true,
            system_messages: false,
        }
    }

    fn check(&self, spec: &SessionSpec) -> Result<(), Error> {
        models::check(&spec.model)?;
        ClaudeSettings::read(&spec.provider_config).map(drop)
    }

    fn launch(&self, request: &LaunchRequest<'_>) -> Result<LaunchPlan, Error> {
        let mut settings = ClaudeSettings::read(&request.spec.provider_config)?;
        if request.bridge.is_some() {
            launch::allow_bridge(&mut settings);
        }
        let environment = launch::environment(request);
        provider_common::config::fill_servers(&mut settings.mcp_servers, &environment)?;
        let path = provider_common::program::variable(&environment, "PATH");
        let untrusted = provider_common::program::untrusted_dir(request.spec, &environment);
        let program = launch::PROGRAM.locate(self.binary.as_deref(), path, untrusted)?;
        let (name, origin) = launch::origin(request)?;
        let mut args = launch::arguments(&settings, request.state, &name, &origin);
        args.extend(request.bridge.as_ref().map(launch::bridge));
        let state = launch::codec_state(request, &name);
        let first = First { system_prompt: settings.append_system_prompt, servers: settings.mcp_servers };
        let codec = Box::new(ClaudeCodec { state: state.into(), first });
        let mut places =
            provider_common::places::claude(&environment, &[&request.spec.root, &request.spec.working_dir]);
        places.writable.extend(settings.add_dirs);
        Ok(LaunchPlan::Process(Box::new(ProcessLaunch { program, args, environment, codec, places })))
    }

    fn codec(&self, _spec: &SessionSpec, saved: &str) -> Result<Box<dyn Codec>, Error> {
        let state: ClaudeState = codec_state::read(saved)?;
        Ok(Box::new(ClaudeCodec { state: state.into(), first: First::default() }))
    }

    fn availability(&self, path: Option<&OsStr>) -> Availability {
        launch::PROGRAM.availability(self.binary.as_deref(), path, installed_version)
    }

    fn conversations(&self) -> Option<Box<dyn agent_port::conversations::ConversationFiles>> {
        Some(Box::new(conversations::ClaudeConversations::of_this_user()))
    }

    fn models(&self) -> Vec<String> {
        models::ALIASES.map(str::to_owned).to_vec()
    }
}

/// Reads the version from the installation folder; running the program would be slow.
fn installed_version(program: &Path) -> Option<String> {
    let real = program.canonicalize().ok()?;
    // Its own installer: …/claude/versions/2.1.325.
    let name = real.file_name()?.to_str()?;
    if name.contains('.') && name.chars().all(|letter| letter.is_ascii_digit() || letter == '.') {
        return Some(name.to_owned());
    }
    // npm: a package.json beside the program or one folder above.
    real.ancestors().skip(1).take(2).find_map(|folder| {
        let text = std::fs::read_to_string(folder.join("package.json")).ok()?;
        let package: Value = serde_json::from_str(&text).ok()?;
        let ours = package["name"].as_str()?.starts_with("@anthropic-ai/claude-code");
        if ours { package["version"].as_str().map(str::to_owned) } else { None }
    })
}

/// What is sent to a new agent once; not kept, since it may contain keys.
#[derive(Clone, Default)]
struct First {
    system_prompt: String,
    servers: Map<String, Value>,
}

#[derive(Clone)]
struct ClaudeCodec {
    state: Revisioned<ClaudeState>,
    first: First,
}

impl Codec for ClaudeCodec {
    fn open(&mut self, wire: &mut Vec<u8>) {
        let First { system_prompt, servers } = std::mem::take(&mut self.first);
        encode::open(&mut self.state, &system_prompt, servers, wire);
    }

    fn decode(&mut self, line: &[u8], out: &mut Decoded) {
        translate::line(&mut self.state, line, out);
    }

    fn encode(&mut self, input: &AgentInput, wire: &mut Vec<u8>) -> Result<(), Error> {
        encode::input(&mut self.state, input, wire)
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

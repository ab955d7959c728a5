//! Codex, as one long-lived process that speaks JSON-RPC lines (`codex app-server`). Defines how it starts
//! (`launch`), what its lines mean (`rpc`, `translate`) and how input is sent to it (`encode`); everything
//! kept between two lines is in `state`. Knows nothing of the clients of the session.

mod conversations;
mod encode;
mod history;
mod launch;
mod limits;
mod mode_settings;
mod models;
mod rpc;
mod settings;
mod state;
mod translate;

#[cfg(test)]
mod tests;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use agent_port::environment::inherited;
use agent_port::{
    Availability, Capabilities, Codec, Decoded, LaunchPlan, LaunchRequest, ProcessLaunch, Provider,
    Revisioned,
};
use domain::{AgentInput, Error, ProviderKind, SessionSpec};
use serde_json::Value;

use provider_common::codec_state;
use provider_common::config::fill_servers;
use settings::CodexSettings;
use state::CodexState;

/// The version this code was tested with. Others of the same minor version are expected to work.
pub const TESTED_VERSION: &str = "0.166.0";

/// The tested range of versions, in words.
const TESTED_RANGE: &str = "0.166.0 up to, but not including, 0.167.0";

/// Returns whether a version has the tested protocol.
fn is_tested(version: &str) -> bool {
    provider_common::program::has_same_minor(TESTED_VERSION, version)
}

/// The provider `codex`.
pub struct Codex {
    binary: Option<PathBuf>,
    /// The program it runs at the end of a turn; empty for none.
    notify: Vec<String>,
    /// The daemon's own executable, which forwards notifications if a session asks for that.
    obey_exe: PathBuf,
}

impl Codex {
    /// Creates the provider; without a program from the configuration, `codex` is searched on the `PATH`.
    pub fn new(binary: Option<PathBuf>) -> Self {
        Self { binary, notify: Vec::new(), obey_exe: PathBuf::new() }
    }

    /// Sets what it runs at the end of a turn: a program of the configuration, and the one that forwards
    /// notifications.
    pub fn with_notify(self, notify: Vec<String>, obey_exe: PathBuf) -> Self {
        Self { notify, obey_exe, ..self }
    }
}

impl Provider for Codex {
    fn kind(&self) -> ProviderKind {
        ProviderKind::Codex
    }

    fn reads_tools_with_a_turn(&self) -> bool {
        true
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
            system_messages: true,
        }
    }

    fn check(&self, spec: &SessionSpec) -> Result<(), Error> {
        models::check_form(&spec.model)?;
        settings(spec)?.check_inside(spec.containment)
    }

    fn launch(&self, request: &LaunchRequest<'_>) -> Result<LaunchPlan, Error> {
        let mut settings = settings(request.spec)?;
        settings.check_inside(request.spec.containment)?;
        let mut environment = launch::environment(request);
        fill_servers(&mut settings.mcp_servers, &environment)?;
        let notify = launch::notify(&settings, &self.notify, &self.obey_exe, &mut environment);
        let path = provider_common::program::variable(&environment, "PATH");
        let untrusted = provider_common::program::untrusted_dir(request.spec, &environment);
        let program = launch::PROGRAM.locate(self.binary.as_deref(), path, untrusted)?;
        launch::check_environment(&settings, &environment)?;
        let args = launch::arguments(&settings, &environment, &notify);
        let places = launch::places(&settings, &environment);
        let codec = Box::new(CodexCodec { state: launch::codec_state(request).into(), settings });
        Ok(LaunchPlan::Process(Box::new(ProcessLaunch { program, args, environment, codec, places })))
    }

    fn codec(&self, spec: &SessionSpec, saved: &str) -> Result<Box<dyn Codec>, Error> {
        let state: CodexState = codec_state::read(saved)?;
        let mut settings = settings(spec)?;
        // A variable that no longer exists costs a server that was not sent yet, but no session.
        let _ = fill_servers(&mut settings.mcp_servers, &inherited(&spec.environment));
        Ok(Box::new(CodexCodec { state: state.into(), settings }))
    }

    fn conversations(&self) -> Option<Box<dyn agent_port::conversations::ConversationFiles>> {
        Some(Box::new(conversations::CodexConversations::of_this_user()))
    }

    fn availability(&self, path: Option<&OsStr>) -> Availability {
        launch::PROGRAM.availability(self.binary.as_deref(), path, installed_version)
    }
}

/// Returns the settings of a session for its agent.
fn settings(spec: &SessionSpec) -> Result<CodexSettings, Error> {
    let mut settings = CodexSettings::read(&spec.provider_config)?;
    settings.contained = spec.containment.sandbox.is_some();
    Ok(settings)
}

/// Reads the version from the installation folder; running the program would be slow.
fn installed_version(program: &Path) -> Option<String> {
    let real = program.canonicalize().ok()?;
    // npm: the package.json of the package that contains the script (one folder up) or the program itself
    // (four up).
    real.ancestors().skip(1).take(5).find_map(|folder| {
        let text = std::fs::read_to_string(folder.join("package.json")).ok()?;
        let package: Value = serde_json::from_str(&text).ok()?;
        let version = package["version"].as_str().filter(|_| package["name"] == "@openai/codex")?;
        // Packages for a single platform have the platform in their version.
        Some(version.split('-').next().unwrap_or(version).to_owned())
    })
}

#[derive(Clone)]
struct CodexCodec {
    state: Revisioned<CodexState>,
    settings: CodexSettings,
}

impl Codec for CodexCodec {
    fn open(&mut self, wire: &mut Vec<u8>) {
        encode::open(&mut self.state, wire);
    }

    fn decode(&mut self, line: &[u8], out: &mut Decoded) {
        translate::line(&mut self.state, &self.settings, line, out);
    }

    fn encode(&mut self, input: &AgentInput, wire: &mut Vec<u8>) -> Result<(), Error> {
        encode::input(&mut self.state, &self.settings, input, wire)
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

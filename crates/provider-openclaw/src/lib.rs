//! OpenClaw through its gateway: one WebSocket per session, no process of ours. The gateway keeps the
//! conversation and runs its agent; we send, stop, answer its approvals and reconnect when the connection is
//! lost. Why not `openclaw acp`: docs/decisions/0013.

mod agent;
mod config_writer;
mod frames;
mod gateway;
mod limits;
mod servers;
mod settings;

#[cfg(test)]
mod recorded;

use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::Arc;

use agent_port::{Availability, Capabilities, Codec, LaunchPlan, LaunchRequest, Provider};
use domain::{Error, ErrorCode, ProviderKind, SessionSpec};

use agent::{GatewayTools, OpenclawAgent};
use config_writer::ConfigWriter;
use frames::GatewayConversation;
use gateway::{Gateway, StartedGateway, USUAL_URL, is_here};
use provider_common::config::invalid;
use provider_common::program::{ProgramSearch, npm_version, untrusted_dir, variable};
use settings::OpenclawSettings;

/// The program, and the hint for users without OpenClaw.
const PROGRAM: ProgramSearch = ProgramSearch {
    name: "openclaw",
    title: "OpenClaw",
    remedy: "install OpenClaw with `npm install -g openclaw`, or name a running gateway with provider_config.gateway_url",
};

const TOKEN_VARIABLE: &str = "OPENCLAW_GATEWAY_TOKEN";

/// Feeds frames of a gateway to a conversation, and returns what they mean. For tests that feed it any text.
pub fn decode_frames(frames: &[&str]) -> Vec<domain::AgentEvent> {
    let mut conversation = GatewayConversation::new(frames::ConversationSettings::default());
    let mut out = frames::FrameEffects::default();
    frames.iter().for_each(|frame| conversation.take(frame, &mut out));
    out.events
}

/// The daemon's configuration of OpenClaw.
#[derive(Clone, Default)]
pub struct OpenclawOptions {
    pub binary: Option<PathBuf>,
    pub url: Option<String>,
    pub token: Option<String>,
    /// A folder of the daemon, by which it recognises a gateway that an earlier daemon started.
    pub folder: Option<PathBuf>,
}

/// The provider `openclaw`.
pub struct Openclaw {
    options: OpenclawOptions,
    started: Arc<StartedGateway>,
    registry: ConfigWriter,
}

impl Openclaw {
    pub fn new(options: OpenclawOptions) -> Self {
        let started = Arc::new(StartedGateway::marked_by(options.folder.as_deref()));
        Self { options, started, registry: ConfigWriter::default() }
    }
}

impl Provider for Openclaw {
    fn kind(&self) -> ProviderKind {
        ProviderKind::Openclaw
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            process: false,
            resume: true,
            steer: true,
            questions: false,
            attachments: true,
            compaction: false,
            system_prompt: false,
            history: false,
            system_messages: false,
        }
    }

    fn check(&self, spec: &SessionSpec) -> Result<(), Error> {
        OpenclawSettings::read(&spec.provider_config).map(drop)
    }

    fn launch(&self, request: &LaunchRequest<'_>) -> Result<LaunchPlan, Error> {
        let (spec, environment) = (request.spec, &request.environment);
        let settings = OpenclawSettings::read(&spec.provider_config)?;
        let set = |name: &str| {
            let value = variable(environment, name)?.to_str()?;
            (!value.is_empty()).then(|| value.to_owned())
        };
        let token = match settings.token_env.as_str() {
            "" => set(TOKEN_VARIABLE).or_else(|| self.options.token.clone()),
            named => {
                Some(set(named).ok_or_else(|| invalid("token_env", format_args!("{named} is not set")))?)
            }
        };
        let named = Some(settings.gateway_url.clone()).filter(|url| !url.is_empty());
        let url = named.or_else(|| self.options.url.clone()).unwrap_or_else(|| USUAL_URL.to_owned());
        let path = variable(environment, "PATH");
        let program = PROGRAM.locate(self.options.binary.as_deref(), path, untrusted_dir(spec, environment));
        // A named gateway is expected to run; only the default one is started, and then the program must
        // exist.
        let (program, is_usual) = (program.ok(), url == USUAL_URL);
        let token = match token {
            Some(token) => token,
            None if is_usual && program.is_none() => {
                let message = format!("there is no {} here; {}", PROGRAM.name, PROGRAM.remedy);
                return Err(Error::new(ErrorCode::CreateFailed, message));
            }
            None => {
                let message = format!(
                    "the gateway's token is not known; set {TOKEN_VARIABLE} in the daemon's or the session's \
                     environment, or openclaw.token in config.toml"
                );
                return Err(Error::new(ErrorCode::ProviderNotReady, message));
            }
        };
        let mut gateway_environment = environment.clone();
        gateway_environment.push((TOKEN_VARIABLE.into(), token.clone().into()));
        let folder = spec.working_dir.to_string_lossy().into_owned();
        // A process on another machine can reach neither the daemon's socket nor the session's folder.
        let here = is_here(&url);
        let servers = servers::of_session(
            spec.id.as_str(),
            &settings.servers,
            request.bridge.as_ref().filter(|_| here),
            Some(folder.as_str()).filter(|_| here),
        );
        let talk = GatewayConversation::new(frames::ConversationSettings {
            key: format!("agent:{}:obey-{}", settings.agent_id, spec.id.as_str().to_lowercase()),
            agent_id: settings.agent_id,
            token: token.clone(),
            model: spec.model.clone(),
            working_dir: folder,
            had_turns: request.resume && request.state.turns > 0,
            is_remote: !here && request.bridge.is_some(),
            servers: servers.iter().map(|server| (server.name.clone(), server.own.clone())).collect(),
        });
        let tools = GatewayTools { registry: self.registry.clone(), url: url.clone(), token, servers };
        let program = program.filter(|_| is_usual || self.options.url.as_ref() == Some(&url));
        let gateway = Gateway::new(url, program, gateway_environment, Arc::clone(&self.started));
        Ok(LaunchPlan::InProcess(Box::new(OpenclawAgent::new(talk, gateway, tools))))
    }

    fn codec(&self, _spec: &SessionSpec, _saved: &str) -> Result<Box<dyn Codec>, Error> {
        Err(Error::new(ErrorCode::SessionError, "an agent inside the daemon has no lines to read"))
    }

    fn end(&self) {
        self.started.end();
    }

    fn availability(&self, path: Option<&OsStr>) -> Availability {
        PROGRAM.availability(self.options.binary.as_deref(), path, npm_version)
    }
}

//! The built-in agent that needs no model: it follows a script in its prompt, or demonstrates what an agent
//! does. A separate process (`obey scripted-agent`), so that everything true of real agents is true of it: it
//! outlives the daemon, can crash, hang and flood. Used by tests and for a first look without an account.

mod agent;
mod codec;
mod demo;
mod limits;
mod script;
mod wire;

use std::ffi::OsStr;
use std::path::PathBuf;

use agent_port::{
    Availability, Capabilities, Codec, LaunchPlan, LaunchRequest, Places, ProcessLaunch, Provider,
};
use domain::{Error, ErrorCode, ProviderKind, SessionSpec};

pub use agent::run_agent;
use codec::ScriptedCodec;
use provider_common::config::{check_keys, check_permission_mode, number};
use provider_common::suggestion::near;

/// The subcommand of the daemon's executable that runs the agent.
pub const SUBCOMMAND: &str = "scripted-agent";

/// The only model.
const MODEL: &str = "scripted-1";

/// Keys of `provider_config`: how long it takes to be ready, the text it fails with instead, and the
/// session's mode.
const KEYS: [&str; 3] = ["startup_delay_ms", "startup_fail", "permission_mode"];

/// The provider `scripted`.
pub struct Scripted {
    obey_exe: PathBuf,
}

impl Scripted {
    /// Creates the provider; the program is the daemon's own.
    pub fn new(obey_exe: PathBuf) -> Self {
        Self { obey_exe }
    }
}

impl Provider for Scripted {
    fn kind(&self) -> ProviderKind {
        ProviderKind::Scripted
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            process: true,
            resume: true,
            steer: true,
            questions: true,
            attachments: true,
            compaction: true,
            system_prompt: false,
            history: false,
            system_messages: false,
        }
    }

    fn check(&self, spec: &SessionSpec) -> Result<(), Error> {
        check_model(&spec.model)?;
        check_keys(&spec.provider_config, &KEYS)?;
        check_permission_mode(&spec.provider_config)?;
        startup_delay_ms(spec).map(drop)
    }

    fn launch(&self, request: &LaunchRequest<'_>) -> Result<LaunchPlan, Error> {
        let spec = request.spec;
        let start = wire::StartMessage {
            session: spec.id.to_string(),
            model: MODEL.to_owned(),
            mode: request.state.mode,
            resume: request.resume,
            startup_delay_ms: startup_delay_ms(spec)?,
            startup_fail: spec.provider_config.get("startup_fail").cloned().unwrap_or_default(),
        };
        let offered = domain::tools::offered(&request.state.tools);
        let tools = offered.iter().map(|tool| (tool.name.clone(), tool.asks)).collect();
        Ok(LaunchPlan::Process(Box::new(ProcessLaunch {
            program: self.obey_exe.clone(),
            args: vec![SUBCOMMAND.into()],
            environment: request.environment.clone(),
            codec: Box::new(ScriptedCodec::new(start, tools)),
            places: Places::default(),
        })))
    }

    fn codec(&self, _spec: &SessionSpec, _saved: &str) -> Result<Box<dyn Codec>, Error> {
        Ok(Box::new(ScriptedCodec::running()))
    }

    fn availability(&self, _path: Option<&OsStr>) -> Availability {
        Availability::BuiltIn
    }
}

fn startup_delay_ms(spec: &SessionSpec) -> Result<u64, Error> {
    Ok(number(&spec.provider_config, "startup_delay_ms", 0..=600_000)?.unwrap_or(0))
}

fn check_model(model: &str) -> Result<(), Error> {
    if model.is_empty() || model == MODEL {
        return Ok(());
    }
    let shown: String = model.chars().filter(|letter| !letter.is_control()).take(64).collect();
    let remedy = match near(model, [MODEL]).first() {
        Some(name) => format!("did you mean {name}?"),
        None => format!("its only model is {MODEL}"),
    };
    Err(Error::new(ErrorCode::ModelUnsupported, format!("model: scripted has no model {shown:?}; {remedy}")))
}

#[cfg(test)]
mod tests;

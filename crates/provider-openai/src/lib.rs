//! Models behind the OpenAI API, or any compatible endpoint, as an agent inside the daemon: it has no
//! process, and its history is the journal. Talks to the endpoint (`http`), keeps the conversation
//! (`history`), runs turns (`turn`) and carries out calls through the session's tools (`calls`). Everything
//! that can be pure is.

mod agent;
mod calls;
mod chat;
mod compact;
mod content;
mod history;
mod http;
mod instructions;
mod limits;
mod mcp;
mod models;
mod read_only_commands;
mod reply;
mod request;
mod responses;
mod retry;
mod settings;
mod shorten;
mod sse;
mod tools;
mod turn;

use std::ffi::{OsStr, OsString};
use std::sync::Arc;

use agent_port::toolbox::SessionToolbox;
use agent_port::{Availability, Capabilities, Codec, LaunchPlan, LaunchRequest, Provider};
use domain::{Error, ErrorCode, ProviderKind, SessionSpec};

use crate::mcp::McpContext;
use agent::{OpenaiAgent, WorkerConfig};
use http::{Endpoint, HttpConnections};
use provider_common::config::{has_userinfo, invalid, is_address};
use provider_common::program::variable;
use settings::OpenaiSettings;

/// Decodes a model's reply that arrives in these chunks, and returns its pieces as text. For tests that feed it any
/// bytes; agents use `http`.
pub fn decode_reply(is_chat: bool, chunks: &[&[u8]]) -> Vec<String> {
    let api = if is_chat { settings::WireApi::Chat } else { settings::WireApi::Responses };
    let (mut sse, mut reader, mut pieces) = (sse::SseDecoder::default(), api.reader(), Vec::new());
    for chunk in chunks {
        let Ok(events) = sse.push(chunk) else { break };
        events.iter().for_each(|data| reader.take(data, &mut pieces));
    }
    if let Ok(events) = sse.finish() {
        events.iter().for_each(|data| reader.take(data, &mut pieces));
    }
    reader.finish(&mut pieces);
    pieces.iter().map(|piece| format!("{piece:?}")).collect()
}

/// The address of OpenAI's own API.
const BASE_URL: &str = "https://api.openai.com/v1";
const BASE_URL_VARIABLE: &str = "OPENAI_BASE_URL";
const KEY_VARIABLE: &str = "OPENAI_API_KEY";

/// Returns the variable that holds the key.
fn key_variable(settings: &OpenaiSettings) -> &str {
    if settings.api_key_env.is_empty() { KEY_VARIABLE } else { &settings.api_key_env }
}

/// The provider `openai-api`.
pub struct OpenaiApi {
    toolbox: Option<Arc<dyn SessionToolbox>>,
    connections: HttpConnections,
}

impl OpenaiApi {
    /// Creates the provider; sessions work with the tools of this toolbox.
    pub fn new(toolbox: Option<Arc<dyn SessionToolbox>>) -> Self {
        Self { toolbox, connections: HttpConnections::default() }
    }

    /// Resolves address and key of the endpoint from the settings and the environment.
    fn endpoint(
        &self,
        settings: &OpenaiSettings,
        environment: &[(OsString, OsString)],
    ) -> Result<Endpoint, Error> {
        let set = |name: &str| {
            let value = variable(environment, name)?.to_str()?.trim();
            (!value.is_empty()).then(|| value.to_owned())
        };
        let named = Some(settings.base_url.clone()).filter(|url| !url.is_empty());
        let base_url = match named.or_else(|| set(BASE_URL_VARIABLE)) {
            Some(url) if has_userinfo(&url) => {
                let message = format!(
                    "{BASE_URL_VARIABLE} must not hold a name or a password; put the key into {KEY_VARIABLE}, or \
                     into the variable that provider_config.api_key_env names"
                );
                return Err(Error::new(ErrorCode::ProviderNotReady, message));
            }
            Some(url) if is_address(&url) => url.trim_end_matches('/').to_owned(),
            Some(_) => {
                let message = format!("{BASE_URL_VARIABLE} is not an address such as https://example.com/v1");
                return Err(Error::new(ErrorCode::ProviderNotReady, message));
            }
            None => BASE_URL.to_owned(),
        };
        let key = match set(key_variable(settings)) {
            Some(key) => key,
            None if !settings.api_key_env.is_empty() => {
                return Err(invalid("api_key_env", format_args!("{} is not set", settings.api_key_env)));
            }
            None if base_url == BASE_URL => {
                let message = format!(
                    "{KEY_VARIABLE} is not set; set it in the daemon's or the session's environment, or name \
                     another variable with provider_config.api_key_env"
                );
                return Err(Error::new(ErrorCode::ProviderNotReady, message));
            }
            // A self-hosted endpoint may need none.
            None => String::new(),
        };
        Endpoint::new(self.connections.client()?, base_url, settings.wire_api, &key)
    }
}

impl Provider for OpenaiApi {
    fn kind(&self) -> ProviderKind {
        ProviderKind::OpenaiApi
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            process: false,
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
        OpenaiSettings::read(&spec.provider_config).map(drop)
    }

    fn launch(&self, request: &LaunchRequest<'_>) -> Result<LaunchPlan, Error> {
        let (spec, state) = (request.spec, request.state);
        let settings = OpenaiSettings::read(&spec.provider_config)?;
        let toolbox = self.toolbox.as_ref().ok_or_else(|| {
            Error::new(ErrorCode::ProviderNotReady, "this daemon has no tools for agents that live in it")
        })?;
        let endpoint = self.endpoint(&settings, &request.environment)?;
        let past = request.past.as_ref().map(agent_port::PastEvents::fork);
        Ok(LaunchPlan::InProcess(Box::new(OpenaiAgent::new(WorkerConfig {
            session: spec.id.as_str().to_owned(),
            working_dir: spec.working_dir.to_string_lossy().into_owned(),
            endpoint,
            model: state.model.clone(),
            mode: state.mode,
            clients: domain::tools::offered(&state.tools).into_iter().cloned().collect(),
            tools: toolbox.open(spec),
            past,
            ground: McpContext {
                programs: request.programs.clone(),
                // The key is only for the endpoint.
                environment: request
                    .environment
                    .iter()
                    .filter(|(name, _)| name != key_variable(&settings))
                    .cloned()
                    .collect(),
                client: self.connections.client()?,
            },
            resume: request.resume,
            settings,
        }))))
    }

    fn codec(&self, _spec: &SessionSpec, _saved: &str) -> Result<Box<dyn Codec>, Error> {
        Err(Error::new(ErrorCode::SessionError, "an agent inside the daemon has no lines to read"))
    }

    fn availability(&self, _path: Option<&OsStr>) -> Availability {
        Availability::BuiltIn
    }
}

#[cfg(test)]
mod tests;

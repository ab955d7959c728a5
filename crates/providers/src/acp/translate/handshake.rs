//! What an ACP agent answers to us: first the steps that lead to a conversation, one after the other, then the rest.

use agent_client_protocol_schema::{ProtocolVersion, v1};
use domain::event::Level;
use domain::{AgentEvent, ErrorCode};
use runtime::provider::Decoded;
use serde_json::Value;

use super::super::memory::{Abilities, Memory, Ready};
use super::super::rpc::{Purpose, Refusal};
use super::super::settings::Settings;
use super::super::{choices, encode, typed, versions};
use super::{notice, turn};

/// Takes the answer to a request of ours.
pub(super) fn answer(
    memory: &mut Memory,
    settings: &Settings,
    (purpose, number): (Purpose, u64),
    result: Result<Value, Refusal>,
    out: &mut Decoded,
) {
    match (purpose, result) {
        (Purpose::Initialize, Ok(result)) => initialized(memory, settings, result, out),
        (Purpose::Initialize, Err(refusal)) => {
            let message = format!("{} refuses to speak with obey: {}", settings.name, refusal.message);
            broken(out, None, message);
        }
        (Purpose::New | Purpose::Load | Purpose::Resume, Ok(result)) => begun(memory, result, out),
        (Purpose::Load | Purpose::Resume, Err(refusal)) if refusal.code != v1::ErrorCode::AuthRequired => {
            begin_anew(memory, settings, &refusal, out);
        }
        (Purpose::New | Purpose::Load | Purpose::Resume, Err(refusal)) => {
            broken(out, Some(ErrorCode::ProviderNotReady), unbegun(settings, &refusal));
        }
        (Purpose::Prompt, result) => turn::answered(memory, number, result, out),
        (Purpose::SetMode | Purpose::SetModel | Purpose::SetOption, result) => {
            if let Err(refusal) = result {
                let what = if purpose == Purpose::SetMode { "mode" } else { "settings" };
                notice(
                    out,
                    Level::Error,
                    &format!("the agent did not change its {what}: {}", refusal.message),
                );
            }
            memory.unsettled = memory.unsettled.saturating_sub(1);
            settle(memory, out);
        }
    }
}

/// Goes on with what waits for the agent's mode and model, once it has them.
fn settle(memory: &mut Memory, out: &mut Decoded) {
    if memory.unsettled > 0 {
        return;
    }
    if let Some(Ready { model }) = memory.ready.take() {
        out.events.push(AgentEvent::Ready {
            native_session: memory.session.clone(),
            model,
            version: memory.version.clone(),
        });
    }
    encode::let_go(memory, &mut out.replies);
}

fn broken(out: &mut Decoded, code: Option<ErrorCode>, message: String) {
    out.events.push(AgentEvent::Broken { code, message });
}

fn unbegun(settings: &Settings, refusal: &Refusal) -> String {
    let remedy = if refusal.code == v1::ErrorCode::AuthRequired {
        "; it wants to be signed in: run it once by itself, or set its key in the session's environment"
    } else {
        ""
    };
    format!("{} cannot begin a conversation: {}{remedy}", settings.name, refusal.message)
}

fn initialized(memory: &mut Memory, settings: &Settings, mut result: Value, out: &mut Decoded) {
    let read = typed::read::<v1::InitializeResponse>(&mut result, "initialize");
    let said = read.unwrap_or_else(|| v1::InitializeResponse::new(ProtocolVersion::V0));
    memory.is_met = true;
    let info = said.agent_info.unwrap_or_else(|| v1::Implementation::new("", ""));
    let name = if info.name.is_empty() { &settings.name } else { &info.name };
    memory.version = format!("{name} {}", info.version).trim_end().to_owned();
    let tested = ProtocolVersion::V1;
    if said.protocol_version != tested {
        // There never was an agent of that version.
        let is_none = said.protocol_version == ProtocolVersion::V0;
        let version = if is_none { "no version".to_owned() } else { said.protocol_version.to_string() };
        let message =
            format!("the agent speaks protocol {version}; obey is tested with version {tested} only");
        notice(out, Level::Warning, &message);
    }
    if let Some(message) = versions::warning(&info) {
        notice(out, Level::Warning, &message);
    }
    let can = said.agent_capabilities;
    memory.can = Abilities {
        load: can.load_session,
        resume: can.session_capabilities.resume.is_some(),
        image: can.prompt_capabilities.image,
        http_servers: can.mcp_capabilities.http,
        sse_servers: can.mcp_capabilities.sse,
    };
    for server in encode::unreachable(memory, settings) {
        let message =
            format!("MCP server {server}: this agent reaches only servers that are started by a command");
        notice(out, Level::Warning, &message);
    }
    if !memory.resume.is_empty() && !memory.can.resume && !memory.can.load {
        forgotten(memory, "the agent keeps no conversations", out);
    }
    encode::begin_session(memory, settings, &mut out.replies);
}

/// Says that the past is lost, if there was any.
fn forgotten(memory: &mut Memory, why: &str, out: &mut Decoded) {
    if memory.had_turns {
        notice(out, Level::Warning, &format!("{why}; a new one is begun"));
    }
    memory.resume.clear();
}

/// Begins a conversation in place of one that the agent does not have: some keep none without a turn.
fn begin_anew(memory: &mut Memory, settings: &Settings, refusal: &Refusal, out: &mut Decoded) {
    forgotten(memory, &format!("the agent no longer has this conversation ({})", refusal.message), out);
    encode::begin_session(memory, settings, &mut out.replies);
}

/// Takes a conversation up. The answers to a load and a resume are that to a new one without its name, which
/// claude-agent-acp repeats.
fn begun(memory: &mut Memory, mut result: Value, out: &mut Decoded) {
    let read = typed::read::<v1::NewSessionResponse>(&mut result, "session/new");
    let said = read.unwrap_or_else(|| v1::NewSessionResponse::new(""));
    let session = match &*said.session_id.0 {
        "" => memory.resume.clone(),
        session => session.to_owned(),
    };
    if session.is_empty() {
        broken(out, None, "the agent began a conversation without a name".to_owned());
        return;
    }
    memory.session = session;
    memory.is_ready = true;
    memory.modes = choices::modes(&said);
    let models = choices::models(&said, &result);
    let checked = choices::check_model(&memory.asked_model, &models);
    memory.models = models.shortened();
    if let Err(error) = checked {
        if memory.model_is_wanted {
            broken(out, Some(error.code), error.message);
            return;
        }
        notice(out, Level::Warning, &format!("{}; the session goes on with the agent's own", error.message));
        memory.asked_model.clear();
    }
    encode::set_mode(memory, &mut out.replies);
    encode::set_model(memory, &mut out.replies);
    if !encode::has_mode(memory) {
        notice(
            out,
            Level::Warning,
            "this agent has no plan mode of its own; it is asked to plan by nobody but you",
        );
    }
    let model = match memory.models.current.as_str() {
        "" => memory.asked_model.clone(),
        current => current.to_owned(),
    };
    memory.ready = Some(Ready { model });
    settle(memory, out);
}

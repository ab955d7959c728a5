//! Answers of an ACP agent: first the steps that lead to a conversation, one after the other, then the
//! others.

use agent_client_protocol_schema::{ProtocolVersion, v1};
use agent_port::{Decoded, Revisioned};
use domain::event::Level;
use domain::{AgentEvent, ErrorCode};
use serde_json::Value;

use super::super::rpc::{AcpRequestKind, RpcError};
use super::super::settings::AcpSettings;
use super::super::state::{AcpState, AgentAbilities, PendingReady};
use super::super::{choices, encode, typed, versions};
use super::{notice, turn};

/// Handles the answer to one of our requests.
pub(super) fn answer(
    state: &mut Revisioned<AcpState>,
    settings: &AcpSettings,
    (purpose, number): (AcpRequestKind, u64),
    result: Result<Value, RpcError>,
    out: &mut Decoded,
) {
    match (purpose, result) {
        (AcpRequestKind::Initialize, Ok(result)) => initialized(state, settings, result, out),
        (AcpRequestKind::Initialize, Err(refusal)) => {
            let message = format!("{} refuses to speak with obey: {}", settings.name, refusal.message);
            broken(out, None, message);
        }
        (AcpRequestKind::New | AcpRequestKind::Load | AcpRequestKind::Resume, Ok(result)) => {
            begun(state, result, out)
        }
        (AcpRequestKind::Load | AcpRequestKind::Resume, Err(refusal))
            if refusal.code != v1::ErrorCode::AuthRequired =>
        {
            begin_anew(state, settings, &refusal, out);
        }
        (AcpRequestKind::New | AcpRequestKind::Load | AcpRequestKind::Resume, Err(refusal)) => {
            broken(out, Some(ErrorCode::ProviderNotReady), unbegun(settings, &refusal));
        }
        (AcpRequestKind::Prompt, result) => turn::answered(state, number, result, out),
        (AcpRequestKind::SetMode | AcpRequestKind::SetModel | AcpRequestKind::SetOption, result) => {
            if let Err(refusal) = result {
                let what = if purpose == AcpRequestKind::SetMode { "mode" } else { "settings" };
                notice(
                    out,
                    Level::Error,
                    &format!("the agent did not change its {what}: {}", refusal.message),
                );
            }
            state.unsettled = state.unsettled.saturating_sub(1);
            settle(state, out);
        }
    }
}

/// Continues with what waits for the agent's mode and model, once they are set.
fn settle(state: &mut Revisioned<AcpState>, out: &mut Decoded) {
    if state.unsettled > 0 {
        return;
    }
    if let Some(PendingReady { model }) = state.ready.take() {
        out.events.push(AgentEvent::Ready {
            native_session: state.session.clone(),
            model,
            version: state.version.clone(),
            resolved_model: String::new(),
        });
    }
    encode::let_go(state, &mut out.replies);
}

fn broken(out: &mut Decoded, code: Option<ErrorCode>, message: String) {
    out.events.push(AgentEvent::Broken { code, message });
}

fn unbegun(settings: &AcpSettings, refusal: &RpcError) -> String {
    let remedy = if refusal.code == v1::ErrorCode::AuthRequired {
        "; it wants to be signed in: run it once by itself, or set its key in the session's environment"
    } else {
        ""
    };
    format!("{} cannot begin a conversation: {}{remedy}", settings.name, refusal.message)
}

/// Stores the agent's version and capabilities, warns about untested ones, and starts the conversation.
fn initialized(
    state: &mut Revisioned<AcpState>,
    settings: &AcpSettings,
    mut result: Value,
    out: &mut Decoded,
) {
    let read = typed::read::<v1::InitializeResponse>(&mut result, "initialize");
    let said = read.unwrap_or_else(|| v1::InitializeResponse::new(ProtocolVersion::V0));
    state.is_met = true;
    let info = said.agent_info.unwrap_or_else(|| v1::Implementation::new("", ""));
    let name = if info.name.is_empty() { &settings.name } else { &info.name };
    state.version = format!("{name} {}", info.version).trim_end().to_owned();
    let tested = ProtocolVersion::V1;
    if said.protocol_version != tested {
        // No agent of that version ever existed.
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
    state.can = AgentAbilities {
        load: can.load_session,
        resume: can.session_capabilities.resume.is_some(),
        image: can.prompt_capabilities.image,
        http_servers: can.mcp_capabilities.http,
        sse_servers: can.mcp_capabilities.sse,
    };
    for server in encode::unreachable(state, settings) {
        let message =
            format!("MCP server {server}: this agent reaches only servers that are started by a command");
        notice(out, Level::Warning, &message);
    }
    if !state.resume.is_empty() && !state.can.resume && !state.can.load {
        forgotten(state, "the agent keeps no conversations", out);
    }
    encode::begin_session(state, settings, &mut out.replies);
}

/// Reports that the history is lost, if there was any.
fn forgotten(state: &mut Revisioned<AcpState>, why: &str, out: &mut Decoded) {
    if state.had_turns {
        notice(out, Level::Warning, &format!("{why}; a new one is begun"));
    }
    state.resume.clear();
}

/// Starts a conversation in place of one that the agent does not have: some keep none without a turn.
fn begin_anew(
    state: &mut Revisioned<AcpState>,
    settings: &AcpSettings,
    refusal: &RpcError,
    out: &mut Decoded,
) {
    forgotten(state, &format!("the agent no longer has this conversation ({})", refusal.message), out);
    encode::begin_session(state, settings, &mut out.replies);
}

/// Handles the start of a conversation. The answers to a load and a resume are those to a new one without its
/// id, which claude-agent-acp repeats.
fn begun(state: &mut Revisioned<AcpState>, mut result: Value, out: &mut Decoded) {
    let read = typed::read::<v1::NewSessionResponse>(&mut result, "session/new");
    let said = read.unwrap_or_else(|| v1::NewSessionResponse::new(""));
    let session = match &*said.session_id.0 {
        "" => state.resume.clone(),
        session => session.to_owned(),
    };
    if session.is_empty() {
        broken(out, None, "the agent began a conversation without a name".to_owned());
        return;
    }
    state.session = session;
    state.is_ready = true;
    state.modes = choices::modes(&said);
    let models = choices::models(&said, &result);
    let checked = choices::check_model(&state.asked_model, &models);
    state.models = models.shortened();
    if let Err(error) = checked {
        if state.model_is_wanted {
            broken(out, Some(error.code), error.message);
            return;
        }
        notice(out, Level::Warning, &format!("{}; the session goes on with the agent's own", error.message));
        state.asked_model.clear();
    }
    encode::set_mode(state, &mut out.replies);
    encode::set_model(state, &mut out.replies);
    if !encode::has_mode(state) {
        notice(
            out,
            Level::Warning,
            "this agent has no plan mode of its own; it is asked to plan by nobody but you",
        );
    }
    let model = match state.models.current.as_str() {
        "" => state.asked_model.clone(),
        current => current.to_owned(),
    };
    state.ready = Some(PendingReady { model });
    settle(state, out);
}

//! Encodes inputs as lines for an ACP agent.

use agent_client_protocol_schema::{ProtocolVersion, v1};
use agent_port::{BridgeServer, Revisioned};
use domain::event::Attachment;
use domain::{AgentInput, Decision, Error, Mode};
use serde_json::{Value, json};

use super::rpc::{self, AcpRequestKind};
use super::settings::AcpSettings;
use super::state::{AcpState, AcpTurn, PermissionChoice, SelectableOption};
use super::translate::plan;
use super::{choices, permitted};
use provider_common::attachment;
use provider_common::json_fields::Look;

/// Writes the first request to the agent.
pub(super) fn open(state: &mut Revisioned<AcpState>, settings: &AcpSettings, wire: &mut Vec<u8>) {
    // Gemini reads through a client that offers it, and then cannot create a file that does not exist yet.
    let files = settings.client_tools && settings.name != "gemini";
    let files = v1::FileSystemCapabilities::new().read_text_file(files).write_text_file(files);
    let can = v1::ClientCapabilities::new().fs(files).terminal(settings.client_tools);
    let who = v1::Implementation::new("obey", env!("CARGO_PKG_VERSION")).title("obey".to_owned());
    let params = v1::InitializeRequest::new(ProtocolVersion::V1).client_capabilities(can).client_info(who);
    state.send_request(AcpRequestKind::Initialize, params, wire);
}

/// Starts a conversation, or resumes the previous one, in the best way the agent supports.
pub(super) fn begin_session(state: &mut Revisioned<AcpState>, settings: &AcpSettings, wire: &mut Vec<u8>) {
    let (cwd, session) = (state.cwd.clone(), state.resume.clone());
    let servers = servers(state, settings);
    if session.is_empty() {
        state.send_request(AcpRequestKind::New, v1::NewSessionRequest::new(cwd).mcp_servers(servers), wire);
    } else if state.can.resume {
        let mut params = json!(v1::ResumeSessionRequest::new(session, cwd));
        // The type omits an empty list; agents have always received one from us.
        params["mcpServers"] = json!(servers);
        state.send_request(AcpRequestKind::Resume, params, wire);
    } else {
        state.send_request(
            AcpRequestKind::Load,
            v1::LoadSessionRequest::new(session, cwd).mcp_servers(servers),
            wire,
        );
    }
}

/// Returns servers in the protocol's format; those the agent cannot reach are left out.
fn servers(state: &AcpState, settings: &AcpSettings) -> Vec<v1::McpServer> {
    fn pairs<T>(map: &Value, make: fn(String, String) -> T) -> Vec<T> {
        // People also write numbers where a text is meant.
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let pairs = map.as_object().into_iter().flatten();
        pairs.map(|(name, value)| make(name.clone(), text(value))).collect()
    }
    let own = |(name, server): (&String, &Value)| {
        let (command, url) = (server.text("command"), server.text("url"));
        let headers = || pairs(server.under("headers"), v1::HttpHeader::new);
        if !command.is_empty() {
            let args = server.list("args").iter().filter_map(Value::as_str).map(str::to_owned).collect();
            let env = pairs(server.under("env"), v1::EnvVariable::new);
            v1::McpServer::Stdio(v1::McpServerStdio::new(name, command).args(args).env(env))
        } else if server.text("type") == "sse" {
            v1::McpServer::Sse(v1::McpServerSse::new(name, url).headers(headers()))
        } else {
            v1::McpServer::Http(v1::McpServerHttp::new(name, url).headers(headers()))
        }
    };
    let bridge = state.bridge.iter().map(|bridge| {
        let server = v1::McpServerStdio::new(BridgeServer::NAME, &bridge.command);
        v1::McpServer::Stdio(server.args(bridge.args.clone()))
    });
    let reached = settings.mcp_servers.iter().filter(|(_, server)| reaches(state, server));
    reached.map(own).chain(bridge).collect()
}

/// Returns whether the agent reaches a server.
fn reaches(state: &AcpState, server: &Value) -> bool {
    match (server.text("command"), server.text("type")) {
        ("", "sse") => state.can.sse_servers,
        ("", _) => state.can.http_servers,
        _ => true,
    }
}

/// Returns the names of servers the agent cannot reach.
pub(super) fn unreachable<'a>(state: &AcpState, settings: &'a AcpSettings) -> Vec<&'a str> {
    let unreached = settings.mcp_servers.iter().filter(|(_, server)| !reaches(state, server));
    unreached.map(|(name, _)| name.as_str()).collect()
}

/// Encodes an input.
pub(super) fn input(
    state: &mut Revisioned<AcpState>,
    input: &AgentInput,
    wire: &mut Vec<u8>,
) -> Result<(), Error> {
    match input {
        AgentInput::Prompt { text, attachments } => {
            let content = content(state, text, attachments)?;
            state.turn = Some(AcpTurn::new());
            if state.unsettled > 0 {
                state.held = content;
            } else {
                prompt(state, content, wire);
            }
        }
        // The protocol has no such message: the text is sent as soon as the turn would end.
        AgentInput::Steer { text } => state.queued.push_back(text.clone()),
        AgentInput::Compact => {
            state.turn = Some(AcpTurn::new());
            prompt(state, vec!["/compact".into()], wire);
        }
        AgentInput::Interrupt => interrupt(state, wire),
        AgentInput::Decide { native, decision, message, .. } => {
            decide(state, native, *decision, message, wire)
        }
        AgentInput::SetMode(mode) => {
            state.mode = *mode;
            set_mode(state, wire);
        }
        AgentInput::SetModel(model) => {
            choices::check_model(model, &state.models)?;
            model.clone_into(&mut state.asked_model);
            set_model(state, wire);
        }
        // It exits when its stdin is closed. Tools of clients reach it as an MCP server of the daemon.
        AgentInput::Leave
        | AgentInput::Answer { .. }
        | AgentInput::Tools(_)
        | AgentInput::ToolResult { .. } => {}
    }
    Ok(())
}

/// Sends a prompt.
pub(super) fn prompt(state: &mut Revisioned<AcpState>, content: Vec<v1::ContentBlock>, wire: &mut Vec<u8>) {
    let request = v1::PromptRequest::new(state.session.clone(), content);
    state.send_request(AcpRequestKind::Prompt, request, wire);
    let sent = state.sent;
    if let Some(turn) = &mut state.turn {
        turn.prompt = sent;
    }
}

/// Sends the prompt that was held back until the agent had settled. A turn that was interrupted meanwhile is
/// then cancelled in the agent's protocol.
pub(super) fn let_go(state: &mut Revisioned<AcpState>, wire: &mut Vec<u8>) {
    let content = std::mem::take(&mut state.held);
    if content.is_empty() {
        return;
    }
    prompt(state, content, wire);
    if state.turn.as_ref().is_some_and(|turn| turn.interrupted) {
        state.cancel(wire);
    }
}

/// Ends the turn; pending requests are answered with that.
fn interrupt(state: &mut Revisioned<AcpState>, wire: &mut Vec<u8>) {
    state.queued.clear();
    if let Some(turn) = &mut state.turn {
        turn.interrupted = true;
    }
    state.cancel(wire);
    if std::mem::take(&mut state.has_commands) {
        // Goose does not end commands it started in our terminals. If too many requests are pending, the
        // agent must end them.
        let _ = state.remember_client_request(&Value::Null, json!({"do": "end"}));
    }
    state.asks_to_leave_plan = false;
    refuse_asks(state, "the turn was cancelled", wire);
}

/// Answers pending requests with a refusal and its reason.
pub(super) fn refuse_asks(state: &mut Revisioned<AcpState>, why: &str, wire: &mut Vec<u8>) {
    for asking in std::mem::take(&mut state.asks).into_values() {
        match asking.what {
            PermissionChoice::Options { .. } => {
                let outcome = v1::RequestPermissionOutcome::Cancelled;
                rpc::reply(&asking.id, v1::RequestPermissionResponse::new(outcome), wire);
            }
            PermissionChoice::Errand(_) => {
                rpc::refuse(&asking.id, v1::ErrorCode::InternalError, why, wire);
            }
        }
    }
}

/// Answers a permission: with one of the agent's options, or by starting or refusing the client request.
fn decide(
    state: &mut Revisioned<AcpState>,
    native: &str,
    decision: Decision,
    message: &str,
    wire: &mut Vec<u8>,
) {
    if native == plan::NATIVE {
        return plan::decided(state, decision, wire);
    }
    let Some(asking) = state.asks.remove(native) else { return };
    if asking.leaves_plan && decision.allows() {
        state.may_leave_plan = true;
    }
    if !decision.allows() {
        let said = if message.is_empty() { "denied by the user".to_owned() } else { message.to_owned() };
        if let Some(call) = asking.call.as_ref().and_then(|call| state.calls.get_mut(call)) {
            call.denied = format!("denied: {said}");
        }
        if let (Some(turn), PermissionChoice::Options { .. }) = (&mut state.turn, &asking.what) {
            message.clone_into(&mut turn.denial);
        }
    }
    match asking.what {
        PermissionChoice::Options { options, deeds } => {
            if decision.allows() {
                permitted::allow(state, asking.call.as_ref(), deeds);
            }
            rpc::reply(&asking.id, chosen(&options, decision), wire);
        }
        PermissionChoice::Errand(what) if decision.allows() => {
            if state.remember_client_request(&asking.id, what).is_none() {
                rpc::refuse(&asking.id, v1::ErrorCode::InternalError, "too much is under way", wire);
            }
        }
        PermissionChoice::Errand(_) => {
            let said = if message.is_empty() { "denied by the user" } else { message };
            rpc::refuse(&asking.id, v1::ErrorCode::InternalError, said, wire);
        }
    }
}

/// Chooses among an agent's options. Grants are remembered by us, so the agent is never asked to remember.
pub(super) fn chosen(
    options: &[(v1::PermissionOptionKind, v1::PermissionOptionId)],
    decision: Decision,
) -> v1::RequestPermissionResponse {
    use v1::PermissionOptionKind::{AllowAlways, AllowOnce, RejectAlways, RejectOnce};
    let kinds = if decision.allows() { [AllowOnce, AllowAlways] } else { [RejectOnce, RejectAlways] };
    let found = kinds.iter().find_map(|kind| options.iter().find(|(own, _)| own == kind));
    v1::RequestPermissionResponse::new(match found {
        Some((_, name)) => {
            v1::RequestPermissionOutcome::Selected(v1::SelectedPermissionOutcome::new(name.clone()))
        }
        // An agent that offers no option to deny gets "cancelled".
        None => v1::RequestPermissionOutcome::Cancelled,
    })
}

/// Sends the session's mode to the agent.
pub(super) fn set_mode(state: &mut Revisioned<AcpState>, wire: &mut Vec<u8>) {
    let Some(name) = choices::mode_of(state.mode, &state.modes).filter(|name| *name != state.modes.current)
    else {
        return;
    };
    state.modes.current.clone_from(&name);
    let session = state.session.clone();
    match option(&state.modes) {
        None => {
            state.send_request(AcpRequestKind::SetMode, v1::SetSessionModeRequest::new(session, name), wire)
        }
        Some(option) => set_option(state, option, &name, wire),
    }
}

/// Sends the model to use to the agent.
pub(super) fn set_model(state: &mut Revisioned<AcpState>, wire: &mut Vec<u8>) {
    let name = state.asked_model.clone();
    if name.is_empty() || name == state.models.current || state.models.names.is_empty() {
        return;
    }
    state.models.current.clone_from(&name);
    match option(&state.models) {
        // The protocol once had this call and the types no longer do: codex-acp 2.6, gemini and goose support
        // it.
        None => {
            let params = json!({"sessionId": state.session, "modelId": name});
            state.send_request(AcpRequestKind::SetModel, params, wire);
        }
        Some(option) => set_option(state, option, &name, wire),
    }
}

/// Returns the configuration option of a choice.
fn option(choice: &SelectableOption) -> Option<String> {
    Some(choice.option.clone()).filter(|option| !option.is_empty())
}

fn set_option(state: &mut Revisioned<AcpState>, option: String, value: &str, wire: &mut Vec<u8>) {
    let params = v1::SetSessionConfigOptionRequest::new(state.session.clone(), option, value);
    state.send_request(AcpRequestKind::SetOption, params, wire);
}

/// Returns whether the agent has its own mode for the session's.
pub(super) fn has_mode(state: &AcpState) -> bool {
    state.mode != Mode::Plan || choices::mode_of(state.mode, &state.modes).is_some()
}

/// Returns a prompt's parts, the files first.
fn content(state: &AcpState, text: &str, attachments: &[Attachment]) -> Result<Vec<v1::ContentBlock>, Error> {
    let mut parts =
        attachments.iter().map(|file| part(state, file)).collect::<Result<Vec<v1::ContentBlock>, Error>>()?;
    if !text.is_empty() || parts.is_empty() {
        parts.push(text.into());
    }
    Ok(parts)
}

/// Converts a file: images if the agent accepts them, everything else as text in a tag.
fn part(state: &AcpState, file: &Attachment) -> Result<v1::ContentBlock, Error> {
    let wrong = |what: String| Error::invalid("attachments", what);
    let bytes = attachment::bytes(file)?;
    if file.media_type.starts_with("image/") {
        if !state.can.image {
            return Err(wrong(format!("{:?}: this agent takes no pictures", file.name)));
        }
        let content = attachment::base64_text(file);
        return Ok(v1::ContentBlock::Image(v1::ImageContent::new(content, &file.media_type)));
    }
    let text = attachment::tagged_text(file, bytes).ok_or_else(|| {
        wrong(format!("{:?} is {}; text and pictures can be sent", file.name, file.media_type))
    })?;
    Ok(text.into())
}

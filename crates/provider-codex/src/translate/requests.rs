//! Requests of Codex. What a person must decide is pending; everything else is refused at once, because an
//! agent that gets no answer waits forever.

use std::collections::BTreeMap;

use agent_port::{BridgeServer, Decoded, Revisioned};
use domain::request::{PermissionSubject, Question, QuestionOption, RequestSubject};
use domain::{AgentEvent, CallId};
use serde_json::{Value, json};

use super::super::mode_settings::CodexModeSettings;
use super::super::rpc;
use super::super::state::{AnswerForm, CodexState};
use super::{NotificationScope, tools, whose};
use crate::limits::TITLE_MAX_CHARS;
use provider_common::json_fields::Look;
use provider_common::text::one_line;

/// A request as received.
pub(super) struct CodexRequest {
    pub(super) id: Value,
    pub(super) method: String,
    pub(super) params: Value,
}

/// Handles a request of the agent; returns whether it was understood.
pub(super) fn request(
    state: &mut Revisioned<CodexState>,
    stance: CodexModeSettings<'_>,
    request: &CodexRequest,
    out: &mut Decoded,
) -> bool {
    let CodexRequest { id, method, params } = request;
    let (asking, ask) = match method.as_str() {
        "item/commandExecution/requestApproval" => (AnswerForm::Decision, command(state, stance, params)),
        "item/fileChange/requestApproval" => (AnswerForm::Decision, change(state, params)),
        "item/permissions/requestApproval" => (AnswerForm::Permissions, permissions(state, params)),
        "item/tool/requestUserInput" => (AnswerForm::Answers, questions(params)),
        // The daemon asks for the permission itself once the call arrives, in the same way for every agent.
        "mcpServer/elicitation/request" if state.bridged && is_bridge_consent(params) => {
            rpc::reply(id, json!({"action": "accept", "content": {}}), &mut out.replies);
            return true;
        }
        "mcpServer/elicitation/request" => elicitation(state, params),
        "item/tool/call" => {
            // Only tools that we registered are called, and we register none.
            let text = json!([{"type": "inputText", "text": "there is no such tool"}]);
            rpc::reply(id, json!({"contentItems": text, "success": false}), &mut out.replies);
            return true;
        }
        // Requests to a program: tokens, attestations, the time. We announced support for none of them.
        "account/chatgptAuthTokens/refresh" | "attestation/generate" | "currentTime/read" => {
            rpc::refuse(id, "obey does not do that", &mut out.replies);
            return true;
        }
        other => {
            rpc::refuse(id, &format!("obey does not support {other:?}"), &mut out.replies);
            return false;
        }
    };
    let native = id.to_string();
    state.remember_request(&native, asking);
    out.events.push(AgentEvent::Asked { native, ask });
    true
}

fn is_bridge_consent(params: &Value) -> bool {
    params.text("serverName") == BridgeServer::NAME
        && params.under("_meta").text("codex_approval_kind") == "mcp_tool_call"
}

/// Handles the end of a request; one that is still unanswered was withdrawn.
pub(super) fn resolved(state: &mut Revisioned<CodexState>, params: &Value, out: &mut Decoded) {
    let native = params.under("requestId").to_string();
    if state.asks.remove(&native).is_some() {
        out.events.push(AgentEvent::Withdrew { native });
    }
}

/// Returns a permission for an open call.
fn permission(state: &CodexState, params: &Value, tool: &str, input: Value, title: &str) -> RequestSubject {
    let id = params.text("itemId");
    let call = (!id.is_empty()).then(|| CallId::new(id));
    let of_call = call.as_ref().and_then(|call| state.calls.get(call)).and_then(|call| call.parent.clone());
    let parent = of_call.or_else(|| match whose(state, params) {
        NotificationScope::Workers(call) => Some(call),
        NotificationScope::Own | NotificationScope::Nobodys => None,
    });
    let title = one_line(title, TITLE_MAX_CHARS);
    RequestSubject::Permission(PermissionSubject { call, tool: tool.to_owned(), input, title, parent })
}

/// Adds why the agent asks, if it says so.
fn with_reason(mut input: Value, params: &Value) -> Value {
    let reason = params.text("reason");
    if !reason.is_empty() {
        input["reason"] = json!(reason);
    }
    input
}

/// Returns the permission for a command, or for network access to a host.
fn command(state: &CodexState, stance: CodexModeSettings<'_>, params: &Value) -> RequestSubject {
    let host = params.under("networkApprovalContext").text("host");
    if !host.is_empty() {
        let input =
            json!({"host": host, "protocol": params.under("networkApprovalContext").text("protocol")});
        return permission(state, params, "network", input, &format!("network: {host}"));
    }
    let mut input = with_reason(tools::command_input(params.text("command"), params.text("cwd")), params);
    let extra = params.under("additionalPermissions");
    if !extra.is_null() {
        input["permissions"] = extra.clone();
    }
    let shown = input.text("command").to_owned();
    // With `untrusted` the agent also asks about commands inside the sandbox, and gives a reason exactly when
    // it wants to leave it. A permission for the one must not be remembered as one for the other.
    let leaves = !extra.is_null() || !params.text("reason").is_empty();
    let tool = match params.text("kind") {
        "writeStdin" => "write_stdin",
        _ if leaves && stance.approval_policy == "untrusted" => "shell_unsandboxed",
        _ => tools::SHELL,
    };
    permission(state, params, tool, input, &format!("{tool}: {shown}"))
}

fn change(state: &CodexState, params: &Value) -> RequestSubject {
    let call = CallId::new(params.text("itemId"));
    let files = state.calls.get(&call).map(|call| call.files.clone()).unwrap_or_default();
    let changes: Vec<Value> = files.iter().map(|(path, kind)| json!({"path": path, "kind": kind})).collect();
    let mut input = with_reason(json!({"changes": changes}), params);
    let root = params.text("grantRoot");
    if !root.is_empty() {
        input["grant_root"] = json!(root);
    }
    let title = format!("{}: {}", tools::PATCH, tools::named(&files));
    permission(state, params, tools::PATCH, input, &title)
}

fn permissions(state: &CodexState, params: &Value) -> RequestSubject {
    let input = with_reason(json!({"permissions": params.under("permissions")}), params);
    let title = format!("request_permissions: {}", params.text("reason"));
    permission(state, params, "request_permissions", input, &title)
}

fn questions(params: &Value) -> RequestSubject {
    let id = params.text("itemId");
    let option = |option: &Value| QuestionOption {
        label: option.text("label").to_owned(),
        description: option.text("description").to_owned(),
    };
    let question = |question: &Value| Question {
        id: question.text("id").to_owned(),
        header: question.text("header").to_owned(),
        text: question.text("question").to_owned(),
        options: question.list("options").iter().map(option).collect(),
        multi_select: false,
    };
    RequestSubject::Question {
        questions: params.list("questions").iter().map(question).collect(),
        call: (!id.is_empty()).then(|| CallId::new(id)),
    }
}

/// Handles a server's question, or the agent's question whether a server's tool may run: both come the same
/// way. A form with fields becomes questions; everything else is a yes or a no.
fn elicitation(state: &mut Revisioned<CodexState>, params: &Value) -> (AnswerForm, RequestSubject) {
    let (server, message) = (params.text("serverName"), params.text("message"));
    let meta = params.under("_meta");
    if meta.text("codex_approval_kind") == "mcp_tool_call" {
        let (tool, call) = waiting_call(state, params);
        let mut params = params.clone();
        params["itemId"] = json!(call.as_ref().map(CallId::as_str).unwrap_or_default());
        let input = meta.under("tool_params").clone();
        let ask = permission(state, &params, &tool, input, message);
        if let Some(call) = call.and_then(|call| state.calls.get_mut(&call)) {
            call.is_asked = true;
        }
        return (AnswerForm::Consent, ask);
    }
    let fields =
        params.under("requestedSchema").under("properties").as_object().filter(|map| !map.is_empty());
    if let Some(fields) = fields {
        let types =
            fields.iter().map(|(name, field)| (name.clone(), field.text("type").to_owned())).collect();
        let questions =
            fields.iter().map(|(name, field)| asked_field(name, field, server, message)).collect();
        return (AnswerForm::Form(types), RequestSubject::Question { questions, call: None });
    }
    let mut input = json!({"server": server, "message": message});
    if !params.text("url").is_empty() {
        input["url"] = params.under("url").clone();
    }
    let title = format!("{server} asks: {message}");
    (AnswerForm::Form(BTreeMap::new()), permission(state, params, "mcp_elicitation", input, &title))
}

/// Returns the tool of a server that is asked about, and its call. The request names the server, and the tool
/// only in its text; several calls may be open. A tool that cannot be identified with certainty is left
/// unnamed: a permission for another one must not count for it.
fn waiting_call(state: &CodexState, params: &Value) -> (String, Option<CallId>) {
    let (server, message) = (params.text("serverName"), params.text("message"));
    let prefix = format!("mcp__{server}__");
    let named = message.strip_prefix(&format!("Allow the {server} MCP server to run tool \""));
    let named = named.and_then(|rest| rest.strip_suffix("\"?")).map(|name| format!("{prefix}{name}"));
    let parent = match whose(state, params) {
        NotificationScope::Workers(call) => Some(call),
        NotificationScope::Own | NotificationScope::Nobodys => None,
    };
    let fits = |tool: &str| named.as_ref().map_or_else(|| tool.starts_with(&prefix), |named| tool == named);
    let mut waiting =
        state.calls.iter().filter(|(_, call)| !call.is_asked && call.parent == parent && fits(&call.tool));
    match (waiting.next(), waiting.next(), named) {
        (first, _, Some(named)) => (named, first.map(|(id, _)| id.clone())),
        (Some((id, call)), None, None) => (call.tool.clone(), Some(id.clone())),
        (_, _, None) => (format!("{prefix}tool"), None),
    }
}

/// Returns a field of a server's form as a question.
fn asked_field(name: &str, field: &Value, server: &str, message: &str) -> Question {
    let label = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.text("const").to_owned(),
    };
    let mut choices: Vec<String> = field.list("enum").iter().chain(field.list("oneOf")).map(label).collect();
    let items = field.under("items");
    choices.extend(items.list("enum").iter().chain(items.list("anyOf")).map(label));
    if field.text("type") == "boolean" {
        choices = vec!["yes".to_owned(), "no".to_owned()];
    }
    let title = [field.text("title"), name].into_iter().find(|text| !text.is_empty()).unwrap_or_default();
    let about = match field.text("description") {
        "" => title.to_owned(),
        description => format!("{title} ({description})"),
    };
    Question {
        id: name.to_owned(),
        header: server.to_owned(),
        text: format!("{message}: {about}"),
        options: choices
            .into_iter()
            .map(|label| QuestionOption { label, description: String::new() })
            .collect(),
        multi_select: field.text("type") == "array",
    }
}

//! Requests of the agent, and its answers to ours. Permissions and questions wait for a person; everything
//! else is answered at once, because an agent that gets no answer waits forever.

use agent_port::{BridgeServer, Decoded, Revisioned};
use domain::event::{AgentCommand, Level};
use domain::request::{PermissionSubject, Question, QuestionOption, RequestSubject};
use domain::{AgentEvent, CallId};
use serde_json::{Value, json};

use super::super::encode::{self, ControlRequestKind};
use super::super::state::ClaudeState;
use super::super::wire::Look;
use super::super::{TESTED_RANGE, is_tested, title};
use super::{notice, turn};
use crate::limits::COMMAND_DESCRIPTION_MAX_CHARS;
use provider_common::text::one_line;

/// Handles a request of the agent; returns whether it was understood.
pub(super) fn request(state: &mut Revisioned<ClaudeState>, value: &Value, out: &mut Decoded) -> bool {
    let (native, body) = (value.text("request_id"), value.under("request"));
    match body.text("subtype") {
        // The daemon asks for the permission itself once the call arrives, in the same way for every agent.
        "can_use_tool" if state.bridged && BridgeServer::plain_name(body.text("tool_name")).is_some() => {
            let answer = json!({"behavior": "allow", "updatedInput": body.under("input")});
            encode::reply(native, &answer, &mut out.replies);
        }
        "can_use_tool" => {
            let ask = ask(state, body);
            out.events.push(AgentEvent::Asked { native: native.to_owned(), ask });
        }
        // Only hooks that we registered cause a request, and we register none.
        "hook_callback" => encode::reply(native, &json!({}), &mut out.replies),
        "elicitation" => {
            let server = body.text("mcp_server_name");
            notice(out, Level::Warning, &format!("{server} asked for input, which was declined"));
            encode::reply(native, &json!({"action": "decline"}), &mut out.replies);
        }
        other => {
            encode::refuse(native, &format!("obey does not support {other:?}"), &mut out.replies);
            return false;
        }
    }
    true
}

/// Handles the withdrawal of a request.
pub(super) fn cancel(value: &Value, out: &mut Decoded) {
    out.events.push(AgentEvent::Withdrew { native: value.text("request_id").to_owned() });
}

/// Converts a `can_use_tool` request to questions or to a permission.
fn ask(state: &ClaudeState, body: &Value) -> RequestSubject {
    let (tool, input) = (body.text("tool_name"), body.under("input"));
    let id = body.text("tool_use_id");
    let call = (!id.is_empty()).then(|| CallId::new(id));
    if tool == "AskUserQuestion" && !input.list("questions").is_empty() {
        let questions = input.list("questions").iter().enumerate().map(question).collect();
        return RequestSubject::Question { questions, call };
    }
    let parent = call.as_ref().and_then(|call| state.calls.get(call)).and_then(|call| call.parent.clone());
    RequestSubject::Permission(PermissionSubject {
        call,
        tool: tool.to_owned(),
        input: input.clone(),
        title: title::of(tool, input),
        parent,
    })
}

fn question((at, value): (usize, &Value)) -> Question {
    let option = |option: &Value| QuestionOption {
        label: option.text("label").to_owned(),
        description: option.text("description").to_owned(),
    };
    Question {
        id: format!("q{}", at + 1),
        header: value.text("header").to_owned(),
        text: value.text("question").to_owned(),
        options: value.list("options").iter().map(option).collect(),
        multi_select: value.is("multiSelect"),
    }
}

/// Handles the answer to one of our requests.
pub(super) fn response(state: &mut Revisioned<ClaudeState>, value: &Value, out: &mut Decoded) {
    let body = value.under("response");
    let failed = body.text("subtype") == "error";
    let (error, answer) = (body.text("error"), body.under("response"));
    match (encode::purpose(body.text("request_id")), failed) {
        (Some(ControlRequestKind::Initialize), false) => initialized(state, answer, out),
        (Some(ControlRequestKind::Initialize), true) => {
            let message = format!("the agent does not speak the protocol obey needs: {error}");
            out.events.push(AgentEvent::Broken { code: None, message });
        }
        (Some(ControlRequestKind::Interrupt), false) => turn::interrupted(state, answer, out),
        (Some(ControlRequestKind::Servers), false) => {
            for (name, what) in answer.under("errors").as_object().into_iter().flatten() {
                let what = what.as_str().unwrap_or("failed");
                notice(out, Level::Error, &format!("MCP server {name} did not start: {what}"));
            }
        }
        (Some(purpose), true) => {
            notice(out, Level::Error, &format!("the agent refused to {}: {error}", purpose.what()));
        }
        // Changed modes and models are reported in separate lines.
        (
            Some(ControlRequestKind::SetMode | ControlRequestKind::SetModel | ControlRequestKind::Leave),
            false,
        )
        | (None, _) => {}
    }
}

/// Handles what the agent reports about itself: from now on it accepts prompts.
fn initialized(state: &mut Revisioned<ClaudeState>, answer: &Value, out: &mut Decoded) {
    state.ready = true;
    answer.text("claude_code_version").clone_into(&mut state.version);
    let resolved = |name: &str| {
        let found = answer.list("models").iter().find(|model| model.text("value") == name);
        found.map(|model| model.text("resolvedModel")).unwrap_or_default().to_owned()
    };
    let mut model = state.asked_model.clone();
    let mut resolved_model = String::new();
    if model.is_empty() || model == "default" {
        model = resolved("default");
        state.turn_model.clone_from(&model);
    } else {
        resolved_model = resolved(&model);
        state.turn_model.clone_from(&resolved_model);
    }
    let (native_session, version) = (state.session.clone(), state.version.clone());
    out.events.push(AgentEvent::Ready { native_session, model, version, resolved_model });
    commands(answer.list("commands"), out);
    turn::mode_seen(state, answer.text("current_permission_mode"), out);
    if !is_tested(&state.version) {
        let version = if state.version.is_empty() { "of unknown version" } else { &state.version };
        notice(
            out,
            Level::Warning,
            &format!("this Claude Code is {version}; obey is tested with {TESTED_RANGE}"),
        );
    }
}

/// Reports which commands the agent offers.
pub(super) fn commands(list: &[Value], out: &mut Decoded) {
    let command = |value: &Value| AgentCommand {
        name: value.text("name").to_owned(),
        description: one_line(value.text("description"), COMMAND_DESCRIPTION_MAX_CHARS),
        hint: one_line(value.text("argumentHint"), COMMAND_DESCRIPTION_MAX_CHARS),
    };
    if !list.is_empty() {
        out.events.push(AgentEvent::Commands(list.iter().map(command).collect()));
    }
}

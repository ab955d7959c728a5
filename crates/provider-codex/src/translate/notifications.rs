//! What a person should know besides the conversation itself: warnings, retries, servers that did not start.

use agent_port::{Decoded, Revisioned};
use domain::event::{Level, ServerStatus, ToolServer};
use domain::{AgentEvent, ErrorCode, Timestamp};
use serde_json::{Value, json};

use super::super::rpc::CodexRequestKind;
use super::super::state::CodexState;
use super::{NotificationScope, notice, turn, whose};
use crate::limits::{MESSAGE_MAX_CHARS, SERVER_TOOLS_MAX, SERVERS_MAX, TITLE_MAX_CHARS};
use provider_common::json_fields::Look;
use provider_common::text::cut;

/// A limit of which everything is used.
const PERCENT_ALL: u64 = 100;

/// Notifications that contain nothing a session needs, by name or by prefix (`/` at the end). Listed by name,
/// so that a kind that is new in another version is recorded as received instead of being lost.
pub(super) const NOISE: [&str; 44] = [
    "account/",
    "app/list/updated",
    "autoApprovalReview/strictReviewRequired",
    "command/exec/outputDelta",
    "deprecationNotice",
    "externalAgentConfig/",
    "fs/changed",
    "fuzzyFileSearch/",
    "hook/started",
    "item/autoApprovalReview/",
    "item/commandExecution/terminalInteraction",
    "item/fileChange/outputDelta",
    "item/fileChange/patchUpdated",
    "mcpServer/event/stream/notification",
    "mcpServer/oauthLogin/completed",
    "model/safetyBuffering/updated",
    "model/verification",
    "modelProvider/authRecoveryCompleted",
    "modelProvider/authRecoveryStarted",
    "process/exited",
    "process/outputDelta",
    "project/changed",
    "remoteControl/status/changed",
    "skills/changed",
    "thread/archived",
    "thread/attachment/updated",
    // The end of the compaction's own item reports it.
    "thread/compacted",
    "thread/environment/connected",
    "thread/environment/disconnected",
    "thread/goal/cleared",
    "thread/goal/updated",
    "thread/name/updated",
    "thread/prediction/updated",
    "thread/project/updated",
    "thread/queue/changed",
    "thread/readState/changed",
    "thread/realtime/",
    "thread/reverted",
    // The start and the end of a turn report it.
    "thread/status/changed",
    "thread/unarchived",
    "turn/diff/updated",
    "turn/moderationMetadata",
    "windows/",
    "windowsSandbox/",
];

/// Handles any other notification; returns whether it was understood.
pub(super) fn other(
    state: &mut Revisioned<CodexState>,
    method: &str,
    params: &Value,
    out: &mut Decoded,
) -> bool {
    match method {
        "account/rateLimits/updated" => plan_limits(state, params),
        "warning" | "guardianWarning" => notice(out, Level::Warning, params.text("message")),
        "configWarning" => config_warning(params, out),
        "mcpServer/startupStatus/updated" => server(state, params, out),
        "model/rerouted" => rerouted(state, params, out),
        "hook/completed" => hook(params, out),
        "thread/closed" | "thread/deleted" => gone(state, method, params, out),
        _ => {
            return NOISE.iter().any(|noise| match noise.strip_suffix('/') {
                Some(_) => method.starts_with(noise),
                None => method == *noise,
            });
        }
    }
    true
}

/// Handles an error. One that ends the turn is repeated with the turn's end.
pub(super) fn error(state: &CodexState, params: &Value, out: &mut Decoded) {
    let message = turn::message_of(params.under("error"));
    if params.is("willRetry") {
        let message = cut(&format!("the model did not answer: {message}"), MESSAGE_MAX_CHARS);
        out.events.push(AgentEvent::Waits { code: wait_code(params.under("error")), message });
    } else if state.turn.is_none() && !matches!(whose(state, params), NotificationScope::Nobodys) {
        notice(out, Level::Error, &message);
    }
}

/// Returns why the model keeps a turn waiting.
fn wait_code(error: &Value) -> ErrorCode {
    let is_rate_limited = is_plan_used_up(error) || is_too_many_requests(error);
    if is_rate_limited { ErrorCode::RateLimited } else { ErrorCode::ConnectionLost }
}

fn is_plan_used_up(error: &Value) -> bool {
    error.under("codexErrorInfo").as_str() == Some("usageLimitExceeded")
}

fn is_too_many_requests(error: &Value) -> bool {
    let mut causes = error.under("codexErrorInfo").as_object().into_iter().flat_map(|info| info.values());
    causes.any(|cause| cause.count("httpStatusCode") == Some(429))
}

/// Handles how much of the user's plan is used.
fn plan_limits(state: &mut Revisioned<CodexState>, params: &Value) {
    let limits = params.under("rateLimits");
    let windows = ["primary", "secondary"].map(|name| limits.under(name));
    let used_up = windows.into_iter().filter(|window| window.count("usedPercent") >= Some(PERCENT_ALL));
    let resets_at = used_up.filter_map(|window| window.count("resetsAt")).max();
    if state.limit_resets_at != resets_at {
        state.limit_resets_at = resets_at;
    }
}

/// Returns the rate limit that a turn failed with, if that is why it failed. A plan that never included the model, or
/// whose money is spent, is reported under the same name and is not over with time.
pub(super) fn rate_limit(state: &CodexState, error: &Value) -> Option<AgentEvent> {
    let message = turn::message_of(error);
    let seconds = state.limit_resets_at.filter(|_| is_plan_used_up(error));
    let says_when = is_plan_used_up(error) && message.to_lowercase().contains("try again");
    let is_limited = seconds.is_some() || says_when || is_too_many_requests(error);
    let micros =
        |seconds: u64| i64::try_from(seconds).ok().and_then(|seconds| seconds.checked_mul(1_000_000));
    let resumes_at = seconds.and_then(micros).map(Timestamp);
    is_limited.then(|| AgentEvent::RateLimited { resumes_at, reason: cut(&message, MESSAGE_MAX_CHARS) })
}

/// Handles settings that changed, by us or by the agent.
pub(super) fn settings(state: &mut Revisioned<CodexState>, params: &Value, out: &mut Decoded) {
    if !matches!(whose(state, params), NotificationScope::Own) {
        return;
    }
    let settings = params.under("threadSettings");
    let planning = settings.under("collaborationMode").text("mode") == "plan";
    if planning != state.planning {
        state.planning = planning;
        out.events.push(AgentEvent::PlanMode(planning));
    }
    changed_model(state, settings.text("model"), out);
}

fn changed_model(state: &mut Revisioned<CodexState>, model: &str, out: &mut Decoded) {
    if !model.is_empty() && model != state.model {
        model.clone_into(&mut state.model);
        out.events.push(AgentEvent::Model(model.to_owned()));
    }
}

fn rerouted(state: &mut Revisioned<CodexState>, params: &Value, out: &mut Decoded) {
    if matches!(whose(state, params), NotificationScope::Own) {
        let (from, to) = (params.text("fromModel"), params.text("toModel"));
        notice(out, Level::Warning, &format!("the model {from} was replaced by {to}"));
        changed_model(state, to, out);
    }
}

fn config_warning(params: &Value, out: &mut Decoded) {
    let summary = params.text("summary");
    // Reported at every start on a machine without a system copy; the one bundled with the agent works as
    // well.
    if summary.contains("bundled bubblewrap") {
        return;
    }
    let details = params.text("details");
    let separator = if details.is_empty() { "" } else { ": " };
    notice(out, Level::Warning, &format!("Codex's configuration: {summary}{separator}{details}"));
}

/// Handles the state of an MCP server; asks for its tools if it runs.
fn server(state: &mut Revisioned<CodexState>, params: &Value, out: &mut Decoded) {
    let (name, error) = (params.text("name"), params.text("error"));
    let status = match params.text("status") {
        "starting" => ServerStatus::Starting,
        "ready" => ServerStatus::Running,
        "cancelled" => ServerStatus::Stopped,
        _ => ServerStatus::Failed,
    };
    if let Some(server) = server_named(state, name) {
        server.status = status;
        server.error = cut(error, MESSAGE_MAX_CHARS);
    }
    if status == ServerStatus::Running {
        let params =
            json!({"threadId": params.under("threadId"), "serverName": name, "detail": "toolsAndAuthOnly"});
        state.send_request(CodexRequestKind::Servers, params, &mut out.replies);
    }
    out.events.push(AgentEvent::Servers(state.servers.clone()));
    if status == ServerStatus::Failed {
        notice(out, Level::Error, &format!("MCP server {name} did not start: {error}"));
    }
}

/// Handles the tools of servers.
pub(super) fn listed_servers(state: &mut Revisioned<CodexState>, page: &Value, out: &mut Decoded) {
    for listed in page.list("data") {
        let Some(server) = server_named(state, listed.text("name")) else { continue };
        let tools = listed.under("tools").as_object().into_iter().flatten();
        server.tools = tools.take(SERVER_TOOLS_MAX).map(|(tool, _)| cut(tool, TITLE_MAX_CHARS)).collect();
        server.endpoint = cut(listed.text("httpOrigin"), MESSAGE_MAX_CHARS);
    }
    out.events.push(AgentEvent::Servers(state.servers.clone()));
}

/// Returns a server; adds it if it is new and there is room.
fn server_named<'a>(state: &'a mut Revisioned<CodexState>, name: &str) -> Option<&'a mut ToolServer> {
    let name = cut(name, TITLE_MAX_CHARS);
    let known = state.servers.iter().position(|server| server.name == name);
    if known.is_none() && state.servers.len() < SERVERS_MAX {
        let (status, tools) = (ServerStatus::Starting, Vec::new());
        let (endpoint, error) = (String::new(), String::new());
        state.servers.push(ToolServer { name, status, tools, endpoint, error });
        return state.servers.last_mut();
    }
    known.and_then(|at| state.servers.get_mut(at))
}

fn hook(params: &Value, out: &mut Decoded) {
    let run = params.under("run");
    let said: Vec<&str> = run.list("entries").iter().map(|entry| entry.text("text")).collect();
    let what = match run.text("status") {
        "failed" => "failed",
        "blocked" => "blocked what the agent wanted to do",
        "stopped" => "stopped the agent",
        _ => return,
    };
    notice(out, Level::Warning, &format!("hook {} {what}: {}", run.text("eventName"), said.join("; ")));
}

/// Handles the loss of a conversation. Without its own one a session cannot continue; a restart resumes it.
fn gone(state: &CodexState, method: &str, params: &Value, out: &mut Decoded) {
    if !state.thread.is_empty() && params.text("threadId") == state.thread {
        let what = if method == "thread/deleted" { "deleted" } else { "closed" };
        let message = format!("the conversation was {what}; restart the session to go on");
        out.events.push(AgentEvent::Broken { code: None, message });
    }
}

//! Turns: when one starts, when one ends, and whose it was. The agent runs turns of its own (a background
//! command ended), folds messages into a running turn and joins pending messages; so a `result` ends our turn
//! only if it settles what we sent. In doubt it does: a turn that ends early is a nuisance, one that never
//! ends is a dead session.

use agent_port::{Decoded, Revisioned};
use domain::event::{AgentCommand, Level, ServerStatus, ToolServer};
use domain::turn::EndReason;
use domain::{AgentEvent, Mode, Usage};
use serde_json::Value;

use super::super::state::ClaudeState;
use super::super::wire::{Look, api_usage, model_usage, nano};
use super::notice;
use crate::limits::{MESSAGE_MAX_CHARS, SERVER_TOOLS_MAX, SERVERS_MAX, TITLE_MAX_CHARS};
use provider_common::text::cut;

/// Handles the first line of every turn.
pub(super) fn init(state: &mut Revisioned<ClaudeState>, value: &Value, out: &mut Decoded) {
    let session = value.text("session_id");
    if !session.is_empty() && session != state.session {
        // The agent cleared the conversation and started another; that is the one to resume from now on.
        session.clone_into(&mut state.session);
        state.context_tokens = None;
        let version = state.version.clone();
        let native_session = session.to_owned();
        out.events.push(AgentEvent::Ready {
            native_session,
            model: String::new(),
            version,
            resolved_model: String::new(),
        });
    }
    state.in_turn = true;
    out.events.push(AgentEvent::TurnStarted);
    let model = value.text("model");
    if !model.is_empty() && model != state.turn_model {
        if !state.turn_model.is_empty() {
            out.events.push(AgentEvent::Model(model.to_owned()));
        } else if model != state.asked_model {
            // The first name after a request is what the requested name stands for, not a change.
            out.events.push(AgentEvent::Ready {
                native_session: state.session.clone(),
                model: String::new(),
                version: state.version.clone(),
                resolved_model: model.to_owned(),
            });
        }
        model.clone_into(&mut state.turn_model);
    }
    mode_seen(state, value.text("permissionMode"), out);
    commands_seen(state, value.list("slash_commands"), out);
    servers_seen(state, value, out);
}

/// Reports the MCP servers, if there are or were any.
fn servers_seen(state: &mut Revisioned<ClaudeState>, value: &Value, out: &mut Decoded) {
    let listed = value.list("mcp_servers");
    if listed.is_empty() && !state.servers {
        return;
    }
    state.servers = true;
    let tools = value.list("tools");
    let server = |server: &Value| {
        let name = cut(server.text("name"), TITLE_MAX_CHARS);
        // In the names of tools the agent replaces special characters in a server's name.
        let plain = |letter: char| if letter.is_ascii_alphanumeric() || letter == '-' { letter } else { '_' };
        let prefix = format!("mcp__{}__", name.chars().map(plain).collect::<String>());
        let own = tools.iter().filter_map(|tool| tool.as_str()?.strip_prefix(&prefix));
        let (status, error) = match server.text("status") {
            "connected" => (ServerStatus::Running, ""),
            "pending" => (ServerStatus::Starting, ""),
            "disabled" => (ServerStatus::Stopped, ""),
            other => (ServerStatus::Failed, other),
        };
        ToolServer {
            status,
            tools: own.take(SERVER_TOOLS_MAX).map(|tool| cut(tool, TITLE_MAX_CHARS)).collect(),
            endpoint: String::new(),
            error: cut(error, MESSAGE_MAX_CHARS),
            name,
        }
    };
    let servers = listed.iter().take(SERVERS_MAX).map(server).collect();
    out.events.push(AgentEvent::Servers(servers));
}

/// Follows the agent's own mode. A mode in which it asks less than the session demands is never taken over
/// from the agent.
pub(super) fn mode_seen(state: &mut Revisioned<ClaudeState>, native: &str, out: &mut Decoded) {
    if native.is_empty() || native == state.native_mode {
        return;
    }
    let planned = state.native_mode == "plan";
    native.clone_into(&mut state.native_mode);
    if planned != (native == "plan") {
        out.events.push(AgentEvent::PlanMode(!planned));
    }
    let mode = match native {
        "default" => Mode::Supervised,
        "acceptEdits" => Mode::AcceptEdits,
        // The agent plans on its own for a while; it returns to the session's mode.
        "plan" => return,
        other => {
            notice(out, Level::Warning, &format!("the agent says it is in mode {other}"));
            return;
        }
    };
    // An autonomous session also lets the agent ask, and answers itself.
    if state.mode != Mode::Autonomous && state.mode != mode {
        state.mode = mode;
        out.events.push(AgentEvent::Mode(mode));
    }
}

fn commands_seen(state: &mut Revisioned<ClaudeState>, names: &[Value], out: &mut Decoded) {
    let mut print = 0xcbf2_9ce4_8422_2325_u64;
    for byte in names.iter().filter_map(Value::as_str).flat_map(|name| name.bytes().chain([0])) {
        print = (print ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    let last = std::mem::replace(&mut state.commands, print);
    if last == 0 || last == print || names.is_empty() {
        return;
    }
    let plain = |name: &Value| {
        let name = name.as_str()?.to_owned();
        Some(AgentCommand { name, description: String::new(), hint: String::new() })
    };
    out.events.push(AgentEvent::Commands(names.iter().filter_map(plain).collect()));
}

/// Handles the end of a turn.
pub(super) fn result(state: &mut Revisioned<ClaudeState>, value: &Value, out: &mut Decoded) {
    settle_usage(state, value, out);
    let (mut reason, text, mut error) = ending(value);
    if std::mem::take(&mut state.cut_off) && reason == EndReason::Failed {
        reason = EndReason::LimitReached;
    }
    if !state.ready {
        // It could not even start, and exits now; its exit fails the session, with this as the last logged
        // line.
        out.events.push(AgentEvent::Logged(if error.is_empty() { text } else { error }));
        return;
    }
    state.in_turn = false;
    let own_words = std::mem::take(&mut state.error);
    if !settles_ours(state, value) {
        let failed = matches!(reason, EndReason::Failed | EndReason::Refused | EndReason::LimitReached);
        notice(out, Level::Error, if failed { &error } else { &own_words });
        return;
    }
    if reason == EndReason::Failed && error.is_empty() {
        error = own_words;
    } else if error.is_empty() {
        notice(out, Level::Error, &own_words);
    }
    state.end_turn();
    if reason == EndReason::Failed && is_rate_limited(value) {
        // When the limit ends was reported before, or nobody knows.
        out.events.push(AgentEvent::RateLimited { resumes_at: None, reason: error.clone() });
    }
    out.events.push(AgentEvent::TurnEnded { reason, text, error });
}

/// Returns whether a turn failed because the model takes no more requests for now: with HTTP 429, or 529 while it is
/// overloaded.
fn is_rate_limited(value: &Value) -> bool {
    matches!(value.count("api_error_status"), Some(429 | 529))
}

/// Returns whether nothing we sent is left to be answered after this result.
fn settles_ours(state: &mut Revisioned<ClaudeState>, value: &Value) -> bool {
    if state.outstanding.is_empty() {
        return true;
    }
    let last = value.under("user_message_uuid").as_str();
    let names: Vec<&str> =
        value.list("user_message_uuids").iter().filter_map(Value::as_str).chain(last).collect();
    let before = state.outstanding.len();
    state.outstanding.retain(|name| !names.contains(&name.as_str()));
    if state.outstanding.len() < before {
        // Messages that are still pending were cancelled with an interrupt, even by an agent that does not
        // say so.
        return state.outstanding.is_empty() || state.interrupting;
    }
    let origin = value.under("origin").text("kind");
    let unasked = !names.is_empty() || !matches!(origin, "" | "human");
    !unasked
}

/// Handles the state of one of our messages. One that was cancelled before its turn started gets no result.
pub(super) fn lifecycle(state: &mut Revisioned<ClaudeState>, value: &Value, out: &mut Decoded) {
    let reason = match value.text("state") {
        "completed" => EndReason::Completed,
        "cancelled" => EndReason::Cancelled,
        _ => return,
    };
    let name = value.text("command_uuid");
    let before = state.outstanding.len();
    state.outstanding.retain(|waiting| waiting != name);
    if state.outstanding.len() < before {
        end_without_result(state, reason, out);
    }
}

/// Handles the answer to an interrupt: if nothing runs and nothing is pending, there will be no result.
pub(super) fn interrupted(state: &mut Revisioned<ClaudeState>, answer: &Value, out: &mut Decoded) {
    if !state.interrupting {
        return;
    }
    let cancelled: Vec<&str> = answer.list("cancelled").iter().filter_map(Value::as_str).collect();
    state.outstanding.retain(|waiting| !cancelled.contains(&waiting.as_str()));
    end_without_result(state, EndReason::Cancelled, out);
}

fn end_without_result(state: &mut Revisioned<ClaudeState>, reason: EndReason, out: &mut Decoded) {
    if !state.in_turn && state.outstanding.is_empty() {
        state.end_turn();
        out.events.push(AgentEvent::TurnEnded { reason, text: String::new(), error: String::new() });
    }
}

/// Returns why a turn ended, the agent's final text and its error.
fn ending(value: &Value) -> (EndReason, String, String) {
    let (subtype, stop) = (value.text("subtype"), value.text("stop_reason"));
    let reason = match value.text("terminal_reason") {
        "aborted_streaming" | "aborted_tools" => EndReason::Cancelled,
        "max_turns" | "budget_exhausted" | "blocking_limit" | "prompt_too_long" => EndReason::LimitReached,
        _ if stop == "refusal" => EndReason::Refused,
        _ if matches!(subtype, "error_max_turns" | "error_max_budget_usd") => EndReason::LimitReached,
        _ if value.is("is_error") || subtype.starts_with("error") => EndReason::Failed,
        _ if matches!(stop, "max_tokens" | "model_context_window_exceeded") => EndReason::LimitReached,
        _ => EndReason::Completed,
    };
    let said = value.text("result");
    if !value.is("is_error") || reason == EndReason::Cancelled {
        return (reason, said.to_owned(), String::new());
    }
    // Lines for the agent's own developers are left out.
    let errors = value.list("errors").iter().filter_map(Value::as_str);
    let errors: Vec<&str> = errors.filter(|error| !error.starts_with("[ede_diagnostic]")).collect();
    let error = match (said.is_empty(), errors.is_empty()) {
        (false, _) => said.to_owned(),
        (true, false) => errors.join("; "),
        (true, true) => format!("the agent ended the turn with {subtype}"),
    };
    (reason, String::new(), cut(&error, MESSAGE_MAX_CHARS))
}

/// Reconciles the counts with what the agent reports as used.
fn settle_usage(state: &mut Revisioned<ClaudeState>, value: &Value, out: &mut Decoded) {
    let (total, total_nano) = model_usage(value.under("modelUsage"));
    let running = state.tally.since(total, nano(value.under("total_cost_usd")).max(total_nano));
    let (since, nano_usd) = match value.under("model_usage_since_last_result") {
        Value::Object(_) => model_usage(value.under("model_usage_since_last_result")),
        // Older agents: the difference to the last total, or what the turn itself used.
        _ => running.unwrap_or_else(|| (api_usage(value.under("usage")), total_nano)),
    };
    let usage = state.tally.settle(&since, nano_usd);
    let models = value.under("modelUsage");
    let only = models.as_object().filter(|map| map.len() == 1).and_then(|map| map.values().next());
    let window = models.get(&state.turn_model).or(only).and_then(|model| model.count("contextWindow"));
    let window_is_new = window.is_some() && window != state.context_window;
    state.context_window = window.or(state.context_window);
    if usage != Usage::default() || window_is_new {
        out.events.push(AgentEvent::Usage {
            usage,
            context_tokens: state.context_tokens,
            context_window: state.context_window,
            parent: None,
        });
    }
}

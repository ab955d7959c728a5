//! The `system` lines other than the start of a turn: what a person should know, and what runs in the
//! background.
//!
//! Dropped on purpose: `thinking_tokens` (an estimate), `session_state_changed`, `session_title_changed`,
//! `background_tasks_changed`, `task_updated` (the `task_notification` that follows says more),
//! `ui_invalidate`, `files_persisted`, `memory_recall`, `elicitation_complete`, `control_request_progress`,
//! `worker_shutting_down`, hooks that started or succeeded, plug-ins that were installed, and `status`
//! without news.

use agent_port::{Decoded, Revisioned};
use domain::event::Level;
use domain::{AgentEvent, CallId, ErrorCode, Timestamp};
use serde_json::Value;

use super::super::state::{ClaudeState, PendingCompaction};
use super::super::wire::Look;
use super::{notice, requests, turn};
use crate::limits::{MESSAGE_MAX_CHARS, TITLE_MAX_CHARS};
use provider_common::text::{cut, one_line};

/// Handles a `system` line; returns whether it was understood.
pub(super) fn system(state: &mut Revisioned<ClaudeState>, value: &Value, out: &mut Decoded) -> bool {
    match value.text("subtype") {
        "init" => turn::init(state, value, out),
        "status" => status(state, value, out),
        "compact_boundary" => {
            let metadata = value.under("compact_metadata");
            let (before, after) = (metadata.count("pre_tokens"), metadata.count("post_tokens"));
            state.compaction = Some(PendingCompaction { before, after });
            state.context_tokens = after.or(state.context_tokens);
        }
        "task_started" | "task_progress" | "task_notification" => worker(value, out),
        "api_retry" => api_retry(state, value, out),
        "permission_denied" => {
            let text = format!("{} was denied: {}", value.text("tool_name"), value.text("message"));
            notice(out, Level::Warning, &text);
        }
        "informational" => {
            let urgent = matches!(value.text("level"), "warning" | "suggestion");
            notice(out, if urgent { Level::Warning } else { Level::Info }, value.text("content"));
        }
        "notification" => notice(out, Level::Info, value.text("text")),
        "model_refusal_fallback" | "model_refusal_no_fallback" => {
            notice(out, Level::Warning, value.text("content"));
        }
        "local_command_output" => {
            let text = value.text("content").to_owned();
            out.events.push(AgentEvent::Text { text, parent: None });
        }
        "commands_changed" => {
            // The next turn's list is the same, without the descriptions.
            state.commands = 0;
            requests::commands(value.list("commands"), out);
        }
        "hook_response" if value.text("outcome") == "error" => {
            let text = format!("hook {} failed: {}", value.text("hook_name"), value.text("output"));
            notice(out, Level::Warning, &text);
        }
        "plugin_install" if value.text("status") == "failed" => {
            let text = format!("plug-in {} failed: {}", value.text("name"), value.text("error"));
            notice(out, Level::Warning, &text);
        }
        "session_writes_lost" => {
            let code = value.text("error_code");
            let text =
                format!("the agent could not save its conversation ({code}); a resume may miss part of it");
            notice(out, Level::Error, &text);
        }
        "mirror_error" => notice(out, Level::Warning, value.text("error")),
        "thinking_tokens"
        | "session_state_changed"
        | "session_title_changed"
        | "background_tasks_changed"
        | "task_updated"
        | "ui_invalidate"
        | "files_persisted"
        | "memory_recall"
        | "elicitation_complete"
        | "control_request_progress"
        | "worker_shutting_down"
        | "hook_started"
        | "hook_progress"
        | "hook_response"
        | "plugin_install" => {}
        _ => return false,
    }
    true
}

fn status(state: &mut Revisioned<ClaudeState>, value: &Value, out: &mut Decoded) {
    turn::mode_seen(state, value.text("permissionMode"), out);
    if value.text("status") == "compacting" {
        notice(out, Level::Info, "the agent compacts the conversation");
    }
    if value.text("compact_result") == "failed" {
        let text = format!("the conversation was not compacted: {}", value.text("compact_error"));
        notice(out, Level::Warning, &text);
    }
}

/// Reports a compaction once its summary is known: it is the next line, in the user's name.
pub(super) fn compaction_over(
    state: &mut Revisioned<ClaudeState>,
    next: Option<(&str, &Value)>,
    out: &mut Decoded,
) {
    let Some(PendingCompaction { before, after }) = state.compaction else { return };
    state.compaction = None;
    let summary = match next {
        Some(("user", value)) if value.is("isSynthetic") => value.under("message").text("content"),
        _ => "",
    };
    let summary = summary.to_owned();
    out.events.push(AgentEvent::Compacted { tokens_before: before, tokens_after: after, summary });
}

fn worker(value: &Value, out: &mut Decoded) {
    let worker = value.text("task_id").to_owned();
    let id = value.text("tool_use_id");
    let call = (!id.is_empty()).then(|| CallId::new(id));
    let description = one_line(value.text("description"), TITLE_MAX_CHARS);
    out.events.push(match value.text("subtype") {
        "task_started" => AgentEvent::WorkerStarted { worker, call, title: description },
        "task_progress" => AgentEvent::WorkerProgressed { worker, summary: description },
        _ => AgentEvent::WorkerFinished {
            worker,
            ok: value.text("status") == "completed",
            summary: cut(value.text("summary"), MESSAGE_MAX_CHARS),
        },
    });
}

fn api_retry(state: &ClaudeState, value: &Value, out: &mut Decoded) {
    let seconds = value.count("retry_delay_ms").unwrap_or(0) as f64 / 1_000.0;
    let (attempt, most) = (value.count("attempt").unwrap_or(0), value.count("max_retries").unwrap_or(0));
    let cause = match (value.text("error"), value.count("error_status")) {
        ("" | "unknown", None) => "the connection failed".to_owned(),
        (error, None) => error.replace('_', " "),
        (error, Some(status)) => format!("{} ({status})", error.replace('_', " ")),
    };
    let torn = state.messages.back().is_some_and(|last| last.text.is_torn() || last.thinking.is_torn());
    let again = if torn { "; what it wrote last is written anew" } else { "" };
    let text =
        format!("the model did not answer: {cause}; retry {attempt} of {most} in {seconds:.1} s{again}");
    let is_rate_limited = matches!(value.count("error_status"), Some(429 | 529))
        || matches!(value.text("error"), "rate_limit" | "overloaded");
    let code = if is_rate_limited { ErrorCode::RateLimited } else { ErrorCode::ConnectionLost };
    out.events.push(AgentEvent::Waits { code, message: cut(&text, MESSAGE_MAX_CHARS) });
}

/// Reports the state of the user's plan if it is close to its limit.
pub(super) fn rate_limit(value: &Value, out: &mut Decoded) {
    let info = value.under("rate_limit_info");
    let which = info.text("rateLimitType").replace('_', " ");
    match info.text("status") {
        "allowed_warning" => notice(out, Level::Warning, &format!("the {which} limit is nearly used up")),
        "rejected" => {
            let reason = format!("the {which} limit is used up");
            notice(out, Level::Error, &reason);
            let resets_at = info.count("resetsAt").and_then(|seconds| i64::try_from(seconds).ok());
            let resumes_at = resets_at.map(|seconds| Timestamp(seconds.saturating_mul(1_000_000)));
            out.events.push(AgentEvent::RateLimited { resumes_at, reason });
        }
        _ => {}
    }
}

/// Reports the output of a login.
pub(super) fn auth_status(value: &Value, out: &mut Decoded) {
    let lines: Vec<&str> = value.list("output").iter().filter_map(Value::as_str).collect();
    notice(out, Level::Info, &lines.join("\n"));
    notice(out, Level::Error, value.text("error"));
}

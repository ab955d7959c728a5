//! Renders events as rows for people: a word for the kind and one text. Pure; used by the log and by every
//! live view. Matches every kind, so that a new one cannot be forgotten.

use domain::event::{Level, TodoStatus};
use domain::permission::{Decision, Grant, GrantAction};
use domain::request::{RequestOutcome, RequestSubject};
use domain::turn::EndReason;
use domain::usage::Usage;
use domain::{EventKind, Status, any_event, author};

use crate::output::TextStyle;
use client::events::LogEvent;
use client::format;

/// The content of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub word: &'static str,
    pub text: String,
    pub style: TextStyle,
}

impl Row {
    fn new(word: &'static str, style: TextStyle, text: impl Into<String>) -> Self {
        Self { word, text: text.into(), style }
    }
}

/// Returns the row of an event.
pub fn row(event: &LogEvent) -> Row {
    match &event.kind {
        Some(kind) => of_kind(kind),
        None => Row::new("other", TextStyle::Dim, format!("{} {}", event.name, event.raw())),
    }
}

fn of_kind(kind: &EventKind) -> Row {
    match kind {
        any_event!(life Renamed) => of_life(kind),
        any_event!(turn output) => of_turn(kind),
        EventKind::RequestOpened { request, ask, .. } => {
            Row::new("request", TextStyle::Warn, format!("{request} {}", ask_text(ask)))
        }
        EventKind::RequestSettled { request, outcome, by, message, grant, .. } => {
            let granted = grant.as_ref().map_or_else(String::new, |grant| {
                format!(", granting {} {}", grant.what("/".as_ref()), grant.place())
            });
            let by = if by.is_empty() { String::new() } else { format!(" by {by}") };
            let because = if message.is_empty() { String::new() } else { format!(": {message}") };
            Row::new(
                "settled",
                outcome_style(outcome),
                format!("{request} {}{by}{because}{granted}", outcome.word()),
            )
        }
        any_event!(
            GrantsChanged TodosChanged ModeChanged PlanModeChanged ModelChanged CommandsChanged ServersChanged
            ToolsRegistered InputHolderChanged usage worker report
        ) => of_rest(kind),
        any_event!(plan) => of_plans(kind),
    }
}

fn of_plans(kind: &EventKind) -> Row {
    let signed = |by: &str| if by.is_empty() { String::new() } else { format!(" by {by}") };
    match kind {
        EventKind::QueueChanged { change } => Row::new("queue", TextStyle::Dim, change.describe()),
        EventKind::BudgetChanged { budget, by } => {
            Row::new("budget", TextStyle::Plain, format!("{}{}", budget.describe(), signed(by)))
        }
        EventKind::RateLimited { resumes_at, reason, .. } => {
            let when = format::rfc3339(Some(&prost_types::Timestamp {
                seconds: resumes_at.seconds_and_nanos().0,
                nanos: 0,
            }));
            let when = when.unwrap_or_default();
            Row::new("limit", TextStyle::Warn, format!("{reason}; goes on by itself at {when}"))
        }
        EventKind::RateLimitEnded {} => Row::new("limit", TextStyle::Dim, "no longer waited for"),
        EventKind::ArchiveChanged { archived, by } => {
            let what = if *archived { "archived" } else { "shown in lists again" };
            Row::new("archive", TextStyle::Dim, format!("{what}{}", signed(by)))
        }
        EventKind::SessionForked { from, seq, by, .. } => {
            Row::new("fork", TextStyle::Bold, format!("of {from} at event {seq}{}", signed(by)))
        }
        other @ (any_event!(life turn output request settings usage worker report)) => {
            Row::new("event", TextStyle::Dim, other.name())
        }
    }
}

fn of_life(kind: &EventKind) -> Row {
    match kind {
        EventKind::SessionCreated { provider, model, name, working_dir, mode } => {
            let model = if model.is_empty() { String::new() } else { format!(" {model}") };
            let text = format!("{name}: {}{model} in {working_dir}, {}", provider.name(), mode.name());
            Row::new("created", TextStyle::Bold, text)
        }
        EventKind::StatusChanged { from, to, message, code } => {
            let because = if message.is_empty() { String::new() } else { format!(": {message}") };
            let code = code.map_or_else(String::new, |code| format!(" [{code}]"));
            let text = format!("{} → {}{because}{code}", from.name(), to.name());
            Row::new("status", status_style(*to), text)
        }
        EventKind::AgentStarted { pid: 0 } => Row::new("agent", TextStyle::Dim, "started in the daemon"),
        EventKind::AgentStarted { pid } => Row::new("agent", TextStyle::Dim, format!("started, pid {pid}")),
        EventKind::AgentReady { native_session, model, version, .. } => {
            let parts = [("version", version), ("model", model), ("conversation", native_session)];
            let known = parts.into_iter().filter(|(_, text)| !text.is_empty());
            let known: Vec<String> = known.map(|(name, text)| format!("{name} {text}")).collect();
            Row::new("agent", TextStyle::Dim, format!("ready {}", known.join(", ")).trim_end())
        }
        EventKind::AgentExited { exit_code, signal, message, .. } => {
            let how = match (exit_code, signal) {
                (_, Some(signal)) => format!("ended by signal {signal}"),
                (Some(code), None) => format!("ended with code {code}"),
                (None, None) => "ended".to_owned(),
            };
            let because = if message.is_empty() { String::new() } else { format!(": {message}") };
            let style = if *exit_code == Some(0) { TextStyle::Dim } else { TextStyle::Warn };
            Row::new("agent", style, format!("{how}{because}"))
        }
        EventKind::AgentLogged { line } => Row::new("stderr", TextStyle::Dim, line),
        EventKind::Restarted { count } => Row::new("restart", TextStyle::Bold, format!("number {count}")),
        EventKind::Renamed { name } => Row::new("renamed", TextStyle::Plain, name),
        // The caller passes only the kinds above.
        any_event!(
            turn output request TodosChanged ModeChanged PlanModeChanged ModelChanged CommandsChanged
            ServersChanged ToolsRegistered InputHolderChanged plan usage worker report
        ) => Row::new("other", TextStyle::Dim, kind.name()),
    }
}

fn of_turn(kind: &EventKind) -> Row {
    match kind {
        EventKind::TurnStarted { turn, prompt, by, .. } => {
            let who = author::shown(by);
            let by = if who.is_empty() { String::new() } else { format!(" by {who}") };
            Row::new("prompt", TextStyle::Bold, format!("{turn}{by}: {prompt}"))
        }
        EventKind::InterruptRequested { turn, .. } => {
            Row::new("cancel", TextStyle::Warn, format!("{turn} was told to end"))
        }
        EventKind::MessageAdded { text, by, .. } => {
            let by = author::shown(by);
            let text = if by.is_empty() { text.clone() } else { format!("by {by}: {text}") };
            Row::new("message", TextStyle::Bold, text)
        }
        EventKind::TextDelta { text, .. } => Row::new("text", TextStyle::Plain, text),
        EventKind::ThinkingDelta { text, .. } => Row::new("thinking", TextStyle::Dim, text),
        EventKind::ToolStarted { tool, input, title, .. } => {
            Row::new("tool", TextStyle::Accent, view::call_text(tool, input, title))
        }
        EventKind::ToolProgress { output, .. } => Row::new("output", TextStyle::Dim, output),
        EventKind::ToolFinished { tool, ok, output, .. } => {
            let (mark, style) = if *ok { ("✓", TextStyle::Good) } else { ("✗", TextStyle::Bad) };
            Row::new("result", style, format!("{mark} {tool} {output}"))
        }
        EventKind::TurnEnded { turn, reason, error, .. } => {
            let because = if error.is_empty() { String::new() } else { format!(": {error}") };
            Row::new("end", end_style(*reason), format!("{turn} {}{because}", end_word(*reason)))
        }
        any_event!(life request settings plan usage worker report) => {
            Row::new("other", TextStyle::Dim, kind.name())
        }
    }
}

fn of_rest(kind: &EventKind) -> Row {
    match kind {
        EventKind::GrantsChanged { grants, by } => {
            let word = |grant: &Grant| match grant.action {
                GrantAction::Deny => format!("not {}", grant.label()),
                GrantAction::Ask => format!("ask for {}", grant.label()),
                GrantAction::Allow => grant.label(),
            };
            let all: Vec<String> = grants.iter().map(word).collect();
            let all = if all.is_empty() { "none".to_owned() } else { all.join(", ") };
            Row::new("grants", TextStyle::Plain, format!("{all}, by {by}"))
        }
        EventKind::TodosChanged { todos } => {
            let done = todos.iter().filter(|todo| todo.status == TodoStatus::Completed).count();
            let current = todos.iter().find(|todo| todo.status == TodoStatus::InProgress);
            let current = current.map_or_else(String::new, |todo| format!(", now: {}", todo.current_words()));
            Row::new("todo", TextStyle::Plain, format!("{done} of {} done{current}", todos.len()))
        }
        EventKind::ModeChanged { mode } => Row::new("mode", TextStyle::Plain, mode.name()),
        EventKind::PlanModeChanged { on } => {
            Row::new("plan", TextStyle::Plain, if *on { "planning began" } else { "planning ended" })
        }
        EventKind::ModelChanged { model } => Row::new("model", TextStyle::Plain, model),
        EventKind::CommandsChanged { commands } => {
            Row::new("commands", TextStyle::Dim, format!("{} offered by the agent", commands.len()))
        }
        EventKind::ServersChanged { servers } => {
            let names: Vec<&str> = servers.iter().map(|server| server.name.as_str()).collect();
            Row::new("servers", TextStyle::Dim, names.join(", "))
        }
        EventKind::UsageReported { usage, .. } => Row::new("usage", TextStyle::Dim, usage_text(usage)),
        EventKind::Compacted { tokens_before, tokens_after, .. } => {
            let count = |tokens: &Option<u64>| tokens.map_or_else(|| "?".to_owned(), format::count);
            Row::new(
                "compact",
                TextStyle::Plain,
                format!("{} → {} tokens", count(tokens_before), count(tokens_after)),
            )
        }
        EventKind::ToolsRegistered { source, tools } => {
            let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
            Row::new("tools", TextStyle::Dim, format!("{source} offers {}", names.join(", ")))
        }
        EventKind::WorkerStarted { worker, title, .. } => {
            Row::new("worker", TextStyle::Accent, format!("{worker} began: {title}"))
        }
        EventKind::WorkerProgressed { worker, summary, .. } => {
            Row::new("worker", TextStyle::Dim, format!("{worker}: {summary}"))
        }
        EventKind::WorkerFinished { worker, ok, summary, .. } => {
            let (mark, style) = if *ok { ("✓", TextStyle::Good) } else { ("✗", TextStyle::Bad) };
            Row::new("worker", style, format!("{mark} {worker} {summary}"))
        }
        EventKind::InputHolderChanged { holder } => {
            Row::new("input", TextStyle::Dim, holder.as_deref().unwrap_or("free for everybody"))
        }
        EventKind::Notice { level, code, message } => {
            let code = code.map_or_else(String::new, |code| format!(" [{code}]"));
            Row::new("notice", level_style(*level), format!("{message}{code}"))
        }
        EventKind::ActivityReported { activity, agent_name, content, tool, .. } => {
            let parts = [activity, agent_name, tool, content].into_iter().filter(|part| !part.is_empty());
            Row::new("report", TextStyle::Plain, parts.map(String::as_str).collect::<Vec<_>>().join(" "))
        }
        EventKind::Unparsed { raw, .. } => Row::new("unparsed", TextStyle::Dim, raw),
        any_event!(life turn output RequestOpened RequestSettled Renamed plan) => {
            Row::new("other", TextStyle::Dim, kind.name())
        }
    }
}

/// Describes a request.
pub fn ask_text(ask: &RequestSubject) -> String {
    match ask {
        RequestSubject::Permission(ask) => {
            format!("permission for {}", view::call_text(&ask.tool, &ask.input, &ask.title))
        }
        RequestSubject::Question { questions, .. } => {
            let texts: Vec<&str> = questions.iter().map(|question| question.text.as_str()).collect();
            format!("question: {}", texts.join(" / "))
        }
        RequestSubject::ClientTool { tool, input, .. } => {
            format!("a client's tool {}", view::call_text(tool, input, ""))
        }
    }
}

/// Returns the tokens and the cost of a report.
pub fn usage_text(usage: &Usage) -> String {
    let mut text =
        format!("{} in, {} out", format::count(usage.input_tokens), format::count(usage.output_tokens));
    if usage.cache_read_tokens > 0 {
        text.push_str(&format!(", {} cached", format::count(usage.cache_read_tokens)));
    }
    if usage.cost_micro_usd > 0 {
        text.push_str(&format!(", {}", format::cost(usage.cost_micro_usd)));
    }
    text
}

/// Describes how a turn ended.
pub fn end_word(reason: EndReason) -> &'static str {
    match reason {
        EndReason::Completed => "completed",
        EndReason::Cancelled => "cancelled",
        EndReason::Failed => "failed",
        EndReason::Refused => "refused by the model",
        EndReason::LimitReached => "stopped at a limit of the model or agent",
        EndReason::BudgetExceeded => "stopped: the token budget is used up",
        EndReason::Interrupted => "interrupted: the agent died",
    }
}

/// Returns the colour of a status.
pub fn status_style(status: Status) -> TextStyle {
    match status {
        Status::Running => TextStyle::Good,
        Status::Working => TextStyle::Accent,
        Status::Failed => TextStyle::Bad,
        Status::Created | Status::Starting | Status::Stopping => TextStyle::Warn,
        Status::Stopped => TextStyle::Dim,
    }
}

fn end_style(reason: EndReason) -> TextStyle {
    match reason {
        EndReason::Completed => TextStyle::Good,
        EndReason::Cancelled => TextStyle::Warn,
        EndReason::Failed
        | EndReason::Refused
        | EndReason::LimitReached
        | EndReason::BudgetExceeded
        | EndReason::Interrupted => TextStyle::Bad,
    }
}

fn outcome_style(outcome: &RequestOutcome) -> TextStyle {
    match outcome {
        RequestOutcome::Decided { decision: Decision::AllowOnce | Decision::AllowSession }
        | RequestOutcome::Answered { .. }
        | RequestOutcome::ToolReturned { ok: true, .. } => TextStyle::Good,
        RequestOutcome::Decided { .. } | RequestOutcome::ToolReturned { ok: false, .. } => TextStyle::Bad,
        RequestOutcome::Withdrawn { .. } => TextStyle::Dim,
    }
}

fn level_style(level: Level) -> TextStyle {
    match level {
        Level::Info => TextStyle::Plain,
        Level::Warning => TextStyle::Warn,
        Level::Error => TextStyle::Bad,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use wire::obey::v1 as pb;

    use super::*;

    fn shown(name: &str, fields: Value) -> String {
        let event = LogEvent::read(pb::Event {
            r#type: name.to_owned(),
            json: fields.to_string(),
            ..pb::Event::default()
        });
        let row = row(&event);
        format!("{} | {}", row.word, row.text)
    }

    #[test]
    fn the_life_of_a_session_reads_well() {
        let created = json!({"provider": "claude-code", "model": "opus", "name": "n", "working_dir": "/w", "mode": "plan"});
        assert_eq!(shown("session_created", created), "created | n: claude-code opus in /w, plan");
        let failed = json!({"from": "WORKING", "to": "FAILED", "message": "it died", "code": "OBEY-2031"});
        assert_eq!(shown("status_changed", failed), "status | WORKING → FAILED: it died [OBEY-2031]");
        assert_eq!(shown("agent_exited", json!({"signal": 9})), "agent | ended by signal 9");
        assert_eq!(shown("agent_ready", json!({"version": "2.1"})), "agent | ready version 2.1");
        assert_eq!(shown("agent_ready", json!({})), "agent | ready");
    }

    #[test]
    fn calls_show_what_they_do() {
        let call = |tool: &str, input: Value| {
            shown("tool_started", json!({"call": "c", "tool": tool, "input": input}))
        };
        assert_eq!(call("Bash", json!({"command": "ls -l", "description": "list"})), "tool | Bash: ls -l");
        assert_eq!(call("Read", json!({"file_path": "/a"})), "tool | Read: /a");
        assert_eq!(call("Other", json!({"x": 1})), "tool | Other: {\"x\":1}");
        assert_eq!(call("Other", Value::Null), "tool | Other");
        let finished = json!({"call": "c", "tool": "Bash", "ok": false, "output": "no"});
        assert_eq!(shown("tool_finished", finished), "result | ✗ Bash no");
    }

    #[test]
    fn requests_and_their_ends_read_well() {
        let opened = json!({"request": "req_1", "native": "x", "kind": "permission", "tool": "Bash",
                            "input": {"command": "rm x"}});
        assert_eq!(shown("request_opened", opened), "request | req_1 permission for Bash: rm x");
        let settled = json!({"request": "req_1", "outcome": "decided", "decision": "deny", "by": "cli",
                             "message": "no"});
        assert_eq!(shown("request_settled", settled), "settled | req_1 denied by cli: no");
    }

    #[test]
    fn usage_shows_what_is_known() {
        let usage = json!({"input_tokens": 1234, "output_tokens": 5, "cost_micro_usd": 12345});
        assert_eq!(shown("usage_reported", usage), "usage | 1.2k in, 5 out, $0.0123");
    }

    #[test]
    fn a_kind_of_a_newer_daemon_is_shown_as_it_came() {
        assert_eq!(shown("from_the_future", json!({"a": 1})), "other | from_the_future {\"a\":1}");
    }
}

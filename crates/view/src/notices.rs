//! The events that become notices, and their words.

use domain::event::{Level, ServerStatus, ToolServer};
use domain::turn::InterruptReason;
use domain::{EventKind, Status, any_event};

use crate::limits;
use crate::row::RowBody;
use crate::text;

fn signed(text: &str, by: &str) -> String {
    if by.is_empty() { text.to_owned() } else { format!("{text}, by {by}") }
}

/// Returns the notice of an event that has one.
pub(crate) fn notice(kind: &EventKind) -> Option<RowBody> {
    Some(match kind {
        EventKind::SessionCreated { provider, model, name, working_dir, mode } => {
            let model = if model.is_empty() { String::new() } else { format!(" {model}") };
            let text = format!("{name}: {}{model} in {working_dir}, {}", provider.name(), mode.name());
            info("created", text)
        }
        EventKind::StatusChanged { to: Status::Failed, message, code, .. } => RowBody::Notice {
            word: "status",
            level: "error",
            code: code.map(|code| code.to_string()).unwrap_or_default(),
            text: because("failed", message),
        },
        EventKind::StatusChanged { to: Status::Stopped, message, .. } => {
            info("status", because("stopped", message))
        }
        EventKind::AgentExited { exit_code, signal, message, .. } => {
            let how = match (exit_code, signal) {
                (_, Some(signal)) => format!("the agent was ended by signal {signal}"),
                (Some(code), None) => format!("the agent ended with code {code}"),
                (None, None) => "the agent ended".to_owned(),
            };
            let level = if *exit_code == Some(0) { "info" } else { "warning" };
            RowBody::Notice { word: "agent", level, code: String::new(), text: because(&how, message) }
        }
        EventKind::Restarted { count } => info("restart", format!("restart number {count}")),
        EventKind::Renamed { name } => info("renamed", name.clone()),
        EventKind::InterruptRequested { reason, .. } => RowBody::Notice {
            word: "cancel",
            level: "warning",
            code: String::new(),
            text: match reason {
                InterruptReason::Cancelled => "the turn was asked to end".to_owned(),
                InterruptReason::BudgetExceeded => {
                    "the turn was asked to end: the budget is used up".to_owned()
                }
            },
        },
        EventKind::GrantsChanged { grants, by } => {
            let count = grants.len();
            info("grants", format!("{count} in force, changed by {by}"))
        }
        EventKind::ModeChanged { mode } => info("mode", mode.name().to_owned()),
        EventKind::PlanModeChanged { on } => {
            info("plan", if *on { "planning began" } else { "planning ended" }.to_owned())
        }
        EventKind::ModelChanged { model } => info("model", model.clone()),
        EventKind::ServersChanged { servers } => failed_servers(servers)?,
        EventKind::Notice { level, code, message } => RowBody::Notice {
            word: "notice",
            level: match level {
                Level::Info => "info",
                Level::Warning => "warning",
                Level::Error => "error",
            },
            code: code.map(|code| code.to_string()).unwrap_or_default(),
            text: message.clone(),
        },
        EventKind::Unparsed { raw, .. } => RowBody::Notice {
            word: "unparsed",
            level: "warning",
            code: String::new(),
            text: text::head(&text::one_line(raw), limits::UNPARSED_MAX_CHARS),
        },
        other @ (any_event!(
            StatusChanged AgentStarted AgentReady AgentLogged TurnStarted MessageAdded TurnEnded output
            RequestOpened RequestSettled TodosChanged CommandsChanged ToolsRegistered InputHolderChanged plan
            usage worker ActivityReported
        )) => return plan(other),
    })
}

/// Returns the notice of what is planned for the session and what it may spend.
fn plan(kind: &EventKind) -> Option<RowBody> {
    Some(match kind {
        EventKind::QueueChanged { change } => info("queue", change.describe()),
        EventKind::BudgetChanged { budget, by } => info("budget", signed(&budget.describe(), by)),
        EventKind::RateLimited { reason, .. } => RowBody::Notice {
            word: "limit",
            level: "warning",
            code: String::new(),
            text: format!("waiting for a rate limit: {reason}"),
        },
        EventKind::RateLimitEnded {} => info("limit", "no longer waiting for a rate limit".to_owned()),
        EventKind::ArchiveChanged { archived, by } => {
            info("archive", signed(if *archived { "archived" } else { "shown in lists again" }, by))
        }
        EventKind::SessionForked { from, seq, by, .. } => {
            info("fork", signed(&format!("of {from} at event {seq}"), by))
        }
        any_event!(life turn output request settings usage worker report) => return None,
    })
}

/// The notice of an event kind that is newer than this program.
pub(crate) fn unknown(name: &str) -> RowBody {
    info("other", name.to_owned())
}

/// The notice of lines that the agent wrote to its standard error.
pub(crate) fn stderr(line: &str) -> RowBody {
    info("stderr", line.to_owned())
}

fn failed_servers(servers: &[ToolServer]) -> Option<RowBody> {
    let failed = servers.iter().filter(|server| server.status == ServerStatus::Failed);
    let texts: Vec<String> = failed.map(|server| because(&server.name, &server.error)).collect();
    if texts.is_empty() {
        return None;
    }
    let text = format!("tool servers failed: {}", texts.join(", "));
    Some(RowBody::Notice { word: "servers", level: "warning", code: String::new(), text })
}

fn info(word: &'static str, text: String) -> RowBody {
    RowBody::Notice { word, level: "info", code: String::new(), text }
}

fn because(what: &str, message: &str) -> String {
    if message.is_empty() { what.to_owned() } else { format!("{what}: {message}") }
}

//! Parses the inputs of a script.

use serde_json::{Value, json};

use std::collections::BTreeMap;

use crate::agent::{AgentEvent, Exit};
use crate::budget::Budget;
use crate::command::{Command, QueueCommand, StopMode, WhenBusy};
use crate::error::{Error, ErrorCode};
use crate::event::{
    AgentCommand, Attachment, ClientTool, EventKind, Level, ServerStatus, Todo, TodoStatus, ToolServer,
};
use crate::id::{CallId, QueueEntryId, RequestId};
use crate::machine::{Input, Timer};
use crate::permission::{CallEvaluation, Choice, Decision, Grant, Mode, RuleVerdict, pattern};
use crate::request::{PermissionSubject, Question, RequestSubject};
use crate::resources::OutOfMemory;
use crate::time::Timestamp;
use crate::turn::EndReason;
use crate::usage::Usage;

pub(super) fn split(text: &str) -> (&str, &str) {
    text.split_once(' ').map_or((text, ""), |(word, rest)| (word, rest.trim_start()))
}

fn number(text: &str) -> u64 {
    text.parse().unwrap_or_else(|_| panic!("{text:?} is not a number"))
}

pub(in crate::machine::tests) fn input(line: &str) -> Input {
    let (word, rest) = split(line);
    match word {
        "agent" => Input::Agent(agent_event(rest)),
        "judged" => judged(rest),
        "checked" => checked(rest),
        "launched" => Input::Launched { pid: u32::try_from(number(rest)).expect("a pid") },
        "launch_failed" => Input::LaunchFailed(Error::new(ErrorCode::ProviderNotReady, rest)),
        "exit" => Input::AgentExited(exit(rest)),
        "oom" => Input::OutOfMemory(out_of_memory(rest)),
        "timer" => Input::Timer(timer(rest)),
        "shared_changed" => {
            Input::SharedBudgetChanged { raised_by: rest.strip_prefix("by ").map(str::to_owned) }
        }
        "reattached" => Input::Reattached,
        "revived" => Input::Revived,
        _ => Input::Command(command(line)),
    }
}

/// `checked unsaid n1 Read {…}`: something harmless that the rules have evaluated.
fn checked(text: &str) -> Input {
    match judged(text) {
        Input::Asked { native, ask, findings } => Input::Checked { native, ask, findings },
        other => other,
    }
}

/// `judged allow n1 Bash {…}`: a permission that the rules have evaluated.
fn judged(text: &str) -> Input {
    let (verdict, rest) = split(text);
    let (native, rest) = split(rest);
    let by = "rule x".to_owned();
    let verdict = match verdict {
        "allow" => RuleVerdict::Allow { by },
        "deny" => RuleVerdict::Deny { by, message: "not here".to_owned() },
        "ask" => RuleVerdict::Ask,
        "unsaid" => RuleVerdict::Unsaid,
        other => panic!("no verdict is called {other}"),
    };
    match asked("ask", native, rest) {
        AgentEvent::Asked { native, ask: RequestSubject::Permission(ask) } => {
            let real_paths = pattern::paths_of(&ask.tool, &ask.input, std::path::Path::new("/repo"));
            let explanation = "no rule covers it".to_owned();
            Input::Asked { native, ask, findings: CallEvaluation { verdict, real_paths, explanation } }
        }
        other => panic!("{other:?} is no permission"),
    }
}

/// Processes that the kernel killed, in a session of 64 MiB.
fn out_of_memory(kills: &str) -> OutOfMemory {
    let limit = Some(64 << 20);
    OutOfMemory { kills: kills.parse().expect("a count"), limit_bytes: limit, peak_bytes: limit }
}

fn exit(text: &str) -> Exit {
    let (word, rest) = split(text);
    if word == "signal" {
        return Exit { signal: rest.parse().ok(), ..Exit::default() };
    }
    if word == "oom" {
        return Exit { signal: Some(9), out_of_memory: Some(out_of_memory(rest)), ..Exit::default() };
    }
    if word == "unprotected" {
        return Exit { signal: Some(9), unprotected: Some(rest.to_owned()), ..Exit::default() };
    }
    Exit { code: word.parse().ok(), message: rest.to_owned(), ..Exit::default() }
}

fn timer(name: &str) -> Timer {
    match name {
        "answer" => return Timer::Answer,
        "budget" => return Timer::Budget,
        "rate_limit" => return Timer::RateLimit,
        "idle" => return Timer::Idle,
        "tool" => return Timer::Tool,
        _ => {}
    }
    *TIMERS.iter().find(|timer| timer_name(**timer) == name).expect("a timer")
}

/// The timers of an agent's life, which end together.
pub(super) const TIMERS: [Timer; 6] =
    [Timer::Start, Timer::Deadline, Timer::Grace, Timer::Ask, Timer::Term, Timer::Interrupt];

pub(super) fn timer_name(timer: Timer) -> &'static str {
    match timer {
        Timer::Start => "start",
        Timer::Deadline => "deadline",
        Timer::Grace => "grace",
        Timer::Ask => "ask",
        Timer::Term => "term",
        Timer::Interrupt => "interrupt",
        Timer::Answer => "answer",
        Timer::Idle => "idle",
        Timer::Tool => "tool",
        Timer::Budget => "budget",
        Timer::RateLimit => "rate_limit",
    }
}

fn command(line: &str) -> Command {
    let (word, rest) = split(line);
    let (rest, by) = rest.rsplit_once(" by ").map_or((rest, ""), |(rest, by)| (rest, by));
    let by = by.to_owned();
    let (first, more) = split(rest);
    match word {
        "start" => Command::Start,
        "prompt" => prompt(rest, &[], WhenBusy::Refuse, by),
        "steer" => prompt(rest, &[], WhenBusy::Steer, by),
        "steer_with" => prompt(more, &[first], WhenBusy::Steer, by),
        "prompt_of" => prompt(&"x".repeat(number(rest) as usize), &[], WhenBusy::Refuse, by),
        "cancel" => Command::CancelTurn,
        "or_queue" => prompt(rest, &[], WhenBusy::Queue, by),
        "queue" => Command::Queue(queue(rest, by)),
        "budget" => Command::SetBudget { change: budget(rest), by },
        "archive" => Command::Archive { archived: rest != "off", by },
        "decide" => decide(first, more, by),
        "answer" => {
            let pairs = more.split_whitespace().map(|pair| pair.split_once('=').expect("KEY=ANSWER"));
            let answers = pairs.map(|(key, answer)| (key.to_owned(), answer.to_owned())).collect();
            Command::Answer { request: RequestId(number(first)), answers, by }
        }
        "call" => {
            let (tool, input) = split(more);
            let (native, call) =
                (crate::request::RequestOrigin::Bridge(first).to_string(), CallId::new(first));
            Command::CallTool { native, call, tool: tool.to_owned(), input: json_of(input) }
        }
        "ask" => Command::AskPermission {
            native: crate::request::RequestOrigin::Bridge(first).to_string(),
            ask: PermissionSubject {
                call: Some(CallId::new(first)),
                tool: more.to_owned(),
                input: json!({}),
                title: String::new(),
                parent: None,
            },
        },
        "return" => {
            let (outcome, output) = split(more);
            let request = RequestId(number(first));
            Command::ReturnTool { request, ok: outcome == "ok", output: output.to_owned(), by }
        }
        "tools" => Command::RegisterTools {
            source: first.to_owned(),
            tools: more.split_whitespace().map(client_tool).collect(),
        },
        "mode" => Command::SetMode { mode: Mode::parse(rest).expect("a mode") },
        "model" => Command::SetModel { model: rest.to_owned() },
        "rename" => Command::Rename { name: rest.to_owned() },
        "compact" => Command::Compact,
        "grant" | "forbid" => Command::SetGrant {
            grant: Box::new(Grant::by_pattern("grant", rest, word == "forbid").expect("a pattern")),
            by,
        },
        "clear" => Command::ClearGrants { tool: rest.trim_start_matches("all").to_owned(), by },
        "hold" => Command::HoldInput { holder: Some(rest.to_owned()) },
        "release" => Command::HoldInput { holder: None },
        "stop" if rest == "graceful" => Command::Stop { how: StopMode::Graceful },
        "stop" if rest == "now" => Command::Stop { how: StopMode::Now },
        "restart" => Command::Restart { provider_config: pairs(rest) },
        "configure" => Command::Configure { provider_config: pairs(rest) },
        "report" => Command::Report(reported(first, more)),
        _ => panic!("no input is written {line:?}"),
    }
}

fn queue(line: &str, by: String) -> QueueCommand {
    let (word, rest) = split(line);
    let (first, more) = split(rest);
    let entry = QueueEntryId(first.parse().unwrap_or(0));
    match word {
        "add" => QueueCommand::Add { text: rest.to_owned(), attachments: Vec::new(), by },
        "edit" => QueueCommand::Edit { entry, text: more.to_owned(), by },
        "move" => QueueCommand::Move { entry, position: u32::try_from(number(more)).expect("a place"), by },
        "drop" => QueueCommand::Drop { entry, by },
        "pause" => QueueCommand::Pause { by },
        "resume" => QueueCommand::Resume { by },
        other => panic!("no change of the queue is called {other}"),
    }
}

/// `tokens=100 usd=5 minutes=10 calls=3`
fn budget(line: &str) -> Budget {
    let said = |name: &str| {
        line.split_whitespace().find_map(|pair| pair.strip_prefix(name)?.strip_prefix('=').map(number))
    };
    Budget {
        tokens: said("tokens"),
        cost_micro_usd: said("usd").map(|usd| usd * 1_000_000),
        work_ms: said("minutes").map(|minutes| minutes * 60_000),
        calls: said("calls"),
    }
}

fn prompt(text: &str, attachments: &[&str], when_busy: WhenBusy, by: String) -> Command {
    let attachments = attachments
        .iter()
        .map(|name| Attachment {
            name: (*name).to_owned(),
            media_type: "text/plain".to_owned(),
            content: String::new(),
        })
        .collect();
    Command::Prompt { text: text.to_owned(), attachments, when_busy, by }
}

fn decide(request: &str, rest: &str, by: String) -> Command {
    let (decision, input) = split(rest);
    let decision = match decision {
        "allow_once" => Decision::AllowOnce,
        "allow_session" => Decision::AllowSession,
        "deny" => Decision::Deny,
        "deny_and_stop" => Decision::DenyAndStop,
        other => panic!("no decision is called {other}"),
    };
    Command::Decide {
        request: RequestId(number(request)),
        decision,
        message: String::new(),
        updated_input: input.starts_with('{').then(|| json_of(input)),
        grant: (!input.is_empty() && !input.starts_with('{')).then(|| choice(input)),
        by,
    }
}

/// `prefix uses=2 seconds=60 all`: what is remembered with a decision.
fn choice(text: &str) -> Choice {
    let (proposal, limits) = split(text);
    let said = |name: &str| {
        limits.split_whitespace().find_map(|pair| pair.strip_prefix(name)?.strip_prefix('=').map(number))
    };
    Choice {
        proposal: proposal.to_owned(),
        expires_after: said("seconds").map(std::time::Duration::from_secs),
        uses: said("uses").map(|uses| u32::try_from(uses).expect("a number of uses")),
        sub_agents: limits.contains("all"),
    }
}

fn client_tool(name: &str) -> ClientTool {
    ClientTool {
        name: name.split(['!', '?', ':']).next().unwrap_or_default().to_owned(),
        description: String::new(),
        input_schema: json!({}),
        // A suffix says how the tool runs: `arm!` one at a time, `arm?` after asking, `arm:5` with five
        // seconds.
        exclusive: name.contains('!'),
        timeout_ms: name
            .split_once(':')
            .and_then(|(_, wait)| wait.parse().ok())
            .map(|wait: u64| wait * 1_000),
        asks: name.contains('?'),
    }
}

fn reported(what: &str, rest: &str) -> EventKind {
    match what {
        "activity" => EventKind::ActivityReported {
            activity: "tool_call".to_owned(),
            agent_name: String::new(),
            content: String::new(),
            tool: String::new(),
            call: String::new(),
            ok: true,
            tokens_input: number(rest),
            tokens_output: 0,
            extra: BTreeMap::new(),
        },
        "mode" => EventKind::ModeChanged { mode: Mode::parse(rest).expect("a mode") },
        _ => panic!("no report is called {what}"),
    }
}

fn json_of(text: &str) -> Value {
    if text.is_empty() { json!({}) } else { serde_json::from_str(text).expect("JSON") }
}

fn broken(text: String) -> AgentEvent {
    let (first, more) = split(&text);
    match ErrorCode::parse(first) {
        None => AgentEvent::Broken { code: None, message: text },
        code => AgentEvent::Broken { code, message: more.to_owned() },
    }
}

fn waits(code: &str, message: &str) -> AgentEvent {
    AgentEvent::Waits {
        code: ErrorCode::parse(code).expect("the code of a wait"),
        message: message.to_owned(),
    }
}

/// A call of the agent, or of its sub-agent.
fn tool_started(call: &str, more: &str, of_sub_agent: bool) -> AgentEvent {
    let (tool, input) = split(more);
    let (tool, input, title) = (tool.to_owned(), json_of(input), String::new());
    let parent = of_sub_agent.then(|| CallId::new("task"));
    AgentEvent::ToolStarted { call: CallId::new(call), tool, input, title, parent }
}

/// `cost REPORTED ESTIMATED`, `limited SECOND REASON`
fn limit_event(word: &str, first: &str, more: &str) -> AgentEvent {
    if word == "limited" {
        let resumes_at = first.parse().ok().map(|seconds: i64| Timestamp(seconds * 1_000_000));
        return AgentEvent::RateLimited { resumes_at, reason: more.to_owned() };
    }
    if word == "context" {
        let (usage, context_tokens) = (Usage::default(), Some(number(first)));
        return AgentEvent::Usage { usage, context_tokens, context_window: None, parent: None };
    }
    let (cost_micro_usd, estimated_micro_usd) = (number(first), number(more));
    let usage = Usage { cost_micro_usd, estimated_micro_usd, ..Usage::default() };
    AgentEvent::Usage { usage, context_tokens: None, context_window: None, parent: None }
}

fn agent_event(line: &str) -> AgentEvent {
    let (word, rest) = split(line);
    let (first, more) = split(rest);
    let text = rest.to_owned();
    match word {
        "ready" => AgentEvent::Ready {
            native_session: if first.is_empty() { "native".to_owned() } else { first.to_owned() },
            model: more.to_owned(),
            version: String::new(),
            resolved_model: String::new(),
        },
        "turn" => AgentEvent::TurnStarted,
        "text" => AgentEvent::Text { text, parent: None },
        "thinking" => AgentEvent::Thinking { text, parent: None },
        "tool" | "sub_tool" => tool_started(first, more, word == "sub_tool"),
        "progress" => AgentEvent::ToolProgress { call: CallId::new(first), output: more.to_owned() },
        "result" => {
            let (outcome, output) = split(more);
            let output = output.to_owned();
            AgentEvent::ToolFinished { call: CallId::new(first), ok: outcome == "ok", output }
        }
        "done" => ended(EndReason::Completed, rest, ""),
        "fails" => ended(EndReason::Failed, "", rest),
        "refuses" => ended(EndReason::Refused, "", rest),
        "ask" | "question" | "client_tool" => asked(word, first, more),
        "sub_ask" => match asked("ask", first, more) {
            AgentEvent::Asked { native, ask: RequestSubject::Permission(ask) } => {
                let subject = PermissionSubject { parent: Some(CallId::new("task")), ..ask };
                AgentEvent::Asked { native, ask: RequestSubject::Permission(subject) }
            }
            other => other,
        },
        "withdraw" => AgentEvent::Withdrew { native: text },
        "todo" => AgentEvent::Todos(vec![Todo::new("1", text, TodoStatus::Pending)]),
        "mode" => AgentEvent::Mode(Mode::parse(rest).expect("a mode")),
        "plan" => AgentEvent::PlanMode(rest == "on"),
        "model" => AgentEvent::Model(text),
        "server" => AgentEvent::Servers(vec![ToolServer {
            name: text,
            status: ServerStatus::Running,
            tools: vec!["ping".to_owned()],
            endpoint: String::new(),
            error: String::new(),
        }]),
        "commands" => AgentEvent::Commands(vec![AgentCommand {
            name: text,
            description: String::new(),
            hint: String::new(),
        }]),
        "usage" => AgentEvent::Usage {
            usage: Usage { input_tokens: number(first), output_tokens: number(more), ..Usage::default() },
            context_tokens: None,
            context_window: None,
            parent: None,
        },
        "compacted" => AgentEvent::Compacted { tokens_before: None, tokens_after: None, summary: text },
        "worker" => AgentEvent::WorkerStarted { worker: text, call: None, title: String::new() },
        "worker_says" => AgentEvent::WorkerProgressed { worker: first.to_owned(), summary: more.to_owned() },
        "worker_done" => AgentEvent::WorkerFinished { worker: text, ok: true, summary: String::new() },
        "cost" | "limited" | "context" => limit_event(word, first, more),
        "notice" => AgentEvent::Notice { level: Level::Warning, message: text },
        "waits" => waits(first, more),
        "log" => AgentEvent::Logged(text),
        "unparsed" => AgentEvent::Unparsed { raw: text, length: None },
        "broken" => broken(text),
        _ => panic!("no agent says {line:?}"),
    }
}

fn ended(reason: EndReason, text: &str, error: &str) -> AgentEvent {
    AgentEvent::TurnEnded { reason, text: text.to_owned(), error: error.to_owned() }
}

fn asked(kind: &str, native: &str, rest: &str) -> AgentEvent {
    let (tool, input) = split(rest);
    let ask = match kind {
        "ask" => RequestSubject::Permission(PermissionSubject {
            call: None,
            tool: tool.to_owned(),
            input: json_of(input),
            title: String::new(),
            parent: None,
        }),
        "question" => RequestSubject::Question {
            questions: rest
                .split_whitespace()
                .map(|id| Question { id: id.to_owned(), text: format!("{id}?"), ..Question::default() })
                .collect(),
            call: None,
        },
        _ => RequestSubject::ClientTool {
            call: CallId::new(native),
            tool: tool.to_owned(),
            input: json_of(input),
        },
    };
    AgentEvent::Asked { native: native.to_owned(), ask }
}

fn pairs(rest: &str) -> std::collections::BTreeMap<String, String> {
    rest.split_whitespace()
        .map(|pair| pair.split_once('=').expect("KEY=VALUE"))
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}

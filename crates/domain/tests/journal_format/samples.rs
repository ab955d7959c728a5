//! One event of every kind with every field set, and more for kinds that have more than one shape.

use std::collections::BTreeMap;

use domain::event::{
    AgentCommand, Attachment, ClientTool, Level, ServerStatus, Todo, TodoPriority, TodoStatus, ToolServer,
};
use domain::permission::{Coverage, Grant, GrantAction, PermissionAdvice, Principal, Proposal, Scope};
use domain::queue::QueueChange;
use domain::request::{PermissionSubject, Question, QuestionOption, RequestOutcome, RequestSubject};
use domain::resources::{Enforcement, Resource, ResourceReport};
use domain::turn::{EndReason, InterruptReason, TurnOrigin};
use domain::{
    Budget, CallId, Decision, ErrorCode, EventKind, Mode, ProviderKind, QueueEntryId, RequestId, SessionId,
    Spending, Status, Timestamp, TurnId, Usage,
};
use serde_json::json;

fn text(text: &str) -> String {
    text.to_owned()
}

pub(crate) fn samples() -> Vec<EventKind> {
    let mut all = life();
    all.extend(turns());
    all.extend(requests());
    all.extend(settings());
    all.extend(reports());
    all.extend(client_tools());
    all.extend(grants());
    all.push(measured());
    all.extend(plans());
    all.extend(worker_spending());
    all
}

fn plans() -> Vec<EventKind> {
    let queue = |change| EventKind::QueueChanged { change };
    let entry = QueueEntryId(2);
    let attachments =
        vec![Attachment { name: text("a.png"), media_type: text("image/png"), content: text("AA==") }];
    let budget = Budget {
        tokens: Some(1_000),
        cost_micro_usd: Some(5_000_000),
        work_ms: Some(600_000),
        calls: Some(20),
    };
    vec![
        queue(QueueChange::Added { entry, prompt: text("then this"), attachments, by: text("anna") }),
        queue(QueueChange::Edited { entry, prompt: text("rather that"), by: text("anna") }),
        queue(QueueChange::Moved { entry, position: 1, by: text("anna") }),
        queue(QueueChange::Dropped { entry, by: text("anna") }),
        queue(QueueChange::Sent { entry, turn: TurnId(3) }),
        queue(QueueChange::Paused { reason: text("the turn before failed"), by: text("anna") }),
        queue(QueueChange::Resumed { by: text("anna") }),
        EventKind::BudgetChanged { budget, by: text("anna") },
        EventKind::RateLimited {
            resumes_at: Timestamp(1_000_000),
            reason: text("five-hour limit"),
            attempt: 1,
        },
        EventKind::RateLimitEnded {},
        EventKind::ArchiveChanged { archived: true, by: text("anna") },
        EventKind::SessionForked {
            from: SessionId::new("sess_1"),
            seq: 41,
            history: text("user: hi"),
            by: text("anna"),
        },
        EventKind::UsageReported {
            usage: Usage { input_tokens: 10, estimated_micro_usd: 12, ..Usage::default() },
            context_tokens: None,
            context_window: None,
            parent: None,
        },
        EventKind::UsageReported {
            usage: Usage { input_tokens: 3, output_tokens: 4, ..Usage::default() },
            context_tokens: None,
            context_window: None,
            parent: Some(CallId::new("call_1")),
        },
    ]
}

fn life() -> Vec<EventKind> {
    vec![
        EventKind::SessionCreated {
            provider: ProviderKind::ClaudeCode,
            model: text("opus"),
            name: text("coordinator"),
            working_dir: text("/srv/app"),
            mode: Mode::AcceptEdits,
        },
        EventKind::StatusChanged {
            from: Status::Created,
            to: Status::Starting,
            message: String::new(),
            code: None,
        },
        EventKind::StatusChanged {
            from: Status::Working,
            to: Status::Failed,
            message: text("OBEY-2031: killed by signal 9"),
            code: Some(ErrorCode::ProviderCrashed),
        },
        EventKind::AgentStarted { pid: 4242 },
        EventKind::AgentReady {
            native_session: text("0b6d"),
            model: text("opus-4"),
            version: text("2.1.0"),
            resolved_model: String::new(),
        },
        EventKind::AgentExited {
            exit_code: Some(1),
            signal: Some(9),
            message: text("killed"),
            resources: None,
        },
        EventKind::AgentLogged { line: text("warning: low disk") },
        EventKind::Restarted { count: 2 },
        EventKind::Renamed { name: text("scout") },
    ]
}

fn turns() -> Vec<EventKind> {
    let call = CallId::new("toolu_1");
    let parent = Some(CallId::new("toolu_0"));
    let mut all = vec![
        EventKind::TurnStarted {
            turn: TurnId(1),
            origin: TurnOrigin::Client,
            prompt: text("fix the bug in auth.go\n\"now\""),
            attachments: vec![Attachment {
                name: text("a.png"),
                media_type: text("image/png"),
                content: text("aGk="),
            }],
            by: text("cli uid 1000"),
        },
        EventKind::TurnStarted {
            turn: TurnId(2),
            origin: TurnOrigin::Agent,
            prompt: String::new(),
            attachments: Vec::new(),
            by: String::new(),
        },
        EventKind::InterruptRequested { turn: TurnId(1), reason: InterruptReason::Cancelled },
        EventKind::InterruptRequested { turn: TurnId(2), reason: InterruptReason::BudgetExceeded },
        EventKind::MessageAdded { turn: TurnId(1), text: text("not that file"), by: text("anna") },
        EventKind::TextDelta { text: text("Größe ✓"), parent: parent.clone() },
        EventKind::ThinkingDelta { text: text("hm"), parent: parent.clone() },
        EventKind::ToolStarted {
            call: call.clone(),
            tool: text("Bash"),
            input: json!({"command": "ls", "timeout": 5}),
            title: text("List files"),
            parent,
        },
        EventKind::ToolProgress { call: call.clone(), output: text("a\n") },
        EventKind::ToolFinished { call, tool: text("Bash"), ok: true, output: text("a\nb") },
    ];
    let reasons = [
        EndReason::Completed,
        EndReason::Cancelled,
        EndReason::Failed,
        EndReason::Refused,
        EndReason::LimitReached,
        EndReason::BudgetExceeded,
        EndReason::Interrupted,
    ];
    all.extend(reasons.map(|reason| EventKind::TurnEnded {
        turn: TurnId(1),
        reason,
        text: text("done"),
        error: text("why"),
    }));
    all
}

fn client_tool(call: &str, input: serde_json::Value) -> RequestSubject {
    RequestSubject::ClientTool { call: CallId::new(call), tool: text("open"), input }
}

fn requests() -> Vec<EventKind> {
    let opened = |number, ask| EventKind::RequestOpened {
        request: RequestId(number),
        native: text("n1"),
        automatic: false,
        ask,
        proposals: Vec::new(),
        advice: PermissionAdvice::default(),
    };
    let settled = |number, outcome, grant| EventKind::RequestSettled {
        request: RequestId(number),
        outcome,
        by: text("anna"),
        message: text("go on"),
        grant,
        used_grant: String::new(),
    };
    let grant = Box::new(Grant::new("Bash", Coverage::Command(text("ls"))));
    let automatic = EventKind::RequestOpened {
        request: RequestId(4),
        native: text("n4"),
        automatic: true,
        ask: client_tool("toolu_4", json!({})),
        proposals: Vec::new(),
        advice: PermissionAdvice::default(),
    };
    vec![
        opened(
            1,
            RequestSubject::Permission(PermissionSubject {
                call: Some(CallId::new("toolu_1")),
                tool: text("Bash"),
                input: json!({"command": "ls"}),
                title: text("List files"),
                parent: Some(CallId::new("toolu_0")),
            }),
        ),
        opened(
            2,
            RequestSubject::Question {
                questions: vec![Question {
                    id: text("q1"),
                    header: text("Store"),
                    text: text("Which one?"),
                    options: vec![QuestionOption { label: text("SQLite"), description: text("one file") }],
                    multi_select: true,
                }],
                call: Some(CallId::new("toolu_2")),
            },
        ),
        opened(3, client_tool("toolu_3", json!({"line": 4}))),
        settled(1, RequestOutcome::Decided { decision: Decision::AllowOnce }, None),
        settled(1, RequestOutcome::Decided { decision: Decision::AllowSession }, Some(grant)),
        settled(1, RequestOutcome::Decided { decision: Decision::Deny }, None),
        settled(1, RequestOutcome::Decided { decision: Decision::DenyAndStop }, None),
        settled(
            2,
            RequestOutcome::Answered { answers: BTreeMap::from([(text("q1"), text("SQLite"))]) },
            None,
        ),
        settled(3, RequestOutcome::ToolReturned { ok: true, output: String::new() }, None),
        settled(3, RequestOutcome::Withdrawn { reason: text("the turn ended") }, None),
        automatic,
        EventKind::GrantsChanged {
            grants: vec![Grant::new("Edit", Coverage::Tool), denial()],
            by: text("anna"),
        },
    ]
}

fn settings() -> Vec<EventKind> {
    let mut all = vec![
        EventKind::TodosChanged {
            todos: [TodoStatus::Pending, TodoStatus::InProgress, TodoStatus::Completed]
                .map(|status| Todo::new("1", "write tests", status))
                .to_vec(),
        },
        EventKind::TodosChanged {
            todos: [TodoPriority::High, TodoPriority::Medium, TodoPriority::Low]
                .map(|priority| Todo {
                    description: text("One for each rule."),
                    active_form: text("Writing tests"),
                    priority: Some(priority),
                    ..Todo::new("1", "write tests", TodoStatus::InProgress)
                })
                .to_vec(),
        },
        EventKind::PlanModeChanged { on: true },
        EventKind::ModelChanged { model: text("sonnet") },
        EventKind::CommandsChanged {
            commands: vec![AgentCommand {
                name: text("compact"),
                description: text("Shorten the history"),
                hint: String::new(),
            }],
        },
        EventKind::ToolsRegistered {
            source: text("editor"),
            tools: vec![ClientTool {
                name: text("open"),
                description: text("Opens a file"),
                input_schema: json!({"type": "object"}),
                exclusive: true,
                timeout_ms: Some(5_000),
                asks: false,
            }],
        },
        EventKind::InputHolderChanged { holder: Some(text("anna")) },
        EventKind::InputHolderChanged { holder: None },
    ];
    all.extend(Mode::ALL.map(|(mode, _)| EventKind::ModeChanged { mode }));
    all
}

/// What workers that are sessions of their own spend.
fn worker_spending() -> Vec<EventKind> {
    vec![
        EventKind::WorkerProgressed {
            worker: text("sess_2"),
            summary: String::new(),
            spent: Some(Spending { tokens: 10, cost_micro_usd: 20, work_ms: 30, calls: 1 }),
        },
        EventKind::WorkerFinished {
            worker: text("sess_2"),
            ok: false,
            summary: text("no model"),
            spent: Some(Spending { tokens: 40, cost_micro_usd: 50, work_ms: 60, calls: 2 }),
        },
    ]
}

fn reports() -> Vec<EventKind> {
    vec![
        EventKind::UsageReported {
            usage: Usage {
                input_tokens: 850,
                output_tokens: 340,
                cache_read_tokens: 12,
                cache_write_tokens: 7,
                cost_micro_usd: 18_446_744_073_709_551_615,
                estimated_micro_usd: 0,
            },
            context_tokens: Some(1_190),
            context_window: Some(200_000),
            parent: None,
        },
        EventKind::Compacted {
            tokens_before: Some(150_000),
            tokens_after: Some(9_000),
            summary: text("short"),
        },
        EventKind::WorkerStarted {
            worker: text("w1"),
            call: Some(CallId::new("toolu_4")),
            title: text("Explore"),
        },
        EventKind::WorkerProgressed { worker: text("w1"), summary: text("halfway"), spent: None },
        EventKind::WorkerFinished { worker: text("w1"), ok: true, summary: text("found it"), spent: None },
        EventKind::Notice {
            level: Level::Error,
            code: Some(ErrorCode::BudgetExceeded),
            message: text("used up"),
        },
        EventKind::Notice { level: Level::Warning, code: None, message: text("retrying") },
        EventKind::Notice { level: Level::Info, code: None, message: text("update available") },
        EventKind::ActivityReported {
            activity: text("tool_result"),
            agent_name: text("worker-2"),
            content: text("ok"),
            tool: text("Bash"),
            call: text("tc_001"),
            ok: true,
            tokens_input: 3,
            tokens_output: 4,
            extra: BTreeMap::from([(text("output"), text("x"))]),
        },
        EventKind::Unparsed { raw: text("{\"new\":"), length: Some(70_000) },
        EventKind::ServersChanged {
            servers: vec![
                ToolServer {
                    name: text("lab"),
                    status: ServerStatus::Running,
                    tools: vec![text("ping")],
                    endpoint: text("http://127.0.0.1:9"),
                    error: String::new(),
                },
                ToolServer {
                    name: text("broken"),
                    status: ServerStatus::Failed,
                    tools: Vec::new(),
                    endpoint: String::new(),
                    error: text("no such program"),
                },
            ],
        },
    ]
}

fn client_tools() -> Vec<EventKind> {
    vec![
        EventKind::ToolsRegistered {
            source: text("turn"),
            tools: vec![ClientTool {
                name: text("drive"),
                description: String::new(),
                input_schema: json!({}),
                exclusive: true,
                timeout_ms: None,
                asks: true,
            }],
        },
        EventKind::RequestSettled {
            request: RequestId(3),
            outcome: RequestOutcome::ToolReturned { ok: false, output: text("no such line") },
            by: text("timeout"),
            message: String::new(),
            grant: None,
            used_grant: String::new(),
        },
    ]
}

fn denial() -> Grant {
    let grant = Grant::new("Bash(rm *)", Coverage::Pattern);
    Grant { action: GrantAction::Deny, principal: Principal::Everyone, ..grant }
}

/// An end with everything that was measured.
fn measured() -> EventKind {
    EventKind::AgentExited {
        exit_code: None,
        signal: Some(9),
        message: String::new(),
        resources: Some(Box::new(ResourceReport {
            enforcement: Enforcement::CgroupV2,
            not_enforced: vec![Resource::Cpus],
            peak_memory_bytes: Some(4 << 30),
            cpu_ms: Some(1_500),
            oom_kills: 1,
        })),
    }
}

fn grants() -> Vec<EventKind> {
    let prefix = Grant {
        id: text("g2"),
        scope: Scope::Project("/repo".into()),
        principal: Principal::Everyone,
        expires_at: Some(Timestamp(1_700_000_000_000_000)),
        uses_left: Some(3),
        given_by: text("anna"),
        given_at: Some(Timestamp(1_600_000_000_000_000)),
        ..Grant::new("Bash", Coverage::Prefix(text("npm test")))
    };
    let file = Grant {
        id: text("g3"),
        principal: Principal::SubAgent(CallId::new("toolu_1")),
        ..Grant::new("Write", Coverage::File("/repo/a.txt".into()))
    };
    let folder = Grant {
        id: text("g4"),
        action: GrantAction::Ask,
        ..Grant::new("Edit", Coverage::Folder("/repo/src".into()))
    };
    vec![
        EventKind::RequestOpened {
            request: RequestId(5),
            native: text("n5"),
            automatic: false,
            ask: RequestSubject::Permission(PermissionSubject {
                call: None,
                tool: text("Bash"),
                input: json!({"command": "npm test"}),
                title: String::new(),
                parent: None,
            }),
            proposals: vec![Proposal {
                id: text("prefix"),
                text: text("commands that begin with `npm test`"),
            }],
            advice: PermissionAdvice::default(),
        },
        EventKind::RequestSettled {
            request: RequestId(5),
            outcome: RequestOutcome::Decided { decision: Decision::AllowOnce },
            by: text("anna"),
            message: String::new(),
            grant: Some(Box::new(prefix)),
            used_grant: String::new(),
        },
        EventKind::RequestSettled {
            request: RequestId(6),
            outcome: RequestOutcome::Decided { decision: Decision::AllowOnce },
            by: text("grant"),
            message: String::new(),
            grant: None,
            used_grant: text("g3"),
        },
        EventKind::GrantsChanged { grants: vec![file, folder], by: text("anna") },
        advised(),
    ]
}

/// A permission with what a person should know before answering.
fn advised() -> EventKind {
    EventKind::RequestOpened {
        request: RequestId(7),
        native: text("n7"),
        automatic: false,
        ask: RequestSubject::Permission(PermissionSubject {
            call: None,
            tool: text("Bash"),
            input: json!({"command": "rm -rf build"}),
            title: String::new(),
            parent: None,
        }),
        proposals: Vec::new(),
        advice: PermissionAdvice {
            destructive: text("removes files"),
            not_covered: text("no rule covers it; mode supervised asks"),
        },
    }
}

//! What `--json` prints, as types: the output is made of them, and so are its schemas (`obey schema`). Field names are
//! those of the protocol; fields are only ever added. Pure.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// `obey session list --json`.
#[derive(Serialize, JsonSchema)]
pub struct SessionListJson {
    pub sessions: Vec<SessionJson>,
}

/// A session.
#[derive(Serialize, JsonSchema)]
pub struct SessionJson {
    /// `sess_` and a ULID.
    pub id: String,
    /// Empty: the session belongs to no campaign.
    pub campaign_id: String,
    pub provider: String,
    pub model: String,
    /// The session's name.
    pub agent_name: String,
    /// Such as `running`, `working`, `stopped`.
    pub status: String,
    pub festival_id: String,
    pub task_id: String,
    pub tokens_input: i64,
    pub tokens_output: i64,
    /// 0: unlimited.
    pub max_tokens: i64,
    /// 0: no process.
    pub pid: i32,
    pub restart_count: i32,
    #[schemars(extend("format" = "date-time"))]
    pub created_at: Option<String>,
    #[schemars(extend("format" = "date-time"))]
    pub started_at: Option<String>,
    #[schemars(extend("format" = "date-time"))]
    pub last_activity_at: Option<String>,
    #[schemars(extend("format" = "date-time"))]
    pub ended_at: Option<String>,
    pub error_message: String,
    pub working_dir: String,
}

/// `obey session info --json`: a session with what only it has.
#[derive(Serialize, JsonSchema)]
pub struct SessionInfoJson {
    #[serde(flatten)]
    pub session: SessionJson,
    /// What contains the agent, or `none`.
    pub containment: String,
    /// Secrets are removed from its events.
    pub scrubbed: bool,
    /// The agent's own id of the conversation; empty: it has none yet.
    pub conversation_id: String,
    /// The command that continues the conversation without obey.
    pub way_back: String,
    /// Limits and use of memory, processors and processes.
    pub resources: Value,
    /// What `obey ps` says of it; null from a daemon that has no overview.
    pub overview: Option<OverviewJson>,
    pub pending_requests: Vec<RequestJson>,
}

/// `obey session requests --json`.
#[derive(Serialize, JsonSchema)]
pub struct RequestListJson {
    pub requests: Vec<RequestJson>,
}

/// A permission or a question that waits, or waited, for an answer.
#[derive(Serialize, JsonSchema)]
pub struct RequestJson {
    pub id: String,
    pub session_id: String,
    /// `permission`, `question`, …
    pub kind: String,
    pub tool_name: String,
    pub tool_call_id: String,
    /// The input of the tool.
    pub input: Value,
    pub title: String,
    pub questions: Vec<QuestionJson>,
    #[schemars(extend("format" = "date-time"))]
    pub asked_at: Option<String>,
    /// Empty while it waits.
    pub settled_by: String,
    pub outcome: String,
    #[schemars(extend("format" = "date-time"))]
    pub settled_at: Option<String>,
    pub settled_message: String,
    pub proposals: Vec<ProposalJson>,
    /// What does not come back if it is allowed; empty: nothing that is known of.
    pub destructive: String,
    /// Why a person is asked: which rule asks, or which one came closest and does not cover it.
    pub not_covered: String,
}

/// What may be remembered with an approval.
#[derive(Serialize, JsonSchema)]
pub struct ProposalJson {
    pub id: String,
    pub text: String,
}

/// One question of an agent.
#[derive(Serialize, JsonSchema)]
pub struct QuestionJson {
    pub id: String,
    pub header: String,
    pub text: String,
    pub options: Vec<QuestionOptionJson>,
    pub multi_select: bool,
}

/// One answer to choose.
#[derive(Serialize, JsonSchema)]
pub struct QuestionOptionJson {
    pub label: String,
    pub description: String,
}

/// `obey campaigns --json`.
#[derive(Serialize, JsonSchema)]
pub struct CampaignListJson {
    pub campaigns: Vec<CampaignJson>,
}

/// A registered project folder.
#[derive(Serialize, JsonSchema)]
pub struct CampaignJson {
    pub id: String,
    pub name: String,
    pub path: String,
    pub description: String,
    #[schemars(extend("format" = "date-time"))]
    pub created_at: Option<String>,
    pub active_sessions: i32,
    /// Whether secrets are removed; null: as configured.
    pub scrub: Option<bool>,
    /// The mode of new sessions; null: as configured.
    pub mode: Option<String>,
    /// What to know about its folder.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// `obey version --json`.
#[derive(Serialize, JsonSchema)]
pub struct VersionJson {
    /// Of this program.
    pub version: String,
    /// Of the daemon; null: none runs.
    pub daemon: Option<String>,
}

/// `obey ping --json`.
#[derive(Serialize, JsonSchema)]
pub struct PingJson {
    pub version: String,
    pub hostname: String,
    pub hub_status: String,
    pub campaign_count: i32,
    pub pid: i32,
    #[schemars(extend("format" = "date-time"))]
    pub started_at: Option<String>,
}

/// `obey doctor --json`.
#[derive(Serialize, JsonSchema)]
pub struct DoctorJson {
    pub findings: Vec<FindingJson>,
}

/// The result of one check.
#[derive(Serialize, JsonSchema)]
pub struct FindingJson {
    pub check: String,
    pub state: FindingStateJson,
    pub message: String,
    /// How to repair it; empty if nothing is wrong.
    pub repair: String,
}

/// How a check ended.
#[derive(Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FindingStateJson {
    Ok,
    Warning,
    Broken,
}

/// One line of `obey ps --json`.
#[derive(Serialize, JsonSchema)]
pub struct OverviewJson {
    pub session_id: String,
    pub name: String,
    pub campaign: String,
    pub folder: String,
    pub branch: String,
    pub provider: String,
    pub model: String,
    pub mode: String,
    /// `needs_you`, `failed`, `working`, `quiet`, `done`, `idle`, `ended`, or `unknown` if the daemon is newer.
    pub state: String,
    pub cause: String,
    pub reason: String,
    #[schemars(extend("format" = "date-time"))]
    pub since: Option<String>,
    pub requests: Vec<OverviewRequestJson>,
    pub last_line: String,
    pub tokens: Option<u64>,
    pub cost_usd: Option<f64>,
    pub budget: Option<OverviewBudgetJson>,
    /// Budgets that it shares with other sessions: that of the day, and those of its campaign.
    pub shared_budgets: Vec<SharedBudgetJson>,
    pub todos: OverviewTodosJson,
    pub evidence: OverviewEvidenceJson,
    pub machine: String,
    pub status: String,
    pub seen: bool,
    pub turns: u64,
    pub last_turn: String,
    pub last_seq: u64,
    #[schemars(extend("format" = "date-time"))]
    pub created_at: Option<String>,
    pub parent_id: String,
    pub archived: bool,
    /// Prompts that wait for their turn.
    pub queued: u32,
}

/// What waits for a person.
#[derive(Serialize, JsonSchema)]
pub struct OverviewRequestJson {
    pub id: String,
    pub kind: String,
    pub tool: String,
    pub text: String,
    #[schemars(extend("format" = "date-time"))]
    pub asked_at: Option<String>,
}

/// What a session may spend.
#[derive(Serialize, JsonSchema)]
pub struct OverviewBudgetJson {
    pub max_tokens: Option<u64>,
    pub tokens_left: Option<u64>,
    #[schemars(extend("format" = "date-time"))]
    pub ends_at: Option<String>,
    pub usd: Option<f64>,
    pub usd_left: Option<f64>,
    /// Minutes of work.
    pub minutes: Option<f64>,
    pub minutes_left: Option<f64>,
    /// Tool calls.
    pub calls: Option<u64>,
    pub calls_left: Option<u64>,
}

/// What sessions may spend together, and have spent.
#[derive(Clone, Serialize, JsonSchema)]
pub struct SharedBudgetJson {
    /// Empty: all sessions of the machine.
    pub campaign: String,
    pub campaign_id: String,
    /// What may be spent in one day.
    pub per_day: bool,
    pub usd: Option<f64>,
    pub tokens: Option<u64>,
    /// Minutes of work.
    pub minutes: Option<f64>,
    /// Tool calls.
    pub calls: Option<u64>,
    pub spent_usd: f64,
    pub spent_tokens: u64,
    pub spent_minutes: f64,
    pub spent_calls: u64,
    /// What is used up, in words; empty: something is left of every part.
    pub used_up: String,
}

/// The agent's to-do list, counted.
#[derive(Serialize, JsonSchema)]
pub struct OverviewTodosJson {
    pub done: u32,
    pub all: u32,
}

/// By what the state was told.
#[derive(Serialize, JsonSchema)]
pub struct OverviewEvidenceJson {
    pub process_alive: Option<bool>,
    #[schemars(extend("format" = "date-time"))]
    pub last_event_at: Option<String>,
    pub cpu_ms: Option<u64>,
    pub cpu_ms_in_silence: Option<u64>,
}

/// One line of `obey session log --json`: an event of the journal. Besides these fields it has those of its type.
#[derive(Serialize, JsonSchema)]
pub struct EventJson {
    /// Starts at 1, has no gaps, is never reused.
    #[schemars(range(min = 1))]
    pub seq: u64,
    #[schemars(extend("format" = "date-time"))]
    pub at: String,
    /// Such as `turn_started`, `text_delta`, `request_opened`. New ones may come with a newer daemon.
    #[schemars(length(min = 1))]
    pub r#type: String,
}

/// What is printed on standard error when a command with `--json` fails.
#[derive(Serialize, JsonSchema)]
pub struct ErrorJson {
    pub error: ErrorDetailJson,
}

/// Why a command failed.
#[derive(Serialize, JsonSchema)]
pub struct ErrorDetailJson {
    /// Such as `OBEY-2001`; `obey explain CODE` says what to do. Null: the command line was wrong.
    pub code: Option<String>,
    /// The gRPC status, such as `NOT_FOUND`.
    pub grpc: Option<String>,
    pub message: String,
}

/// Turns a printed type into JSON. Cannot fail: no map has keys that are not strings.
pub fn value<T: Serialize>(printed: &T) -> Value {
    serde_json::to_value(printed).unwrap_or_default()
}

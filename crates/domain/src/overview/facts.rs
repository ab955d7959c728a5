//! What the overview keeps of a session: a small copy of its spec and state, without anything that can grow. Must not
//! decide what it means.

use std::path::PathBuf;

use super::outcome::{ModelWait, TurnOutcome, one_line};
use crate::budget::{Budget, Spending};
use crate::error::ErrorCode;
use crate::event::TodoStatus;
use crate::id::{CampaignId, RequestId, SessionId, TurnId};
use crate::limits;
use crate::permission::Mode;
use crate::request::{PendingRequest, PermissionSubject, RequestSubject};
use crate::session::{LaunchPolicy, ProviderKind, SessionSpec, Status};
use crate::state::{RateLimit, State, elapsed_ms};
use crate::time::Timestamp;
use crate::usage::Usage;

/// A session without its history.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionFacts {
    pub id: SessionId,
    pub name: String,
    pub campaign_id: Option<CampaignId>,
    pub parent: Option<SessionId>,
    pub folder: PathBuf,
    pub provider: ProviderKind,
    /// Which agent it is, for a provider of many.
    pub agent: Option<String>,
    pub model: String,
    pub mode: Mode,
    pub status: Status,
    pub error: String,
    pub error_code: Option<ErrorCode>,
    /// 0 if there is no process.
    pub pid: u32,
    pub turn: Option<OpenTurnFacts>,
    /// Turns started so far.
    pub turns: u64,
    /// Workers inside the agent that have not ended.
    pub workers: usize,
    pub last_turn: Option<TurnOutcome>,
    pub model_wait: Option<ModelWait>,
    /// A rate limit that ended the last turn and is waited for.
    pub rate_limit: Option<RateLimit>,
    /// What waits for a person, oldest first.
    pub requests: Vec<RequestFacts>,
    pub last_line: String,
    /// Nothing: the agent has not reported any.
    pub usage: Option<Usage>,
    /// What it may spend.
    pub budget: Budget,
    /// What it has spent, without the time of the open turn.
    pub spent: Spending,
    pub timeout: Option<std::time::Duration>,
    pub todos_done: usize,
    pub todos_all: usize,
    pub created_at: Timestamp,
    pub started_at: Option<Timestamp>,
    pub last_activity_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
    /// Its agent is started by prompts and stopped when it is idle, so that its stop is not its end.
    pub resumes_on_prompt: bool,
    /// Hidden from lists.
    pub is_archived: bool,
    /// Prompts that wait for the end of a turn.
    pub queued: usize,
}

/// The open turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenTurnFacts {
    pub id: TurnId,
    pub started_at: Option<Timestamp>,
    /// Tools of the calls that are open.
    pub tools: Vec<String>,
    pub is_interrupted: bool,
    pub is_compacting: bool,
}

/// What a person is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestFactsKind {
    Permission { tool: String },
    Question,
}

/// A request that waits for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestFacts {
    pub id: RequestId,
    pub kind: RequestFactsKind,
    pub asked_at: Timestamp,
    /// One line: what the agent wants to do, or the question.
    pub text: String,
}

impl SessionFacts {
    /// Returns the facts of a session.
    pub fn of(spec: &SessionSpec, state: &State) -> Self {
        let mut requests: Vec<RequestFacts> = state.requests.values().filter_map(request_facts).collect();
        requests.sort_by_key(|request| (request.asked_at, request.id));
        let done = state.todos.iter().filter(|todo| todo.status == TodoStatus::Completed).count();
        Self {
            id: spec.id.clone(),
            name: state.name.clone(),
            campaign_id: spec.campaign_id.clone(),
            parent: spec.parent.clone(),
            folder: spec.working_dir.clone(),
            provider: spec.provider,
            agent: spec.provider_config.get("agent").filter(|agent| !agent.is_empty()).cloned(),
            model: state.model.clone(),
            mode: state.mode,
            status: state.status,
            error: one_line(&state.error, limits::REASON_MAX_CHARS),
            error_code: state.error_code,
            pid: state.pid,
            turn: state.turn.as_ref().map(|turn| OpenTurnFacts {
                id: turn.id,
                started_at: turn.started_at,
                tools: turn.calls.values().cloned().collect(),
                is_interrupted: turn.interrupted.is_some(),
                is_compacting: turn.compacting,
            }),
            turns: state.turns,
            workers: state.workers.len(),
            last_turn: state.last_turn.clone(),
            model_wait: state.model_wait.clone(),
            rate_limit: state.rate_limit.as_ref().filter(|_| state.turn.is_none()).map(|limit| RateLimit {
                resumes_at: limit.resumes_at,
                reason: one_line(&limit.reason, limits::REASON_MAX_CHARS),
            }),
            requests,
            last_line: state.last_line.text.clone(),
            usage: state.is_usage_reported.then_some(state.usage),
            budget: state.budget_of(spec),
            spent: state.spent_in_turns(),
            timeout: spec.timeout,
            todos_done: done,
            todos_all: state.todos.len(),
            created_at: spec.created_at,
            started_at: state.started_at,
            last_activity_at: state.last_activity_at,
            ended_at: state.ended_at,
            resumes_on_prompt: spec.launch == LaunchPolicy::OnPrompt && spec.parent.is_none(),
            is_archived: state.archived,
            queued: state.queue.entries.len(),
        }
    }

    /// Returns the provider as people type it: that of an ACP agent with the agent's name.
    pub fn provider_name(&self) -> String {
        match (self.provider, &self.agent) {
            (ProviderKind::Acp, Some(agent)) => format!("acp/{agent}"),
            (provider, _) => provider.name().to_owned(),
        }
    }

    /// Returns when something happened last.
    pub fn active_at(&self) -> Timestamp {
        self.last_activity_at.unwrap_or(self.created_at)
    }

    /// Returns what was spent until a moment, with the open turn.
    pub fn spending(&self, now: Timestamp) -> Spending {
        let open = self.turn.as_ref().and_then(|turn| turn.started_at);
        let working = open.map_or(0, |from| elapsed_ms(from, now));
        Spending { work_ms: self.spent.work_ms.saturating_add(working), ..self.spent }
    }
}

/// Returns a request that waits for a person; calls of a client's tools wait for a program.
fn request_facts(pending: &PendingRequest) -> Option<RequestFacts> {
    let (kind, text) = match &pending.ask {
        RequestSubject::Permission(ask) => {
            (RequestFactsKind::Permission { tool: ask.tool.clone() }, wanted(ask))
        }
        RequestSubject::Question { questions, .. } => {
            let text = questions.first().map(|question| question.text.clone()).unwrap_or_default();
            (RequestFactsKind::Question, text)
        }
        RequestSubject::ClientTool { .. } => return None,
    };
    let text = one_line(&text, limits::REASON_MAX_CHARS);
    Some(RequestFacts { id: pending.id, kind, asked_at: pending.asked_at, text })
}

/// Returns what a call is about, in one line: its command or path rather than its title.
fn wanted(ask: &PermissionSubject) -> String {
    const TELLING: [&str; 6] = ["command", "file_path", "path", "url", "pattern", "query"];
    let input = TELLING.iter().find_map(|name| match ask.input.get(name) {
        Some(serde_json::Value::String(text)) if !text.trim().is_empty() => Some(text.clone()),
        Some(serde_json::Value::Array(words)) if !words.is_empty() => {
            let words: Vec<&str> = words.iter().filter_map(serde_json::Value::as_str).collect();
            Some(words.join(" "))
        }
        _ => None,
    });
    match input {
        Some(input) => format!("{} {}", ask.tool, input),
        None if ask.title.is_empty() || ask.title == ask.tool => ask.tool.clone(),
        None => format!("{}: {}", ask.tool, ask.title),
    }
}

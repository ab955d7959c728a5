//! What a person wants to know of a session at a glance: whether it needs them, failed, works, is quiet, is done or
//! idle, with the reason in words, since when, and by what evidence. Derived from facts alone, so that every surface
//! shows the same; does not read a clock and does not know who shows it.

mod facts;
mod outcome;

use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use facts::{OpenTurnFacts, RequestFacts, RequestFactsKind, SessionFacts};
pub(crate) use outcome::one_line;
pub use outcome::{LastLine, ModelWait, TurnOutcome, WaitCause, is_failure};

use crate::error::ErrorCode;
use crate::limits;
use crate::session::Status;
use crate::time::Timestamp;

/// The states that people see, in the order in which a list shows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionState {
    /// A permission or a question waits for a person.
    NeedsYou,
    /// It failed, or its last turn did and nobody has looked at that.
    Failed,
    /// A turn is open and the agent reports.
    Working,
    /// A turn is open and nothing comes of it: the reason says why.
    Quiet,
    /// The last turn ended and nobody has looked at it.
    Done,
    /// It waits for a prompt.
    Idle,
    /// It has no agent any more.
    Ended,
}

impl SessionState {
    /// Every state, in the order of lists.
    pub const ALL: [SessionState; 7] =
        [Self::NeedsYou, Self::Failed, Self::Working, Self::Quiet, Self::Done, Self::Idle, Self::Ended];

    /// Returns the printed name.
    pub fn name(self) -> &'static str {
        match self {
            Self::NeedsYou => "needs_you",
            Self::Failed => "failed",
            Self::Working => "working",
            Self::Quiet => "quiet",
            Self::Done => "done",
            Self::Idle => "idle",
            Self::Ended => "ended",
        }
    }

    /// Parses the printed name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == text)
    }
}

/// What told the state apart from others of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StateCause {
    Permission,
    Question,
    /// The agent's process ended by itself, or was killed.
    AgentDied,
    /// The agent could not be started.
    StartFailed,
    /// The agent, or the daemon's way to it, lost its connection.
    ConnectionLost,
    /// The kernel killed it for its memory.
    OutOfMemory,
    /// Its time or its tokens are used up.
    BudgetExceeded,
    /// The turn ended with an error, or short of its goal.
    TurnFailed,
    Starting,
    Stopping,
    Turn,
    /// The model's rate limit is reached.
    RateLimit,
    /// Nothing was reported for a while; its process runs and a call is open.
    LongCall,
    /// Nothing was reported for a while, and its process does nothing.
    Hangs,
    /// Nothing was reported for a while; its process is busy, or there is none to look at.
    Silent,
    TurnEnded,
    NoTurn,
    Stopped,
}

impl StateCause {
    /// Every cause.
    pub const ALL: [StateCause; 18] = [
        Self::Permission,
        Self::Question,
        Self::AgentDied,
        Self::StartFailed,
        Self::ConnectionLost,
        Self::OutOfMemory,
        Self::BudgetExceeded,
        Self::TurnFailed,
        Self::Starting,
        Self::Stopping,
        Self::Turn,
        Self::RateLimit,
        Self::LongCall,
        Self::Hangs,
        Self::Silent,
        Self::TurnEnded,
        Self::NoTurn,
        Self::Stopped,
    ];

    /// Returns the printed name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Permission => "permission",
            Self::Question => "question",
            Self::AgentDied => "agent_died",
            Self::StartFailed => "start_failed",
            Self::ConnectionLost => "connection_lost",
            Self::OutOfMemory => "out_of_memory",
            Self::BudgetExceeded => "budget_exceeded",
            Self::TurnFailed => "turn_failed",
            Self::Starting => "starting",
            Self::Stopping => "stopping",
            Self::Turn => "turn",
            Self::RateLimit => "rate_limit",
            Self::LongCall => "long_call",
            Self::Hangs => "hangs",
            Self::Silent => "silent",
            Self::TurnEnded => "turn_ended",
            Self::NoTurn => "no_turn",
            Self::Stopped => "stopped",
        }
    }

    fn of_error(code: Option<ErrorCode>) -> Self {
        match code {
            Some(ErrorCode::ProviderCrashed) => Self::AgentDied,
            Some(ErrorCode::CreateFailed | ErrorCode::ProviderNotReady | ErrorCode::SandboxFailed) => {
                Self::StartFailed
            }
            Some(ErrorCode::ConnectionLost | ErrorCode::DeliveryFailed) => Self::ConnectionLost,
            Some(ErrorCode::OutOfMemory) => Self::OutOfMemory,
            Some(ErrorCode::BudgetExceeded | ErrorCode::SessionTimeout) => Self::BudgetExceeded,
            Some(ErrorCode::RateLimited) => Self::RateLimit,
            _ => Self::TurnFailed,
        }
    }
}

/// What was seen of a session's agent from outside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    /// Whether its process runs; nothing: it has none, or nobody looked.
    pub is_process_alive: Option<bool>,
    /// When the newest event was recorded.
    pub last_event_at: Option<Timestamp>,
    /// CPU time that it and everything it started has used.
    pub cpu_ms: Option<u64>,
    /// CPU time it used since it fell silent.
    pub cpu_ms_in_silence: Option<u64>,
}

/// The state of a session with what it is derived from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assessment {
    pub state: SessionState,
    pub cause: StateCause,
    /// One line in words.
    pub reason: String,
    pub since: Timestamp,
}

/// Derives the state of a session. `seen_at` is the time of the newest event that somebody has looked at.
pub fn assess(
    facts: &SessionFacts,
    evidence: &Evidence,
    seen_at: Option<Timestamp>,
    now: Timestamp,
) -> Assessment {
    let is_terminal = facts.status.is_terminal();
    let found = if let Some(waits) = needs(facts).filter(|_| !is_terminal) {
        waits
    } else {
        match facts.status {
            Status::Failed => failed(facts),
            Status::Stopped => stopped(facts, seen_at),
            Status::Stopping => {
                Found::new(SessionState::Working, StateCause::Stopping, "is being stopped", facts.active_at())
            }
            Status::Starting | Status::Working => working(facts, evidence, now),
            Status::Running if facts.workers > 0 => workers(facts),
            Status::Created | Status::Running => rest(facts, seen_at),
        }
    };
    Assessment {
        state: found.state,
        cause: found.cause,
        reason: outcome::one_line(&found.reason, limits::REASON_MAX_CHARS),
        // A clock that was set back must not show an age below zero.
        since: found.since.min(now),
    }
}

/// Returns when silence alone changes the state of a session, if it does.
pub fn changes_at(facts: &SessionFacts, evidence: &Evidence) -> Option<Timestamp> {
    let is_working = matches!(facts.status, Status::Starting | Status::Working);
    let silent_since = evidence.last_event_at?;
    (is_working && needs(facts).is_none()).then(|| silent_since.after(limits::QUIET_WAIT))
}

/// A state before its reason was cut to a line.
struct Found {
    state: SessionState,
    cause: StateCause,
    reason: String,
    since: Timestamp,
}

impl Found {
    fn new(state: SessionState, cause: StateCause, reason: impl Into<String>, since: Timestamp) -> Self {
        Self { state, cause, reason: reason.into(), since }
    }
}

/// Returns what waits for a person, the oldest first.
fn needs(facts: &SessionFacts) -> Option<Found> {
    let oldest = facts.requests.iter().min_by_key(|request| request.asked_at)?;
    let (cause, verb) = match oldest.kind {
        RequestFactsKind::Permission { .. } => (StateCause::Permission, "wants"),
        RequestFactsKind::Question => (StateCause::Question, "asks"),
    };
    let more = match facts.requests.len() {
        0 | 1 => String::new(),
        count => format!(" (and {} more)", count - 1),
    };
    let text = outcome::one_line(&oldest.text, limits::REASON_MAX_CHARS - 40);
    Some(Found::new(SessionState::NeedsYou, cause, format!("{verb}: {text}{more}"), oldest.asked_at))
}

fn failed(facts: &SessionFacts) -> Found {
    let cause = StateCause::of_error(facts.error_code);
    let reason = if facts.error.is_empty() { "it failed" } else { &facts.error };
    Found::new(SessionState::Failed, cause, reason, facts.ended_at.unwrap_or_else(|| facts.active_at()))
}

/// A session without an agent: ended, unless a prompt would start its agent again and its last turn waits to be
/// looked at.
fn stopped(facts: &SessionFacts, seen_at: Option<Timestamp>) -> Found {
    let ended_at = facts.ended_at.unwrap_or_else(|| facts.active_at());
    let unseen = facts.resumes_on_prompt.then(|| unseen_turn(facts, seen_at)).flatten();
    unseen.unwrap_or_else(|| Found::new(SessionState::Ended, StateCause::Stopped, "stopped", ended_at))
}

fn working(facts: &SessionFacts, evidence: &Evidence, now: Timestamp) -> Found {
    let silent_since = evidence.last_event_at.unwrap_or_else(|| facts.active_at());
    let silence = now.since(silent_since);
    if evidence.is_process_alive == Some(false) && silence >= limits::LOST_PROCESS_WAIT {
        let reason = "the agent's process is gone and has not reported its end";
        return Found::new(SessionState::Failed, StateCause::AgentDied, reason, silent_since);
    }
    if let Some(wait) = &facts.model_wait {
        let cause = match wait.cause {
            WaitCause::RateLimit => StateCause::RateLimit,
            WaitCause::Connection => StateCause::ConnectionLost,
        };
        return Found::new(SessionState::Quiet, cause, wait.message.clone(), wait.since);
    }
    if silence >= limits::QUIET_WAIT {
        return quiet(facts, evidence, silence, silent_since);
    }
    let turn = facts.turn.as_ref();
    let since = turn.and_then(|turn| turn.started_at).unwrap_or_else(|| facts.active_at());
    if facts.status == Status::Starting {
        return Found::new(SessionState::Working, StateCause::Starting, "starting the agent", since);
    }
    let reason = match turn {
        Some(turn) if turn.is_interrupted => "the turn is being ended".to_owned(),
        Some(turn) if turn.is_compacting => "compacting the conversation".to_owned(),
        Some(turn) => match turn.tools.as_slice() {
            [] => format!("works on turn {}", turn.id.0),
            [tool] => format!("runs {tool}"),
            tools => format!("runs {} and {} more", tools[0], tools.len() - 1),
        },
        None => "works".to_owned(),
    };
    Found::new(SessionState::Working, StateCause::Turn, reason, since)
}

/// Tells what a silent agent does, by its process.
fn quiet(facts: &SessionFacts, evidence: &Evidence, silence: Duration, since: Timestamp) -> Found {
    let calls = facts.turn.as_ref().map_or(&[][..], |turn| &turn.tools[..]);
    let age = age(silence);
    let (cause, reason) = match (evidence.is_process_alive, evidence.cpu_ms_in_silence, calls) {
        (_, _, [tool, ..]) => (StateCause::LongCall, format!("no word for {age}: {tool} still runs")),
        (Some(true), Some(cpu_ms), []) if cpu_ms < limits::IDLE_CPU_MAX_MS => (
            StateCause::Hangs,
            format!("no word for {age}, and its process does nothing: it may hang or wait for its model"),
        ),
        (Some(true), Some(cpu_ms), []) => (
            StateCause::Silent,
            format!("no word for {age}; its process is busy ({:.1} s of CPU)", cpu_ms as f64 / 1_000.0),
        ),
        (Some(true), None, []) => (StateCause::Silent, format!("no word for {age}; its process runs")),
        _ => (StateCause::Silent, format!("no word for {age}")),
    };
    Found::new(SessionState::Quiet, cause, reason, since)
}

/// A session whose turn has ended while workers inside its agent go on.
fn workers(facts: &SessionFacts) -> Found {
    let reason = match facts.workers {
        1 => "a worker goes on after the turn".to_owned(),
        count => format!("{count} workers go on after the turn"),
    };
    Found::new(SessionState::Working, StateCause::Turn, reason, facts.active_at())
}

/// A session with an agent that has nothing to do.
fn rest(facts: &SessionFacts, seen_at: Option<Timestamp>) -> Found {
    if let Some(limit) = &facts.rate_limit {
        let reason = format!("goes on at {}: {}", limit.resumes_at.utc_minute(), limit.reason);
        return Found::new(SessionState::Quiet, StateCause::RateLimit, reason, facts.active_at());
    }
    if let Some(unseen) = unseen_turn(facts, seen_at) {
        return unseen;
    }
    if let Some(used) = facts.budget.exhausted_by(&facts.spent) {
        let reason = format!("has used {used} and refuses prompts; raise the budget");
        let since = facts.last_turn.as_ref().map_or(facts.created_at, |turn| turn.ended_at);
        return Found::new(SessionState::Idle, StateCause::BudgetExceeded, reason, since);
    }
    let (reason, since) = match &facts.last_turn {
        Some(turn) if turn.is_failure() => (format!("its last turn {}", turn.describe()), turn.ended_at),
        Some(turn) => ("waits for a prompt".to_owned(), turn.ended_at),
        None => ("waits for its first prompt".to_owned(), facts.created_at),
    };
    Found::new(SessionState::Idle, StateCause::NoTurn, reason, since)
}

/// Returns the last turn as something to look at, unless somebody did or asked for its end.
fn unseen_turn(facts: &SessionFacts, seen_at: Option<Timestamp>) -> Option<Found> {
    let turn = facts.last_turn.as_ref()?;
    if turn.is_cancelled() || seen_at.is_some_and(|seen_at| seen_at >= turn.ended_at) {
        return None;
    }
    let reason = format!("turn {} {}", turn.turn.0, turn.describe());
    Some(if turn.is_failure() {
        Found::new(SessionState::Failed, turn.cause(), reason, turn.ended_at)
    } else {
        Found::new(
            SessionState::Done,
            StateCause::TurnEnded,
            format!("{reason}; not looked at"),
            turn.ended_at,
        )
    })
}

/// Returns a duration as people say it: one unit, rounded down.
pub fn age(duration: Duration) -> String {
    match duration.as_secs() {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds @ 60..3_600 => format!("{} min", seconds / 60),
        seconds @ 3_600..86_400 => format!("{} h", seconds / 3_600),
        seconds => format!("{} d", seconds / 86_400),
    }
}

//! The fold of session summaries into the groups of the list: who needs a person first, oldest need first. Knows the
//! order, the words and the glyphs; the daemon knows the states.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::summary_budget::SummaryBudget;

/// The state of a session as people see it, in the order of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SummaryState {
    NeedsYou,
    Failed,
    Working,
    /// It works, but nothing was reported for a while.
    Quiet,
    /// A turn ended and nobody has looked since.
    Done,
    Idle,
    Ended,
}

impl SummaryState {
    /// Every state, in the order of the list.
    pub const ALL: [SummaryState; 7] =
        [Self::NeedsYou, Self::Failed, Self::Working, Self::Quiet, Self::Done, Self::Idle, Self::Ended];

    /// Parses the published name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }

    /// Returns the published name.
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

    /// Returns the heading of the state's group.
    pub fn title(self) -> &'static str {
        match self {
            Self::NeedsYou => "NEEDS YOU",
            Self::Failed => "FAILED",
            Self::Working | Self::Quiet => "WORKING",
            Self::Done => "DONE",
            Self::Idle => "IDLE",
            Self::Ended => "ENDED",
        }
    }

    /// Returns the state under whose heading the session is listed.
    pub fn group(self) -> SummaryState {
        if self == Self::Quiet { Self::Working } else { self }
    }
}

/// An open request of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SummaryRequest {
    pub request: String,
    /// `permission`, `question` or `client_tool`.
    pub subject: String,
    pub text: String,
    /// Milliseconds since the Unix epoch.
    pub at: i64,
}

/// What the list shows of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SessionSummary {
    pub session: String,
    pub name: String,
    pub campaign: String,
    pub folder: String,
    pub branch: String,
    pub provider: String,
    pub model: String,
    pub mode: String,
    pub state: SummaryState,
    /// Why it is in this state, in words.
    pub reason: String,
    /// Since when, in milliseconds since the Unix epoch.
    pub since: i64,
    pub requests: Vec<SummaryRequest>,
    pub last_line: String,
    /// `null` if the agent reports none.
    pub tokens: Option<u64>,
    pub cost_micro_usd: Option<u64>,
    pub todos_done: u64,
    pub todos_total: u64,
    pub machine: String,
    pub last_seq: u64,
    pub budget: SummaryBudget,
    /// Prompts that wait for their turn.
    pub queued: u64,
}

impl SessionSummary {
    /// Returns the glyph of its state; `ascii` for terminals that have no others.
    pub fn glyph(&self, ascii: bool) -> &'static str {
        let question = !self.requests.is_empty() && self.requests.iter().all(|r| r.subject == "question");
        match (self.state, ascii) {
            (SummaryState::NeedsYou, _) if question => "?",
            (SummaryState::NeedsYou, false) => "▲",
            (SummaryState::NeedsYou, true) => "!",
            (SummaryState::Failed, false) => "✕",
            (SummaryState::Failed, true) => "x",
            (SummaryState::Working, false) => "●",
            (SummaryState::Working, true) => "*",
            (SummaryState::Quiet, false) => "◌",
            (SummaryState::Quiet, true) => "~",
            (SummaryState::Done, false) => "✓",
            (SummaryState::Done, true) => "+",
            (SummaryState::Idle, false) => "○",
            (SummaryState::Idle, true) => "o",
            (SummaryState::Ended, _) => "-",
        }
    }
}

/// The sessions of one heading.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SessionGroup {
    pub state: SummaryState,
    pub title: &'static str,
    pub sessions: Vec<SessionSummary>,
}

/// All sessions. A change with a revision that was applied before is ignored.
#[derive(Clone, Debug, Default)]
pub struct Overview {
    revision: u64,
    sessions: BTreeMap<String, SessionSummary>,
    /// Machines beside the one that the program is connected to.
    others: BTreeMap<String, OtherMachine>,
}

/// The sessions that are known from another machine.
#[derive(Clone, Debug, Default)]
struct OtherMachine {
    revision: u64,
    sessions: BTreeSet<String>,
}

impl Overview {
    /// Replaces everything by a snapshot.
    pub fn replace(&mut self, revision: u64, sessions: impl IntoIterator<Item = SessionSummary>) {
        self.revision = revision;
        let others = &self.others;
        self.sessions.retain(|session, _| others.values().any(|other| other.sessions.contains(session)));
        for summary in sessions {
            self.disown(&summary.session);
            self.sessions.insert(summary.session.clone(), summary);
        }
    }

    /// Replaces everything of another machine by a snapshot. A machine may be paired with itself: what is known from the
    /// machine that the program is connected to stays as that one says.
    pub fn replace_machine(
        &mut self,
        machine: &str,
        revision: u64,
        sessions: impl IntoIterator<Item = SessionSummary>,
    ) {
        let other = self.others.entry(machine.to_owned()).or_default();
        for session in std::mem::take(&mut other.sessions) {
            self.sessions.remove(&session);
        }
        other.revision = revision;
        for summary in sessions {
            self.put_other(machine, summary);
        }
    }

    /// Applies a change of another machine. Returns whether it was new.
    pub fn apply_machine(
        &mut self,
        machine: &str,
        revision: u64,
        changed: Vec<SessionSummary>,
        removed: &[String],
    ) -> bool {
        let other = self.others.entry(machine.to_owned()).or_default();
        if revision <= other.revision {
            return false;
        }
        other.revision = revision;
        for session in removed {
            if other.sessions.remove(session) {
                self.sessions.remove(session);
            }
        }
        for summary in changed {
            self.put_other(machine, summary);
        }
        true
    }

    fn put_other(&mut self, machine: &str, summary: SessionSummary) {
        let Some(other) = self.others.get_mut(machine) else { return };
        if self.sessions.contains_key(&summary.session) && !other.sessions.contains(&summary.session) {
            return;
        }
        other.sessions.insert(summary.session.clone());
        // The name under which this device knows it.
        let summary = SessionSummary { machine: machine.to_owned(), ..summary };
        self.sessions.insert(summary.session.clone(), summary);
    }

    fn disown(&mut self, session: &str) {
        for other in self.others.values_mut() {
            other.sessions.remove(session);
        }
    }

    /// Returns the other machine that a session is on; none for sessions of the machine that the program is connected to.
    pub fn machine_of(&self, session: &str) -> Option<&str> {
        let found = self.others.iter().find(|(_, other)| other.sessions.contains(session));
        found.map(|(machine, _)| machine.as_str())
    }

    /// Applies a change. Returns whether it was new.
    pub fn apply(&mut self, revision: u64, changed: Vec<SessionSummary>, removed: &[String]) -> bool {
        if revision <= self.revision {
            return false;
        }
        self.revision = revision;
        for summary in changed {
            self.disown(&summary.session);
            self.sessions.insert(summary.session.clone(), summary);
        }
        for session in removed {
            self.sessions.remove(session);
        }
        true
    }

    /// Returns the last revision that was applied.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Returns a session's summary.
    pub fn get(&self, session: &str) -> Option<&SessionSummary> {
        self.sessions.get(session)
    }

    /// Returns how many sessions there are.
    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// Returns how many sessions are listed under a state's heading.
    pub fn count(&self, state: SummaryState) -> usize {
        self.sessions.values().filter(|summary| summary.state.group() == state.group()).count()
    }

    /// Returns every session, unsorted.
    pub fn sessions(&self) -> impl Iterator<Item = &SessionSummary> {
        self.sessions.values()
    }

    /// Returns the groups in the order of the list, without empty ones; within a group the longest in it first.
    pub fn groups(&self) -> Vec<SessionGroup> {
        let mut groups: BTreeMap<SummaryState, Vec<SessionSummary>> = BTreeMap::new();
        for summary in self.sessions.values() {
            groups.entry(summary.state.group()).or_default().push(summary.clone());
        }
        let group = |(state, mut sessions): (SummaryState, Vec<SessionSummary>)| {
            sessions.sort_by(|a, b| (a.since, &a.session).cmp(&(b.since, &b.session)));
            SessionGroup { state, title: state.title(), sessions }
        };
        groups.into_iter().map(group).collect()
    }

    /// Returns the open requests of all sessions with their session, oldest first.
    pub fn open_requests(&self) -> Vec<(&SessionSummary, &SummaryRequest)> {
        let mut all: Vec<(&SessionSummary, &SummaryRequest)> = Vec::new();
        for summary in self.sessions.values() {
            all.extend(summary.requests.iter().map(|request| (summary, request)));
        }
        all.sort_by(|(a, x), (b, y)| (x.at, &a.session, &x.request).cmp(&(y.at, &b.session, &y.request)));
        all
    }
}

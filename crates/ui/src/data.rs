//! What passes between the screen and the daemon: requests out, updates in. Plain data, so that the screen is tested
//! without a daemon and the daemon's side never waits for the screen.

mod usage;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use domain::budget::Budget;
use domain::{Decision, EventKind, Timestamp};
use view::{PlanSummary, RequestRow, SessionSummary, SummaryBudget, Transcript};

pub(crate) use usage::{UsageBy, UsageRow, UsageSpan};

/// One event of a session's journal.
#[derive(Clone, Debug)]
pub(crate) struct JournalEvent {
    pub(crate) seq: u64,
    pub(crate) at: Timestamp,
    pub(crate) name: String,
    /// `None` for a kind that is newer than this program.
    pub(crate) kind: Option<EventKind>,
}

/// What the screen wants of the daemon.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Request {
    /// Watch the sessions; with ended ones or without.
    Watch {
        include_ended: bool,
    },
    /// Read and follow a session, its last so many events.
    Open {
        session: String,
        last_seq: u64,
        tail: u64,
    },
    ListRequests {
        session: String,
    },
    Prompt {
        session: String,
        text: String,
        delivery: PromptDelivery,
        attachments: Vec<AttachedFile>,
    },
    /// Read a file for the message of a session.
    Attach {
        session: String,
        path: String,
        /// What goes into the message if there is no such file; empty: it is an error then.
        text: String,
    },
    Decide(PermissionAnswer),
    Answer {
        session: String,
        request: String,
        answers: BTreeMap<String, String>,
    },
    Cancel {
        session: String,
    },
    Stop {
        session: String,
    },
    Restart {
        session: String,
    },
    SetMode {
        session: String,
        mode: String,
    },
    MarkSeen {
        session: String,
        seq: u64,
    },
    /// What a new session can be made of on a machine; empty: on this one.
    Choices {
        machine: String,
    },
    Create(Box<NewSession>),
    /// Which files a session's tree changed.
    Diff {
        session: String,
    },
    /// The changes of one file.
    DiffFile {
        session: String,
        path: String,
    },
    /// Files below a folder, for `@`.
    Files {
        folder: String,
    },
    /// The prompts of a session that wait.
    Queue {
        session: String,
    },
    QueueChange {
        session: String,
        change: QueueChange,
    },
    /// Where a text occurs, in all sessions.
    Search {
        text: String,
    },
    Usage {
        by: UsageBy,
        span: UsageSpan,
    },
    /// Watch the plans of a session; none: no longer.
    Plans {
        session: Option<String>,
    },
    /// 0 removes a limit.
    SetBudget {
        session: String,
        change: Budget,
    },
    Rename {
        session: String,
        name: String,
    },
    /// A new session with the whole history.
    Fork {
        session: String,
    },
    /// Hide it from lists.
    Archive {
        session: String,
    },
    /// Delete an ended session.
    Remove {
        session: String,
    },
    /// Merge a session's tree; what is not committed is committed with this message.
    Merge {
        session: String,
        commit: String,
    },
}

impl Request {
    /// Returns the session that it is about; none if it is about all or none.
    pub(crate) fn session(&self) -> Option<&str> {
        match self {
            Self::Open { session, .. }
            | Self::ListRequests { session }
            | Self::Prompt { session, .. }
            | Self::Attach { session, .. }
            | Self::Answer { session, .. }
            | Self::Cancel { session }
            | Self::Stop { session }
            | Self::Restart { session }
            | Self::SetMode { session, .. }
            | Self::MarkSeen { session, .. }
            | Self::Diff { session }
            | Self::DiffFile { session, .. }
            | Self::Queue { session }
            | Self::QueueChange { session, .. }
            | Self::SetBudget { session, .. }
            | Self::Rename { session, .. }
            | Self::Fork { session }
            | Self::Archive { session }
            | Self::Remove { session }
            | Self::Merge { session, .. } => Some(session),
            Self::Decide(answer) => Some(&answer.session),
            Self::Plans { session } => session.as_deref(),
            Self::Watch { .. }
            | Self::Choices { .. }
            | Self::Create(_)
            | Self::Files { .. }
            | Self::Search { .. }
            | Self::Usage { .. } => None,
        }
    }
}

/// What becomes of a prompt while a turn runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PromptDelivery {
    /// Refused while a turn runs.
    Now,
    /// Added to the running turn.
    Steer,
    /// Sent when the turn has ended.
    Queue,
}

/// A file that goes with a message.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct AttachedFile {
    pub(crate) name: String,
    pub(crate) media_type: String,
    pub(crate) content: Arc<Vec<u8>>,
}

impl fmt::Debug for AttachedFile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ({}, {} bytes)", self.name, self.media_type, self.content.len())
    }
}

/// A change of the prompts that wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum QueueChange {
    Edit {
        entry: String,
        text: String,
    },
    /// The first place is 1.
    Move {
        entry: String,
        place: u32,
    },
    Drop {
        entry: String,
    },
    Pause,
    Resume,
}

/// A prompt that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QueuedPrompt {
    pub(crate) id: String,
    pub(crate) text: String,
    /// Files that are sent with it.
    pub(crate) attachments: usize,
}

/// A place where a text occurs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SearchHit {
    pub(crate) session: String,
    pub(crate) name: String,
    pub(crate) seq: u64,
    pub(crate) kind: &'static str,
    /// What was found is between U+0001 and U+0002.
    pub(crate) snippet: String,
    pub(crate) at: i64,
}

/// A decision on a permission.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PermissionAnswer {
    pub(crate) session: String,
    pub(crate) request: String,
    pub(crate) decision: Decision,
    pub(crate) message: String,
    /// Replaces the tool's input; empty: unchanged.
    pub(crate) input: String,
}

/// What a new session is made of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NewSession {
    /// Where it is made; empty: on this machine.
    pub(crate) machine: String,
    pub(crate) campaign: Campaign,
    /// The name of a provider or of an agent of the Agent Client Protocol.
    pub(crate) agent: String,
    pub(crate) model: String,
    pub(crate) mode: String,
    /// In a new tree of the campaign's repository, named by the session or its first message.
    pub(crate) worktree: bool,
    pub(crate) name: String,
    pub(crate) budget: Budget,
    pub(crate) message: String,
}

/// A project folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Campaign {
    /// Empty: it becomes a campaign with the first session in it.
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) path: String,
}

/// What the daemon's side reports.
#[derive(Debug)]
pub(crate) enum Update {
    Overview {
        revision: u64,
        snapshot: bool,
        sessions: Vec<SessionSummary>,
        removed: Vec<String>,
        machine: String,
    },
    Connected,
    Lost,
    /// The sessions of another machine.
    MachineOverview {
        machine: String,
        revision: u64,
        snapshot: bool,
        sessions: Vec<SessionSummary>,
        removed: Vec<String>,
    },
    /// Whether another machine is reached; `problem` is empty if it is.
    Machine {
        name: String,
        problem: String,
    },
    /// A session was read up to now.
    Opened {
        session: String,
        transcript: Box<Transcript>,
    },
    Events {
        session: String,
        events: Vec<JournalEvent>,
    },
    /// The session cannot be read.
    OpenFailed {
        session: String,
        why: String,
    },
    Requests {
        session: String,
        requests: Vec<RequestRow>,
    },
    /// A file was read for the message of a session.
    Attached {
        session: String,
        file: AttachedFile,
    },
    /// It cannot be read; `text` was pasted and is text.
    NotAttached {
        session: String,
        text: String,
        why: String,
    },
    PromptSent {
        session: String,
        text: String,
    },
    PromptFailed {
        session: String,
        text: String,
        why: String,
    },
    /// An answer was recorded; `text` says by whom if it was not this one.
    Answered {
        text: String,
    },
    AnswerFailed {
        session: String,
        request: String,
        why: String,
    },
    Done {
        text: String,
    },
    Failed {
        why: String,
        forbidden: bool,
    },
    Choices {
        machine: String,
        campaigns: Vec<Campaign>,
        /// Names of providers and of ACP agents that are installed, the default one first.
        agents: Vec<String>,
        /// The campaign of the folder in which the program was started.
        current: Option<Campaign>,
    },
    Created {
        session: String,
    },
    CreateFailed {
        why: String,
    },
    Files {
        folder: String,
        paths: Vec<String>,
    },
    Diff {
        session: String,
        against: String,
        files: Vec<ChangedFile>,
        /// Files that are changed too and not listed.
        more: u64,
    },
    DiffFile {
        session: String,
        path: String,
        lines: Vec<ReviewLine>,
    },
    ReviewFailed {
        session: String,
        why: String,
    },
    Highlighted(crate::highlight::Colored),
    Queue {
        session: String,
        entries: Vec<QueuedPrompt>,
        paused: String,
    },
    /// Hits and whether there are more, or why it could not be searched.
    Found {
        text: String,
        found: Result<(Vec<SearchHit>, bool), String>,
    },
    Usage {
        by: UsageBy,
        span: UsageSpan,
        rows: Vec<UsageRow>,
        /// Budgets that sessions share, by title.
        shared: Vec<(String, SummaryBudget)>,
        /// Machines that did not answer.
        uncounted: Vec<String>,
    },
    /// A plan of a session as it is now.
    Plan {
        session: String,
        plan: PlanSummary,
    },
    /// The plans of a session were read, or cannot be.
    PlansRead {
        session: String,
        problem: String,
    },
    /// How a merge went, in words.
    Merged {
        session: String,
        result: Result<String, String>,
    },
}

/// A file that a session's tree changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChangedFile {
    pub(crate) path: String,
    pub(crate) added: u64,
    pub(crate) removed: u64,
    /// What is special about it: new, deleted, renamed from, binary.
    pub(crate) note: String,
}

/// A line of a change under review.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReviewLine {
    /// `+`, `-`, a space, or `@` for what is not a line of the file.
    pub(crate) mark: char,
    /// Its number in the file as it is now, or as it was if it was removed.
    pub(crate) number: u64,
    pub(crate) text: String,
}

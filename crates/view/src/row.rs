//! The rows of a transcript. Plain data, serialized with every field always present and in the order of declaration,
//! so that a fold in another language can give the same bytes.

use serde::Serialize;
use serde_json::Value;

/// One row of a transcript. Its key never changes, and it only grows until it is closed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The number of its first event.
    pub key: u64,
    /// The number of the last event that changed it.
    pub last: u64,
    /// The time of its first event in milliseconds since the Unix epoch.
    pub at: i64,
    /// The call of the sub-agent it belongs to; `null` for the agent itself.
    pub parent: Option<String>,
    #[serde(flatten)]
    pub body: RowBody,
}

/// What a row shows, by `kind`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum RowBody {
    /// A prompt, or a message added to a running turn.
    Prompt {
        turn: String,
        /// `client` or `agent`.
        origin: &'static str,
        added: bool,
        text: String,
        by: String,
        attachments: Vec<AttachmentRow>,
    },
    Text {
        text: String,
        closed: bool,
    },
    Thinking {
        text: String,
        closed: bool,
    },
    /// A run of calls.
    Calls {
        /// What was done, in words.
        summary: String,
        calls: Vec<CallRow>,
        closed: bool,
    },
    /// A call that changes files, with its changes.
    Edit {
        call: CallRow,
        files: Vec<FileChange>,
    },
    /// The agent's to-do list after a change.
    Plan {
        todos: Vec<TodoRow>,
        done: u64,
        total: u64,
    },
    Request(RequestRow),
    TurnEnd {
        turn: String,
        /// As in the event: `completed`, `cancelled`, `failed`, …
        reason: String,
        error: String,
        /// The agent's final text, unless a row of the turn already ends with it.
        text: String,
        /// `null` if the turn's beginning is not in the fold.
        took_ms: Option<i64>,
        /// `null` if the agent reported none.
        usage: Option<TurnUsage>,
    },
    Compaction {
        tokens_before: Option<u64>,
        tokens_after: Option<u64>,
        summary: String,
    },
    Worker {
        worker: String,
        call: Option<String>,
        title: String,
        state: CallState,
        summary: String,
    },
    Activity {
        activity: String,
        agent_name: String,
        tool: String,
        content: String,
        ok: bool,
    },
    Notice {
        /// What it is about: `created`, `status`, `agent`, `stderr`, `notice`, …
        word: &'static str,
        /// `info`, `warning` or `error`.
        level: &'static str,
        /// An OBEY code, or nothing.
        code: String,
        text: String,
    },
    /// Events that are not in the fold.
    Gap {
        from: u64,
        to: u64,
    },
}

/// A file sent along with a prompt; its content stays in the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AttachmentRow {
    pub name: String,
    pub media_type: String,
}

/// How far a call or a worker is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CallState {
    Running,
    /// A person must permit it first.
    Waiting,
    Ok,
    Failed,
    /// Its turn ended before it did.
    Unfinished,
}

/// One call of a tool, with its result.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CallRow {
    pub call: String,
    pub seq: u64,
    pub tool: String,
    /// `execute`, `read`, `edit`, `search`, `fetch`, `delegate`, `plan` or `other`.
    pub kind: &'static str,
    /// What it does, in one line.
    pub text: String,
    pub input: Value,
    pub state: CallState,
    /// The end of its output.
    pub output: String,
    /// Characters of the output before that.
    pub output_omitted: u64,
    /// Characters of `output`, counted once.
    #[serde(skip)]
    pub(crate) output_chars: usize,
    pub started: i64,
    pub took_ms: Option<i64>,
    /// Who permitted it, in words.
    pub permission: String,
}

/// The change of one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileChange {
    pub path: String,
    pub added: u64,
    pub removed: u64,
    pub lines: Vec<DiffLine>,
    /// Lines left out at the end.
    pub omitted: u64,
}

/// One line of a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DiffLine {
    /// `+`, `-`, a space, or `@` for the head of a hunk.
    pub mark: &'static str,
    pub text: String,
}

/// An entry of the to-do list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TodoRow {
    pub text: String,
    /// `pending`, `in_progress` or `completed`.
    pub status: &'static str,
    /// At length; empty if the agent does not say.
    pub description: String,
    /// The words for it while it is in progress; empty if the agent does not say.
    pub active_form: String,
    /// `high`, `medium` or `low`.
    pub priority: Option<&'static str>,
}

impl TodoRow {
    /// Returns what the entry says now: while the agent is at it, in the agent's own words for that.
    pub fn words(&self) -> &str {
        if self.status == "in_progress" && !self.active_form.is_empty() {
            &self.active_form
        } else {
            &self.text
        }
    }
}

/// A request of the agent.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RequestRow {
    pub request: String,
    /// `permission`, `question` or `client_tool`.
    pub subject: &'static str,
    pub call: Option<String>,
    pub tool: String,
    /// One line for a person.
    pub text: String,
    pub input: Value,
    /// What it would change, as far as the input says.
    pub files: Vec<FileChange>,
    pub questions: Vec<QuestionRow>,
    pub proposals: Vec<ProposalRow>,
    /// What does not come back if it is allowed; clients ask twice then.
    pub destructive: String,
    /// Why a person is asked.
    pub not_covered: String,
    pub open: bool,
    /// How it ended, in words.
    pub outcome: String,
    pub by: String,
    pub message: String,
    pub settled_at: Option<i64>,
}

/// One question with its choices.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct QuestionRow {
    pub id: String,
    pub header: String,
    pub text: String,
    pub options: Vec<OptionRow>,
    pub multi_select: bool,
}

/// A choice of a question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OptionRow {
    pub label: String,
    pub description: String,
}

/// What may be remembered with an approval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProposalRow {
    pub id: String,
    pub text: String,
}

/// What a turn used, as far as the agent reports it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TurnUsage {
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cache_read_tokens: u64,
    pub cost_micro_usd: u64,
}

impl TurnUsage {
    pub(crate) fn add(&mut self, usage: &domain::Usage) {
        self.input_tokens = self.input_tokens.saturating_add(usage.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(usage.output_tokens);
        self.cache_read_tokens = self.cache_read_tokens.saturating_add(usage.cache_read_tokens);
        self.cost_micro_usd = self.cost_micro_usd.saturating_add(usage.cost_micro_usd);
    }
}

//! The fold of a session's events into rows. Events are applied once each, in the order of their numbers: one that
//! was applied before is ignored, and a jump in the numbers becomes a `gap` row.

mod calls;
mod others;

use std::collections::{BTreeMap, VecDeque};

use domain::turn::TurnOrigin;
use domain::{EventKind, Timestamp, any_event, author};

use crate::header::{self, SessionHeader};
use crate::row::{AttachmentRow, CallState, Row, RowBody, TurnUsage};
use crate::{limits, notices, requests, text};

/// The rows of a session, and what is known of it.
#[derive(Clone, Debug)]
pub struct Transcript {
    header: SessionHeader,
    rows: VecDeque<Row>,
    /// Rows that were dropped from the front; a row's place is its index plus this.
    dropped: usize,
    dropped_through: u64,
    rows_max: usize,
    /// The row that still grows, by the sub-agent it belongs to.
    growing: BTreeMap<Option<String>, usize>,
    /// Where the calls are that have not finished.
    calls: BTreeMap<String, (usize, usize)>,
    /// How calls were permitted that have not started.
    permissions: BTreeMap<String, String>,
    /// Calls whose request is answered without a client.
    automatic: BTreeMap<String, String>,
    /// Where open requests are.
    requests: BTreeMap<String, usize>,
    /// The calls that wait for a permission, by its request.
    waiting: BTreeMap<String, String>,
    workers: BTreeMap<String, usize>,
    turn_usage: Option<TurnUsage>,
    /// The last row of text of the agent itself in the open turn.
    last_text: Option<usize>,
}

impl Default for Transcript {
    fn default() -> Self {
        Self::with_rows_max(limits::ROWS_MAX)
    }
}

impl Transcript {
    /// Makes an empty transcript that keeps at most so many rows; the oldest are dropped.
    pub fn with_rows_max(rows_max: usize) -> Self {
        Self {
            header: SessionHeader::default(),
            rows: VecDeque::new(),
            dropped: 0,
            dropped_through: 0,
            rows_max: rows_max.max(1),
            growing: BTreeMap::new(),
            calls: BTreeMap::new(),
            permissions: BTreeMap::new(),
            automatic: BTreeMap::new(),
            requests: BTreeMap::new(),
            waiting: BTreeMap::new(),
            workers: BTreeMap::new(),
            turn_usage: None,
            last_text: None,
        }
    }

    /// Returns what is known of the session.
    pub fn header(&self) -> &SessionHeader {
        &self.header
    }

    /// Returns the rows, oldest first.
    pub fn rows(&self) -> &VecDeque<Row> {
        &self.rows
    }

    /// Returns the number of the last event whose row was dropped; 0 if none was.
    pub fn dropped_through(&self) -> u64 {
        self.dropped_through
    }

    /// Returns the row with a key, or the last one before it.
    pub fn index_of(&self, key: u64) -> Option<usize> {
        let after = self.rows.partition_point(|row| row.key <= key);
        after.checked_sub(1)
    }

    /// Applies an event. `None` stands for a kind that this program does not know; `name` is its name. Returns whether
    /// it was new.
    pub fn apply(&mut self, seq: u64, at: Timestamp, name: &str, kind: Option<&EventKind>) -> bool {
        if seq <= self.header.last_seq {
            return false;
        }
        let at = at.0.div_euclid(1_000);
        let missing = self.header.last_seq + 1;
        if seq > missing {
            let body = RowBody::Gap { from: missing, to: seq - 1 };
            self.push_row(Row { key: missing, last: seq - 1, at, parent: None, body });
        }
        if self.header.first_seq == 0 {
            self.header.first_seq = seq;
        }
        self.header.last_seq = seq;
        let mut step = Step { transcript: self, seq, at };
        match kind {
            Some(kind) => step.apply(kind),
            None => step.push(None, notices::unknown(name)),
        }
        true
    }

    fn push_row(&mut self, row: Row) -> usize {
        self.rows.push_back(row);
        if self.rows.len() > self.rows_max
            && let Some(oldest) = self.rows.pop_front()
        {
            self.dropped += 1;
            self.dropped_through = self.dropped_through.max(oldest.last);
        }
        self.dropped + self.rows.len() - 1
    }

    /// Returns the row at a place, unless it was dropped.
    fn row_mut(&mut self, place: usize) -> Option<&mut Row> {
        self.rows.get_mut(place.checked_sub(self.dropped)?)
    }
}

/// The application of one event.
struct Step<'a> {
    transcript: &'a mut Transcript,
    seq: u64,
    at: i64,
}

impl Step<'_> {
    /// Matches every kind without a wildcard: a new one does not compile until it is decided what it shows.
    fn apply(&mut self, kind: &EventKind) {
        self.note_header(kind);
        match kind {
            EventKind::TurnStarted { .. } | EventKind::MessageAdded { .. } => self.prompt(kind),
            EventKind::TextDelta { text, parent } => {
                self.grow(parent.as_ref().map(ToString::to_string), text, false);
            }
            EventKind::ThinkingDelta { text, parent } => {
                self.grow(parent.as_ref().map(ToString::to_string), text, true);
            }
            EventKind::ToolStarted { call, tool, input, title, parent } => {
                let parent = parent.as_ref().map(ToString::to_string);
                self.call_started(call.as_str(), tool, input, title, parent);
            }
            EventKind::ToolProgress { call, output } => self.call_progressed(call.as_str(), output),
            EventKind::ToolFinished { call, tool, ok, output } => {
                self.call_finished(call.as_str(), tool, *ok, output);
            }
            EventKind::TurnEnded { .. } => self.turn_ended(kind),
            EventKind::RequestOpened { .. } => self.request_opened(kind),
            EventKind::RequestSettled { .. } => self.request_settled(kind),
            EventKind::TodosChanged { todos } => self.todos(header::todo_rows(todos)),
            EventKind::Compacted { tokens_before, tokens_after, summary } => {
                let (tokens_before, tokens_after) = (*tokens_before, *tokens_after);
                self.push(
                    None,
                    RowBody::Compaction { tokens_before, tokens_after, summary: summary.clone() },
                );
            }
            EventKind::WorkerStarted { .. }
            | EventKind::WorkerProgressed { .. }
            | EventKind::WorkerFinished { .. } => self.worker(kind),
            EventKind::ActivityReported { .. } => self.activity(kind),
            EventKind::AgentLogged { line } => self.stderr(line),
            any_event!(
                SessionCreated StatusChanged AgentExited Restarted InterruptRequested GrantsChanged Renamed
                ModeChanged PlanModeChanged ModelChanged ServersChanged plan Notice Unparsed
            ) => {
                if let Some(body) = notices::notice(kind) {
                    self.push(None, body);
                }
            }
            // The header or nothing shows them.
            any_event!(
                AgentStarted AgentReady CommandsChanged ToolsRegistered InputHolderChanged UsageReported
            ) => {}
        }
    }

    fn activity(&mut self, kind: &EventKind) {
        let EventKind::ActivityReported { activity, agent_name, content, tool, ok, .. } = kind else {
            return;
        };
        let body = RowBody::Activity {
            activity: activity.clone(),
            agent_name: agent_name.clone(),
            tool: tool.clone(),
            content: content.clone(),
            ok: *ok,
        };
        self.push(None, body);
    }

    /// Records what an event tells of the session as a whole.
    fn note_header(&mut self, kind: &EventKind) {
        let header = &mut self.transcript.header;
        match kind {
            EventKind::SessionCreated { provider, model, name, working_dir, mode } => {
                provider.name().clone_into(&mut header.provider);
                header.model.clone_from(model);
                header.name.clone_from(name);
                header.folder.clone_from(working_dir);
                mode.name().clone_into(&mut header.mode);
                header.status = "CREATED".to_owned();
            }
            EventKind::StatusChanged { to, .. } => to.name().clone_into(&mut header.status),
            EventKind::AgentReady { model, .. } if !model.is_empty() => header.model.clone_from(model),
            EventKind::Renamed { name } => header.name.clone_from(name),
            EventKind::ModeChanged { mode } => mode.name().clone_into(&mut header.mode),
            EventKind::PlanModeChanged { on } => header.planning = *on,
            EventKind::ModelChanged { model } => header.model.clone_from(model),
            EventKind::CommandsChanged { commands } => {
                header.commands = commands.iter().map(|command| command.name.clone()).collect();
            }
            EventKind::InputHolderChanged { holder } => header.input_holder.clone_from(holder),
            EventKind::UsageReported { usage, context_tokens, context_window, .. } => {
                header.usage.get_or_insert_default().add(usage);
                header.context_tokens = context_tokens.or(header.context_tokens);
                header.context_window = context_window.or(header.context_window);
                self.transcript.turn_usage.get_or_insert_default().add(usage);
            }
            any_event!(
                AgentStarted AgentReady AgentExited AgentLogged Restarted turn output request TodosChanged
                ServersChanged ToolsRegistered plan Compacted worker report
            ) => {}
        }
    }

    /// Adds a row that closes nothing.
    fn push(&mut self, parent: Option<String>, body: RowBody) {
        let row = Row { key: self.seq, last: self.seq, at: self.at, parent, body };
        self.transcript.push_row(row);
    }

    /// Adds a row after closing the one that grew for the same sub-agent; it grows from now on.
    fn begin(&mut self, parent: Option<String>, body: RowBody) -> usize {
        self.close(parent.as_ref());
        let row = Row { key: self.seq, last: self.seq, at: self.at, parent: parent.clone(), body };
        let place = self.transcript.push_row(row);
        self.transcript.growing.insert(parent, place);
        place
    }

    /// Closes the row that grows for a sub-agent.
    fn close(&mut self, parent: Option<&String>) {
        let Some(place) = self.transcript.growing.remove(&parent.cloned()) else { return };
        if let Some(row) = self.transcript.row_mut(place) {
            close_body(&mut row.body);
        }
    }

    /// Closes every row.
    fn close_all(&mut self) {
        for place in std::mem::take(&mut self.transcript.growing).into_values() {
            if let Some(row) = self.transcript.row_mut(place) {
                close_body(&mut row.body);
            }
        }
    }

    fn prompt(&mut self, kind: &EventKind) {
        let body = match kind {
            EventKind::TurnStarted { turn, origin, prompt, attachments, by } => {
                self.close_all();
                let transcript = &mut *self.transcript;
                transcript.header.turn = Some(turn.to_string());
                transcript.header.turn_at = Some(self.at);
                transcript.turn_usage = None;
                transcript.last_text = None;
                let attachment = |attachment: &domain::event::Attachment| AttachmentRow {
                    name: attachment.name.clone(),
                    media_type: attachment.media_type.clone(),
                };
                RowBody::Prompt {
                    turn: turn.to_string(),
                    origin: match origin {
                        TurnOrigin::Client => "client",
                        TurnOrigin::Agent => "agent",
                    },
                    added: false,
                    text: prompt.clone(),
                    by: author::shown(by).to_owned(),
                    attachments: attachments.iter().map(attachment).collect(),
                }
            }
            EventKind::MessageAdded { turn, text, by } => RowBody::Prompt {
                turn: turn.to_string(),
                origin: "client",
                added: true,
                text: text.clone(),
                by: author::shown(by).to_owned(),
                attachments: Vec::new(),
            },
            any_event!(
                life InterruptRequested TurnEnded output request settings plan usage worker report
            ) => return,
        };
        self.close(None);
        self.push(None, body);
    }

    /// Adds a piece of text or thinking to the row that grows, or begins one.
    fn grow(&mut self, parent: Option<String>, piece: &str, thinking: bool) {
        if piece.is_empty() {
            return;
        }
        let seq = self.seq;
        if let Some(&place) = self.transcript.growing.get(&parent)
            && let Some(row) = self.transcript.row_mut(place)
        {
            let text = match &mut row.body {
                RowBody::Text { text, .. } if !thinking => Some(text),
                RowBody::Thinking { text, .. } if thinking => Some(text),
                _ => None,
            };
            if let Some(text) = text.filter(|text| !is_full(text)) {
                text.push_str(piece);
                row.last = seq;
                return;
            }
        }
        let (text, closed) = (piece.to_owned(), false);
        let body = if thinking { RowBody::Thinking { text, closed } } else { RowBody::Text { text, closed } };
        let is_own_text = parent.is_none() && !thinking;
        let place = self.begin(parent, body);
        if is_own_text {
            self.transcript.last_text = Some(place);
        }
    }

    fn turn_ended(&mut self, kind: &EventKind) {
        let EventKind::TurnEnded { turn, reason, text, error } = kind else { return };
        self.close_all();
        let (seq, at) = (self.seq, self.at);
        let transcript = &mut *self.transcript;
        let answer = text::trim(text);
        let last = transcript.last_text.take().and_then(|place| transcript.row_mut(place));
        let shown = last.is_some_and(|row| match &row.body {
            RowBody::Text { text, .. } => {
                let last = text::trim(text);
                // A long answer is in several rows, of which only the last is compared.
                last.ends_with(answer) || (!last.is_empty() && answer.ends_with(last))
            }
            _ => false,
        });
        let took_ms = transcript.header.turn_at.take().map(|began| at - began);
        transcript.header.turn = None;
        transcript.permissions.clear();
        transcript.automatic.clear();
        // A call in the background may still finish: they stay known.
        for (place, index) in transcript.calls.values().copied().collect::<Vec<_>>() {
            if let Some(row) = transcript.row_mut(place)
                && let Some(call) = calls::call_mut(&mut row.body, index)
                && matches!(call.state, CallState::Running | CallState::Waiting)
            {
                call.state = CallState::Unfinished;
                row.last = seq;
            }
        }
        let body = RowBody::TurnEnd {
            turn: turn.to_string(),
            reason: reason_name(*reason).to_owned(),
            error: error.clone(),
            text: if shown { String::new() } else { answer.to_owned() },
            took_ms,
            usage: transcript.turn_usage.take(),
        };
        self.push(None, body);
    }

    fn request_opened(&mut self, kind: &EventKind) {
        let EventKind::RequestOpened { request, automatic, ask, proposals, advice, .. } = kind else {
            return;
        };
        let row = requests::opened(request.to_string(), ask, proposals, advice);
        if *automatic {
            if let Some(call) = row.call {
                self.transcript.automatic.insert(row.request, call);
            }
            return;
        }
        let parent = requests::parent(ask);
        self.close(parent.as_ref());
        let id = row.request.clone();
        self.transcript.header.open_requests.push(id.clone());
        if let Some(call) = row.call.clone().filter(|_| row.subject == "permission") {
            self.call_waits(id.clone(), call);
        }
        let row = Row { key: self.seq, last: self.seq, at: self.at, parent, body: RowBody::Request(row) };
        let place = self.transcript.push_row(row);
        self.transcript.requests.insert(id, place);
    }

    fn request_settled(&mut self, kind: &EventKind) {
        let EventKind::RequestSettled { request, outcome, by, message, .. } = kind else { return };
        let (id, outcome, by) =
            (request.to_string(), requests::outcome_text(outcome), author::shown(by).to_owned());
        self.call_goes_on(&id);
        let (seq, at) = (self.seq, self.at);
        let transcript = &mut *self.transcript;
        transcript.header.open_requests.retain(|open| *open != id);
        let place = transcript.requests.remove(&id);
        let automatic = transcript.automatic.remove(&id);
        if place.is_none() && automatic.is_none() {
            // It was opened before the fold began.
            let text = requests::permission_text(&format!("{id} {outcome}"), &by);
            self.push(None, RowBody::Notice { word: "request", level: "info", code: String::new(), text });
            return;
        }
        let mut call = automatic;
        if let Some(row) = place.and_then(|place| transcript.row_mut(place)) {
            row.last = seq;
            if let RowBody::Request(request) = &mut row.body {
                request.open = false;
                request.outcome.clone_from(&outcome);
                request.by.clone_from(&by);
                request.message.clone_from(message);
                request.settled_at = Some(at);
                call = request.call.clone().filter(|_| request.subject == "permission");
            }
        }
        if let Some(call) = call {
            self.call_permitted(&call, requests::permission_text(&outcome, &by));
        }
    }

    fn todos(&mut self, todos: Vec<crate::row::TodoRow>) {
        if self.transcript.header.todos == todos {
            return;
        }
        self.transcript.header.todos.clone_from(&todos);
        let (done, total) = (header::done(&todos), todos.len() as u64);
        self.push(None, RowBody::Plan { todos, done, total });
    }
}

fn close_body(body: &mut RowBody) {
    match body {
        RowBody::Text { closed, .. } | RowBody::Thinking { closed, .. } | RowBody::Calls { closed, .. } => {
            *closed = true;
        }
        _ => {}
    }
}

fn is_full(text: &str) -> bool {
    text.len() >= limits::TEXT_ROW_MAX_CHARS && text.chars().count() >= limits::TEXT_ROW_MAX_CHARS
}

fn reason_name(reason: domain::turn::EndReason) -> &'static str {
    use domain::turn::EndReason;
    match reason {
        EndReason::Completed => "completed",
        EndReason::Cancelled => "cancelled",
        EndReason::Failed => "failed",
        EndReason::Refused => "refused",
        EndReason::LimitReached => "limit_reached",
        EndReason::BudgetExceeded => "budget_exceeded",
        EndReason::Interrupted => "interrupted",
    }
}

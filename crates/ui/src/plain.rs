//! The UI for screen readers (`--plain`): lines in the order in which things happen, words instead of boxes and glyphs, and one
//! line of input at a time. Shows the same groups and rows as the screen.

use std::fmt::Write as _;

use domain::Decision;
use view::{CallState, Overview, RequestRow, Row, RowBody, SummaryState, Transcript};

use crate::data::{PermissionAnswer, PromptDelivery, Request, Update};
use crate::{format, limits, sanitize};

/// What a person can type.
pub(crate) const HELP: &str = "list: sessions by need. open NAME: read a session. y: allow once. a: allow for the session. \
n WORDS: deny. s WORDS: deny and stop. answer WORDS: answer a question. input: the whole input of the request. \
cancel: cancel the turn. say WORDS: send a message. help: this text. quit: leave, agents go on.";

/// What is known, and what was said already.
#[derive(Default)]
pub(crate) struct PlainView {
    overview: Overview,
    open: Option<String>,
    transcript: Transcript,
    /// Rows up to this key were looked at.
    looked_at: u64,
    /// Rows that were not complete then, or requests that were open.
    unfinished: Vec<u64>,
    announced: Vec<(String, String)>,
    now: i64,
}

/// What a typed line leads to.
#[derive(Debug, PartialEq)]
pub(crate) enum PlainStep {
    Say(String),
    Send(Request),
    Quit,
}

impl PlainView {
    /// Sets the time that ages are counted to.
    pub(crate) fn tick(&mut self, now: i64) {
        self.now = now;
    }

    /// Takes an update. Returns the lines it adds.
    pub(crate) fn update(&mut self, update: Update) -> String {
        match update {
            Update::Overview { revision, snapshot, sessions, removed, .. } => {
                if snapshot {
                    self.overview.replace(revision, sessions);
                    return format!("{}{}", self.list(), self.new_requests());
                }
                self.overview.apply(revision, sessions, &removed);
                self.new_requests()
            }
            Update::MachineOverview { machine, revision, snapshot, sessions, removed } => {
                if snapshot {
                    self.overview.replace_machine(&machine, revision, sessions);
                } else {
                    self.overview.apply_machine(&machine, revision, sessions, &removed);
                }
                self.new_requests()
            }
            Update::Machine { problem, .. } if problem.is_empty() => String::new(),
            Update::Machine { name, problem } => {
                format!(
                    "{} is not reached: {}.\n",
                    sanitize::clean_line(&name),
                    sanitize::clean_line(&problem)
                )
            }
            Update::Opened { transcript, .. } => {
                self.transcript = *transcript;
                self.new_rows()
            }
            Update::Events { events, .. } => {
                for event in &events {
                    self.transcript.apply(event.seq, event.at, &event.name, event.kind.as_ref());
                }
                self.new_rows()
            }
            Update::Lost => "The daemon does not answer; calling again.\n".to_owned(),
            Update::Connected => String::new(),
            Update::Answered { text } | Update::Done { text } => {
                format!("{}.\n", sanitize::clean_line(&text))
            }
            Update::Attached { file, .. } => format!("Attached {}.\n", sanitize::clean_line(&file.name)),
            Update::PromptSent { .. } => "Sent.\n".to_owned(),
            Update::OpenFailed { why, .. }
            | Update::PromptFailed { why, .. }
            | Update::NotAttached { why, .. }
            | Update::AnswerFailed { why, .. }
            | Update::Failed { why, .. }
            | Update::CreateFailed { why }
            | Update::ReviewFailed { why, .. } => format!("Error: {}\n", sanitize::clean_line(&why)),
            Update::Requests { .. }
            | Update::Choices { .. }
            | Update::Created { .. }
            | Update::Files { .. }
            | Update::Diff { .. }
            | Update::DiffFile { .. }
            | Update::Queue { .. }
            | Update::Found { .. }
            | Update::Usage { .. }
            | Update::Plan { .. }
            | Update::PlansRead { .. }
            | Update::Merged { .. }
            | Update::Highlighted(_) => String::new(),
        }
    }

    /// The sessions by need, in words.
    fn list(&self) -> String {
        let mut text = String::new();
        for group in self.overview.groups() {
            if group.state == SummaryState::Ended {
                continue;
            }
            // Writing to a string cannot fail.
            let _ok = writeln!(text, "{}, {}.", group.title, format::plural(group.sessions.len(), "session"));
            for summary in &group.sessions {
                let age = format::span_ms(self.now - summary.since);
                let name = sanitize::clean_line(&summary.name);
                let reason = sanitize::clean_line(&summary.reason);
                let _ok = writeln!(text, "{name}, for {age}: {reason}.");
            }
        }
        if text.is_empty() { "No sessions yet.\n".to_owned() } else { text }
    }

    /// Requests that were not announced yet, oldest first.
    fn new_requests(&mut self) -> String {
        let mut text = String::new();
        let mut all = Vec::new();
        for (summary, request) in self.overview.open_requests() {
            let key = (summary.session.clone(), request.request.clone());
            if !self.announced.contains(&key) {
                let (name, what) = (sanitize::clean_line(&summary.name), sanitize::clean_line(&request.text));
                let _ok = writeln!(text, "{name} needs you: {what}. Type: open {name}");
            }
            all.push(key);
        }
        self.announced = all;
        text
    }

    /// Rows that are complete and were not said yet.
    fn new_rows(&mut self) -> String {
        let mut text = String::new();
        let rows = self.transcript.rows();
        let row_of =
            |key: u64| self.transcript.index_of(key).and_then(|at| rows.get(at)).filter(|row| row.key == key);
        let mut unfinished = Vec::new();
        for key in std::mem::take(&mut self.unfinished) {
            match row_of(key) {
                Some(row) if is_complete(row) && !is_open_request(row) => text.push_str(&row_text(row)),
                Some(_) => unfinished.push(key),
                None => {}
            }
        }
        let from = rows.partition_point(|row| row.key <= self.looked_at);
        for row in rows.iter().skip(from) {
            if is_complete(row) {
                text.push_str(&row_text(row));
            }
            if !is_complete(row) || is_open_request(row) {
                unfinished.push(row.key);
            }
            self.looked_at = row.key;
        }
        self.unfinished = unfinished;
        text
    }

    fn request(&self) -> Option<&RequestRow> {
        self.transcript.rows().iter().find_map(|row| match &row.body {
            RowBody::Request(request) if request.open && request.subject != "client_tool" => Some(request),
            _ => None,
        })
    }

    /// Takes a typed line.
    pub(crate) fn line(&mut self, line: &str) -> PlainStep {
        let line = line.trim();
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let rest = rest.trim();
        match word {
            "" => PlainStep::Say(String::new()),
            "quit" | "q" => PlainStep::Quit,
            "help" => PlainStep::Say(format!("{HELP}\n")),
            "list" => PlainStep::Say(self.list()),
            "open" => self.open(rest),
            "y" => self.decide(Decision::AllowOnce, rest),
            "a" => self.decide(Decision::AllowSession, rest),
            "n" => self.decide(Decision::Deny, rest),
            "s" => self.decide(Decision::DenyAndStop, rest),
            "answer" => self.answer(rest),
            "input" => match self.request() {
                Some(request) => {
                    let input = serde_json::to_string_pretty(&request.input).unwrap_or_default();
                    PlainStep::Say(format!("{}\n", sanitize::revealed(&input)))
                }
                None => PlainStep::Say("No request is open here.\n".to_owned()),
            },
            "cancel" => match &self.open {
                Some(session) => PlainStep::Send(Request::Cancel { session: session.clone() }),
                None => no_session(),
            },
            "say" if !rest.is_empty() => match &self.open {
                Some(session) => PlainStep::Send(Request::Prompt {
                    attachments: Vec::new(),
                    session: session.clone(),
                    text: rest.to_owned(),
                    delivery: match self.transcript.header().turn {
                        Some(_) => PromptDelivery::Queue,
                        None => PromptDelivery::Now,
                    },
                }),
                None => no_session(),
            },
            _ => PlainStep::Say("That is no command. Type: help\n".to_owned()),
        }
    }

    fn open(&mut self, name: &str) -> PlainStep {
        let found = self.overview.sessions().find(|summary| summary.name == name || summary.session == name);
        let Some(summary) = found else {
            return PlainStep::Say(format!("There is no session {name:?}. Type: list\n"));
        };
        let (session, last_seq) = (summary.session.clone(), summary.last_seq);
        self.open = Some(session.clone());
        self.transcript = Transcript::default();
        self.looked_at = 0;
        self.unfinished.clear();
        PlainStep::Send(Request::Open { session, last_seq, tail: limits::TAIL_EVENTS })
    }

    fn decide(&self, decision: Decision, words: &str) -> PlainStep {
        let (Some(session), Some(request)) = (&self.open, self.request()) else {
            return PlainStep::Say("No request is open here.\n".to_owned());
        };
        if request.subject == "question" {
            return PlainStep::Say("It is a question. Type: answer WORDS\n".to_owned());
        }
        PlainStep::Send(Request::Decide(PermissionAnswer {
            session: session.clone(),
            request: request.request.clone(),
            decision,
            message: words.to_owned(),
            input: String::new(),
        }))
    }

    /// Answers the questions of a request; several answers are separated by `;`.
    fn answer(&self, words: &str) -> PlainStep {
        let request = self.request().filter(|request| request.subject == "question");
        let (Some(session), Some(request)) = (&self.open, request) else {
            return PlainStep::Say("No question is open here.\n".to_owned());
        };
        let given: Vec<&str> = words.split(';').map(str::trim).filter(|word| !word.is_empty()).collect();
        if given.len() != request.questions.len() {
            let count = request.questions.len();
            return PlainStep::Say(format!(
                "There are {count} questions; separate their answers by a semicolon.\n"
            ));
        }
        let answers = request.questions.iter().zip(given).map(|(question, given)| {
            let option =
                given.parse::<usize>().ok().and_then(|number| question.options.get(number.checked_sub(1)?));
            (question.id.clone(), option.map_or_else(|| given.to_owned(), |option| option.label.clone()))
        });
        PlainStep::Send(Request::Answer {
            session: session.clone(),
            request: request.request.clone(),
            answers: answers.collect(),
        })
    }
}

fn no_session() -> PlainStep {
    PlainStep::Say("No session is open. Type: open NAME\n".to_owned())
}

/// Whether a row changes no more, so that it can be said.
fn is_complete(row: &Row) -> bool {
    match &row.body {
        RowBody::Text { closed, .. } | RowBody::Thinking { closed, .. } | RowBody::Calls { closed, .. } => {
            *closed
        }
        RowBody::Edit { call, .. } => !matches!(call.state, CallState::Running | CallState::Waiting),
        RowBody::Worker { state, .. } => *state != CallState::Running,
        _ => true,
    }
}

/// Whether the end of a request is still to be said.
fn is_open_request(row: &Row) -> bool {
    matches!(&row.body, RowBody::Request(request) if request.open)
}

/// A row in words.
fn row_text(row: &Row) -> String {
    let text = match &row.body {
        RowBody::Prompt { text, origin, .. } if *origin == "agent" => {
            format!("The agent went on by itself. {text}")
        }
        RowBody::Prompt { text, attachments, .. } => {
            let files: String =
                attachments.iter().map(|file| format!("\nWith the file {}.", file.name)).collect();
            format!("You: {text}{files}")
        }
        RowBody::Text { text, .. } => format!("Agent: {text}"),
        RowBody::Thinking { text, .. } => {
            format!("Thought, {}.", format::plural(text.split_whitespace().count(), "word"))
        }
        RowBody::Calls { summary, calls, .. } => {
            let failed = calls.iter().filter(|call| call.state == CallState::Failed).count();
            let failed = if failed > 0 { format!(", {failed} failed") } else { String::new() };
            format!("{}: {summary}{failed}.", format::plural(calls.len(), "call"))
        }
        RowBody::Edit { files, .. } => {
            let file = |file: &view::FileChange| {
                format!("Changed {}, {} lines added, {} removed.", file.path, file.added, file.removed)
            };
            files.iter().map(file).collect::<Vec<_>>().join(" ")
        }
        RowBody::Plan { todos, done, total } => {
            let current = todos.iter().find(|todo| todo.status == "in_progress");
            let current = current.map_or_else(String::new, |todo| format!(", now: {}", todo.words()));
            format!("To-dos: {done} of {total} done{current}.")
        }
        RowBody::Request(request) if request.open => request_text(request),
        RowBody::Request(request) => format!("{}: {} by {}.", request.text, request.outcome, request.by),
        RowBody::TurnEnd { reason, error, text, .. } => {
            let answer = if text.is_empty() { String::new() } else { format!("Agent: {text}\n") };
            let error = if error.is_empty() { String::new() } else { format!(": {error}") };
            format!("{answer}Turn {}{error}.", reason.replace('_', " "))
        }
        RowBody::Compaction { .. } => "The conversation was compacted.".to_owned(),
        RowBody::Worker { title, state, summary, .. } => {
            let end = if *state == CallState::Failed { "failed" } else { "finished" };
            format!("Worker {title} {end}: {summary}")
        }
        RowBody::Activity { activity, content, .. } => format!("{activity}: {content}"),
        RowBody::Notice { word, code, text, .. } => format!("{word}: {text} {code}"),
        RowBody::Gap { from, to } => format!("{} earlier events are not read.", to + 1 - from),
    };
    let who = if row.parent.is_some() { "Sub-agent. " } else { "" };
    format!("{who}{}\n", sanitize::clean(text.trim_end()))
}

fn request_text(request: &RequestRow) -> String {
    if request.subject != "question" {
        let grant = request.proposals.first().map_or_else(String::new, |proposal| {
            format!(" For the session it would allow {}.", proposal.text)
        });
        let mut wants = request.text.clone();
        if !request.destructive.is_empty() {
            wants.push_str(&format!(". It {}", request.destructive));
        }
        if !request.not_covered.is_empty() {
            wants.push_str(&format!(". You are asked because {}", request.not_covered));
        }
        return format!("It wants: {wants}.{grant} Type y, a, n WORDS or s WORDS; input shows all.");
    }
    let mut text = String::from("It asks.");
    for question in &request.questions {
        text.push_str(&format!(" {}", question.text));
        for (at, option) in question.options.iter().enumerate() {
            text.push_str(&format!(" {}: {}.", at + 1, option.label));
        }
    }
    text.push_str(" Type: answer WORDS or numbers");
    text
}

//! Shows an agent's work live: its text on standard output as it arrives, notes on standard error, and a
//! status line in between. Decides what is worth showing; the complete record is the log. Requests are not
//! shown here: the caller asks about them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use domain::answer::AnswerText;
use domain::request::RequestSubject;
use domain::turn::EndReason;
use domain::usage::Usage;
use domain::{CallId, EventKind, Status, any_event, author};
use tokio::time::Instant;

use crate::limits;
use crate::markdown::{self, MarkdownStream};
use crate::output::{Output, TextStyle};
use crate::render;
use crate::request_detail;
use client::events::LogEvent;
use client::format;
use config::failure::Result;

/// Longest part of a call or its output shown live.
const CALL_MAX_CHARS: usize = 160;
const FRAMES: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];

/// The kind of incomplete text at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RunningText {
    Nothing,
    Text,
    Thinking,
}

/// The state of a live view.
pub struct LiveView {
    open: RunningText,
    /// The agent's own text in this turn, and its answer.
    said: String,
    answer: AnswerText,
    /// The agent's text that is not shown yet, on a terminal.
    markdown: Option<MarkdownStream>,
    /// Buffered thinking, if it is not shown live.
    thoughts: String,
    calls: BTreeMap<CallId, RunningCall>,
    /// Calls whose changes were shown with a request.
    asked: BTreeSet<CallId>,
    usage: Usage,
    working: bool,
    began: Instant,
    /// The time of the turn's own event, for turns of the past.
    began_at: Option<jiff::Timestamp>,
    frame: usize,
    last_took: Duration,
}

/// A call that has not ended.
struct RunningCall {
    text: String,
    since: Instant,
    since_at: Option<jiff::Timestamp>,
    changes: Vec<view::FileChange>,
}

impl RunningCall {
    fn new(event: &LogEvent, text: String, changes: Vec<view::FileChange>) -> Self {
        Self { text, since: Instant::now(), since_at: event.at, changes }
    }
}

impl Default for LiveView {
    fn default() -> Self {
        Self {
            open: RunningText::Nothing,
            said: String::new(),
            answer: AnswerText::whole(),
            markdown: None,
            thoughts: String::new(),
            calls: BTreeMap::new(),
            asked: BTreeSet::new(),
            usage: Usage::default(),
            working: false,
            began: Instant::now(),
            began_at: None,
            frame: 0,
            last_took: Duration::ZERO,
        }
    }
}

impl LiveView {
    /// Starts a turn: resets what was counted and said before.
    pub fn begin_turn(&mut self) {
        *self = Self { working: true, ..Self::default() };
    }

    /// Returns how long the turn took that ended last.
    pub fn last_turn_took(&self) -> Duration {
        self.last_took
    }

    /// Returns whether a turn is running, as far as events show.
    pub fn is_working(&self) -> bool {
        self.working
    }

    /// Shows an event.
    pub fn show(&mut self, out: &mut Output, event: &LogEvent) -> Result<()> {
        if out.json {
            self.note_turn(event);
            return out.json(&serde_json::value::RawValue::from_string(event.json_line()).ok());
        }
        let Some(kind) = &event.kind else { return self.note_row(out, event) };
        self.answer.take(kind);
        match kind {
            EventKind::TextDelta { text, parent: None } => self.text(out, text),
            EventKind::ThinkingDelta { text, parent: None } => self.thinking(out, text),
            EventKind::ToolStarted { call, tool, input, title, .. } => {
                let text = view::call_text(tool, input, title);
                self.tool_started(out, call, RunningCall::new(event, text, view::file_changes(tool, input)))
            }
            EventKind::ToolFinished { call, tool, ok, output } => {
                self.tool_finished(out, event, call, ToolResult { tool, ok: *ok, output })
            }
            EventKind::TurnEnded { reason, text, error, .. } => {
                self.last_took = took(self.began, self.began_at, event.at);
                self.turn_ended(out, *reason, text, error)
            }
            EventKind::RequestOpened { ask: RequestSubject::Permission(ask), automatic: false, .. } => {
                self.asked.extend(ask.call.clone());
                Ok(())
            }
            EventKind::UsageReported { usage, .. } => {
                self.usage.add(usage);
                Ok(())
            }
            EventKind::MessageAdded { text, by, .. } => self.prompt_row(out, event, text, by),
            EventKind::StatusChanged {
                to: Status::Created | Status::Starting | Status::Running | Status::Working,
                ..
            }
            | EventKind::AgentReady { .. }
            | EventKind::TextDelta { .. }
            | EventKind::ThinkingDelta { .. }
            | EventKind::ToolProgress { .. }
            | EventKind::RequestOpened { .. }
            | EventKind::RequestSettled { .. }
            | EventKind::CommandsChanged { .. }
            | EventKind::ServersChanged { .. }
            | EventKind::ToolsRegistered { .. }
            | EventKind::InputHolderChanged { .. }
            | EventKind::SessionCreated { .. }
            | EventKind::AgentStarted { .. }
            | EventKind::Unparsed { .. } => Ok(()),
            EventKind::TurnStarted { prompt, by, .. } => {
                self.begin_turn();
                self.began_at = event.at;
                self.prompt_row(out, event, prompt, by)
            }
            any_event!(
                StatusChanged AgentExited AgentLogged Restarted InterruptRequested GrantsChanged Renamed
                TodosChanged ModeChanged PlanModeChanged ModelChanged plan Compacted worker Notice
                ActivityReported
            ) => self.note_row(out, event),
        }
    }

    /// Updates the status line.
    pub fn tick(&mut self, out: &mut Output) -> Result<()> {
        if let Some(stream) = &self.markdown {
            let unfinished = stream.unfinished();
            out.unfinished(&unfinished)?;
            // Without a prompt line the text that is being written has the place of the status.
            if !unfinished.is_empty() && out.prompt().is_none() {
                return Ok(());
            }
        }
        if !self.working {
            return if out.prompt().is_some() { out.status("") } else { Ok(()) };
        }
        self.frame = (self.frame + 1) % FRAMES.len();
        let elapsed = self.began.elapsed();
        let mut line = format!("{} working {}", FRAMES[self.frame], format::duration(whole(elapsed)));
        if let Some(call) = self.calls.values().last() {
            let since = format::duration(whole(call.since.elapsed()));
            line.push_str(&format!(" · {} ({since})", call.text));
        }
        if !self.usage.is_empty() {
            line.push_str(&format!(" · {}", render::usage_text(&self.usage)));
        }
        out.status(&line)
    }

    /// Lets something else be printed. A paragraph that is not complete goes on below it.
    pub fn pause(&mut self, out: &mut Output) -> Result<()> {
        if self.markdown.is_some() { Ok(()) } else { self.close(out) }
    }

    /// Ends incomplete text, so that something else can be printed.
    pub fn close(&mut self, out: &mut Output) -> Result<()> {
        match std::mem::replace(&mut self.open, RunningText::Nothing) {
            RunningText::Nothing => Ok(()),
            RunningText::Text => match self.markdown.take() {
                Some(mut stream) => {
                    out.unfinished(&[])?;
                    stream.finish().iter().try_for_each(|line| out.rendered(line))
                }
                None => out.end_text(),
            },
            RunningText::Thinking => {
                out.unfinished(&[])?;
                let thoughts = std::mem::take(&mut self.thoughts);
                if out.err_is_terminal() {
                    return out.note_text(TextStyle::Dim, "\n");
                }
                let thoughts = format::one_line(&thoughts);
                out.note(TextStyle::Dim, &format!("thinking: {thoughts}"))
            }
        }
    }

    /// Tracks turns without showing them.
    fn note_turn(&mut self, event: &LogEvent) {
        match event.kind {
            Some(EventKind::TurnStarted { .. }) => self.begin_turn(),
            Some(EventKind::TurnEnded { .. }) => self.working = false,
            None
            | Some(
                any_event!(
                    life InterruptRequested MessageAdded output request settings plan usage worker report
                ),
            ) => {}
        }
    }

    /// Shows text of the agent.
    fn text(&mut self, out: &mut Output, text: &str) -> Result<()> {
        if self.open != RunningText::Text {
            self.close(out)?;
            self.open = RunningText::Text;
        }
        self.said.push_str(text);
        // In quiet mode only the last part is wanted, which is known only at the end.
        if out.quiet {
            return Ok(());
        }
        if !out.out_is_terminal() {
            return out.text(text);
        }
        let stream = self.markdown.get_or_insert_with(|| MarkdownStream::new(out.text_width()));
        let complete = stream.push(text);
        let unfinished = stream.unfinished();
        if out.prompt().is_some() {
            out.unfinished(&unfinished)?;
        }
        complete.iter().try_for_each(|line| out.rendered(line))?;
        // A status line stands below what was written.
        if out.prompt().is_none() { out.unfinished(&unfinished) } else { Ok(()) }
    }

    /// Shows thinking: at once on a terminal, otherwise when it is complete.
    fn thinking(&mut self, out: &mut Output, text: &str) -> Result<()> {
        if self.open != RunningText::Thinking {
            self.close(out)?;
            self.open = RunningText::Thinking;
        }
        self.thoughts.push_str(text);
        if !out.err_is_terminal() {
            return Ok(());
        }
        if out.prompt().is_some() {
            // Above the prompt line a line waits for its end.
            let line = self.thoughts.rsplit('\n').next().unwrap_or_default();
            let line: Vec<char> = markdown::tail(line, limits::UNFINISHED_MAX_BYTES).chars().collect();
            let rows =
                line.chunks(out.text_width().max(1)).map(|row| vec![(TextStyle::Dim, row.iter().collect())]);
            out.unfinished(&rows.collect::<Vec<_>>())?;
        }
        out.note_text(TextStyle::Dim, text)
    }

    fn tool_started(&mut self, out: &mut Output, call: &CallId, mut running: RunningCall) -> Result<()> {
        self.close(out)?;
        running.text = format::shorten(&format::one_line(&running.text), CALL_MAX_CHARS);
        out.note(TextStyle::Accent, &format!("● {}", running.text))?;
        self.calls.insert(call.clone(), running);
        Ok(())
    }

    fn tool_finished(
        &mut self,
        out: &mut Output,
        event: &LogEvent,
        call: &CallId,
        result: ToolResult<'_>,
    ) -> Result<()> {
        self.close(out)?;
        let ToolResult { tool, ok, output } = result;
        let running = self.calls.remove(call);
        let took = running
            .as_ref()
            .map(|running| format::duration(took(running.since, running.since_at, event.at)))
            .unwrap_or_default();
        // What was asked about has been seen.
        if ok && out.err_is_terminal() && !self.asked.remove(call) {
            let changes = running.iter().flat_map(|running| &running.changes);
            for line in request_detail::changes(changes, limits::CHANGE_LINES_MAX) {
                out.note_rendered(&line)?;
            }
        }
        let (mark, style) = if ok { ("✓", TextStyle::Good) } else { ("✗", TextStyle::Bad) };
        let more = output.lines().count().saturating_sub(1);
        let more = if more > 0 { format!(" (+{})", format::plural(more, "line")) } else { String::new() };
        let first = format::shorten(output.lines().next().unwrap_or_default(), CALL_MAX_CHARS);
        let name = if took.is_empty() { tool } else { took.as_str() };
        out.note(style, format!("  {mark} {name} {first}{more}").trim_end())
    }

    /// Shows the end of a turn, and the answer unless it is already on the screen.
    fn turn_ended(&mut self, out: &mut Output, reason: EndReason, text: &str, error: &str) -> Result<()> {
        self.close(out)?;
        let answer = self.answer.answer(text).trim();
        let shown = !out.quiet && self.said.trim_end().ends_with(answer);
        if !answer.is_empty() && !shown {
            let answer = answer.to_owned();
            out.markdown(&answer)?;
        }
        self.working = false;
        self.calls.clear();
        let took = format::duration(self.last_took);
        let usage = if self.usage.is_empty() {
            String::new()
        } else {
            format!(" · {}", render::usage_text(&self.usage))
        };
        if reason == EndReason::Completed {
            return out.note(TextStyle::Dim, &format!("✓ {took}{usage}"));
        }
        let because = if error.is_empty() { String::new() } else { format!(": {error}") };
        let style = if reason == EndReason::Cancelled { TextStyle::Warn } else { TextStyle::Bad };
        out.say(style, &format!("✗ the turn {}{because} ({took}{usage})", end_phrase(reason)))
    }

    /// Shows what was asked of the agent, and by whom: all of it on a terminal, where one reads a conversation.
    fn prompt_row(&mut self, out: &mut Output, event: &LogEvent, text: &str, by: &str) -> Result<()> {
        if !out.err_is_terminal() || text.is_empty() {
            return self.note_row(out, event);
        }
        for (at, line) in text.lines().enumerate() {
            let mark = if at == 0 { "> " } else { "  " };
            out.note(TextStyle::Bold, &format!("{mark}{line}"))?;
        }
        match author::shown(by) {
            "" => Ok(()),
            by => out.note(TextStyle::Dim, &format!("  by {by}")),
        }
    }

    fn note_row(&mut self, out: &mut Output, event: &LogEvent) -> Result<()> {
        // Text in a pipe continues after a note; thinking shares the note's stream.
        if self.open == RunningText::Thinking {
            self.close(out)?;
        }
        let row = render::row(event);
        out.note(
            row.style,
            &format!("{}: {}", row.word, format::shorten(&format::one_line(&row.text), CALL_MAX_CHARS)),
        )
    }
}

fn end_phrase(reason: EndReason) -> &'static str {
    match reason {
        EndReason::Cancelled => "was cancelled",
        EndReason::Refused => "was refused by the model",
        EndReason::Interrupted => "was interrupted: the agent died",
        EndReason::LimitReached => "stopped at a limit of the model or agent",
        EndReason::BudgetExceeded => "stopped: the token budget is used up",
        EndReason::Completed => "completed",
        EndReason::Failed => "failed",
    }
}

/// The result of a call.
struct ToolResult<'a> {
    tool: &'a str,
    ok: bool,
    output: &'a str,
}

/// How long something took: by the journal's times, which hold for the past too, else by the clock here.
fn took(since: Instant, since_at: Option<jiff::Timestamp>, until: Option<jiff::Timestamp>) -> Duration {
    match (since_at, until) {
        (Some(since), Some(until)) => Duration::try_from(until.duration_since(since)).unwrap_or_default(),
        _ => since.elapsed(),
    }
}

/// Whole seconds once there are any: tenths that change with every frame only flicker.
fn whole(duration: std::time::Duration) -> std::time::Duration {
    std::time::Duration::from_secs(duration.as_secs().max(1))
}

#[cfg(test)]
mod tests;

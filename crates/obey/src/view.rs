//! Shows an agent's work live: its text on standard output as it arrives, notes on standard error, and a
//! status line in between. Decides what is worth showing; the complete record is the log. Requests are not
//! shown here: the caller asks about them.

use std::collections::BTreeMap;

use domain::turn::EndReason;
use domain::usage::Usage;
use domain::{CallId, EventKind, Status};
use tokio::time::Instant;

use crate::events::LogEvent;
use crate::failure::Result;
use crate::format;
use crate::output::{Output, TextStyle};
use crate::render;

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
pub(crate) struct LiveView {
    open: RunningText,
    /// The agent's own text in this turn, and where its last part begins.
    said: String,
    last_words: usize,
    /// Buffered thinking, if it is not shown live.
    thoughts: String,
    calls: BTreeMap<CallId, (String, Instant)>,
    usage: Usage,
    working: bool,
    began: Instant,
    frame: usize,
}

impl LiveView {
    pub(crate) fn new() -> Self {
        Self {
            open: RunningText::Nothing,
            said: String::new(),
            last_words: 0,
            thoughts: String::new(),
            calls: BTreeMap::new(),
            usage: Usage::default(),
            working: false,
            began: Instant::now(),
            frame: 0,
        }
    }

    /// Starts a turn: resets what was counted and said before.
    pub(crate) fn begin_turn(&mut self) {
        *self = Self { working: true, ..Self::new() };
    }

    /// Returns whether a turn is running, as far as events show.
    pub(crate) fn is_working(&self) -> bool {
        self.working
    }

    /// Shows an event.
    pub(crate) fn show(&mut self, out: &mut Output, event: &LogEvent) -> Result<()> {
        if out.json {
            self.note_turn(event);
            return out.json(&serde_json::value::RawValue::from_string(event.json_line()).ok());
        }
        let Some(kind) = &event.kind else { return self.note_row(out, event) };
        match kind {
            EventKind::TextDelta { text, parent: None } => self.text(out, text),
            EventKind::ThinkingDelta { text, parent: None } => self.thinking(out, text),
            EventKind::ToolStarted { call, tool, input, title, .. } => {
                self.tool_started(out, call, &render::call_text(tool, input, title))
            }
            EventKind::ToolFinished { call, tool, ok, output } => {
                self.tool_finished(out, call, tool, *ok, output)
            }
            EventKind::TurnEnded { reason, text, error, .. } => self.turn_ended(out, *reason, text, error),
            EventKind::UsageReported { usage, .. } => {
                self.usage.add(usage);
                Ok(())
            }
            EventKind::StatusChanged { to: Status::Running | Status::Working, .. }
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
            EventKind::TurnStarted { .. } => {
                self.begin_turn();
                self.note_row(out, event)
            }
            EventKind::StatusChanged { .. }
            | EventKind::AgentReady { .. }
            | EventKind::AgentExited { .. }
            | EventKind::AgentLogged { .. }
            | EventKind::Restarted { .. }
            | EventKind::Renamed { .. }
            | EventKind::InterruptRequested { .. }
            | EventKind::MessageAdded { .. }
            | EventKind::GrantsChanged { .. }
            | EventKind::TodosChanged { .. }
            | EventKind::ModeChanged { .. }
            | EventKind::PlanModeChanged { .. }
            | EventKind::ModelChanged { .. }
            | EventKind::Compacted { .. }
            | EventKind::WorkerStarted { .. }
            | EventKind::WorkerProgressed { .. }
            | EventKind::WorkerFinished { .. }
            | EventKind::Notice { .. }
            | EventKind::ActivityReported { .. } => self.note_row(out, event),
        }
    }

    /// Updates the status line.
    pub(crate) fn tick(&mut self, out: &mut Output) -> Result<()> {
        if !self.working {
            return Ok(());
        }
        self.frame = (self.frame + 1) % FRAMES.len();
        let mut line =
            format!("{} working {}", FRAMES[self.frame], format::duration(whole(self.began.elapsed())));
        if let Some((call, since)) = self.calls.values().last() {
            line.push_str(&format!(" · {call} ({})", format::duration(whole(since.elapsed()))));
        }
        if !self.usage.is_empty() {
            line.push_str(&format!(" · {}", render::usage_text(&self.usage)));
        }
        out.status(&line)
    }

    /// Ends incomplete text, so that something else can be printed.
    pub(crate) fn close(&mut self, out: &mut Output) -> Result<()> {
        match std::mem::replace(&mut self.open, RunningText::Nothing) {
            RunningText::Nothing => Ok(()),
            RunningText::Text => out.end_text(),
            RunningText::Thinking => {
                if out.err_is_terminal() {
                    return out.note_text(TextStyle::Dim, "\n");
                }
                let thoughts = format::one_line(&std::mem::take(&mut self.thoughts));
                out.note(TextStyle::Dim, &format!("thinking: {thoughts}"))
            }
        }
    }

    /// Tracks turns without showing them.
    fn note_turn(&mut self, event: &LogEvent) {
        match event.kind {
            Some(EventKind::TurnStarted { .. }) => self.begin_turn(),
            Some(EventKind::TurnEnded { .. }) => self.working = false,
            _ => {}
        }
    }

    /// Shows text of the agent.
    fn text(&mut self, out: &mut Output, text: &str) -> Result<()> {
        if self.open != RunningText::Text {
            self.close(out)?;
            self.open = RunningText::Text;
            self.last_words = self.said.len();
        }
        self.said.push_str(text);
        // In quiet mode only the last part is wanted, which is known only at the end.
        if out.quiet { Ok(()) } else { out.text(text) }
    }

    /// Shows thinking: at once on a terminal, otherwise when it is complete.
    fn thinking(&mut self, out: &mut Output, text: &str) -> Result<()> {
        if self.open != RunningText::Thinking {
            self.close(out)?;
            self.open = RunningText::Thinking;
        }
        if out.err_is_terminal() {
            return out.note_text(TextStyle::Dim, text);
        }
        self.thoughts.push_str(text);
        Ok(())
    }

    fn tool_started(&mut self, out: &mut Output, call: &CallId, text: &str) -> Result<()> {
        self.close(out)?;
        let text = format::shorten(&format::one_line(text), CALL_MAX_CHARS);
        out.note(TextStyle::Accent, &format!("● {text}"))?;
        self.calls.insert(call.clone(), (text, Instant::now()));
        Ok(())
    }

    fn tool_finished(
        &mut self,
        out: &mut Output,
        call: &CallId,
        tool: &str,
        ok: bool,
        output: &str,
    ) -> Result<()> {
        self.close(out)?;
        let took =
            self.calls.remove(call).map(|(_, since)| format::duration(since.elapsed())).unwrap_or_default();
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
        let last_words = self.said[self.last_words..].trim();
        let answer = if text.trim().is_empty() { last_words } else { text.trim() };
        let shown = !out.quiet && self.said.trim_end().ends_with(answer);
        if !answer.is_empty() && !shown {
            let answer = answer.to_owned();
            out.text(&answer)?;
            out.end_text()?;
        }
        self.working = false;
        self.calls.clear();
        let took = format::duration(self.began.elapsed());
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

/// Whole seconds once there are any: tenths that change with every frame only flicker.
fn whole(duration: std::time::Duration) -> std::time::Duration {
    std::time::Duration::from_secs(duration.as_secs().max(1))
}

#[cfg(test)]
mod tests;

//! Prompts, turns and the streamed output of a working agent.

use serde_json::{Value, json};

use super::{Timer, Transition};
use crate::agent::{AgentEvent, AgentInput};
use crate::any_report;
use crate::command::WhenBusy;
use crate::error::{Error, ErrorCode};
use crate::event::{Attachment, EventKind, Level};
use crate::id::{CallId, TurnId};
use crate::limits;
use crate::permission::Mode;
use crate::request::RequestSubject;
use crate::session::{LaunchPolicy, Status};
use crate::turn::{COMPACT, EndReason, InterruptReason, OpenTurn, TurnOrigin};

impl Transition<'_> {
    /// Starts a turn, steers the running one, or starts the agent, depending on the status.
    pub(super) fn prompt(
        &mut self,
        text: String,
        attachments: Vec<Attachment>,
        when_busy: WhenBusy,
        by: String,
    ) -> Result<(), Error> {
        check_attachments(&attachments)?;
        if when_busy == WhenBusy::Queue && self.must_queue() {
            return self.enqueue(text, attachments, by);
        }
        self.check_prompt(&text)?;
        match self.state().status {
            Status::Running => {
                let told = self.with_fork_history(text.clone());
                self.open_turn(TurnOrigin::Client, text, attachments.clone(), by);
                self.change_status(Status::Working, "working on a prompt");
                self.tell(AgentInput::Prompt { text: told, attachments });
                Ok(())
            }
            Status::Working if when_busy == WhenBusy::Steer => self.steer(text, &attachments, by),
            Status::Starting if when_busy == WhenBusy::Steer && self.has_pending_prompt() => {
                self.steer(text, &attachments, by)
            }
            // The agent gets it when it is ready.
            Status::Starting if self.state().turn.is_none() => {
                self.open_turn(TurnOrigin::Client, text, attachments, by);
                Ok(())
            }
            Status::Created => {
                self.open_turn(TurnOrigin::Client, text, attachments, by);
                self.launch("starting the agent for its first prompt");
                Ok(())
            }
            Status::Stopped | Status::Failed if self.machine.spec.launch == LaunchPolicy::OnPrompt => {
                self.open_turn(TurnOrigin::Client, text, attachments, by);
                self.launch("starting the agent for a prompt");
                Ok(())
            }
            Status::Starting | Status::Working | Status::Stopping | Status::Stopped | Status::Failed => {
                Err(self.wrong_state("a prompt needs a RUNNING one"))
            }
        }
    }

    /// Returns whether something else comes before a prompt that may wait.
    fn must_queue(&self) -> bool {
        let state = self.state();
        let is_busy = matches!(state.status, Status::Starting | Status::Working | Status::Stopping);
        is_busy || state.rate_limit.is_some() || !state.queue.entries.is_empty()
    }

    /// Adds a message to the running turn.
    fn steer(&mut self, text: String, attachments: &[Attachment], by: String) -> Result<(), Error> {
        let Some(turn) = self.interruptible_turn().map(|turn| turn.id) else {
            return Err(self.wrong_state("but its turn is being ended; send the message when it is RUNNING"));
        };
        if !attachments.is_empty() {
            return Err(Error::invalid("attachments", "cannot be added to a running turn; wait for its end"));
        }
        let pending_prompt = self.has_pending_prompt();
        self.record(EventKind::MessageAdded { turn, text: text.clone(), by });
        // A message that precedes the prompt's delivery is delivered with the prompt.
        if !pending_prompt {
            self.tell(AgentInput::Steer { text });
        }
        Ok(())
    }

    /// Returns whether a prompt waits for the agent to be ready, to which more can be said.
    fn has_pending_prompt(&self) -> bool {
        self.state().turn.as_ref().is_some_and(|turn| turn.pending_prompt.is_some() && !turn.compacting)
    }

    /// Checks what refuses a prompt in any status.
    pub(super) fn check_prompt(&self, text: &str) -> Result<(), Error> {
        if self.state().error_code == Some(ErrorCode::SessionTimeout) {
            return Err(Error::new(
                ErrorCode::SessionTimeout,
                format!("session {} has reached its timeout; restart it to go on", self.machine.spec.id),
            ));
        }
        self.check_budget_left()?;
        self.check_prompt_text(text)
    }

    /// Checks the length of a prompt.
    pub(super) fn check_prompt_text(&self, text: &str) -> Result<(), Error> {
        if text.len() > limits::PROMPT_MAX_BYTES {
            return Err(Error::invalid(
                "message",
                format_args!("is {} bytes long; the limit is {}", text.len(), limits::PROMPT_MAX_BYTES),
            ));
        }
        Ok(())
    }

    pub(super) fn open_turn(
        &mut self,
        origin: TurnOrigin,
        prompt: String,
        attachments: Vec<Attachment>,
        by: String,
    ) {
        if self.state().rate_limit.is_some() {
            self.disarm(Timer::RateLimit);
        }
        let turn = TurnId(self.state().turns + 1);
        self.record(EventKind::TurnStarted { turn, origin, prompt, attachments, by });
        self.watch_work_time();
    }

    /// Cancels the open turn: by an interrupt, or at once if the agent has not received it.
    pub(super) fn cancel_turn(&mut self) {
        match self.interruptible_turn() {
            None => {}
            // The agent never received the prompt, so there is nothing to interrupt.
            Some(turn) if turn.pending_prompt.is_some() => {
                self.close_turn(EndReason::Cancelled, "cancelled before the agent was ready");
            }
            Some(_) => self.interrupt(InterruptReason::Cancelled),
        }
    }

    /// Returns the open turn unless it is already ending, on its own or with the agent.
    pub(super) fn interruptible_turn(&self) -> Option<&OpenTurn> {
        let leaving = self.state().status == Status::Stopping && self.asked_to_leave() != Some(false);
        self.state().turn.as_ref().filter(|turn| turn.interrupted.is_none() && !leaving)
    }

    pub(super) fn interrupt(&mut self, reason: InterruptReason) {
        let Some(turn) = self.state().turn.as_ref().map(|turn| turn.id) else { return };
        self.record(EventKind::InterruptRequested { turn, reason });
        self.tell(AgentInput::Interrupt);
        self.arm(Timer::Interrupt, limits::INTERRUPT_WAIT);
    }

    pub(super) fn set_mode(&mut self, mode: Mode) -> Result<(), Error> {
        if self.state().mode == mode {
            return Ok(());
        }
        self.record(EventKind::ModeChanged { mode });
        if self.has_live_agent() {
            self.tell(AgentInput::SetMode(mode));
        }
        Ok(())
    }

    /// Changes the model, of the running agent or for its next start.
    pub(super) fn set_model(&mut self, model: String) -> Result<(), Error> {
        match self.state().status {
            Status::Running | Status::Working => {
                self.record(EventKind::ModelChanged { model: model.clone() });
                self.tell(AgentInput::SetModel(model));
                Ok(())
            }
            // The next agent is started with it.
            Status::Created | Status::Stopped | Status::Failed => {
                self.record(EventKind::ModelChanged { model });
                Ok(())
            }
            Status::Starting | Status::Stopping => {
                Err(self.wrong_state("the model can be changed once it is RUNNING or STOPPED"))
            }
        }
    }

    /// Opens a turn that compacts the conversation.
    pub(super) fn compact(&mut self) -> Result<(), Error> {
        let on_prompt = self.machine.spec.launch == LaunchPolicy::OnPrompt;
        let starts = match self.state().status {
            Status::Running => false,
            // An agent that has never run has nothing to compact.
            Status::Stopped | Status::Failed if on_prompt && !self.state().native_session.is_empty() => true,
            Status::Created
            | Status::Starting
            | Status::Working
            | Status::Stopping
            | Status::Stopped
            | Status::Failed => return Err(self.wrong_state("compaction needs a RUNNING one")),
        };
        self.check_prompt(COMPACT)?;
        self.open_turn(TurnOrigin::Client, COMPACT.to_owned(), Vec::new(), String::new());
        if starts {
            self.launch("starting the agent to compact its conversation");
        } else {
            self.change_status(Status::Working, "compacting");
            self.tell(AgentInput::Compact);
        }
        Ok(())
    }

    /// Compacts a conversation that has grown too large, if the session is configured for that.
    fn compact_if_large(&mut self) {
        let Some(most) = self.machine.spec.timeouts.compact_above_tokens else { return };
        if self.state().context_tokens.is_some_and(|tokens| tokens > most) {
            // Refused if the budget is used up; then the conversation no longer grows.
            let _ = self.compact();
        }
    }

    /// Handles a report of the agent.
    pub(super) fn agent(&mut self, event: AgentEvent) {
        if !self.state().status.has_agent() {
            return;
        }
        match event {
            AgentEvent::Ready { native_session, model, version, resolved_model } => {
                self.agent_ready(EventKind::AgentReady { native_session, model, version, resolved_model });
            }
            AgentEvent::TurnStarted => self.agent_began_turn(),
            AgentEvent::TurnEnded { reason, text, error } => self.agent_ended_turn(reason, text, error),
            AgentEvent::Asked { native, ask } => self.asked(native, ask),
            // Without an evaluation it is unknown what the rules say, so a person is asked.
            AgentEvent::Checks { native, ask } => self.asked(native, RequestSubject::Permission(ask)),
            AgentEvent::Withdrew { native } => self.withdrew(&native),
            AgentEvent::Usage { usage, context_tokens, context_window, parent } => {
                self.record(EventKind::UsageReported { usage, context_tokens, context_window, parent });
                self.check_budget();
            }
            AgentEvent::Broken { code, message } => self.agent_broke(code, message),
            AgentEvent::RateLimited { resumes_at, reason } => self.rate_limited(resumes_at, reason),
            AgentEvent::ToolStarted { call, tool, input, title, parent } => {
                self.agent_began_call(call, tool, input, title, parent);
                self.check_budget();
            }
            AgentEvent::ToolFinished { call, ok, output } => self.agent_ended_call(call, ok, output),
            AgentEvent::Mode(mode) => {
                // Autonomy is the daemon's decision: an agent can neither take it nor, by reporting its own
                // mode, give it up.
                let autonomy = [mode, self.state().mode].contains(&Mode::Autonomous);
                if self.state().mode != mode && !autonomy {
                    self.record(EventKind::ModeChanged { mode });
                }
            }
            AgentEvent::Model(model) => {
                if self.state().model != model {
                    self.record(EventKind::ModelChanged { model });
                }
            }
            AgentEvent::Servers(servers) => {
                if self.state().servers != servers {
                    self.record(EventKind::ServersChanged { servers });
                }
            }
            plain @ any_report!(
                text ToolProgress Todos PlanMode Commands Compacted worker log
            ) => self.record(plain_record(plain)),
        }
    }

    /// Returns the tool of a call that has begun, in a turn or between turns, and has not ended.
    fn tool_of_call(&self, call: &CallId) -> Option<String> {
        let state = self.state();
        let of_turn = state.turn.as_ref().and_then(|turn| turn.calls.get(call));
        of_turn.or_else(|| state.background_calls.get(call)).cloned()
    }

    /// A call starts once; what does not fit is recorded as unparsed output.
    fn agent_began_call(
        &mut self,
        call: CallId,
        tool: String,
        input: Value,
        title: String,
        parent: Option<CallId>,
    ) {
        let has_room = self.state().background_calls.len() < limits::BACKGROUND_CALLS_MAX;
        let record = if has_room && self.tool_of_call(&call).is_none() {
            EventKind::ToolStarted { call, tool, input, title, parent }
        } else {
            out_of_place(&json!({"report": "tool_started", "call": call, "tool": tool, "input": input}))
        };
        self.record(record);
    }

    /// A call that has begun ends once; what does not fit is recorded as unparsed output.
    fn agent_ended_call(&mut self, call: CallId, ok: bool, output: String) {
        let record = match self.tool_of_call(&call) {
            Some(tool) => EventKind::ToolFinished { call, tool, ok, output },
            None => {
                out_of_place(&json!({"report": "tool_finished", "call": call, "ok": ok, "output": output}))
            }
        };
        self.record(record);
    }

    fn agent_began_turn(&mut self) {
        if self.state().turn.is_none() && self.state().status == Status::Running {
            self.open_turn(TurnOrigin::Agent, String::new(), Vec::new(), String::new());
            self.change_status(Status::Working, "the agent began a turn by itself");
        }
    }

    /// Ends the turn and what waited for its end: an automatic compaction or a graceful stop.
    fn agent_ended_turn(&mut self, reason: EndReason, text: String, error: String) {
        // The agent cannot end a turn it has not received yet; the report is about an older one.
        let Some(turn) = self.state().turn.as_ref().filter(|turn| turn.pending_prompt.is_none()) else {
            return;
        };
        let reason = match (turn.interrupted, reason) {
            (Some(InterruptReason::Cancelled), EndReason::Failed | EndReason::Cancelled) => {
                EndReason::Cancelled
            }
            (Some(InterruptReason::BudgetExceeded), EndReason::Failed | EndReason::Cancelled) => {
                EndReason::BudgetExceeded
            }
            (_, reason) => reason,
        };
        let compacting = turn.compacting;
        self.disarm(Timer::Interrupt);
        self.close_turn_as(reason, &text, &error);
        match self.state().status {
            Status::Working => {
                self.change_status(Status::Running, "the turn ended");
                self.ask_to_raise();
                self.watch_rate_limit();
                if !compacting {
                    self.compact_if_large();
                }
                self.send_queued();
            }
            Status::Stopping if self.asked_to_leave() == Some(false) => {
                self.disarm(Timer::Grace);
                self.ask_to_leave();
            }
            Status::Created
            | Status::Starting
            | Status::Running
            | Status::Stopping
            | Status::Stopped
            | Status::Failed => {}
        }
    }

    /// Ends everything open in the turn and the turn itself; does nothing without one.
    pub(super) fn close_turn(&mut self, reason: EndReason, error: &str) {
        self.close_turn_as(reason, "", error);
    }

    /// Ends everything, because the agent is gone: the turn, and what went on without one.
    pub(super) fn close_all(&mut self, reason: EndReason, error: &str) {
        self.close_background();
        self.close_turn(reason, error);
    }

    /// Ends the requests, calls and workers that no turn ends.
    pub(super) fn close_background(&mut self) {
        self.withdraw_all("the agent ended");
        for (call, tool) in self.state().background_calls.clone() {
            let output = "not finished when the agent ended".to_owned();
            self.record(EventKind::ToolFinished { call, tool, ok: false, output });
        }
        for worker in self.state().workers.keys().cloned().collect::<Vec<_>>() {
            let summary = "ended with its agent".to_owned();
            self.record(EventKind::WorkerFinished { worker, ok: false, summary, spent: None });
        }
    }

    /// Withdraws the turn's own requests, closes its calls and ends it with a text and an error. Workers, and what they
    /// ask, go on.
    pub(super) fn close_turn_as(&mut self, reason: EndReason, text: &str, error: &str) {
        let Some(turn) = self.state().turn.clone() else { return };
        self.withdraw_of_turn(turn.id, "the turn ended");
        for (call, tool) in turn.calls {
            let output = "not finished when the turn ended".to_owned();
            self.record(EventKind::ToolFinished { call, tool, ok: false, output });
        }
        self.record(EventKind::TurnEnded {
            turn: turn.id,
            reason,
            text: text.to_owned(),
            error: error.to_owned(),
        });
        self.forget_turn_tools();
        self.watch_work_time();
        // A turn that a rate limit ended is continued before anything else is sent.
        if self.state().rate_limit.is_none() {
            self.turn_ended_for_queue(reason);
        }
    }
}

/// Checks number and size of the files of a prompt.
fn check_attachments(attachments: &[Attachment]) -> Result<(), Error> {
    if attachments.len() > limits::ATTACHMENTS_MAX {
        let most = limits::ATTACHMENTS_MAX;
        return Err(Error::invalid(
            "attachments",
            format_args!("are {}; the limit is {most}", attachments.len()),
        ));
    }
    let bytes: usize = attachments.iter().map(|file| file.content.len()).sum();
    if bytes > limits::ATTACHMENTS_MAX_BYTES {
        let most = limits::ATTACHMENTS_MAX_BYTES;
        return Err(Error::invalid(
            "attachments",
            format_args!(
                "are {bytes} bytes of base64; the limit is {most}: send smaller files, or their paths"
            ),
        ));
    }
    Ok(())
}

/// Converts reports that are recorded unchanged.
fn plain_record(event: AgentEvent) -> EventKind {
    match event {
        AgentEvent::Text { text, parent } => EventKind::TextDelta { text, parent },
        AgentEvent::Thinking { text, parent } => EventKind::ThinkingDelta { text, parent },
        AgentEvent::ToolProgress { call, output } => EventKind::ToolProgress { call, output },
        AgentEvent::Todos(todos) => EventKind::TodosChanged { todos },
        AgentEvent::PlanMode(on) => EventKind::PlanModeChanged { on },
        AgentEvent::Commands(commands) => EventKind::CommandsChanged { commands },
        AgentEvent::Compacted { tokens_before, tokens_after, summary } => {
            EventKind::Compacted { tokens_before, tokens_after, summary }
        }
        AgentEvent::WorkerStarted { worker, call, title } => EventKind::WorkerStarted { worker, call, title },
        AgentEvent::WorkerProgressed { worker, summary } => {
            EventKind::WorkerProgressed { worker, summary, spent: None }
        }
        AgentEvent::WorkerFinished { worker, ok, summary } => {
            EventKind::WorkerFinished { worker, ok, summary, spent: None }
        }
        AgentEvent::Notice { level, message } => EventKind::Notice { level, code: None, message },
        AgentEvent::Waits { code, message } => {
            EventKind::Notice { level: Level::Warning, code: Some(code), message }
        }
        AgentEvent::Logged(line) => EventKind::AgentLogged { line },
        AgentEvent::Unparsed { raw, length } => EventKind::Unparsed { raw, length },
        // They have rules of their own and never come here; recorded instead of lost.
        any_report!(life turn ToolStarted ToolFinished request Mode Model Servers Usage RateLimited) => {
            out_of_place(&json!({"report": "unknown"}))
        }
    }
}

/// Records a report that was parsed but fits nowhere, such as the end of a call that nobody knows.
fn out_of_place(report: &Value) -> EventKind {
    let mut raw = report.to_string();
    let length = raw.len();
    let mut kept = length.min(limits::UNPARSED_MAX_BYTES);
    while !raw.is_char_boundary(kept) {
        kept -= 1;
    }
    raw.truncate(kept);
    EventKind::Unparsed { raw, length: (kept < length).then_some(length as u64) }
}

//! Prompts, turns and the streamed output of a working agent.

use super::{Timer, Transition};
use crate::agent::{AgentEvent, AgentInput};
use crate::command::WhenBusy;
use crate::error::{Error, ErrorCode};
use crate::event::{Attachment, EventKind, Level};
use crate::id::TurnId;
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
        self.check_prompt(&text)?;
        match self.state().status {
            Status::Running => {
                self.open_turn(TurnOrigin::Client, text.clone(), attachments.clone(), by);
                self.change_status(Status::Working, "working on a prompt");
                self.tell(AgentInput::Prompt { text, attachments });
                Ok(())
            }
            Status::Working if when_busy == WhenBusy::Steer => self.steer(text, &attachments, by),
            Status::Starting if when_busy == WhenBusy::Steer && self.has_pending_prompt() => {
                self.steer(text, &attachments, by)
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

    /// Adds a message to the running turn.
    fn steer(&mut self, text: String, attachments: &[Attachment], by: String) -> Result<(), Error> {
        let Some(turn) = self.interruptible_turn().map(|turn| turn.id) else {
            return Err(self.wrong_state("but its turn is being ended; send the message when it is RUNNING"));
        };
        if !attachments.is_empty() {
            return Err(Error::invalid("attachments", "cannot be added to a running turn; wait for its end"));
        }
        let untold = self.has_pending_prompt();
        self.record(EventKind::MessageAdded { turn, text: text.clone(), by });
        // A message that precedes the prompt's delivery is delivered with the prompt.
        if !untold {
            self.tell(AgentInput::Steer { text });
        }
        Ok(())
    }

    /// Returns whether a prompt waits for the agent to be ready, to which more can be said.
    fn has_pending_prompt(&self) -> bool {
        self.state().turn.as_ref().is_some_and(|turn| turn.untold.is_some() && !turn.compacting)
    }

    /// Checks what refuses a prompt in any status.
    fn check_prompt(&self, text: &str) -> Result<(), Error> {
        if self.state().error_code == Some(ErrorCode::SessionTimeout) {
            return Err(Error::new(
                ErrorCode::SessionTimeout,
                format!("session {} has reached its timeout; restart it to go on", self.machine.spec.id),
            ));
        }
        let (spent, budget) = (self.state().usage, self.machine.spec.max_tokens);
        if spent.exceeds(budget) {
            return Err(Error::new(
                ErrorCode::BudgetExceeded,
                format!("the session has used {} of its {budget} tokens", spent.budgeted_tokens()),
            ));
        }
        if text.len() > limits::PROMPT_MAX_BYTES {
            return Err(Error::invalid(
                "message",
                format_args!("is {} bytes long; the limit is {}", text.len(), limits::PROMPT_MAX_BYTES),
            ));
        }
        Ok(())
    }

    fn open_turn(&mut self, origin: TurnOrigin, prompt: String, attachments: Vec<Attachment>, by: String) {
        let turn = TurnId(self.state().turns + 1);
        self.record(EventKind::TurnStarted { turn, origin, prompt, attachments, by });
    }

    /// Cancels the open turn: by an interrupt, or at once if the agent has not received it.
    pub(super) fn cancel_turn(&mut self) {
        match self.interruptible_turn() {
            None => {}
            // The agent never received the prompt, so there is nothing to interrupt.
            Some(turn) if turn.untold.is_some() => {
                self.close_turn(EndReason::Cancelled, "cancelled before the agent was ready");
            }
            Some(_) => self.interrupt(InterruptReason::Cancelled),
        }
    }

    /// Returns the open turn unless it is already ending, on its own or with the agent.
    fn interruptible_turn(&self) -> Option<&OpenTurn> {
        let leaving = self.state().status == Status::Stopping && self.asked_to_leave() != Some(false);
        self.state().turn.as_ref().filter(|turn| turn.interrupted.is_none() && !leaving)
    }

    fn interrupt(&mut self, reason: InterruptReason) {
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
            _ => return Err(self.wrong_state("compaction needs a RUNNING one")),
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
        let Some(most) = self.machine.spec.upkeep.compact_above_tokens else { return };
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
            AgentEvent::Ready { native_session, model, version } => {
                self.agent_ready(native_session, model, version);
            }
            AgentEvent::TurnStarted => self.agent_began_turn(),
            AgentEvent::TurnEnded { reason, text, error } => self.agent_ended_turn(reason, text, error),
            AgentEvent::Asked { native, ask } => self.asked(native, ask),
            // Without an evaluation it is unknown what the rules say, so a person is asked.
            AgentEvent::Checks { native, ask } => self.asked(native, RequestSubject::Permission(ask)),
            AgentEvent::Withdrew { native } => self.withdrew(&native),
            AgentEvent::Usage { usage, context_tokens, context_window } => {
                self.record(EventKind::UsageReported { usage, context_tokens, context_window });
                self.check_budget();
            }
            AgentEvent::Broken { code, message } => self.agent_broke(code, message),
            AgentEvent::ToolStarted { .. } | AgentEvent::ToolFinished { .. } => self.agent_called(event),
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
            plain => self.record(plain_record(plain)),
        }
    }

    /// Handles the start or the end of a call. A call belongs to one turn, starts once and finishes once;
    /// reports that do not fit are recorded as unparsed output instead of as calls.
    fn agent_called(&mut self, event: AgentEvent) {
        let (AgentEvent::ToolStarted { call, .. } | AgentEvent::ToolFinished { call, .. }) = &event else {
            return;
        };
        let turn = self.state().turn.as_ref();
        let started = turn.and_then(|turn| turn.calls.get(call)).cloned();
        let record = match (event, started) {
            (event @ AgentEvent::ToolStarted { .. }, None) if turn.is_some() => plain_record(event),
            (AgentEvent::ToolFinished { call, ok, output }, Some(tool)) => {
                EventKind::ToolFinished { call, tool, ok, output }
            }
            (other, _) => out_of_place(&other),
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
        let Some(turn) = self.state().turn.as_ref().filter(|turn| turn.untold.is_none()) else { return };
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
                if !compacting {
                    self.compact_if_large();
                }
            }
            Status::Stopping if self.asked_to_leave() == Some(false) => {
                self.disarm(Timer::Grace);
                self.ask_to_leave();
            }
            _ => {}
        }
    }

    /// Interrupts the turn once the token budget is used up.
    pub(super) fn check_budget(&mut self) {
        let budget = self.machine.spec.max_tokens;
        if !self.state().usage.exceeds(budget) {
            return;
        }
        let Some(turn) = self.interruptible_turn() else { return };
        let untold = turn.untold.is_some();
        let spent = self.state().usage.budgeted_tokens();
        let message = format!("the session has used {spent} of its {budget} tokens; the turn is ended");
        self.record(EventKind::Notice {
            level: Level::Error,
            code: Some(ErrorCode::BudgetExceeded),
            message: message.clone(),
        });
        if untold {
            self.close_turn(EndReason::BudgetExceeded, &message);
        } else {
            self.interrupt(InterruptReason::BudgetExceeded);
        }
    }

    /// Ends everything open in the turn and the turn itself; does nothing without one.
    pub(super) fn close_turn(&mut self, reason: EndReason, error: &str) {
        self.close_turn_as(reason, "", error);
    }

    /// Withdraws requests, closes calls and ends the turn with a text and an error.
    pub(super) fn close_turn_as(&mut self, reason: EndReason, text: &str, error: &str) {
        self.withdraw_all("the turn ended");
        let Some(turn) = self.state().turn.clone() else { return };
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
    }
}

/// Converts reports that are recorded unchanged.
fn plain_record(event: AgentEvent) -> EventKind {
    match event {
        AgentEvent::Text { text, parent } => EventKind::TextDelta { text, parent },
        AgentEvent::Thinking { text, parent } => EventKind::ThinkingDelta { text, parent },
        AgentEvent::ToolStarted { call, tool, input, title, parent } => {
            EventKind::ToolStarted { call, tool, input, title, parent }
        }
        AgentEvent::ToolProgress { call, output } => EventKind::ToolProgress { call, output },
        AgentEvent::Todos(todos) => EventKind::TodosChanged { todos },
        AgentEvent::PlanMode(on) => EventKind::PlanModeChanged { on },
        AgentEvent::Commands(commands) => EventKind::CommandsChanged { commands },
        AgentEvent::Compacted { tokens_before, tokens_after, summary } => {
            EventKind::Compacted { tokens_before, tokens_after, summary }
        }
        AgentEvent::WorkerStarted { worker, call, title } => EventKind::WorkerStarted { worker, call, title },
        AgentEvent::WorkerProgressed { worker, summary } => EventKind::WorkerProgressed { worker, summary },
        AgentEvent::WorkerFinished { worker, ok, summary } => {
            EventKind::WorkerFinished { worker, ok, summary }
        }
        AgentEvent::Notice { level, message } => EventKind::Notice { level, code: None, message },
        AgentEvent::Logged(line) => EventKind::AgentLogged { line },
        AgentEvent::Unparsed { raw, length } => EventKind::Unparsed { raw, length },
        // The others have their own rules and never come here; recorded instead of lost.
        other => out_of_place(&other),
    }
}

/// Records a report that was parsed but fits nowhere, such as the result of a call that ended with its turn.
fn out_of_place(event: &AgentEvent) -> EventKind {
    let mut raw = format!("{event:?}");
    let length = raw.len();
    let mut kept = length.min(limits::UNPARSED_MAX_BYTES);
    while !raw.is_char_boundary(kept) {
        kept -= 1;
    }
    raw.truncate(kept);
    EventKind::Unparsed { raw, length: (kept < length).then_some(length as u64) }
}

//! The rules of one session's life. Given an input, decides what must happen next. Performs nothing; knows no
//! clock, no protocol, no agent. An input that is refused changes nothing.

mod advice;
mod budgets;
mod fit;
mod fork;
mod grants;
mod life;
mod memory;
mod observe;
mod queue;
mod requests;
mod shared_budgets;
mod tools;
mod turns;

#[cfg(test)]
mod tests;

pub use fork::Fork;

use std::time::Duration;

use crate::agent::{AgentEvent, AgentInput, Exit};
use crate::answer::AnswerText;
use crate::command::Command;
use crate::error::{Error, ErrorCode};
use crate::event::EventKind;
use crate::permission::CallEvaluation;
use crate::redact::{self, KeepAll, Originals, Redact};
use crate::request::{PermissionSubject, RequestOrigin};
use crate::resources::OutOfMemory;
use crate::session::{SessionSpec, Status};
use crate::shared_budget::{SharedScope, UsedUpBudget};
use crate::state::State;
use crate::time::Timestamp;
use requests::Answer;

/// Something the rules must react to.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    Command(Command),
    Agent(AgentEvent),
    /// The agent asks for a permission, and the call has been evaluated.
    Asked {
        native: String,
        ask: PermissionSubject,
        findings: CallEvaluation,
    },
    /// The agent does something that usually needs no permission, and the call has been evaluated.
    Checked {
        native: String,
        ask: PermissionSubject,
        findings: CallEvaluation,
    },
    /// The agent's process exists (pid 0 if it has no process).
    Launched {
        pid: u32,
    },
    LaunchFailed(Error),
    AgentExited(Exit),
    /// The kernel killed processes of the agent; the agent itself may go on.
    OutOfMemory(OutOfMemory),
    Timer(Timer),
    /// A shared budget is used up, or its day is over, or somebody raised it; `set_shared_budget` says how it stands.
    SharedBudgetChanged {
        raised_by: Option<String>,
    },
    /// The daemon restarted and is attached to the living agent again.
    Reattached,
    /// The daemon restarted; the agent ran inside the old one and has ended, but its history is kept.
    Revived,
    /// The state so far is the copied history of another session.
    Forked(Fork),
}

/// An effect the rules want carried out, in order.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Append to the journal. Nothing else makes anything visible.
    Record(EventKind),
    /// Start the agent; with `resume`, resume its conversation.
    Launch {
        resume: bool,
    },
    Tell(AgentInput),
    Terminate(StopStep),
    Arm(Timer, Duration),
    Disarm(Timer),
    /// Raise a budget that the session shares, for all who share it.
    RaiseSharedBudget {
        scope: SharedScope,
        by: String,
    },
}

/// The steps of ending an agent, each more forceful than the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopStep {
    /// Ask it in its own protocol and close its stdin.
    Ask,
    /// SIGTERM.
    Term,
    /// SIGKILL for the whole process tree.
    Kill,
}

/// Timers that can expire. At most one of each kind runs at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Timer {
    /// Deadline for the agent to be ready.
    Start,
    /// The session's own timeout.
    Deadline,
    /// Timeout of the graceful part of a stop.
    Grace,
    /// Timeout after the agent was asked to leave.
    Ask,
    /// Timeout after SIGTERM was sent.
    Term,
    /// Timeout after the agent was asked to end its turn.
    Interrupt,
    /// Deadline for the answer to a permission.
    Answer,
    /// Timeout of an idle agent.
    Idle,
    /// Deadline for a client to run a tool.
    Tool,
    /// End of the working time that the budget allows.
    Budget,
    /// End of a model's rate limit.
    RateLimit,
}

/// What follows a stop in progress.
#[derive(Clone, Debug, PartialEq)]
struct Stopping {
    then: AfterStop,
    /// The agent was already asked to leave.
    asked: bool,
}

#[derive(Clone, Debug, PartialEq)]
enum AfterStop {
    Stopped,
    Failed(Error),
    Restart,
}

/// A session as the rules see it.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    spec: SessionSpec,
    state: State,
    /// Only while STOPPING. Not rebuilt after a crash: a stop in progress is then finished by force.
    stopping: Option<Stopping>,
    /// The last graceful stop timed out (OBEY-2021).
    grace_ran_out: bool,
    /// The deadline the timer for clients' tools is set to. Not rebuilt after a crash: pending calls then
    /// fail.
    tool_deadline: Option<Timestamp>,
    /// What was redacted from the state but is needed to act. Stored by the caller across a crash.
    originals: Originals,
    /// The used-up budget that the session shares. Not rebuilt after a crash: the caller sets it before every input.
    shared: Option<UsedUpBudget>,
    /// What the open turn has answered so far. Not rebuilt after a crash: the caller sets it before the turn's end.
    answer: AnswerText,
}

/// The result of applying an input.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decided {
    pub effects: Vec<Effect>,
    /// Records that were redacted, in their original form, by the index of the effect.
    pub originals: Vec<(usize, EventKind)>,
}

impl Machine {
    /// Returns the machine of a new session.
    pub fn new(spec: SessionSpec) -> Self {
        let state = State::new(&spec);
        Self::restore(spec, state)
    }

    /// Returns the machine of a session with a stored state.
    pub fn restore(spec: SessionSpec, state: State) -> Self {
        Self {
            spec,
            state,
            stopping: None,
            grace_ran_out: false,
            tool_deadline: None,
            originals: Originals::default(),
            shared: None,
            answer: AnswerText::default(),
        }
    }

    /// Says what the open turn, which began under an earlier daemon, has answered so far.
    pub fn set_answer(&mut self, answer: AnswerText) {
        self.answer = answer;
    }

    /// Says which budget that the session shares is used up.
    pub fn set_shared_budget(&mut self, used_up: Option<UsedUpBudget>) {
        self.shared = used_up;
    }

    /// Restores what an earlier daemon stored beside the state.
    pub fn set_originals(&mut self, originals: Originals) {
        self.originals = originals;
    }

    /// Returns what was redacted from the state but is needed to act.
    pub fn originals(&self) -> &Originals {
        &self.originals
    }

    pub fn spec(&self) -> &SessionSpec {
        &self.spec
    }

    pub fn state(&self) -> &State {
        &self.state
    }

    /// Returns whether the last stop was graceful and had to become a forced one.
    pub fn grace_ran_out(&self) -> bool {
        self.grace_ran_out
    }

    /// Decides what must happen next. On an error nothing has changed.
    pub fn apply(&mut self, now: Timestamp, input: Input) -> Result<Vec<Effect>, Error> {
        self.apply_redacting(now, input, &KeepAll).map(|decided| decided.effects)
    }

    /// The same, with secrets redacted from what is recorded and kept.
    pub fn apply_redacting(
        &mut self,
        now: Timestamp,
        input: Input,
        redact: &dyn Redact,
    ) -> Result<Decided, Error> {
        let mut step = Transition { machine: self, now, redact, decided: Decided::default() };
        match input {
            Input::Command(command) => step.command(command)?,
            Input::Agent(event) if fit::may_not_fit(&event) => {
                fit::fit(event).into_iter().for_each(|event| step.agent(event));
            }
            Input::Agent(event) => step.agent(event),
            Input::Asked { native, ask, findings } if !RequestOrigin::parse(&native).is_agent() => {
                step.ask_bridged(native, ask, Some(&findings))?;
            }
            Input::Asked { native, ask, findings } => step.asked_and_judged(native, ask, &findings),
            Input::Checked { native, ask, findings } => step.checked(native, ask, &findings),
            Input::Launched { pid } => step.launched(pid),
            Input::LaunchFailed(error) => step.launch_failed(error),
            Input::AgentExited(exit) => step.agent_exited(&exit),
            Input::OutOfMemory(killed) => step.out_of_memory(killed),
            Input::Timer(timer) => step.timer(timer),
            Input::SharedBudgetChanged { raised_by } => step.shared_budget_changed(raised_by),
            Input::Reattached => step.reattached(),
            Input::Revived => step.revived(),
            Input::Forked(fork) => step.forked(fork),
        }
        Ok(step.decided)
    }
}

/// One application of the rules: the machine, the time, and the effects decided so far.
struct Transition<'a> {
    machine: &'a mut Machine,
    now: Timestamp,
    redact: &'a dyn Redact,
    decided: Decided,
}

impl Transition<'_> {
    fn state(&self) -> &State {
        &self.machine.state
    }

    /// Redacts an event, applies it to the state and adds it to the effects.
    fn record(&mut self, mut kind: EventKind) {
        let mut original = None;
        if !redact::is_streamed(&kind) {
            let mut clean = kind.clone();
            if redact::redact_event(&mut clean, self.redact) {
                original = Some(std::mem::replace(&mut kind, clean));
            }
        }
        let machine = &mut *self.machine;
        machine.answer.take(&kind);
        // Pieces that were clean one by one may be a secret together.
        if machine.answer.complete(&mut kind) {
            redact::redact_event(&mut kind, self.redact);
        }
        machine.originals.note(&machine.state, &kind, original.as_ref());
        machine.state.evolve(self.now, &kind);
        if let Some(original) = original {
            self.decided.originals.push((self.decided.effects.len(), original));
        }
        self.decided.effects.push(Effect::Record(kind));
    }

    fn tell(&mut self, input: AgentInput) {
        self.decided.effects.push(Effect::Tell(input));
    }

    fn arm(&mut self, timer: Timer, wait: Duration) {
        self.decided.effects.push(Effect::Arm(timer, wait));
    }

    fn disarm(&mut self, timer: Timer) {
        self.decided.effects.push(Effect::Disarm(timer));
    }

    fn change_status(&mut self, to: Status, message: impl Into<String>) {
        self.change_status_because(to, message, None);
    }

    fn change_status_because(&mut self, to: Status, message: impl Into<String>, code: Option<ErrorCode>) {
        let from = self.state().status;
        if from != to {
            if from == Status::Running && self.state().rate_limit.is_some() {
                self.disarm(Timer::RateLimit);
            }
            self.record(EventKind::StatusChanged { from, to, message: message.into(), code });
            self.watch_idleness(from, to);
        }
    }

    /// Arms the idle timer when the session becomes RUNNING, and disarms it when it leaves that status.
    fn watch_idleness(&mut self, from: Status, to: Status) {
        let Some(wait) = self.machine.spec.timeouts.idle_wait else { return };
        if to == Status::Running {
            self.arm(Timer::Idle, wait);
        } else if from == Status::Running {
            self.disarm(Timer::Idle);
        }
    }

    /// Dispatches a command to its rule.
    fn command(&mut self, command: Command) -> Result<(), Error> {
        match command {
            Command::Start => self.start(),
            Command::Prompt { text, attachments, when_busy, by } => {
                self.prompt(text, attachments, when_busy, by)
            }
            Command::CancelTurn => {
                self.check_turn_is_ours()?;
                if !self.forget_rate_limit() {
                    self.cancel_turn();
                }
                Ok(())
            }
            Command::Queue(command) => self.queue_command(command),
            Command::SetBudget { change, by } => self.set_budget(change, by),
            Command::Archive { archived, by } => {
                if self.state().archived != archived {
                    self.record(EventKind::ArchiveChanged { archived, by });
                }
                Ok(())
            }
            Command::Decide { request, decision, message, updated_input, grant, by } => {
                self.decide(request, Answer { decision, message, updated_input, by }, grant.as_ref())
            }
            Command::Answer { request, answers, by } => self.answer(request, answers, by),
            Command::AskPermission { native, ask } => self.ask_bridged(native, ask, None),
            Command::CallTool { native, call, tool, input } => self.call_tool(native, call, tool, input),
            Command::ReturnTool { request, ok, output, by } => self.return_tool(request, ok, output, by),
            Command::RegisterTools { source, tools } => self.register_tools(source, tools),
            Command::SetMode { mode } => self.set_mode(mode),
            Command::SetModel { model } => self.set_model(model),
            Command::Rename { name } => {
                self.record(EventKind::Renamed { name });
                Ok(())
            }
            Command::Compact => self.compact(),
            Command::SetGrant { grant, by } => self.set_grant(*grant, by),
            Command::RevokeAutoApprove { by } => {
                self.revoke_auto_approve(by);
                Ok(())
            }
            Command::ClearGrants { tool, by } => {
                self.clear_grants(&tool, by);
                Ok(())
            }
            Command::HoldInput { holder } => {
                self.hold_input(holder);
                Ok(())
            }
            Command::Stop { how } => self.stop(how),
            Command::Restart { provider_config } => self.restart(provider_config),
            Command::Configure { provider_config } => self.configure(provider_config),
            Command::Observe { events } => self.observe(events),
            Command::Report(kind) => self.report(vec![kind]),
            Command::ReportWorkers { events } => self.report(events),
        }
    }

    /// Records reports from outside. Only events that cannot change the session's status are accepted.
    fn report(&mut self, events: Vec<EventKind>) -> Result<(), Error> {
        let speaks_only = |kind: &EventKind| {
            matches!(
                kind,
                EventKind::ActivityReported { .. }
                    | EventKind::Notice { .. }
                    | EventKind::SessionCreated { .. }
                    | EventKind::WorkerStarted { .. }
                    | EventKind::WorkerProgressed { .. }
                    | EventKind::WorkerFinished { .. }
            )
        };
        if let Some(kind) = events.iter().find(|kind| !speaks_only(kind)) {
            return Err(Error::invalid("report", format_args!("{} cannot be reported", kind.name())));
        }
        events.into_iter().for_each(|kind| self.record(kind));
        self.check_budget();
        Ok(())
    }

    /// Returns whether there is an agent that accepts input.
    fn has_live_agent(&self) -> bool {
        matches!(self.state().status, Status::Running | Status::Working)
    }

    fn wrong_state(&self, wanted: &str) -> Error {
        Error::new(
            ErrorCode::WrongState,
            format!("session {} is {}, {wanted}", self.machine.spec.id, self.state().status.name()),
        )
    }
}

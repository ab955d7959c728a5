//! Starting, ending and recovering: the life of the agent behind a session.

use std::collections::BTreeMap;

use super::{AfterStop, Effect, StopStep, Stopping, Timer, Transition};
use crate::agent::{AgentInput, Exit};
use crate::command::StopMode;
use crate::error::{Error, ErrorCode};
use crate::event::{EventKind, Level};
use crate::limits;
use crate::session::Status;
use crate::turn::{COMPACT, EndReason, PendingPrompt};

impl Transition<'_> {
    pub(super) fn start(&mut self) -> Result<(), Error> {
        if self.state().status != Status::Created {
            return Err(self.wrong_state("only a created session can be started"));
        }
        self.launch("starting the agent");
        Ok(())
    }

    /// Starts a run of the agent, the first or a later one.
    pub(super) fn launch(&mut self, message: &str) {
        let resume = !self.state().native_session.is_empty();
        self.machine.grace_ran_out = false;
        self.change_status(Status::Starting, message);
        self.decided.effects.push(Effect::Launch { resume });
        self.arm(Timer::Start, limits::START_WAIT);
        if let Some(timeout) = self.machine.spec.timeout {
            self.arm(Timer::Deadline, timeout);
        }
    }

    pub(super) fn launched(&mut self, pid: u32) {
        if self.state().status.has_agent() {
            self.record(EventKind::AgentStarted { pid });
            // An agent inside the daemon that was started again is ready at once.
            self.send_queued();
        } else {
            // The session no longer expects it, and no agent may run without an owner.
            self.decided.effects.push(Effect::Terminate(StopStep::Kill));
        }
    }

    /// Fails a session whose agent could not be started, or finishes its stop.
    pub(super) fn launch_failed(&mut self, error: Error) {
        match self.state().status {
            Status::Starting | Status::Running | Status::Working => {
                self.disarm_all();
                self.fail(error);
            }
            // The agent to be stopped never started.
            Status::Stopping => {
                self.disarm_all();
                self.finish_stop();
            }
            Status::Created | Status::Stopped | Status::Failed => {}
        }
    }

    /// Marks the agent as ready and sends it what was pending: mode, tools and prompt.
    pub(super) fn agent_ready(&mut self, ready: EventKind) {
        self.disarm(Timer::Start);
        // In its original form, if the state has it redacted.
        let waiting = self.state().turn.as_ref().and_then(|turn| turn.pending_prompt.clone());
        let prompt = waiting.map(|prompt| self.machine.originals.pending_prompt.clone().unwrap_or(prompt));
        let prompt = prompt.map(|prompt| PendingPrompt { text: self.told_first(prompt.text), ..prompt });
        let pending = self.state().pending_settings;
        self.record(ready);
        if self.state().status != Status::Starting {
            return;
        }
        if pending.mode {
            self.tell(AgentInput::SetMode(self.state().mode));
        }
        if pending.tools {
            self.tell_tools();
        }
        match prompt {
            Some(prompt) if prompt.text == COMPACT => {
                self.change_status(Status::Working, "compacting");
                self.tell(AgentInput::Compact);
            }
            Some(prompt) => {
                self.change_status(Status::Working, "the agent is ready and has a prompt");
                self.tell(AgentInput::Prompt { text: prompt.text, attachments: prompt.attachments });
            }
            None => {
                self.change_status(Status::Running, "the agent is ready");
                self.ask_to_raise();
                // An agent that was started again by another daemon may have waited for a new day, or still waits for its model.
                if self.state().stopped_by_budget {
                    self.shared_budget_changed(None);
                }
                self.watch_rate_limit();
                self.send_queued();
            }
        }
    }

    /// Returns a prompt as an agent that has just started is told it.
    fn told_first(&self, prompt: String) -> String {
        if prompt == COMPACT { prompt } else { self.with_fork_history(prompt) }
    }

    /// Starts a stop, or makes a stop in progress more urgent.
    pub(super) fn stop(&mut self, how: StopMode) -> Result<(), Error> {
        match self.state().status {
            Status::Stopped | Status::Failed => {
                return Err(Error::new(
                    ErrorCode::AlreadyStopped,
                    format!("session {} is {} already", self.machine.spec.id, self.state().status.name()),
                ));
            }
            Status::Created => {
                self.change_status(Status::Stopped, "stopped before it started");
                return Ok(());
            }
            Status::Stopping => {
                if let Some(stopping) = &mut self.machine.stopping
                    && stopping.then == AfterStop::Restart
                {
                    stopping.then = AfterStop::Stopped;
                }
                // A second, immediate stop overrides a graceful one.
                if how == StopMode::Now && self.asked_to_leave() == Some(false) {
                    self.disarm(Timer::Grace);
                    self.ask_to_leave();
                }
                return Ok(());
            }
            Status::Starting | Status::Running | Status::Working => {}
        }
        self.begin_stop(how, AfterStop::Stopped, "stop requested");
        Ok(())
    }

    /// Enters STOPPING. A graceful stop first waits for the running turn.
    fn begin_stop(&mut self, how: StopMode, then: AfterStop, message: &str) {
        // A prompt the agent never received is no work to wait for, nor is work that nothing here can end.
        let at_work = self.state().turn.as_ref().is_some_and(|turn| turn.pending_prompt.is_none())
            && !self.is_external();
        let waits_for_turn = how == StopMode::Graceful && at_work && !self.waits_for_an_answer();
        self.machine.stopping = Some(Stopping { then, asked: false });
        self.disarm(Timer::Start);
        self.disarm(Timer::Deadline);
        self.change_status(Status::Stopping, message);
        if waits_for_turn {
            self.arm(Timer::Grace, limits::GRACE_WAIT);
        } else {
            self.ask_to_leave();
        }
    }

    /// Returns whether the open turn waits for an answer that whoever stops the session is not going to give. A turn that is
    /// being ended waits for none.
    pub(super) fn waits_for_an_answer(&self) -> bool {
        let is_ending = self.state().turn.as_ref().is_some_and(|turn| turn.interrupted.is_some());
        !is_ending && !self.state().requests.is_empty()
    }

    /// The first step of ending the agent; timers bring the more forceful ones.
    pub(super) fn ask_to_leave(&mut self) {
        if let Some(stopping) = &mut self.machine.stopping {
            stopping.asked = true;
        }
        self.decided.effects.push(Effect::Terminate(StopStep::Ask));
        self.arm(Timer::Ask, limits::ASK_WAIT);
    }

    /// Returns whether the agent was already asked to leave; `None` if no stop is in progress.
    pub(super) fn asked_to_leave(&self) -> Option<bool> {
        self.machine.stopping.as_ref().map(|stopping| stopping.asked)
    }

    /// Restarts the session: at once if it has no agent, otherwise after a stop.
    pub(super) fn restart(&mut self, provider_config: BTreeMap<String, String>) -> Result<(), Error> {
        let status = self.state().status;
        if status == Status::Stopping {
            return Err(self.wrong_state("wait until it has stopped, then restart it"));
        }
        self.machine.spec.provider_config.extend(provider_config);
        match status {
            Status::Starting | Status::Running | Status::Working => {
                self.begin_stop(StopMode::Now, AfterStop::Restart, "restart requested");
            }
            Status::Created | Status::Stopped | Status::Failed | Status::Stopping => self.launch_again(),
        }
        Ok(())
    }

    /// Changes the settings for the next start of the agent.
    pub(super) fn configure(&mut self, provider_config: BTreeMap<String, String>) -> Result<(), Error> {
        if self.state().status.has_agent() {
            return Err(self.wrong_state("its agent must be stopped before it is started differently"));
        }
        let changed: Vec<&str> = provider_config.keys().map(String::as_str).collect();
        let message = format!("the agent's settings were changed: {}", changed.join(", "));
        self.machine.spec.provider_config.extend(provider_config);
        self.record(EventKind::Notice { level: Level::Info, code: None, message });
        Ok(())
    }

    fn launch_again(&mut self) {
        let count = self.state().restart_count.saturating_add(1);
        self.record(EventKind::Restarted { count });
        self.launch("restarting the agent");
    }

    /// Handles the end of the agent: expected during a stop, clean when idle, otherwise a failure.
    pub(super) fn agent_exited(&mut self, exit: &Exit) {
        let status = self.state().status;
        if !status.has_agent() {
            return;
        }
        self.disarm_all();
        self.record(EventKind::AgentExited {
            exit_code: exit.code,
            signal: exit.signal,
            message: exit.message.clone(),
            resources: exit.resources.clone().map(Box::new),
        });
        let unprotected =
            exit.unprotected.clone().map(|what| Error::new(ErrorCode::ProtectedFileChanged, what));
        match status {
            Status::Stopping => {
                if let Some(Error { code, message, .. }) = unprotected {
                    self.record(EventKind::Notice { level: Level::Error, code: Some(code), message });
                }
                self.finish_stop();
            }
            _ if let Some(error) = unprotected => self.fail(error),
            Status::Running if exit.is_clean() => {
                self.close_background();
                self.change_status(Status::Stopped, "the agent left by itself");
            }
            _ if let Some(killed) = exit.out_of_memory => {
                let what = format!("{killed}: the kernel killed the agent");
                self.fail(Error::new(ErrorCode::OutOfMemory, self.exit_text_without_exit(&what)));
            }
            Status::Starting => {
                let error =
                    Error::new(ErrorCode::CreateFailed, self.exit_text("the agent ended at start", exit));
                self.fail(error);
            }
            Status::Created | Status::Running | Status::Working | Status::Stopped | Status::Failed => {
                let error =
                    Error::new(ErrorCode::ProviderCrashed, self.exit_text("the agent's process ended", exit));
                self.fail(error);
            }
        }
    }

    /// Does what the stop was for, now that the agent is gone.
    fn finish_stop(&mut self) {
        match self.machine.stopping.take().map(|stopping| stopping.then) {
            Some(AfterStop::Failed(error)) => self.fail(error),
            Some(AfterStop::Restart) => {
                self.close_all(EndReason::Interrupted, "the session was restarted");
                self.change_status(Status::Stopped, "stopped to be restarted");
                self.launch_again();
            }
            Some(AfterStop::Stopped) | None => {
                self.close_all(EndReason::Interrupted, "the session was stopped");
                self.change_status(Status::Stopped, "stopped");
            }
        }
    }

    fn disarm_all(&mut self) {
        for timer in [Timer::Start, Timer::Deadline, Timer::Grace, Timer::Ask, Timer::Term, Timer::Interrupt]
        {
            self.disarm(timer);
        }
    }

    fn exit_text(&self, what: &str, exit: &Exit) -> String {
        let mut text = format!("{what}: {}", exit.describe());
        if !exit.message.is_empty() {
            text.push_str("; ");
            text.push_str(&exit.message);
        }
        let tail: Vec<&str> = self.state().stderr_tail.iter().map(String::as_str).collect();
        if !tail.is_empty() {
            text.push_str("; last lines: ");
            text.push_str(&tail.join(" | "));
        }
        text
    }

    /// Ends the session with an error: first everything open, then the session.
    pub(super) fn fail(&mut self, error: Error) {
        self.close_all(EndReason::Interrupted, &error.to_string());
        self.record(EventKind::Notice {
            level: Level::Error,
            code: Some(error.code),
            message: error.message.clone(),
        });
        self.change_status_because(Status::Failed, error.to_string(), Some(error.code));
    }

    /// Handles an expired timer.
    pub(super) fn timer(&mut self, timer: Timer) {
        match timer {
            Timer::Start => self.start_ran_out(),
            Timer::Deadline => self.deadline_reached(),
            Timer::Grace => self.grace_ran_out(),
            Timer::Ask => {
                if self.asked_to_leave() == Some(true) {
                    self.decided.effects.push(Effect::Terminate(StopStep::Term));
                    self.arm(Timer::Term, limits::TERM_WAIT);
                }
            }
            Timer::Term => {
                if self.asked_to_leave() == Some(true) {
                    self.decided.effects.push(Effect::Terminate(StopStep::Kill));
                }
            }
            Timer::Interrupt => self.interrupt_ran_out(),
            Timer::Answer => self.answer_ran_out(),
            Timer::Tool => self.tools_ran_out(),
            Timer::Budget => self.work_time_ran_out(),
            Timer::RateLimit => self.look_at_rate_limit(),
            // It waits for something.
            Timer::Idle if self.state().rate_limit.is_some() => {
                self.watch_idleness(Status::Created, self.state().status);
            }
            Timer::Idle => {
                if self.state().status == Status::Running {
                    self.end_if_idle();
                }
            }
        }
    }

    /// Ends an agent that has nothing to do, unless a worker is busy or a request waits.
    fn end_if_idle(&mut self) {
        if self.state().is_busy_between_turns() {
            self.watch_idleness(Status::Created, Status::Running);
        } else {
            self.begin_stop(StopMode::Now, AfterStop::Stopped, "the agent has nothing to do");
        }
    }

    fn start_ran_out(&mut self) {
        if self.state().status == Status::Starting {
            let seconds = limits::START_WAIT.as_secs();
            let error = Error::new(
                ErrorCode::CreateFailed,
                self.exit_text_without_exit(&format!("the agent was not ready within {seconds} s")),
            );
            self.end_by_force(error);
        }
    }

    fn exit_text_without_exit(&self, what: &str) -> String {
        let tail: Vec<&str> = self.state().stderr_tail.iter().map(String::as_str).collect();
        if tail.is_empty() { what.to_owned() } else { format!("{what}; last lines: {}", tail.join(" | ")) }
    }

    fn deadline_reached(&mut self) {
        if !matches!(self.state().status, Status::Starting | Status::Running | Status::Working) {
            return;
        }
        let seconds = self.machine.spec.timeout.unwrap_or_default().as_secs_f64();
        let error = Error::new(
            ErrorCode::SessionTimeout,
            format!("the session's timeout of {seconds} s was reached"),
        );
        self.begin_stop(StopMode::Now, AfterStop::Failed(error), "session timeout reached");
    }

    /// Ends the graceful part of a stop.
    fn grace_ran_out(&mut self) {
        // The turn may have ended just before the timer was handled.
        if self.asked_to_leave() != Some(false) {
            return;
        }
        self.machine.grace_ran_out = true;
        self.record(EventKind::Notice {
            level: Level::Warning,
            code: Some(ErrorCode::StopTimedOut),
            message: format!(
                "the turn did not end within {} s; the session is ended by force",
                limits::GRACE_WAIT.as_secs()
            ),
        });
        self.ask_to_leave();
    }

    fn interrupt_ran_out(&mut self) {
        if self.state().status == Status::Working
            && self.state().turn.as_ref().is_some_and(|turn| turn.interrupted.is_some())
        {
            let seconds = limits::INTERRUPT_WAIT.as_secs();
            let error = Error::new(
                ErrorCode::ProviderCrashed,
                format!("the agent did not end its turn within {seconds} s of being interrupted"),
            );
            self.end_by_force(error);
        }
    }

    /// Handles an agent that cannot continue. A stop in progress keeps its purpose and is only accelerated.
    pub(super) fn agent_broke(&mut self, code: Option<ErrorCode>, message: String) {
        match self.state().status {
            Status::Starting => {
                self.end_by_force(Error::new(code.unwrap_or(ErrorCode::CreateFailed), message));
            }
            Status::Stopping => {
                if let Some(stopping) = &mut self.machine.stopping {
                    stopping.asked = true;
                }
                self.record(EventKind::Notice { level: Level::Warning, code, message });
                self.decided.effects.push(Effect::Terminate(StopStep::Kill));
            }
            Status::Running | Status::Working => {
                self.end_by_force(Error::new(code.unwrap_or(ErrorCode::ProviderCrashed), message));
            }
            Status::Created | Status::Stopped | Status::Failed => {}
        }
    }

    /// Kills the agent; its exit then fails the session with `error`.
    fn end_by_force(&mut self, error: Error) {
        self.machine.stopping = Some(Stopping { then: AfterStop::Failed(error), asked: true });
        self.change_status(Status::Stopping, "ending the agent by force");
        self.decided.effects.push(Effect::Terminate(StopStep::Kill));
    }

    /// Resumes timers after the daemon restarted; a stop in progress is finished by force.
    pub(super) fn reattached(&mut self) {
        match self.state().status {
            Status::Starting => self.arm(Timer::Start, limits::START_WAIT),
            // Whatever step the stop had reached, its timeout is over.
            Status::Stopping => self.decided.effects.push(Effect::Terminate(StopStep::Kill)),
            Status::Working => {
                if self.state().turn.as_ref().is_some_and(|turn| turn.interrupted.is_some()) {
                    self.arm(Timer::Interrupt, limits::INTERRUPT_WAIT);
                }
            }
            Status::Created | Status::Running | Status::Stopped | Status::Failed => {}
        }
        self.come_back();
        // The former daemon may have ended before it could send the next prompt.
        if self.state().status == Status::Running {
            self.send_queued();
        }
    }

    /// Clients of the earlier daemon are disconnected; timers resume where they were.
    fn come_back(&mut self) {
        self.hold_input(None);
        self.fail_tools("the client that runs it is gone with the former daemon");
        self.watch_requests();
        self.watch_idleness(Status::Created, self.state().status);
        self.watch_work_time();
        self.watch_rate_limit();
        self.rearm_deadline();
    }

    /// Timeouts count from the original start, however often the daemon restarted.
    fn rearm_deadline(&mut self) {
        if let (Some(timeout), Some(started)) = (self.machine.spec.timeout, self.state().started_at)
            && matches!(self.state().status, Status::Starting | Status::Running | Status::Working)
        {
            self.arm(Timer::Deadline, timeout.saturating_sub(self.now.since(started)));
        }
    }

    /// Closes the open turn after the daemon, in which the agent ran, restarted.
    pub(super) fn revived(&mut self) {
        match self.state().status {
            Status::Stopping => {
                self.close_all(EndReason::Interrupted, "the session was stopped");
                self.change_status(Status::Stopped, "the daemon ended during the stop");
            }
            // Its agent was never the daemon's and works on.
            Status::Running | Status::Working if self.is_external() => {}
            Status::Starting | Status::Running | Status::Working => {
                self.close_all(EndReason::Interrupted, "the daemon ended while the turn was running");
                self.change_status(Status::Running, "taken up again after the daemon's restart");
                self.ask_to_raise();
            }
            Status::Created | Status::Stopped | Status::Failed => {}
        }
        self.come_back();
    }
}

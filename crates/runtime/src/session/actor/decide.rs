//! Passes inputs to the rules and collects their effects in a plan. Nothing is written, published or executed
//! here. Agent output passes the scrubber first.

use super::*;

/// One step that is being decided: what it is decided on, and the plan that comes of it.
pub(super) struct StepDecision<'a> {
    pub(super) state: &'a mut ActorState,
    pub(super) plan: &'a mut StepPlan,
    pub(super) agent: &'a AgentHandle,
    pub(super) scrubbing: &'a mut Scrubbing,
    pub(super) services: &'a SessionServices,
}

impl Actor {
    /// Decides on the state itself, for what has happened and is not taken back.
    pub(super) fn decision<'a>(&'a mut self, plan: &'a mut StepPlan) -> StepDecision<'a> {
        let Self { state, agent, scrubbing, services, .. } = self;
        StepDecision { state, plan, agent, scrubbing, services }
    }
}

impl StepDecision<'_> {
    /// Handles an input that cannot be refused. The end of a streamed text may be held back by the scrubber.
    pub(super) fn decide_unrefusable(&mut self, at: Timestamp, input: Input) {
        match input {
            Input::Agent(event) => {
                for Clean { event, original } in self.scrubbing.take(event) {
                    self.decide_clean(at, Input::Agent(event), original);
                }
            }
            Input::AgentExited(_) | Input::LaunchFailed(_) | Input::Revived => {
                self.finish_texts(at);
                self.decide_clean(at, input, None);
            }
            other => self.decide_clean(at, other, None),
        }
    }

    /// Releases the held-back end of every text, because nothing more will follow.
    pub(super) fn finish_texts(&mut self, at: Timestamp) {
        let mut rest = Vec::new();
        self.scrubbing.finish_all(&mut rest);
        for Clean { event, original } in rest {
            self.decide_clean(at, Input::Agent(event), original);
        }
    }

    /// Asks the rules about something clean that cannot be refused. `original` is its text with its secrets.
    pub(super) fn decide_clean(&mut self, at: Timestamp, input: Input, original: Option<String>) {
        let input = permissions::with_evaluation(&self.services.settings, self.state.machine.spec(), input);
        let input = self.with_estimate(input);
        self.state.machine.set_shared_budget(self.services.budgets.used_up(self.state.machine.spec()));
        let decided = match self.state.machine.apply_redacting(at, input, self.scrubbing.redact()) {
            Ok(decided) => decided,
            Err(error) => {
                let session = &self.state.machine.spec().id;
                tracing::error!(%session, %error, "the rules refused what had happened");
                return;
            }
        };
        self.note_originals(&decided, original);
        let mut unbegun = None;
        for effect in decided.effects {
            let begins = matches!(&effect, Effect::Tell(AgentInput::Prompt { .. } | AgentInput::Compact));
            match self.apply_effect(at, effect) {
                Err(error) if begins => unbegun = Some(error),
                Err(error) => {
                    let session = &self.state.machine.spec().id;
                    tracing::warn!(%session, %error, "the agent cannot be told");
                }
                Ok(()) => {}
            }
        }
        if let Some(error) = unbegun {
            // The prompt was accepted long ago; its turn reports why it could not start.
            let (reason, text, error) = (EndReason::Failed, String::new(), error.to_string());
            let ended = AgentEvent::TurnEnded { reason, text, error };
            self.decide_unrefusable(at, Input::Agent(ended));
        }
    }

    /// Adds the estimated cost to a usage that the agent reports without one.
    fn with_estimate(&self, mut input: Input) -> Input {
        if let Input::Agent(AgentEvent::Usage { usage, .. }) = &mut input
            && let Some(prices) = self.services.prices.get()
        {
            prices.estimate(&self.state.machine.state().model, usage);
        }
        input
    }

    /// Notes the original form of the events about to be recorded, before redaction.
    pub(super) fn note_originals(&mut self, decided: &Decided, text: Option<String>) {
        let is_record = |effect: &&Effect| matches!(effect, Effect::Record(_));
        for (index, original) in &decided.originals {
            let before = decided.effects[..*index].iter().filter(is_record).count() as u64;
            self.plan.originals.push((self.state.seq + before + 1, original.clone()));
        }
        if let (Some(text), Some(Effect::Record(kind))) = (text, decided.effects.first()) {
            self.plan.originals.push((self.state.seq + 1, originals::with_text(kind, text)));
        }
    }

    /// Asks the rules and collects their effects.
    pub(super) fn decide(&mut self, at: Timestamp, input: Input) -> Result<(), Error> {
        let input = permissions::with_evaluation(&self.services.settings, self.state.machine.spec(), input);
        self.state.machine.set_shared_budget(self.services.budgets.used_up(self.state.machine.spec()));
        let decided = self.state.machine.apply_redacting(at, input, self.scrubbing.redact())?;
        self.note_originals(&decided, None);
        decided.effects.into_iter().try_for_each(|effect| self.apply_effect(at, effect))
    }

    /// Adds an effect of the rules to the plan.
    pub(super) fn apply_effect(&mut self, at: Timestamp, effect: Effect) -> Result<(), Error> {
        match effect {
            Effect::Record(kind) => self.record(at, kind),
            Effect::Tell(input) => self.plan_agent_input(at, input)?,
            Effect::Terminate(step) => {
                if step == StopStep::Ask {
                    // An agent without a message for leaving still sees its stdin close.
                    let _ = self.plan_agent_input(at, AgentInput::Leave);
                }
                self.plan.after.push(AfterCommit::Terminate(step));
            }
            Effect::Launch { resume } => self.begin_run(resume),
            Effect::Arm(timer, wait) => self.plan.after.push(AfterCommit::Arm(timer, wait)),
            Effect::Disarm(timer) => self.plan.after.push(AfterCommit::Disarm(timer)),
            Effect::RaiseSharedBudget { scope, by } => {
                self.plan.after.push(AfterCommit::RaiseSharedBudget { scope, by });
            }
        }
        Ok(())
    }

    pub(super) fn record(&mut self, at: Timestamp, kind: EventKind) {
        self.state.seq += 1;
        self.plan.record(&self.state.machine.spec().id, self.state.seq, at, kind);
    }

    /// Plans input for the agent. Input that cannot be encoded is an error for the caller, if there is one.
    pub(super) fn plan_agent_input(&mut self, at: Timestamp, input: AgentInput) -> Result<(), Error> {
        match self.agent {
            AgentHandle::Process(_) => {
                let mut bytes = Vec::new();
                let encoded = self.state.codec().map_or(Ok(()), |codec| codec.encode(&input, &mut bytes));
                if let Err(error) = encoded {
                    // A turn that cannot start reports that with its end.
                    if !matches!(input, AgentInput::Prompt { .. } | AgentInput::Compact) {
                        let (code, message) = (Some(error.code), error.message.clone());
                        self.record(at, EventKind::Notice { level: Level::Error, code, message });
                    }
                    return Err(error);
                }
                if !bytes.is_empty() {
                    self.send(bytes);
                }
            }
            AgentHandle::InProcess { agent, .. } => {
                agent.check(&input)?;
                self.plan.after.push(AfterCommit::Tell(Box::new(input)));
            }
            // The agent's end is on its way and will settle what this was about.
            AgentHandle::None => {}
        }
        Ok(())
    }

    pub(super) fn send(&mut self, bytes: Vec<u8>) {
        let write_id = self.state.next_write_id();
        let sent: Arc<[u8]> = bytes.as_slice().into();
        self.plan.write.outbox.push((write_id, bytes));
        self.state.unapplied.push((write_id, Arc::clone(&sent)));
        self.plan.state_changed = true;
        self.plan.after.push(AfterCommit::Send { write_id, bytes: sent });
    }

    /// Starts a new run with a new folder, spool and outbox. Pending input of the previous run is discarded.
    pub(super) fn begin_run(&mut self, resume: bool) {
        self.state.run += 1;
        self.plan.write.applied = Some(self.state.next_write_id.saturating_sub(1));
        self.plan.write.spool = Some(SpoolMark::default());
        self.plan.state_changed = true;
        self.plan.after.push(AfterCommit::Launch { resume });
    }
}

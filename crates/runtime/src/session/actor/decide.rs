//! Passes inputs to the rules and collects their effects in a plan. Nothing is written, published or executed
//! here. Agent output passes the scrubber first.

use super::*;

impl Actor {
    /// Handles an input that cannot be refused. The end of a streamed text may be held back by the scrubber.
    pub(super) fn decide_unrefusable(&mut self, at: Timestamp, input: Input, plan: &mut StepPlan) {
        match input {
            Input::Agent(event) => {
                for Clean { event, original } in self.scrubbing.take(event) {
                    self.decide_clean(at, Input::Agent(event), original, plan);
                }
            }
            Input::AgentExited(_) | Input::LaunchFailed(_) | Input::Revived => {
                self.finish_texts(at, plan);
                self.decide_clean(at, input, None, plan);
            }
            other => self.decide_clean(at, other, None, plan),
        }
    }

    /// Releases the held-back end of every text, because nothing more will follow.
    pub(super) fn finish_texts(&mut self, at: Timestamp, plan: &mut StepPlan) {
        let mut rest = Vec::new();
        self.scrubbing.finish_all(&mut rest);
        for Clean { event, original } in rest {
            self.decide_clean(at, Input::Agent(event), original, plan);
        }
    }

    /// Asks the rules about something clean that cannot be refused. `original` is its text with its secrets.
    pub(super) fn decide_clean(
        &mut self,
        at: Timestamp,
        input: Input,
        original: Option<String>,
        plan: &mut StepPlan,
    ) {
        let id = self.machine.spec().id.clone();
        let input = permissions::with_evaluation(&self.services.settings, self.machine.spec(), input);
        let decided = match self.machine.apply_redacting(at, input, self.scrubbing.redact()) {
            Ok(decided) => decided,
            Err(error) => {
                tracing::error!(session = %id, %error, "the rules refused what had happened");
                return;
            }
        };
        self.note_originals(&decided, original, plan);
        let mut unbegun = None;
        for effect in decided.effects {
            let begins = matches!(&effect, Effect::Tell(AgentInput::Prompt { .. } | AgentInput::Compact));
            match self.apply_effect(at, effect, plan) {
                Err(error) if begins => unbegun = Some(error),
                Err(error) => tracing::warn!(session = %id, %error, "the agent cannot be told"),
                Ok(()) => {}
            }
        }
        if let Some(error) = unbegun {
            // The prompt was accepted long ago; its turn reports why it could not start.
            let (reason, text, error) = (EndReason::Failed, String::new(), error.to_string());
            let ended = AgentEvent::TurnEnded { reason, text, error };
            self.decide_unrefusable(at, Input::Agent(ended), plan);
        }
    }

    /// Notes the original form of the events about to be recorded, before redaction.
    pub(super) fn note_originals(&self, decided: &Decided, text: Option<String>, plan: &mut StepPlan) {
        let is_record = |effect: &&Effect| matches!(effect, Effect::Record(_));
        for (index, original) in &decided.originals {
            let before = decided.effects[..*index].iter().filter(is_record).count() as u64;
            plan.originals.push((self.seq + before + 1, original.clone()));
        }
        if let (Some(text), Some(Effect::Record(kind))) = (text, decided.effects.first()) {
            plan.originals.push((self.seq + 1, originals::with_text(kind, text)));
        }
    }

    /// Asks the rules and collects their effects.
    pub(super) fn decide(&mut self, at: Timestamp, input: Input, plan: &mut StepPlan) -> Result<(), Error> {
        let input = permissions::with_evaluation(&self.services.settings, self.machine.spec(), input);
        let decided = self.machine.apply_redacting(at, input, self.scrubbing.redact())?;
        self.note_originals(&decided, None, plan);
        decided.effects.into_iter().try_for_each(|effect| self.apply_effect(at, effect, plan))
    }

    /// Adds an effect of the rules to the plan.
    pub(super) fn apply_effect(
        &mut self,
        at: Timestamp,
        effect: Effect,
        plan: &mut StepPlan,
    ) -> Result<(), Error> {
        match effect {
            Effect::Record(kind) => self.record(at, kind, plan),
            Effect::Tell(input) => self.plan_agent_input(at, input, plan)?,
            Effect::Terminate(step) => {
                if step == StopStep::Ask {
                    // An agent without a message for leaving still sees its stdin close.
                    let _ = self.plan_agent_input(at, AgentInput::Leave, plan);
                }
                plan.after.push(AfterCommit::Terminate(step));
            }
            Effect::Launch { resume } => self.begin_run(resume, plan),
            Effect::Arm(timer, wait) => plan.after.push(AfterCommit::Arm(timer, wait)),
            Effect::Disarm(timer) => plan.after.push(AfterCommit::Disarm(timer)),
        }
        Ok(())
    }

    pub(super) fn record(&mut self, at: Timestamp, kind: EventKind, plan: &mut StepPlan) {
        self.seq += 1;
        plan.record(&self.machine.spec().id, self.seq, at, kind);
    }

    /// Plans input for the agent. Input that cannot be encoded is an error for the caller, if there is one.
    pub(super) fn plan_agent_input(
        &mut self,
        at: Timestamp,
        input: AgentInput,
        plan: &mut StepPlan,
    ) -> Result<(), Error> {
        match &mut self.agent {
            AgentHandle::Process(process) => {
                let mut bytes = Vec::new();
                if let Err(error) = process.codec.encode(&input, &mut bytes) {
                    // A turn that cannot start reports that with its end.
                    if !matches!(input, AgentInput::Prompt { .. } | AgentInput::Compact) {
                        let (code, message) = (Some(error.code), error.message.clone());
                        self.record(at, EventKind::Notice { level: Level::Error, code, message }, plan);
                    }
                    return Err(error);
                }
                if !bytes.is_empty() {
                    self.send(bytes, plan);
                }
            }
            AgentHandle::InProcess { agent, .. } => {
                agent.check(&input)?;
                plan.after.push(AfterCommit::Tell(Box::new(input)));
            }
            // The agent's end is on its way and will settle what this was about.
            AgentHandle::None => {}
        }
        Ok(())
    }

    pub(super) fn send(&mut self, bytes: Vec<u8>, plan: &mut StepPlan) {
        let write_id = self.next_write_id();
        plan.write.outbox.push((write_id, bytes.clone()));
        self.unapplied.push((write_id, bytes.clone()));
        plan.state_changed = true;
        plan.after.push(AfterCommit::Send { write_id, bytes });
    }
}

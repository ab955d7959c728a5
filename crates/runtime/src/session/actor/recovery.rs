//! Starts a session's agent, or recovers one that an earlier daemon left: greets it, catches up with its
//! output, or gives it up. Locating its process and its spool is `launch`'s job.

use domain::ErrorCode;
use domain::answer::{AnswerText, is_answered};

use super::super::carry;
use super::super::scrubbing::SavedText;
use super::*;
use crate::journal::Cursor;

impl Actor {
    /// Launches the agent of a committed run and greets it.
    pub(super) async fn launch_run(&mut self, resume: bool) {
        failpoint!("launch.committed");
        let outcome = self.launch(resume).await;
        failpoint!("launch.attached");
        self.greet(outcome).await;
    }

    /// Records the result of the launch and sends a process its greeting.
    pub(super) async fn greet(&mut self, outcome: Input) {
        let mut plan = StepPlan::default();
        self.decision(&mut plan).decide_unrefusable(clock::now(), outcome);
        let mut greeting = Vec::new();
        if let Some(codec) = self.state.codec() {
            codec.open(&mut greeting);
        }
        if !greeting.is_empty() {
            self.decision(&mut plan).send(greeting);
        }
        self.commit_at_last(&mut plan).await;
        failpoint!("greeting.committed");
        self.publish(&mut plan);
        self.run_after_commit(plan.after).await;
    }

    /// Recovers a session that an earlier daemon ran.
    pub(super) async fn recover(&mut self, mark: &SpoolMark) {
        if !self.state.machine.state().status.has_agent() {
            return;
        }
        let codec = self.state.saved.codec.clone();
        match self.reattach(mark, &codec).await {
            Reattached::Held => {
                failpoint!("recover.attached");
                self.resend_outbox().await;
                failpoint!("recover.resent");
                self.take_reattached().await;
            }
            Reattached::Ungreeted { pid } => {
                self.greet(Input::Launched { pid }).await;
                self.take_reattached().await;
            }
            Reattached::NeverStarted => {
                // In a new folder: a shim of the earlier daemon may still be about to use the old one.
                let mut plan = StepPlan::default();
                let resume = !self.state.machine.state().native_session.is_empty();
                self.decision(&mut plan).begin_run(resume);
                self.commit_at_last(&mut plan).await;
                self.publish(&mut plan);
                self.run_after_commit(plan.after).await;
                self.take_reattached().await;
            }
            Reattached::Revive => self.revive().await,
            Reattached::Lost(message) => self.take(Reattached::exit(&message)).await,
        }
    }

    /// Resumes timers where they were. The wall clock may have jumped while no daemon ran, so the elapsed
    /// time is taken from the agent's age.
    pub(super) async fn take_reattached(&mut self) {
        let age = match &self.agent {
            AgentHandle::Process(process) => process.link.agent_age(),
            AgentHandle::None | AgentHandle::InProcess { .. } => None,
        };
        self.inherited_turn = self.state.open_turn();
        let started = self.state.machine.state().started_at;
        let now = started.zip(age).map_or_else(clock::now, |(started, age)| started.after(age));
        self.take_at(now, Input::Reattached).await;
    }

    /// Takes what a turn has answered from the journal before it ends, if it began under an earlier daemon.
    pub(super) async fn recall(&mut self, input: &Input, plan: &StepPlan) {
        if !matches!(input, Input::Agent(AgentEvent::TurnEnded { reason, .. }) if is_answered(*reason))
            || self.inherited_turn.is_none()
            || self.inherited_turn != self.state.open_turn()
        {
            return;
        }
        let last = self.stream.last_seq();
        let mut count = limits::RECALLED_EVENTS_MIN;
        let mut answer = loop {
            let from = last.saturating_sub(count);
            match answer_after(self.stream.read_after(from)).await {
                Some(answer) => break answer,
                None if from == 0 => break AnswerText::default(),
                None => count = count.saturating_mul(8),
            }
        };
        plan.events.iter().for_each(|event| answer.take(&event.kind));
        self.state.machine.set_answer(answer);
    }

    /// Relaunches an agent that ran inside the earlier daemon.
    pub(super) async fn revive(&mut self) {
        self.take(Input::Revived).await;
        if self.state.machine.state().status.has_agent() {
            let outcome = self.launch(true).await;
            self.take(outcome).await;
        }
    }

    /// Sends pending input again; the shim knows which of it was delivered.
    pub(super) async fn resend_outbox(&mut self) {
        let key = self.key;
        let outbox = self.services.store.read(move |connection| sessions::outbox(connection, key)).await;
        match (outbox, &mut self.agent) {
            (Ok(writes), AgentHandle::Process(process)) => {
                for (write_id, sealed) in writes {
                    match self.state.seal.open(&sealed) {
                        Ok(bytes) => {
                            deliver(process, write_id, &bytes);
                            self.state.unapplied.push((write_id, bytes.into()));
                        }
                        Err(error) => tracing::error!(%error, write_id, "cannot read input that waits"),
                    }
                }
            }
            (Err(error), _) => tracing::error!(%error, "cannot read the outbox"),
            (Ok(_), _) => {}
        }
    }
}

/// Unseals what an earlier daemon stored. What cannot be unsealed belonged to an agent that has ended.
pub(super) fn unsealed(seal: &mut Seal, codec: &str, mut mark: SpoolMark) -> (Private, SpoolMark) {
    let opened = seal.open_text(codec).map(|text| {
        // An earlier version stored only the codec state, unsealed.
        if text == codec {
            Private { codec: text, ..Private::default() }
        } else {
            serde_json::from_str(&text).unwrap_or_default()
        }
    });
    let saved = opened.unwrap_or_else(|error| {
        tracing::debug!(%error, "what was stored sealed cannot be opened");
        Private::default()
    });
    mark.carry = seal.open(&mark.carry).unwrap_or_default();
    (saved, mark)
}

/// Returns the texts that go on: they are beside the mark, or where an earlier version stored them.
pub(super) fn texts_of(saved: &Private, mark: &SpoolMark) -> Vec<SavedText> {
    let texts = carry::texts(&mark.carry);
    if texts.is_empty() { saved.texts.clone() } else { texts }
}

/// Reads the answer of the last turn from the events that a reader has before it; none if the turn began before them.
async fn answer_after(mut cursor: Cursor) -> Option<AnswerText> {
    let mut answer = AnswerText::default();
    let mut has_begun = false;
    let seq = cursor.seq();
    loop {
        match cursor.available().await {
            Ok(events) if events.is_empty() => break,
            Ok(events) => events.iter().for_each(|event| {
                has_begun |= matches!(event.kind, EventKind::TurnStarted { .. });
                answer.take(&event.kind);
            }),
            Err(error) if error.code == ErrorCode::EventsExpired && cursor.skip_removed().await.is_ok() => {
                has_begun = true;
            }
            Err(error) => {
                tracing::error!(%error, "cannot read what the turn said");
                break;
            }
        }
    }
    (has_begun || seq == 0).then_some(answer)
}

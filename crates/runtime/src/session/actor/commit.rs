//! Carries out what a session's rules decided: commits it first, then publishes it to readers, then executes
//! it. Knows nothing of what was decided or why.

use super::*;

fn cannot_seal(error: &std::io::Error) -> Error {
    Error::new(domain::ErrorCode::StorageFailed, format!("the agents' folder cannot be written: {error}"))
}

impl Actor {
    /// Commits a step that was decided on a copy of the state; the copy then replaces the state. On an error nothing was
    /// written and nothing has changed.
    pub(super) async fn commit(
        &mut self,
        mut copy: Box<ActorState>,
        plan: &mut StepPlan,
    ) -> Result<(), Error> {
        copy.complete(plan, self.key, &self.share);
        let sealed = copy.complete_sealed(plan, &self.scrubbing, &self.agent);
        let write = Arc::new(std::mem::take(&mut plan.write));
        let written = match sealed {
            Ok(()) => self.services.store.write_session(Durability::Synced, Arc::clone(&write)).await,
            Err(error) => Err(cannot_seal(&error)),
        };
        if written.is_err() {
            // The copy may have made a key.
            self.state.seal.sweep_again();
            return written;
        }
        self.state = copy;
        self.note_committed(&write);
        Ok(())
    }

    /// Commits what has happened. Retries until the disk accepts it: the agent's output is safe in its spool.
    pub(super) async fn commit_at_last(&mut self, plan: &mut StepPlan) {
        self.state.complete(plan, self.key, &self.share);
        while let Err(error) = self.state.complete_sealed(plan, &self.scrubbing, &self.agent) {
            let error = cannot_seal(&error);
            tracing::error!(session = %self.state.machine.spec().id, %error, detail = "sealing", "cannot write; trying again");
            self.refuse_for(limits::STORE_RETRY_WAIT, &error).await;
        }
        let write = Arc::new(std::mem::take(&mut plan.write));
        let is_small = write.is_small();
        loop {
            let (store, attempt) = (&self.services.store, Arc::clone(&write));
            let result = if is_small {
                store.write_session_here(attempt).await
            } else {
                store.write_session(Durability::Soon, attempt).await
            };
            match result {
                Ok(()) => return self.note_committed(&write),
                Err(error) => {
                    tracing::error!(session = %self.state.machine.spec().id, %error, detail = error.detail, "cannot write; trying again");
                    self.refuse_for(limits::STORE_RETRY_WAIT, &error).await;
                }
            }
        }
    }

    /// Waits, and refuses commands meanwhile, since their effects could not be stored.
    pub(super) async fn refuse_for(&mut self, wait: Duration, error: &Error) {
        let until = tokio::time::Instant::now() + wait;
        loop {
            match tokio::time::timeout_at(until, self.mailbox.recv()).await {
                // A caller that disconnected does not need the answer.
                Ok(Some(ActorMessage::Command { reply, .. })) => drop(reply.send(Err(error.clone()))),
                Ok(Some(ActorMessage::Detach { done })) => self.leaving = Some(done),
                Ok(None) => return tokio::time::sleep_until(until).await,
                Err(_) => return,
            }
        }
    }

    /// Notes what follows from a completed write.
    fn note_committed(&mut self, write: &SessionWrite) {
        if let (AgentHandle::Process(process), Some(mark)) = (&mut self.agent, &write.spool) {
            process.note_mark(mark);
        }
        self.forget_keys();
    }

    /// Makes committed events visible.
    pub(super) fn publish(&mut self, plan: &mut StepPlan) -> Vec<Arc<domain::Event>> {
        let events = std::mem::take(&mut plan.events);
        let originals = std::mem::take(&mut plan.originals);
        self.measured.note(self.state.machine.spec(), &events, originals.len());
        if plan.state_changed || !originals.is_empty() {
            self.originals.keep(originals, &self.state.machine.originals().asks);
        }
        if plan.state_changed {
            self.share.note(&self.services.budgets, &self.state.machine, &plan.spending);
            self.snapshot.send_replace(Arc::new(snapshot_of(&self.state.machine, self.state.seq)));
        }
        self.stream.publish(events.clone());
        self.publish_overview(&events, plan.state_changed);
        if !events.is_empty() {
            self.services.history.note(self.key);
        }
        events
    }

    /// Makes what lists show of the session visible; after its events, so that nothing is shown that is not in the
    /// journal.
    fn publish_overview(&self, events: &[Arc<domain::Event>], state_changed: bool) {
        let (overview, state) = (&self.services.overview, self.state.machine.state());
        let at = events.last().map(|event| event.at);
        if state_changed {
            overview.change(SessionFacts::of(self.state.machine.spec(), state), self.state.seq, at);
        } else if let Some(at) = at {
            overview.stream(&self.state.machine.spec().id, &state.last_line.text, self.state.seq, at);
        }
    }

    /// Executes the actions of a committed step, in order.
    pub(super) async fn run_after_commit(&mut self, after: Vec<AfterCommit>) {
        for after in after {
            match after {
                AfterCommit::Send { write_id, bytes } => {
                    if let AgentHandle::Process(process) = &mut self.agent {
                        deliver(process, write_id, &bytes);
                    }
                }
                AfterCommit::Tell(input) => {
                    if let Err(error) = agent_handle::tell_in_process(&mut self.agent, *input) {
                        Box::pin(
                            self.take(Input::Agent(AgentEvent::Broken {
                                code: None,
                                message: error.message,
                            })),
                        )
                        .await;
                    }
                }
                AfterCommit::Launch { resume } => Box::pin(self.launch_run(resume)).await,
                AfterCommit::Terminate(step) => self.terminate(step),
                AfterCommit::Arm(timer, wait) => self.timers.arm(timer, wait),
                AfterCommit::Disarm(timer) => self.timers.disarm(timer),
                AfterCommit::RaiseSharedBudget { scope, by } => self.raise_shared_budget(scope, by).await,
            }
        }
    }
}

//! Carries out what a session's rules decided: commits it first, then publishes it to readers, then executes
//! it. Knows nothing of what was decided or why.

use super::*;

fn cannot_seal(error: &std::io::Error) -> Error {
    Error::new(domain::ErrorCode::StorageFailed, format!("the agents' folder cannot be written: {error}"))
}

impl Actor {
    /// Commits a step once. On an error nothing was written, and the caller must undo the step.
    pub(super) async fn commit(&mut self, plan: &mut StepPlan, durability: Durability) -> Result<(), Error> {
        self.complete(plan);
        self.complete_sealed(plan).map_err(|error| cannot_seal(&error))?;
        let write = std::mem::take(&mut plan.write);
        self.services.store.write_session(durability, Arc::new(write)).await?;
        self.forget_keys();
        Ok(())
    }

    /// Commits what has happened. Retries until the disk accepts it: the agent's output is safe in its spool.
    pub(super) async fn commit_at_last(&mut self, plan: &mut StepPlan) {
        self.complete(plan);
        while let Err(error) = self.complete_sealed(plan) {
            let error = cannot_seal(&error);
            tracing::error!(session = %self.machine.spec().id, %error, detail = "sealing", "cannot write; trying again");
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
                Ok(()) => return self.forget_keys(),
                Err(error) => {
                    tracing::error!(session = %self.machine.spec().id, %error, detail = error.detail, "cannot write; trying again");
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

    /// Adds the current position and, if it changed, the state to the write.
    pub(super) fn complete(&mut self, plan: &mut StepPlan) {
        let (spec, state) = (self.machine.spec(), self.machine.state());
        plan.write.key = self.key;
        plan.write.last_seq = self.seq;
        plan.write.last_activity_at = state.last_activity_at;
        if plan.state_changed {
            let columns = StateColumns::of(spec, state, self.run, self.next_write_id);
            plan.write.state = Some(Box::new(columns));
        }
    }

    /// Makes committed events visible.
    pub(super) fn publish(&mut self, plan: &mut StepPlan) -> Vec<Arc<domain::Event>> {
        let events = std::mem::take(&mut plan.events);
        let originals = std::mem::take(&mut plan.originals);
        if plan.state_changed || !originals.is_empty() {
            self.originals.keep(originals, &self.machine.originals().asks);
        }
        if plan.state_changed {
            self.snapshot.send_replace(Arc::new(snapshot_of(&self.machine, self.seq)));
        }
        self.stream.publish(events.clone());
        events
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
            }
        }
    }
}

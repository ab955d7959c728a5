//! Runs one orchestration: asks the rules what comes next, writes it down, and only then starts workers. A step is on record
//! with the id of its worker before that exists, so that the next daemon starts no step twice and forgets none.

use std::collections::{BTreeMap, HashSet};

use domain::orchestration::{Orchestration, OrchestrationChange, PlanStep};
use domain::worker::{WorkerAuthority, WorkerEnd, WorkerStatus};
use domain::{Error, ErrorCode, SessionId, StopMode};
use host::{clock, ids};
use storage::Durability;
use storage::orchestrations::{self as rows, OrchestrationEvent, OrchestrationRow};
use tokio::sync::{mpsc, watch};

use super::Workers;
use super::context::RunningOrchestration;
use super::spawn::{SpawnWorker, WorkerOrigin};
use crate::limits;
use crate::worktree::{MergeRequest, TreeName};

/// What happens to an orchestration from outside.
pub(super) enum OrchestrationMessage {
    /// The worker of a step has ended; its working tree is not merged yet.
    WorkerEnded {
        step: String,
        end: WorkerEnd,
    },
    /// The working tree of a step is merged, or cannot be.
    Merged {
        step: String,
        end: WorkerEnd,
    },
    Cancel {
        reason: String,
    },
}

/// An orchestration that runs.
struct OrchestrationRun {
    workers: Workers,
    row: OrchestrationRow,
    state: Orchestration,
    last_seq: u64,
    newest: watch::Sender<u64>,
    inbox: mpsc::Receiver<OrchestrationMessage>,
    sender: mpsc::Sender<OrchestrationMessage>,
    /// Steps that a task of this daemon sees through.
    driven: HashSet<String>,
    /// Steps whose workers have ended and whose trees wait to be merged, with the one that is being merged.
    unmerged: BTreeMap<String, WorkerEnd>,
    /// The step whose tree is being merged: one at a time, because they are merged into the same branch.
    merging: Option<String>,
    /// Why the orchestration is cancelled, for the steps that are being created.
    cancelled: watch::Sender<Option<String>>,
}

impl Workers {
    /// Runs an orchestration in a task of its own, from wherever its journal ends.
    pub(super) async fn run_aside(&self, row: OrchestrationRow) -> Result<(), Error> {
        let events = self.orchestration_events(&row.id, 0).await?;
        let mut state = Orchestration::default();
        events.iter().for_each(|event| state.evolve(&event.change));
        let last_seq = events.last().map_or(0, |event| event.seq);
        let (sender, inbox) = mpsc::channel(limits::ORCHESTRATION_INBOX_MAX);
        let newest = watch::Sender::new(last_seq);
        let id = row.id.clone();
        self.context()
            .add_orchestration(&id, RunningOrchestration { inbox: sender.clone(), newest: newest.clone() });
        let workers = self.clone();
        let cancelled = watch::Sender::new(state.cancelled().map(ToOwned::to_owned));
        let run = OrchestrationRun {
            workers,
            row,
            state,
            last_seq,
            newest,
            inbox,
            sender,
            driven: HashSet::new(),
            unmerged: BTreeMap::new(),
            merging: None,
            cancelled,
        };
        tokio::spawn(run.run());
        Ok(())
    }
}

impl OrchestrationRun {
    async fn run(mut self) {
        let id = self.row.id.clone();
        if let Err(error) = self.run_to_end().await {
            tracing::error!(orchestration = id, %error, "an orchestration cannot go on; the next daemon tries again");
        }
        self.workers.context().remove_orchestration(&id);
    }

    async fn run_to_end(&mut self) -> Result<(), Error> {
        while !self.state.has_ended() {
            if self.decide().await? {
                continue;
            }
            self.drive_steps();
            if self.merge_next().await? {
                continue;
            }
            let Some(message) = self.inbox.recv().await else { return Ok(()) };
            let mut ended = Vec::new();
            self.take(message, &mut ended).await?;
            // What came meanwhile is recorded and decided about together.
            while let Ok(message) = self.inbox.try_recv() {
                self.take(message, &mut ended).await?;
            }
            self.record(ended).await?;
        }
        if self.row.owns_parent {
            let _pass = self.workers.context().pass().await;
            match self.workers.supervisor.stop(&self.row.parent, StopMode::Now).await {
                Err(error) if error.code != ErrorCode::AlreadyStopped => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Records what the rules want next. Returns whether that decides about more.
    async fn decide(&mut self) -> Result<bool, Error> {
        // Whoever only waits for its merge takes no place, so that what it waits for can run.
        let at_once = self.workers.context().limits().at_once + self.unmerged.len();
        let next = self.state.next(at_once);
        let mut changes = Vec::new();
        if !next.skip.is_empty() {
            changes.push(OrchestrationChange::StepsSkipped { steps: next.skip });
        }
        for (step, attempt) in next.start {
            changes.push(OrchestrationChange::StepStarted { step, worker: ids::session(), attempt });
        }
        if next.is_over {
            changes.push(OrchestrationChange::Ended {});
        }
        let again = matches!(
            changes.first(),
            Some(OrchestrationChange::StepsSkipped { .. } | OrchestrationChange::Ended {})
        );
        self.record(changes).await?;
        Ok(again)
    }

    /// Returns the event that has the plan, without the secrets of its prompts; none if they have none.
    async fn plan_as_shown(&self) -> Result<Option<OrchestrationChange>, Error> {
        let first = self.workers.orchestration_events(&self.row.id, 0).await?.into_iter().next();
        let Some(OrchestrationChange::Created { mut plan, by }) = first.map(|event| event.change) else {
            return Ok(None);
        };
        let mut has_secrets = false;
        for step in &mut plan.steps {
            let shown = self.workers.supervisor.without_secrets(&step.prompt);
            has_secrets |= shown != step.prompt;
            step.prompt = shown;
        }
        Ok(has_secrets.then_some(OrchestrationChange::Created { plan, by }))
    }

    /// Appends to the journal, durably, and shows it to watchers.
    async fn record(&mut self, changes: Vec<OrchestrationChange>) -> Result<(), Error> {
        if changes.is_empty() {
            return Ok(());
        }
        let at = clock::now();
        let numbered = changes.into_iter().zip(self.last_seq + 1..);
        let events: Vec<OrchestrationEvent> =
            numbered.map(|(change, seq)| OrchestrationEvent { seq, at, change }).collect();
        let (id, stored) = (self.row.id.clone(), events.clone());
        let ends = events.iter().any(|event| matches!(event.change, OrchestrationChange::Ended {}));
        let shown = if ends { self.plan_as_shown().await? } else { None };
        {
            let _pass = self.workers.context().pass().await;
            let append = move |connection: &rusqlite::Connection| {
                rows::append(connection, &id, &stored)?;
                shown.map_or(Ok(()), |created| rows::replace_plan(connection, &id, &created))
            };
            self.workers.supervisor.store().write(Durability::Synced, append).await?;
        }
        for event in &events {
            self.state.evolve(&event.change);
            self.last_seq = event.seq;
        }
        self.newest.send_replace(self.last_seq);
        Ok(())
    }

    /// Handles a message; ends of steps are added to those that are yet to be recorded.
    async fn take(
        &mut self,
        message: OrchestrationMessage,
        ended: &mut Vec<OrchestrationChange>,
    ) -> Result<(), Error> {
        match message {
            OrchestrationMessage::WorkerEnded { step, end } => {
                let merges = self.state.step(&step).is_some_and(|(step, _)| step.merge);
                if merges && end.status == WorkerStatus::Completed {
                    self.unmerged.insert(step, end);
                } else {
                    ended.extend(self.end_step(&step, &end));
                }
                Ok(())
            }
            OrchestrationMessage::Merged { step, end } => {
                self.merging = None;
                self.unmerged.remove(&step);
                ended.extend(self.end_step(&step, &end));
                Ok(())
            }
            OrchestrationMessage::Cancel { reason } => {
                self.record(std::mem::take(ended)).await?;
                if self.state.cancelled().is_some() {
                    return Ok(());
                }
                let workers: Vec<SessionId> =
                    self.state.running().map(|(_, worker)| worker.clone()).collect();
                self.record(vec![OrchestrationChange::CancelRequested { reason: reason.clone() }]).await?;
                // Before those on record are looked for: a step that is put on record meanwhile sees it.
                self.cancelled.send_replace(Some(reason.clone()));
                for worker in workers {
                    let (all, reason) = (self.workers.clone(), reason.clone());
                    tokio::spawn(async move {
                        // One that is being created ends itself.
                        if let Err(error) = all.cancel(&worker, &reason, true).await {
                            tracing::debug!(%worker, %error, "a step cannot be cancelled yet");
                        }
                    });
                }
                Ok(())
            }
        }
    }

    /// Returns what the end of a step's worker means; none if the step had ended.
    fn end_step(&mut self, step: &str, end: &WorkerEnd) -> Option<OrchestrationChange> {
        self.driven.remove(step);
        self.state.step_ended(step, end)
    }

    /// Merges the next working tree in the order of the plan. Returns whether a step has ended by it.
    async fn merge_next(&mut self) -> Result<bool, Error> {
        if self.merging.is_some() {
            return Ok(false);
        }
        if let Some(reason) = self.state.cancelled().map(ToOwned::to_owned) {
            let waiting = std::mem::take(&mut self.unmerged);
            let mut ended = Vec::new();
            for step in waiting.keys() {
                let summary = format!("its working tree was not merged: {reason}");
                ended.extend(self.end_step(step, &WorkerEnd { status: WorkerStatus::Cancelled, summary }));
            }
            self.record(ended).await?;
            return Ok(!waiting.is_empty());
        }
        let Some(step) = self.unmerged.keys().find(|step| self.state.may_merge(step)).cloned() else {
            return Ok(false);
        };
        let Some((spec, state)) = self.state.step(&step) else { return Ok(false) };
        let (Some(worker), Some(end)) = (state.worker().cloned(), self.unmerged.get(&step).cloned()) else {
            return Ok(false);
        };
        let merge = StepMerge { workers: self.workers.clone(), worker, step: spec.clone() };
        let sender = self.sender.clone();
        self.merging = Some(step.clone());
        tokio::spawn(async move {
            let end = match merge.run().await {
                Ok(()) => end,
                Err(error) => failed(&error),
            };
            // An orchestration that is gone has failed to store something; the next daemon merges again.
            let _ = sender.send(OrchestrationMessage::Merged { step, end }).await;
        });
        Ok(false)
    }

    /// Sees every step that runs through, unless a task does already.
    fn drive_steps(&mut self) {
        let running: Vec<(PlanStep, SessionId)> = self
            .state
            .running()
            .filter(|(step, _)| !self.driven.contains(&step.id))
            .map(|(step, worker)| (step.clone(), worker.clone()))
            .collect();
        for (step, worker) in running {
            self.driven.insert(step.id.clone());
            let run = StepRun {
                prompt: self.state.prompt_of(&step),
                workers: self.workers.clone(),
                orchestration: self.row.id.clone(),
                parent: self.row.parent.clone(),
                worker,
                step,
                cancelled: self.cancelled.subscribe(),
            };
            let sender = self.sender.clone();
            tokio::spawn(async move {
                let step = run.step.id.clone();
                let end = run.drive().await.unwrap_or_else(|error| failed(&error));
                // An orchestration that is gone has failed to store something; the next daemon asks again.
                let _ = sender.send(OrchestrationMessage::WorkerEnded { step, end }).await;
            });
        }
    }
}

/// A step that runs.
struct StepRun {
    workers: Workers,
    orchestration: String,
    parent: SessionId,
    worker: SessionId,
    step: PlanStep,
    prompt: String,
    /// Why the orchestration is cancelled.
    cancelled: watch::Receiver<Option<String>>,
}

/// The merge of a step's working tree.
struct StepMerge {
    workers: Workers,
    worker: SessionId,
    step: PlanStep,
}

fn failed(error: &Error) -> WorkerEnd {
    WorkerEnd { status: WorkerStatus::Failed, summary: error.to_string() }
}

impl StepRun {
    /// Starts the worker of the step unless an earlier daemon did, and sees it through.
    async fn drive(&self) -> Result<WorkerEnd, Error> {
        let record = match self.workers.row(&self.worker).await? {
            Some(row) => row.record,
            None => self.create().await?,
        };
        let reason = self.cancelled.borrow().clone();
        if let Some(reason) = reason {
            // It was on its way when the orchestration was cancelled: nobody else ends it.
            let (workers, record) = (self.workers.clone(), record.clone());
            tokio::spawn(async move {
                if let Err(error) = workers.end(&record, &reason, true).await {
                    tracing::warn!(worker = %record.session, %error, "cannot end a step that was cancelled");
                }
            });
        }
        self.workers.drive(&record).await
    }

    async fn create(&self) -> Result<domain::worker::WorkerRecord, Error> {
        // The daemon that made it died before it could put it on record.
        if self.workers.supervisor.snapshot(&self.worker).await.is_ok() {
            self.workers.supervisor.delete(&self.worker).await?;
        }
        let step = &self.step;
        let name = if step.name.is_empty() { &step.id } else { &step.name };
        let spawn = SpawnWorker {
            parent: self.parent.clone(),
            prompt: self.prompt.clone(),
            provider: step.provider.clone(),
            model: step.model.clone(),
            name: name.clone(),
            working_directory: step.working_directory.clone(),
            allowed_tools: step.allowed_tools.clone(),
            auto_approve: step.auto_approve,
            max_turns: i64::from(step.max_turns),
            environment: std::collections::BTreeMap::new(),
            worktree: step.worktree,
            authority: WorkerAuthority::User,
            call: None,
            by: format!("orchestration {}", self.orchestration),
        };
        let origin = WorkerOrigin { id: self.worker.clone(), orchestration: self.orchestration.clone() };
        self.workers.create(spawn, origin).await
    }
}

impl StepMerge {
    /// Merges the step's working tree into the branch it was made from. Doing it again changes nothing.
    async fn run(&self) -> Result<(), Error> {
        let tree = TreeName { session: Some(self.worker.clone()), ..TreeName::default() };
        let commit_message = format!("{}: {}", self.step.id, crate::supervisor::preview(&self.step.prompt));
        let request = MergeRequest { tree, commit_message, ..MergeRequest::default() };
        self.workers.supervisor.worktrees().merge(request).await.map(drop)
    }
}

//! The loop of one session. It handles commands, output and timers one at a time: asks the rules, commits
//! what they decided, and only then publishes and executes it. The only code that changes a session.

mod commands;
mod commit;
mod decide;
mod private;
mod recovery;
mod resources;
mod shared_budget;
mod state;

use std::sync::Arc;
use std::time::Duration;

use domain::event::Level;
use domain::overview::SessionFacts;
use domain::turn::EndReason;
use domain::{
    AgentEvent, AgentInput, Decided, Effect, Error, EventKind, Exit, Input, Machine, StopStep, Timestamp,
    TurnId,
};
use tokio::sync::{mpsc, oneshot, watch};

use self::private::Private;
use self::resources::MemoryWatch;
use self::shared_budget::SharedBudgetWatch;
pub(super) use self::state::ActorState;
use super::agent_handle::{self, AgentHandle, AgentInputEvent, Ingested, ProcessAgent, SilentCodec};
use super::carry::StoredMark;
use super::handle::{ActorMessage, Applied, SessionHandle, Snapshot};
use super::launch::Reattached;
use super::measures::SessionMeasures;
use super::originals::{self, KeptOriginals};
use super::plan::{AfterCommit, StepPlan};
use super::scrubbing::{Clean, Scrubbing};
use super::seal::Seal;
use super::timers::Timers;
use super::{SessionServices, SharedServices};
use crate::journal::SessionJournal;
use crate::limits;
use crate::permissions;
use crate::process::{AgentOutput, Batch, KnownHolder, OutputEnd};
use agent_port::PastEvents;
use host::clock;
use host::failpoint;
use storage::sessions::{self, StateColumns};
use storage::{Durability, SessionRow, SessionWrite, SpoolMark};

/// In which situation an actor starts.
pub(crate) enum ActorStart {
    /// Nothing runs: the session is new or has ended.
    Idle,
    /// An earlier daemon ran it; its agent may be alive.
    Recover,
    /// The previous actor panicked; whatever runs is ended.
    Broken(String),
}

/// The owner of one session.
pub(crate) struct Actor {
    pub(super) services: SharedServices,
    /// What the rules change; a command's step is decided on a copy of it.
    pub(super) state: Box<ActorState>,
    pub(super) agent: AgentHandle,
    key: i64,
    scrubbing: Scrubbing,
    originals: Arc<KeptOriginals>,
    /// The open turn that started under an earlier daemon.
    inherited_turn: Option<TurnId>,
    timers: Timers,
    /// Set once the agent was asked to exit: the deadline for the report of its end.
    pub(super) killed_by: Option<tokio::time::Instant>,
    /// Set when the daemon wants to exit; notified when this actor has detached.
    leaving: Option<oneshot::Sender<()>>,
    stream: Arc<SessionJournal>,
    mailbox: mpsc::Receiver<ActorMessage>,
    snapshot: watch::Sender<Arc<Snapshot>>,
    /// Shared with handles, so that a calling process can be recognised as the agent's.
    pub(super) holder: Arc<KnownHolder>,
    pub(super) memory: MemoryWatch,
    measured: SessionMeasures,
    share: SharedBudgetWatch,
}

impl Actor {
    /// Starts the actor of a stored session.
    pub(crate) fn start(
        services: &SharedServices,
        row: SessionRow,
        beginning: ActorStart,
    ) -> (SessionHandle, Task) {
        let (sender, mailbox) = mpsc::channel(limits::MAILBOX_MAX);
        let id = row.spec.id.clone();
        let stream = services.journal.stream(&id, row.key, row.last_seq);
        let mut machine = Machine::restore(row.spec, row.state);
        let mut seal = Seal::new(&services.agents_dir, &id);
        let (saved, mark) = recovery::unsealed(&mut seal, &row.codec, row.spool);
        machine.set_originals(saved.originals.clone());
        let mut scrubbing = Scrubbing::new(services.scrubber_of(machine.spec()).cloned());
        let texts = recovery::texts_of(&saved, &mark);
        scrubbing.restore(texts.clone());
        let originals = Arc::new(KeptOriginals::default());
        originals.keep(Vec::new(), &saved.originals.asks);
        let (snapshot, watcher) = watch::channel(Arc::new(snapshot_of(&machine, row.last_seq)));
        let holder = Arc::new(KnownHolder::default());
        let share = SharedBudgetWatch::new(&services.budgets, &machine);
        let mut state = ActorState::new(machine, seal, saved, StoredMark::of(&mark, texts));
        (state.run, state.seq, state.next_write_id) = (row.run, row.last_seq, row.next_write_id);
        let actor = Self {
            holder: Arc::clone(&holder),
            memory: MemoryWatch::default(),
            measured: SessionMeasures::default(),
            share,
            services: Arc::clone(services),
            state: Box::new(state),
            agent: AgentHandle::None,
            key: row.key,
            scrubbing,
            originals: Arc::clone(&originals),
            inherited_turn: None,
            timers: Timers::default(),
            killed_by: None,
            leaving: None,
            stream: Arc::clone(&stream),
            mailbox,
            snapshot,
        };
        let run_limits = actor.memory.shared();
        let facts = SessionFacts::of(actor.state.machine.spec(), actor.state.machine.state());
        services.overview.begin(facts, row.last_seq, row.seen_at, Arc::clone(&run_limits));
        let task = tokio::spawn(actor.run(beginning, mark));
        let handle =
            SessionHandle { id, mailbox: sender, stream, snapshot: watcher, holder, originals, run_limits };
        (handle, task)
    }

    /// The main loop. Ends when the daemon detaches, or some time after the session has ended.
    async fn run(mut self, beginning: ActorStart, mark: SpoolMark) {
        match beginning {
            ActorStart::Idle => {}
            ActorStart::Recover => self.recover(&mark).await,
            ActorStart::Broken(message) => {
                self.recover(&mark).await;
                if let AgentHandle::Process(process) = &mut self.agent {
                    // The line that made the previous actor panic would do the same to this one.
                    let saved = self.state.saved.codec.clone();
                    self.state.set_codec(Some(Box::new(SilentCodec { saved })));
                    process.is_given_up = true;
                }
                self.take(Input::Agent(AgentEvent::Broken { code: None, message })).await;
            }
        }
        loop {
            if let Some(done) = self.leaving.take() {
                if let AgentHandle::InProcess { agent, .. } = &mut self.agent {
                    agent.detach();
                }
                // The caller may have stopped waiting.
                let _ = done.send(());
                return;
            }
            if let (AgentHandle::Process(process), Some(codec)) = (&mut self.agent, self.state.codec()) {
                // What led to them is on disk by now.
                process.begin_client_requests(codec);
            }
            let ended =
                self.state.machine.state().status.is_terminal() && matches!(self.agent, AgentHandle::None);
            tokio::select! {
                // Commands first: a cancel must not wait behind a flood of output.
                biased;
                message = self.mailbox.recv() => match message {
                    Some(ActorMessage::Command { command, key, caller, reply }) => {
                        self.measured.trace.set_caller(caller);
                        self.handle_command(*command, key, reply).await;
                        self.measured.trace.set_caller(None);
                    }
                    Some(ActorMessage::Detach { done }) => self.leaving = Some(done),
                    None => return,
                },
                // Timers too: an agent that never stops talking must not outlive its deadline.
                timer = self.timers.next() => self.take(Input::Timer(timer)).await,
                () = overdue(self.originals.expires_at()) => self.originals.forget_expired(),
                () = overdue(self.killed_by) => self.kill_from_outside().await,
                () = self.share.changed() => self.look_at_shared_budget().await,
                () = overdue(self.memory.due()) => self.check_memory(false).await,
                heard = self.agent.next() => self.handle_agent_output(heard).await,
                () = tokio::time::sleep(limits::ENDED_ACTOR_WAIT), if ended => {
                    self.mailbox.close();
                    // Messages sent before the mailbox closed are still answered.
                    while let Some(message) = self.mailbox.recv().await {
                        if let ActorMessage::Command { command, key, reply, .. } = message {
                            self.handle_command(*command, key, reply).await;
                        }
                    }
                    if matches!(self.agent, AgentHandle::None) {
                        return;
                    }
                }
            }
        }
    }

    /// Handles one item from the agent, whether a process or inside the daemon.
    async fn handle_agent_output(&mut self, heard: AgentInputEvent) {
        match heard {
            AgentInputEvent::Output(next) => self.handle_process_output(next).await,
            AgentInputEvent::Events(events) => {
                let at = clock::now();
                self.take_all_at(events.into_iter().map(|event| (at, Input::Agent(event)))).await;
            }
            AgentInputEvent::Returned { id, result } => {
                let (AgentHandle::Process(process), Some(codec)) = (&mut self.agent, self.state.codec())
                else {
                    return;
                };
                let ingested = process.take_returned(codec, &id, result);
                let (mut plan, _) = self.write_ingested(ingested).await;
                self.publish(&mut plan);
                self.run_after_commit(plan.after).await;
            }
            AgentInputEvent::Silence => {
                self.set_agent(AgentHandle::None, None);
                self.take(Reattached::exit("the agent inside the daemon ended")).await;
            }
        }
    }

    async fn handle_process_output(&mut self, next: AgentOutput) {
        match next {
            AgentOutput::Records(batch) => {
                // What the kernel killed is told before what the agent made of it.
                if self.memory.is_worth_a_look() {
                    self.check_memory(true).await;
                }
                self.take_output(&batch).await;
            }
            AgentOutput::Ended(end) => {
                if end == OutputEnd::ShimLost {
                    self.services.killed_holders.note(&self.run_dir());
                }
                self.take_end(end, agent_handle::exit_of(end)).await;
            }
            AgentOutput::Corrupt { at, fault } => {
                let message = format!("its output on disk is damaged at {at:?}: {fault:?}");
                self.terminate(StopStep::Kill);
                self.take_end(OutputEnd::ShimLost, Exit { message, ..Exit::default() }).await;
            }
            AgentOutput::Refused(refusal) if !self.services.is_succeeded().await => {
                // There is no other daemon. Whatever has the shim may have sent the agent anything.
                tracing::error!(session = %self.state.machine.spec().id, ?refusal, "the shim was taken over; ending its agent");
                self.take_end(
                    OutputEnd::ShimLost,
                    Exit { message: agent_handle::TAKEN_OVER.to_owned(), ..Exit::default() },
                )
                .await;
            }
            AgentOutput::Refused(refusal) => {
                // Another daemon serves this agent now; this one must not touch the session any more.
                tracing::error!(session = %self.state.machine.spec().id, ?refusal, "another daemon has taken over");
                self.set_agent(AgentHandle::None, None);
                self.mailbox.close();
            }
            AgentOutput::Unreadable(error) => {
                tracing::error!(session = %self.state.machine.spec().id, %error, "cannot read the spool; trying again");
                tokio::time::sleep(limits::STORE_RETRY_WAIT).await;
            }
        }
    }

    /// Translates a batch, commits and publishes its events, and deletes consumed segments.
    async fn take_output(&mut self, batch: &Batch) {
        let (AgentHandle::Process(process), Some(codec)) = (&mut self.agent, self.state.codec()) else {
            return;
        };
        let ingested = process.ingest(codec, batch);
        let (mut plan, is_marked) = self.write_ingested(ingested).await;
        self.publish(&mut plan);
        failpoint!("output.shown");
        self.erase_read(batch.after, is_marked);
        if is_marked
            && let AgentHandle::Process(process) = &mut self.agent
            && let Err(error) = process.link.discard_before(batch.after.segment)
        {
            tracing::warn!(%error, "cannot delete output that was read");
        }
        self.run_after_commit(plan.after).await;
        if let AgentHandle::Process(process) = &self.agent
            && process.is_given_up
            && process.link.is_far_behind()
        {
            // A flood of nonsense may fill the spool. The end of it is not worth the minutes it takes to
            // read.
            let exit = Exit { signal: Some(libc::SIGKILL), ..Exit::default() };
            self.take_end(OutputEnd::ShimLost, exit).await;
        }
        // Let the readers of this output run before more of it is read.
        tokio::task::yield_now().await;
    }

    async fn take_end(&mut self, end: OutputEnd, exit: Exit) {
        let exit = self.measured(exit).await;
        let (AgentHandle::Process(process), Some(codec)) = (&mut self.agent, self.state.codec()) else {
            return;
        };
        let ingested = process.finish(codec, exit);
        let (mut plan, _) = self.write_ingested(ingested).await;
        // Publish the end only after the agent is released: a client that sees the end finds no trace of the
        // agent.
        self.release_agent(end).await;
        self.publish(&mut plan);
        self.run_after_commit(plan.after).await;
    }

    /// Commits what agent output meant. Returns what is then to be published and executed, and whether the
    /// spool position after it is on disk.
    async fn write_ingested(&mut self, ingested: Ingested) -> (StepPlan, bool) {
        let mut plan = StepPlan::default();
        for (at, input) in ingested.inputs {
            if matches!(input, Input::Agent(AgentEvent::TurnEnded { .. })) {
                self.decision(&mut plan).finish_texts(at);
            }
            self.recall(&input, &plan).await;
            self.decision(&mut plan).decide_unrefusable(at, input);
        }
        for bytes in ingested.replies {
            self.decision(&mut plan).send(bytes);
        }
        let mut is_marked = false;
        if let AgentHandle::Process(process) = &self.agent {
            let after = ingested.after;
            // Without events nothing is lost: the same bytes would be read again.
            let nothing =
                plan.events.is_empty() && plan.write.outbox.is_empty() && ingested.applied.is_none();
            if nothing && !process.wants_mark(after, self.services.spool_max_bytes) {
                return (plan, false);
            }
            // A run that starts in this very step has a new spool.
            if plan.write.spool.is_none() {
                plan.write.spool = Some(process.mark(after));
                is_marked = true;
            }
        }
        plan.write.applied = plan.write.applied.max(ingested.applied);
        failpoint!("output.translated");
        self.commit_at_last(&mut plan).await;
        failpoint!("output.committed");
        (plan, is_marked)
    }

    /// Handles an input that already happened and cannot be refused.
    async fn take(&mut self, input: Input) {
        self.take_at(clock::now(), input).await;
    }

    async fn take_at(&mut self, at: Timestamp, input: Input) {
        self.take_all_at([(at, input)]).await;
    }

    async fn take_all_at(&mut self, inputs: impl IntoIterator<Item = (Timestamp, Input)>) {
        let mut plan = StepPlan::default();
        for (at, input) in inputs {
            self.decision(&mut plan).decide_unrefusable(at, input);
        }
        self.commit_at_last(&mut plan).await;
        self.publish(&mut plan);
        self.run_after_commit(plan.after).await;
    }

    /// Returns the events of this session published so far.
    pub(super) fn past(&self) -> PastEvents {
        PastEvents { events: Box::new(self.stream.read_after(0)), last_seq: self.state.seq }
    }
}

/// Waits until an instant; forever if there is none.
async fn overdue(by: Option<tokio::time::Instant>) {
    match by {
        Some(by) => tokio::time::sleep_until(by).await,
        None => std::future::pending().await,
    }
}

/// Passes bytes to the shim. They are also in the outbox, so a shim that cannot be reached now gets them
/// later, or has exited.
fn deliver(process: &ProcessAgent, write_id: u64, bytes: &[u8]) {
    if let Err(error) = process.link.write(write_id, bytes) {
        tracing::warn!(%error, write_id, "input waits in the outbox");
    }
}

/// The running actor.
pub(crate) type Task = tokio::task::JoinHandle<()>;

fn snapshot_of(machine: &Machine, last_seq: u64) -> Snapshot {
    Snapshot {
        spec: machine.spec().clone(),
        state: machine.state().clone(),
        last_seq,
        grace_ran_out: machine.grace_ran_out(),
    }
}

impl std::fmt::Debug for SessionServices {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Services").field("agents_dir", &self.agents_dir).finish_non_exhaustive()
    }
}

//! The loop of one session. It handles commands, output and timers one at a time: asks the rules, commits
//! what they decided, and only then publishes and executes it. The only code that changes a session.

mod commit;
mod decide;
mod private;
mod recovery;
mod resources;

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use domain::event::Level;
use domain::turn::EndReason;
use domain::{
    AgentEvent, AgentInput, Decided, Effect, Error, EventKind, Exit, Input, Machine, StopStep, Timestamp,
    TurnId,
};
use tokio::sync::{mpsc, oneshot, watch};

use self::private::Private;
use self::resources::MemoryWatch;
use super::agent_handle::{self, AgentHandle, AgentInputEvent, Ingested, ProcessAgent, SilentCodec};
use super::handle::{ActorMessage, Applied, SessionHandle, Snapshot};
use super::launch::Reattached;
use super::originals::{self, KeptOriginals};
use super::plan::{AfterCommit, StepPlan};
use super::scrubbing::{Clean, Scrubbing};
use super::seal::Seal;
use super::timers::Timers;
use super::{SessionServices, SharedServices};
use crate::journal::SessionJournal;
use crate::limits;
use crate::permissions;
use crate::process::{AgentOutput, Batch, OutputEnd};
use agent_port::PastEvents;
use host::clock;
use host::failpoint;
use storage::sessions::{self, StateColumns};
use storage::{Durability, SessionRow, SpoolMark};

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
    pub(super) machine: Machine,
    pub(super) agent: AgentHandle,
    pub(super) run: u64,
    key: i64,
    seq: u64,
    next_write_id: u64,
    /// The sealed state as last stored.
    saved: Private,
    /// The stored state was sealed with a key that no longer exists.
    is_saved_unreadable: bool,
    seal: Seal,
    scrubbing: Scrubbing,
    originals: Arc<KeptOriginals>,
    /// Input not yet confirmed to have reached the agent.
    unapplied: Vec<(u64, Vec<u8>)>,
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
    pub(super) holder_pid: Arc<AtomicU32>,
    pub(super) memory: MemoryWatch,
}

/// The state to restore if a command could not be committed.
struct Undo {
    machine: Machine,
    seq: u64,
    run: u64,
    next_write_id: u64,
    saved: Private,
    /// The codec state, which may be newer than what was saved; `None` without a process.
    codec: Option<String>,
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
        scrubbing.restore(saved.texts.clone());
        let originals = Arc::new(KeptOriginals::default());
        originals.keep(Vec::new(), &saved.originals.asks);
        let (snapshot, watcher) = watch::channel(Arc::new(snapshot_of(&machine, row.last_seq)));
        let holder_pid = Arc::new(AtomicU32::new(0));
        let actor = Self {
            holder_pid: Arc::clone(&holder_pid),
            memory: MemoryWatch::default(),
            services: Arc::clone(services),
            machine,
            agent: AgentHandle::None,
            run: row.run,
            key: row.key,
            seq: row.last_seq,
            next_write_id: row.next_write_id,
            saved,
            is_saved_unreadable: false,
            seal,
            scrubbing,
            originals: Arc::clone(&originals),
            unapplied: Vec::new(),
            inherited_turn: None,
            timers: Timers::default(),
            killed_by: None,
            leaving: None,
            stream: Arc::clone(&stream),
            mailbox,
            snapshot,
        };
        let run_limits = actor.memory.shared();
        let task = tokio::spawn(actor.run(beginning, mark));
        let handle = SessionHandle {
            id,
            mailbox: sender,
            stream,
            snapshot: watcher,
            holder_pid,
            originals,
            run_limits,
        };
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
                    process.codec = Box::new(SilentCodec { saved: self.saved.codec.clone() });
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
            if let AgentHandle::Process(process) = &mut self.agent {
                // What led to them is on disk by now.
                process.begin_client_requests();
            }
            let ended = self.machine.state().status.is_terminal() && matches!(self.agent, AgentHandle::None);
            tokio::select! {
                // Commands first: a cancel must not wait behind a flood of output.
                biased;
                message = self.mailbox.recv() => match message {
                    Some(ActorMessage::Command { command, reply }) => self.handle_command(*command, reply).await,
                    Some(ActorMessage::Detach { done }) => self.leaving = Some(done),
                    None => return,
                },
                // Timers too: an agent that never stops talking must not outlive its deadline.
                timer = self.timers.next() => self.take(Input::Timer(timer)).await,
                () = overdue(self.originals.expires_at()) => self.originals.forget_expired(),
                () = overdue(self.killed_by) => self.kill_from_outside().await,
                () = overdue(self.memory.due()) => self.check_memory().await,
                heard = self.agent.next() => self.handle_agent_output(heard).await,
                () = tokio::time::sleep(limits::ENDED_ACTOR_WAIT), if ended => {
                    self.mailbox.close();
                    // Messages sent before the mailbox closed are still answered.
                    while let Some(message) = self.mailbox.recv().await {
                        if let ActorMessage::Command { command, reply } = message {
                            self.handle_command(*command, reply).await;
                        }
                    }
                    if matches!(self.agent, AgentHandle::None) {
                        return;
                    }
                }
            }
        }
    }

    /// Handles a command: either it is refused and nothing changed, or its effect is durable.
    async fn handle_command(
        &mut self,
        command: domain::Command,
        reply: oneshot::Sender<Result<Applied, Error>>,
    ) {
        let undo = Undo {
            machine: self.machine.clone(),
            seq: self.seq,
            run: self.run,
            next_write_id: self.next_write_id,
            saved: self.saved.clone(),
            codec: self.codec_state(),
        };
        let mut plan = StepPlan::default();
        let outcome = match self.decide(clock::now(), Input::Command(command), &mut plan) {
            Ok(()) => self.commit(&mut plan, Durability::Synced).await,
            Err(error) => Err(error),
        };
        match outcome {
            Ok(()) => {
                failpoint!("command.committed");
                let events = self.publish(&mut plan);
                // A caller that disconnected had its command carried out all the same.
                let _ = reply.send(Ok(Applied { events }));
                failpoint!("command.answered");
                self.run_after_commit(plan.after).await;
            }
            Err(error) => {
                self.undo(undo);
                let _ = reply.send(Err(error));
            }
        }
    }

    /// Restores the state before a command that could not be committed, including the codec.
    fn undo(&mut self, undo: Undo) {
        self.machine = undo.machine;
        self.seq = undo.seq;
        self.run = undo.run;
        self.next_write_id = undo.next_write_id;
        self.saved = undo.saved;
        self.unapplied.retain(|(write_id, _)| *write_id < undo.next_write_id);
        // Most refusals happen before the codec was asked to encode anything.
        if self.codec_state() != undo.codec
            && let (AgentHandle::Process(process), Some(memory)) = (&mut self.agent, undo.codec)
            && let Ok(provider) = self.services.providers.get(self.machine.spec().provider)
            && let Ok(codec) = provider.codec(self.machine.spec(), &memory)
        {
            process.codec = codec;
            // These client requests are already in progress.
            drop(process.codec.take_client_requests());
        }
    }

    fn codec_state(&self) -> Option<String> {
        match &self.agent {
            AgentHandle::Process(process) => Some(process.codec.save()),
            AgentHandle::None | AgentHandle::InProcess { .. } => None,
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
                let AgentHandle::Process(process) = &mut self.agent else { return };
                let ingested = process.take_returned(&id, result);
                let (mut plan, _) = self.write_ingested(ingested).await;
                self.publish(&mut plan);
                self.run_after_commit(plan.after).await;
            }
            AgentInputEvent::Silence => {
                self.agent = AgentHandle::None;
                self.take(Reattached::exit("the agent inside the daemon ended")).await;
            }
        }
    }

    async fn handle_process_output(&mut self, next: AgentOutput) {
        match next {
            AgentOutput::Records(batch) => {
                // What the kernel killed is told before what the agent made of it.
                if self.memory.is_worth_a_look() {
                    self.check_memory().await;
                }
                self.take_output(&batch).await;
            }
            AgentOutput::Ended(end) => self.take_end(end, agent_handle::exit_of(end)).await,
            AgentOutput::Corrupt { at, fault } => {
                let message = format!("its output on disk is damaged at {at:?}: {fault:?}");
                self.terminate(StopStep::Kill);
                self.take_end(OutputEnd::ShimLost, Exit { message, ..Exit::default() }).await;
            }
            AgentOutput::Refused(refusal) if !self.services.is_succeeded().await => {
                // There is no other daemon. Whatever has the shim may have sent the agent anything.
                tracing::error!(session = %self.machine.spec().id, ?refusal, "the shim was taken over; ending its agent");
                self.take_end(
                    OutputEnd::ShimLost,
                    Exit { message: agent_handle::TAKEN_OVER.to_owned(), ..Exit::default() },
                )
                .await;
            }
            AgentOutput::Refused(refusal) => {
                // Another daemon serves this agent now; this one must not touch the session any more.
                tracing::error!(session = %self.machine.spec().id, ?refusal, "another daemon has taken over");
                self.agent = AgentHandle::None;
                self.mailbox.close();
            }
            AgentOutput::Unreadable(error) => {
                tracing::error!(session = %self.machine.spec().id, %error, "cannot read the spool; trying again");
                tokio::time::sleep(limits::STORE_RETRY_WAIT).await;
            }
        }
    }

    /// Translates a batch, commits and publishes its events, and deletes consumed segments.
    async fn take_output(&mut self, batch: &Batch) {
        let AgentHandle::Process(process) = &mut self.agent else { return };
        let ingested = process.ingest(batch);
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
        let AgentHandle::Process(process) = &mut self.agent else { return };
        let ingested = process.finish(exit);
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
        for (at, mut input) in ingested.inputs {
            if matches!(input, Input::Agent(AgentEvent::TurnEnded { .. })) {
                self.finish_texts(at, &mut plan);
            }
            self.recall(&mut input, &plan).await;
            self.decide_unrefusable(at, input, &mut plan);
        }
        for bytes in ingested.replies {
            self.send(bytes, &mut plan);
        }
        let mut is_marked = false;
        if let AgentHandle::Process(process) = &mut self.agent {
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
            self.decide_unrefusable(at, input, &mut plan);
        }
        self.commit_at_last(&mut plan).await;
        self.publish(&mut plan);
        self.run_after_commit(plan.after).await;
    }

    /// Returns the events of this session published so far.
    pub(super) fn past(&self) -> PastEvents {
        PastEvents { events: Box::new(self.stream.read_after(0)), last_seq: self.seq }
    }

    pub(super) fn next_write_id(&mut self) -> u64 {
        let id = self.next_write_id;
        self.next_write_id += 1;
        id
    }

    /// Starts a new run with a new folder, spool and outbox. Pending input of the previous run is discarded.
    fn begin_run(&mut self, resume: bool, plan: &mut StepPlan) {
        self.run += 1;
        plan.write.applied = Some(self.next_write_id.saturating_sub(1));
        plan.write.spool = Some(SpoolMark::default());
        plan.state_changed = true;
        plan.after.push(AfterCommit::Launch { resume });
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

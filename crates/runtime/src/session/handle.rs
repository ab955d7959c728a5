//! The handle of a session: everything a surface can do with one.

use std::sync::{Arc, Mutex, PoisonError};

use domain::request::RequestSubject;
use domain::resources::ResourceReport;
use domain::{
    Command, Error, ErrorCode, Event, EventKind, RequestId, SessionId, SessionSpec, State, Status, StopMode,
    TurnId,
};
use tokio::sync::{mpsc, oneshot, watch};

use super::originals::KeptOriginals;
use crate::client_keys::ClientKey;
use crate::journal::{Cursor, SessionJournal};
use crate::process::{KnownHolder, RunLimits};
use crate::trace::{self, TraceParent};

/// A session at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub spec: SessionSpec,
    pub state: State,
    pub last_seq: u64,
    /// The last graceful stop had to be finished by force.
    pub grace_ran_out: bool,
}

/// The immediate events of a command; they are durable and visible.
#[derive(Clone, Debug, Default)]
pub struct Applied {
    pub events: Vec<Arc<Event>>,
    /// The command had been carried out before, under the same client's key.
    pub is_repeated: bool,
}

impl Applied {
    /// Returns the turn that the command began, and the number of the event that says so.
    pub fn turn_started(&self) -> Option<(TurnId, u64)> {
        self.events.iter().find_map(|event| {
            let EventKind::TurnStarted { turn, .. } = event.kind else { return None };
            Some((turn, event.seq))
        })
    }
}

/// A message in an actor's mailbox.
pub(crate) enum ActorMessage {
    Command {
        command: Box<Command>,
        key: Option<ClientKey>,
        /// The call that it comes from, if calls are traced.
        caller: Option<TraceParent>,
        reply: oneshot::Sender<Result<Applied, Error>>,
    },
    /// The daemon exits; agents that are processes keep running.
    Detach { done: oneshot::Sender<()> },
}

/// Access to a session. Cheap to clone.
#[derive(Clone)]
pub struct SessionHandle {
    pub(crate) id: SessionId,
    pub(crate) mailbox: mpsc::Sender<ActorMessage>,
    pub(crate) stream: Arc<SessionJournal>,
    pub(crate) snapshot: watch::Receiver<Arc<Snapshot>>,
    /// The process that holds the agent; 0 if there is none.
    pub(crate) holder: Arc<KnownHolder>,
    pub(crate) originals: Arc<KeptOriginals>,
    pub(crate) run_limits: SharedRunLimits,
}

/// How the agent that runs is limited; nothing while none does.
pub(crate) type SharedRunLimits = Arc<Mutex<Option<RunLimits>>>;

impl SessionHandle {
    /// Returns whether a process is this session's agent or its shim.
    pub fn is_process(&self, pid: u32) -> bool {
        pid != 0 && (self.holder.is(pid) || self.snapshot.borrow().state.pid == pid)
    }

    /// Returns when its shim started, if that is gone although the agent has not ended as far as is known.
    pub(crate) fn holder_lost_since(&self) -> Option<u64> {
        self.holder.lost_since()
    }

    /// Returns what the running agent uses; none while none runs as a process.
    pub(crate) fn resources(&self) -> Option<ResourceReport> {
        self.run_limits().map(|run| run.report())
    }

    /// Returns how the running agent is limited; none while none runs as a process.
    pub(crate) fn run_limits(&self) -> Option<RunLimits> {
        self.run_limits.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn id(&self) -> &SessionId {
        &self.id
    }

    /// Returns the current snapshot.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.snapshot.borrow())
    }

    /// Returns a reader of the journal, strictly after a sequence number.
    pub fn events_after(&self, seq: u64) -> Cursor {
        self.stream.read_after(seq)
    }

    /// Returns the sequence number of the newest event.
    pub fn last_seq(&self) -> u64 {
        self.stream.last_seq()
    }

    /// Returns an event as it was before redaction, for some minutes. Only for the user, and for callers that
    /// must act on the true bytes; never for an agent of another session.
    pub fn original(&self, seq: u64) -> Option<EventKind> {
        self.originals.event(seq)
    }

    /// Returns a request as the agent asked it, for the client that must execute it.
    pub fn as_asked(&self, request: RequestId, shown: &RequestSubject) -> RequestSubject {
        self.originals.request_subject(request).unwrap_or_else(|| shown.clone())
    }

    /// Sends a command to the session. When this returns, its effects are durable.
    pub async fn command(&self, command: Command) -> Result<Applied, Error> {
        self.command_once(command, None).await
    }

    /// The same, but at most once for a client's key.
    pub async fn command_once(&self, command: Command, key: Option<ClientKey>) -> Result<Applied, Error> {
        let (reply, answer) = oneshot::channel();
        let caller = trace::current_place();
        let message = ActorMessage::Command { command: Box::new(command), key, caller, reply };
        if self.mailbox.send(message).await.is_err() {
            return Err(self.gone());
        }
        answer.await.unwrap_or_else(|_| Err(self.gone()))
    }

    /// Returns whether the actor has ended; the supervisor then starts a new one.
    pub fn is_gone(&self) -> bool {
        self.mailbox.is_closed()
    }

    fn gone(&self) -> Error {
        Error::new(ErrorCode::SessionError, format!("session {} is not being served; try again", self.id))
    }

    /// Waits until a condition holds and returns the snapshot for which it does.
    pub async fn wait_until(&self, holds: impl Fn(&Snapshot) -> bool) -> Result<Arc<Snapshot>, Error> {
        let mut snapshot = self.snapshot.clone();
        match snapshot.wait_for(|snapshot| holds(snapshot)).await {
            Ok(found) => Ok(Arc::clone(&found)),
            Err(_) => Err(self.gone()),
        }
    }

    /// Stops the session and waits for its end. Returns OBEY-2021 if a graceful stop had to become a forced
    /// one.
    pub async fn stop(&self, how: StopMode) -> Result<Arc<Snapshot>, Error> {
        self.command(Command::Stop { how }).await?;
        let ended = self.wait_until(|snapshot| snapshot.state.status.is_terminal()).await?;
        if how == StopMode::Graceful && ended.grace_ran_out {
            return Err(Error::new(
                ErrorCode::StopTimedOut,
                format!("session {} did not finish its turn in time and was ended by force", self.id),
            ));
        }
        Ok(ended)
    }

    /// Waits until the agent has started or failed to start.
    pub async fn started(&self) -> Result<Arc<Snapshot>, Error> {
        // An agent that failed at its start is being ended; only its end has the reason.
        let under_way = |status| matches!(status, Status::Created | Status::Starting | Status::Stopping);
        self.wait_until(|snapshot| !under_way(snapshot.state.status)).await
    }
}

//! The beginning of a session: its record and its first command are durable, and its agent is being started. Who wants a session
//! that is ready waits for it; who may have to end it before that begins it.

use std::sync::Arc;

use agent_port::conversations::EntryKind;
use domain::{Command, Error, ErrorCode, LaunchPolicy, SessionId};
use host::failpoint;
use storage::Durability;

use super::create::{check_started, first_command};
use super::history_writer::given_history;
use super::names::WhenTaken;
use super::{NewSession, Supervisor};
use crate::client_keys::ClientKey;
use crate::session::{ActorStart, SessionHandle, Snapshot, redactor};

/// A session that can be found and ended, and whose agent may not be ready.
pub struct BegunSession {
    id: SessionId,
    state: BegunState,
}

enum BegunState {
    Starting(SessionHandle),
    /// There is nothing to wait for.
    Ready(Arc<Snapshot>),
}

impl BegunSession {
    /// The session's id.
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    /// Waits until the agent is ready, or has ended. An error if it could not be started.
    pub async fn started(self) -> Result<Arc<Snapshot>, Error> {
        match self.state {
            BegunState::Ready(snapshot) => Ok(snapshot),
            BegunState::Starting(handle) => {
                let started = handle.started().await?;
                check_started(&started)?;
                Ok(started)
            }
        }
    }

    fn ready(snapshot: Arc<Snapshot>) -> Self {
        Self { id: snapshot.spec.id.clone(), state: BegunState::Ready(snapshot) }
    }
}

impl Supervisor {
    /// Like `create_prepared`, but does not wait for the agent.
    pub async fn create_begun(
        &self,
        new: NewSession,
        first_of_all: Vec<Command>,
    ) -> Result<BegunSession, Error> {
        self.begin(new, first_of_all, Vec::new(), None, WhenTaken::Number).await
    }

    pub(super) async fn create_as(
        &self,
        new: NewSession,
        first_of_all: Vec<Command>,
        history: Vec<EntryKind>,
        key: Option<ClientKey>,
        when_taken: WhenTaken,
    ) -> Result<Arc<Snapshot>, Error> {
        self.begin(new, first_of_all, history, key, when_taken).await?.started().await
    }

    async fn begin(
        &self,
        new: NewSession,
        mut first_of_all: Vec<Command>,
        history: Vec<EntryKind>,
        key: Option<ClientKey>,
        when_taken: WhenTaken,
    ) -> Result<BegunSession, Error> {
        self.check_room()?;
        // A name that nobody typed is nobody's to change.
        let when_taken = if new.name.is_empty() { WhenTaken::Number } else { when_taken };
        let (launch, by) = (new.launch, new.by.clone());
        let first = first_command(&new);
        let (spec, made) = self.prepare(new, &mut first_of_all).await?;
        let id = spec.id.clone();
        let stays_idle = launch == LaunchPolicy::OnPrompt && matches!(first, Command::Start);
        // Commits reach the disk in order. The commit of the first command therefore includes the record, and
        // the session is unknown to everyone before that.
        let durability =
            if stays_idle && first_of_all.is_empty() { Durability::Synced } else { Durability::Soon };
        let redact = redactor(self.inner.services.scrubber_of(&spec).cloned());
        let history = given_history(history, &by, spec.created_at, redact.as_ref());
        let inserted = self.insert_named(spec, history, key.as_ref(), when_taken, durability).await;
        let row = match inserted {
            Ok(Some(row)) => row,
            not_inserted => {
                if let Some(made) = made {
                    self.worktrees().undo_for_session(&made).await;
                }
                not_inserted?;
                // The same request came a moment ago, and creates the session.
                let gone =
                    || Error::new(ErrorCode::CreateFailed, "the session could not be started; try again");
                let Some(key) = &key else { return Err(gone()) };
                return self.created_before(key).await?.map(BegunSession::ready).ok_or_else(gone);
            }
        };
        failpoint!("create.stored");
        let handle = self.spawn_actor(row, ActorStart::Idle);
        for command in first_of_all {
            if let Err(error) = self.command(&id, command).await {
                // No client knows of the session yet, and it cannot become what was asked for.
                self.delete(&id).await?;
                return Err(error);
            }
        }
        if stays_idle {
            return Ok(BegunSession::ready(handle.snapshot()));
        }
        self.command(&id, first).await?;
        Ok(BegunSession { id, state: BegunState::Starting(handle) })
    }
}

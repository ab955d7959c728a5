//! The start of a task: its session is written down before its agent is started, so that a cancel ends it at any time.

use std::time::Duration;

use domain::{Command, Error, ErrorCode, SessionId, Timeouts};
use runtime::BegunSession;
use storage::environments::{EnvironmentRow, TaskRow};

use super::{CANCELLED, TaskStatus, no_session};
use crate::starting::TaskStart;
use crate::stream::session_in;
use crate::{Roz, from_wire, limits, safety};

/// The task that a new one works for.
pub(super) struct TaskParent {
    pub(super) row: TaskRow,
    /// It had ended when the worker was asked for, so its end is no reason to end the worker.
    pub(super) has_ended: bool,
}

impl Roz {
    /// Starts the session of a task and stores its id, or the error. A task that is cancelled meanwhile ends at once.
    pub(super) async fn run_task(
        &self,
        start: TaskStart,
        mut row: TaskRow,
        environment: &EnvironmentRow,
        timeout: Option<Duration>,
        parent: Option<TaskParent>,
    ) {
        let ends_with_parent = parent.as_ref().is_some_and(|parent| !parent.has_ended);
        let parent = match parent {
            Some(parent) => self.session_of_parent(parent).await.map(Some),
            None => Ok(None),
        };
        let begun = match &parent {
            Ok(parent) if start.launch() => self.start_task(&row, environment, timeout, parent.clone()).await,
            Ok(_) => Err(Error::new(ErrorCode::WrongState, CANCELLED)),
            Err(error) => Err(error.clone()),
        };
        let title: String = row.prompt.chars().take(domain::limits::PREVIEW_MAX_CHARS).collect();
        let (task, parent) = (row.id.clone(), parent.ok().flatten());
        let session = match begun {
            Ok(begun) => self.started_task(&start, &mut row, begun).await,
            Err(error) => {
                row.error = error.to_string();
                self.keep_task(&mut row).await;
                None
            }
        };
        drop(start);
        let Some((parent, session)) = parent.zip(session) else { return };
        if let Err(error) = self.supervisor.tell_of_worker(&parent, &session, None, title).await {
            tracing::warn!(task, %error, "cannot tell a task of its worker");
        }
        // A parent that ended before it was told could not end this worker.
        let parent = self.supervisor.snapshot(&parent).await;
        if ends_with_parent
            && parent.is_ok_and(|parent| parent.state.status.is_terminal())
            && let Err(error) = self.end_session(&session, "").await
        {
            tracing::warn!(task, %error, "cannot end a worker whose task has ended");
        }
    }

    /// Writes down the session of a task, where a cancel finds it, and waits for its agent. None if that did not start.
    async fn started_task(
        &self,
        start: &TaskStart,
        row: &mut TaskRow,
        begun: BegunSession,
    ) -> Option<SessionId> {
        let session = begun.id().clone();
        row.session_id = session.to_string();
        self.keep_task(row).await;
        if start.record()
            && let Err(error) = self.end_session(&session, "").await
        {
            tracing::warn!(task = row.id, %error, "cannot cancel a task that was cancelled before it started");
        }
        let Err(error) = begun.started().await else { return Some(session) };
        // The session's own turn says that it was cancelled.
        if start.is_cancelled() {
            return Some(session);
        }
        row.session_id.clear();
        row.error = error.to_string();
        self.keep_task(row).await;
        None
    }

    async fn keep_task(&self, row: &mut TaskRow) {
        row.updated_at = host::clock::now();
        if let Err(error) = self.supervisor.environments().put_task(row.clone()).await {
            tracing::error!(task = row.id, %error, "cannot write down the session of a task");
        }
    }

    /// Returns the session of a task that is to have a worker. One that is cancelled meanwhile gets none.
    async fn session_of_parent(&self, parent: TaskParent) -> Result<SessionId, Error> {
        let TaskParent { row, has_ended } = parent;
        let id = row.id.clone();
        let session = self.session_of(row).await?;
        let row = self.supervisor.environments().task(&id).await?;
        if !has_ended && self.status_of_task(&row).await? == TaskStatus::Cancelled {
            return Err(Error::new(ErrorCode::WrongState, CANCELLED));
        }
        Ok(session)
    }

    /// Begins the session of a task.
    async fn start_task(
        &self,
        row: &TaskRow,
        environment: &EnvironmentRow,
        timeout: Option<Duration>,
        parent: Option<SessionId>,
    ) -> Result<BegunSession, Error> {
        // Looked at again: the task is on record now, so that a stop from here on finds it.
        safety::check_running(&self.environment(&environment.id).await?)?;
        let model = from_wire::model(&environment.model);
        let provider = self.provider(environment, &model)?;
        let mut new = session_in(environment, provider, model.of(provider));
        new.initial_message.clone_from(&row.prompt);
        new.task_id.clone_from(&row.id);
        new.timeout = timeout;
        new.parent = parent;
        let idle_wait = Some(runtime::limits::WORKER_IDLE_WAIT);
        new.timeouts = Timeouts { idle_wait, ..new.timeouts };
        let offered = Command::RegisterTools { source: "team".to_owned(), tools: Vec::new() };
        self.supervisor.create_begun(new, vec![offered]).await
    }

    /// Returns the session of a task; waits for it while its agent is being started. An error if it has none.
    pub(crate) async fn session_of(&self, mut row: TaskRow) -> Result<SessionId, Error> {
        if self.starting.contains(&row.id) || (row.session_id.is_empty() && row.error.is_empty()) {
            // After the deadline the row says what there is.
            let _ = tokio::time::timeout(limits::TASK_START_WAIT, self.starting.over(&row.id)).await;
            row = self.supervisor.environments().task(&row.id).await?;
        }
        if row.session_id.is_empty() {
            return Err(no_session(&row));
        }
        Ok(SessionId::new(row.session_id.as_str()))
    }
}

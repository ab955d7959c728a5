//! `TaskService`: prompts that run as separate sessions. A task's record holds what was requested; its
//! progress is read from the session's journal.

mod start;
mod task_status;

use std::time::Duration;

use domain::Timestamp;
use domain::limits::PROMPT_MAX_BYTES;
use domain::turn::EndReason;
use domain::{
    Command, Decision, Error, ErrorCode, EventKind, RequestId, SessionId, Status as SessionStatus, StopMode,
};
use runtime::Snapshot;
use runtime::environments::NewTask;
use storage::environments::TaskRow;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Request;
use wire::roz::v1 as pb;
use wire::roz::v1::task_service_server::TaskService;

use super::starting::CancelledStart;
use super::stream::waiting_permission;
use super::{Roz, RpcResult, answer, from_wire, safety};
use start::TaskParent;
use surface::client_key::client_key;
use surface::peer::Signer;
use surface::pump::Messages;
use surface::{shorten, status, structs};
use task_status::TaskStatus;

/// What the record of a task says that was cancelled before its agent was started.
const CANCELLED: &str = "cancelled before it started";

/// How often a task without a session is polled.
const SESSION_POLL: Duration = Duration::from_millis(50);

pub(super) fn timestamp(at: Timestamp) -> prost_types::Timestamp {
    let (seconds, nanos) = at.seconds_and_nanos();
    prost_types::Timestamp { seconds, nanos }
}

/// Refuses a prompt that no task can have.
pub(super) fn check_prompt(field: &str, prompt: &str) -> Result<(), Error> {
    if prompt.trim().is_empty() {
        return Err(Error::invalid(field, "is required"));
    }
    if prompt.len() > PROMPT_MAX_BYTES {
        let length = prompt.len();
        return Err(Error::invalid(
            field,
            format_args!("is {length} bytes long; the limit is {PROMPT_MAX_BYTES}"),
        ));
    }
    Ok(())
}

#[tonic::async_trait]
impl TaskService for Roz {
    async fn create_task(&self, request: Request<pb::CreateTaskRequest>) -> RpcResult<pb::Task> {
        let key = client_key(request.metadata());
        answer(self.begin_task(request.into_inner(), &key).await)
    }

    async fn get_task(&self, request: Request<pb::GetTaskRequest>) -> RpcResult<pb::Task> {
        let request = request.into_inner();
        answer(self.task(&request.id).await)
    }

    async fn list_tasks(&self, request: Request<pb::ListTasksRequest>) -> RpcResult<pb::ListTasksResponse> {
        let request = request.into_inner();
        answer(self.tasks(request).await)
    }

    async fn cancel_task(
        &self,
        request: Request<pb::CancelTaskRequest>,
    ) -> RpcResult<pb::CancelTaskResponse> {
        let key = client_key(request.metadata());
        let request = request.into_inner();
        answer(self.end_task(&request.id, &key).await.map(|()| pb::CancelTaskResponse {}))
    }

    async fn approve_tool_use(&self, request: Request<pb::ApproveToolUseRequest>) -> RpcResult<pb::Task> {
        let by = Signer::of(request.extensions()).sign_answer("roz".to_owned());
        let key = client_key(request.metadata());
        let approving = async { self.approve(request.into_inner(), by?, &key).await };
        answer(approving.await)
    }

    type StreamTaskStatusStream = Messages<pb::TaskStatusUpdate>;

    async fn stream_task_status(
        &self,
        request: Request<pb::StreamTaskStatusRequest>,
    ) -> RpcResult<Self::StreamTaskStatusStream> {
        let request = request.into_inner();
        answer(self.statuses(request.task_id).await)
    }
}

impl Roz {
    /// Stores a task and starts its session in the background.
    pub(super) async fn begin_task(
        &self,
        request: pb::CreateTaskRequest,
        client_key: &str,
    ) -> Result<pb::Task, Error> {
        check_prompt("prompt", &request.prompt)?;
        let environment = self.environment(&request.environment_id).await?;
        safety::check_running(&environment)?;
        self.check_host(request.host_id.as_ref()).await?;
        let parent = match request.parent_task_id.as_deref().filter(|id| !id.is_empty()) {
            None => None,
            Some(id) => {
                from_wire::uuid("parent_task_id", id)?;
                let parent = self.supervisor.environments().task(id).await?;
                if !parent.error.is_empty() {
                    return Err(no_session(&parent));
                }
                Some(TaskParent { has_ended: self.has_ended(&parent).await?, row: parent })
            }
        };
        let new = NewTask {
            prompt: request.prompt,
            environment_id: environment.id.clone(),
            host_id: request.host_id.unwrap_or_default(),
            parent_task_id: request.parent_task_id.unwrap_or_default(),
        };
        let (row, is_new) = self.supervisor.environments().create_task(new, client_key).await?;
        if !is_new {
            return self.task(&row.id).await;
        }
        let timeout = request.timeout_secs.filter(|seconds| *seconds > 0);
        let timeout = timeout.map(|seconds| Duration::from_secs(u64::from(seconds)));
        let (roz, task) = (self.clone(), row.clone());
        let start = self.starting.begin(&row.id);
        tokio::spawn(async move { roz.run_task(start, task, &environment, timeout, parent).await });
        Ok(task_message(row, TaskStatus::Pending))
    }

    /// Returns a task with its current status.
    pub(super) async fn task(&self, id: &str) -> Result<pb::Task, Error> {
        from_wire::uuid("id", id)?;
        let row = self.supervisor.environments().task(id).await?;
        let (status, _) = self.task_status(&row).await?;
        Ok(task_message(row, status))
    }

    /// Lists tasks page by page.
    pub(super) async fn tasks(&self, request: pb::ListTasksRequest) -> Result<pb::ListTasksResponse, Error> {
        let mut data = Vec::new();
        let mut bytes = 0;
        for row in self.supervisor.environments().tasks(request.limit, request.offset).await? {
            bytes += row.prompt.len() + surface::limits::EVENT_FRAME_BYTES;
            // A page that clients do not take helps nobody; who wants the rest asks behind what there is.
            if bytes > surface::limits::CLIENT_MESSAGE_BYTES && !data.is_empty() {
                break;
            }
            let (status, _) = self.task_status(&row).await?;
            data.push(task_message(row, status));
        }
        Ok(pb::ListTasksResponse { data })
    }

    /// Returns the published status of a task, and its detail.
    async fn task_status(&self, row: &TaskRow) -> Result<(TaskStatus, String), Error> {
        if let Some(reason) = safety::stop_reason(row) {
            return Ok((TaskStatus::SafetyStop, reason.to_owned()));
        }
        if row.session_id.is_empty() {
            if row.error.ends_with(CANCELLED) {
                return Ok((TaskStatus::Cancelled, String::new()));
            }
            if !row.error.is_empty() {
                return Ok((TaskStatus::Failed, row.error.clone()));
            }
            if self.starting.is_launched(&row.id) {
                return Ok((TaskStatus::Provisioning, String::new()));
            }
            // The daemon that should have started its session is gone.
            let lost = row.created_at < self.about.started_at;
            return Ok(if lost {
                (TaskStatus::Failed, "the daemon ended before it started".to_owned())
            } else {
                (TaskStatus::Pending, String::new())
            });
        }
        let session = SessionId::new(row.session_id.as_str());
        let snapshot = match self.supervisor.snapshot(&session).await {
            Ok(snapshot) => snapshot,
            Err(error) if error.code == ErrorCode::SessionNotFound => {
                return Ok((TaskStatus::Failed, "its session was deleted".to_owned()));
            }
            Err(error) => return Err(error),
        };
        match snapshot.state.status {
            SessionStatus::Created | SessionStatus::Starting => {
                return Ok((TaskStatus::Provisioning, String::new()));
            }
            _ if snapshot.state.turn.is_some() => return Ok((TaskStatus::Running, waiting(&snapshot))),
            _ => {}
        }
        Ok(match self.supervisor.last_turn(&session).await? {
            Some(last) => {
                let detail = if last.error.is_empty() { last.text } else { last.error };
                // Whoever stopped the session ended its turn on purpose.
                let was_stopped = snapshot.state.status == SessionStatus::Stopped;
                let was_stopped = was_stopped && last.reason == EndReason::Interrupted;
                (if was_stopped { TaskStatus::Cancelled } else { TaskStatus::of_end(last.reason) }, detail)
            }
            None if snapshot.state.status.is_terminal() => (TaskStatus::Failed, snapshot.state.error.clone()),
            None => (TaskStatus::Running, String::new()),
        })
    }

    /// Returns the published status of a task.
    pub(super) async fn status_of_task(&self, row: &TaskRow) -> Result<TaskStatus, Error> {
        Ok(self.task_status(row).await?.0)
    }

    /// Returns whether a task has ended.
    pub(super) async fn has_ended(&self, row: &TaskRow) -> Result<bool, Error> {
        Ok(self.status_of_task(row).await?.is_final())
    }

    /// Cancels a task: at once, or as soon as it has a session. One that did not start has ended already.
    pub(super) async fn end_task(&self, id: &str, client_key: &str) -> Result<(), Error> {
        from_wire::uuid("id", id)?;
        let is_remembered = self.starting.cancel(id) == CancelledStart::Remembered;
        let row = self.supervisor.environments().task(id).await?;
        if is_remembered || row.session_id.is_empty() {
            return Ok(());
        }
        self.end_session(&SessionId::new(row.session_id.as_str()), client_key).await
    }

    /// Cancels a session's turn and stops it. A session that has already stopped is not an error.
    async fn end_session(&self, session: &SessionId, client_key: &str) -> Result<(), Error> {
        let cancelled = self.supervisor.command_once(session, Command::CancelTurn, client_key).await?;
        // What was started again since then is not meant by a repeated call.
        if cancelled.is_repeated {
            return Ok(());
        }
        match self.supervisor.stop(session, StopMode::Graceful).await {
            Err(error) if error.code == ErrorCode::AlreadyStopped => Ok(()),
            stopped => stopped.map(drop),
        }
    }

    pub(super) async fn approve(
        &self,
        request: pb::ApproveToolUseRequest,
        by: String,
        client_key: &str,
    ) -> Result<pb::Task, Error> {
        from_wire::uuid("task_id", &request.task_id)?;
        let row = self.supervisor.environments().task(&request.task_id).await?;
        let session = self.session_of(row).await?;
        let snapshot = self.supervisor.snapshot(&session).await?;
        // A repeated call finds what it has settled.
        let settled =
            || settled_permission(&snapshot, &request.tool_call_id).filter(|_| !client_key.is_empty());
        let found = waiting_permission(&snapshot, &request.tool_call_id).or_else(settled);
        let Some((id, tool)) = found else {
            return Err(Error::new(
                ErrorCode::RequestNotFound,
                format!("tool_call_id: nothing waits under {:?}", request.tool_call_id),
            ));
        };
        let modifier =
            request.modifier.as_ref().map(|value| structs::to_json("modifier", value)).transpose()?;
        let (decision, message) = if request.approved {
            (Decision::AllowOnce, String::new())
        } else {
            (Decision::Deny, format!("Permission denied by user for: {tool}"))
        };
        let updated_input = modifier.filter(|_| request.approved);
        self.supervisor
            .command_once(
                &session,
                Command::Decide { request: id, decision, message, updated_input, grant: None, by },
                client_key,
            )
            .await?;
        self.task(&request.task_id).await
    }

    /// Streams a task's status; a separate task follows it.
    async fn statuses(&self, id: String) -> Result<Messages<pb::TaskStatusUpdate>, Error> {
        from_wire::uuid("task_id", &id)?;
        self.supervisor.environments().task(&id).await?;
        let (sender, receiver) = mpsc::channel(surface::limits::STREAM_READY_MAX);
        let roz = self.clone();
        tokio::spawn(async move {
            if let Err(error) = roz.follow_task(&id, &sender).await {
                // A client that has left does not need the reason.
                let _ = sender.send(Err(status::grpc(&error))).await;
            }
        });
        Ok(Box::pin(ReceiverStream::new(receiver)))
    }

    /// Sends each change of a task's status until it is final or the client disconnects.
    async fn follow_task(
        &self,
        id: &str,
        sender: &mpsc::Sender<Result<pb::TaskStatusUpdate, tonic::Status>>,
    ) -> Result<(), Error> {
        let mut sent: Option<(TaskStatus, String)> = None;
        let mut cursor = None;
        loop {
            let row = self.supervisor.environments().task(id).await?;
            if cursor.is_none() && !row.session_id.is_empty() {
                let session = SessionId::new(row.session_id.as_str());
                cursor = Some(self.supervisor.events_after(&session, 0).await?);
            }
            let (status, detail) = self.task_status(&row).await?;
            if sent.as_ref() != Some(&(status, detail.clone())) {
                sent = Some((status, detail.clone()));
                let update = pb::TaskStatusUpdate {
                    task_id: id.to_owned(),
                    status: status.name().to_owned(),
                    detail: (!detail.is_empty())
                        .then(|| shorten::text(&detail, surface::limits::ACTIVITY_TEXT_MAX_BYTES)),
                    timestamp: Some(timestamp(host::clock::now())),
                };
                if sender.send(Ok(update)).await.is_err() {
                    return Ok(());
                }
            }
            if status.is_final() {
                return Ok(());
            }
            tokio::select! {
                moved = next_move(cursor.as_mut()) => moved?,
                () = sender.closed() => return Ok(()),
            }
        }
    }
}

/// Waits for an event that may change the status of a task.
async fn next_move(cursor: Option<&mut runtime::journal::Cursor>) -> Result<(), Error> {
    let Some(cursor) = cursor else {
        tokio::time::sleep(SESSION_POLL).await;
        return Ok(());
    };
    loop {
        let events = cursor.next_kept().await?;
        let moves = |kind: &EventKind| {
            matches!(
                kind,
                EventKind::StatusChanged { .. }
                    | EventKind::TurnStarted { .. }
                    | EventKind::TurnEnded { .. }
                    | EventKind::RequestOpened { .. }
                    | EventKind::RequestSettled { .. }
            )
        };
        if events.iter().any(|event| moves(&event.kind)) {
            return Ok(());
        }
    }
}

/// Returns which call of a task waits for approval: no other message contains it.
fn waiting(snapshot: &Snapshot) -> String {
    let approval = snapshot.state.requests.values().find_map(|pending| {
        let call = pending.ask.permission()?.call.as_ref();
        Some(call.map_or_else(|| pending.id.to_string(), ToString::to_string))
    });
    approval.map(|call| format!("waiting_approval {call}")).unwrap_or_default()
}

/// Returns the error of a task without a session.
fn no_session(row: &TaskRow) -> Error {
    let why = if row.error.is_empty() { "its agent has not started" } else { row.error.as_str() };
    Error::new(ErrorCode::WrongState, format!("task {} has no session: {why}", row.id))
}

/// Converts a task's row, with its current status.
fn task_message(row: TaskRow, status: TaskStatus) -> pb::Task {
    pb::Task {
        id: row.id,
        prompt: row.prompt,
        environment_id: row.environment_id,
        status: status.name().to_owned(),
        host_id: (!row.host_id.is_empty()).then_some(row.host_id),
        created_at: Some(timestamp(row.created_at)),
        updated_at: Some(timestamp(row.updated_at)),
    }
}
/// Returns the permission for a call that was settled, with its tool.
fn settled_permission(snapshot: &Snapshot, call: &str) -> Option<(RequestId, String)> {
    snapshot.state.settled.iter().rev().find_map(|settled| {
        let ask = settled.request.ask.permission()?;
        let is_meant = ask.call.as_ref().is_some_and(|known| known.as_str() == call);
        is_meant.then(|| (settled.request.id, ask.tool.clone()))
    })
}

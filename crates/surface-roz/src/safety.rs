//! `SafetyService`: the emergency stop of an environment. It is on record before anything is ended, so that nothing starts
//! behind it, and it outlives the daemon.

use std::path::Path;

use domain::{Error, ErrorCode, SessionId, StopMode};
use host::clock;
use storage::environments::{EmergencyStop, EnvironmentRow, TaskRow};
use storage::sessions::SessionFilter;
use tonic::Request;
use wire::roz::v1 as pb;
use wire::roz::v1::safety_service_server::SafetyService;

use super::starting::CancelledStart;
use super::{Roz, RpcResult, answer, limits};

/// What the record of a task begins with that an emergency stop ended.
const STOPPED: &str = "emergency stop: ";

#[tonic::async_trait]
impl SafetyService for Roz {
    async fn get_safety_status(
        &self,
        request: Request<pb::GetSafetyStatusRequest>,
    ) -> RpcResult<pb::SafetyStatus> {
        answer(self.safety_status(&request.into_inner().environment_id).await)
    }

    async fn trigger_estop(
        &self,
        request: Request<pb::TriggerEstopRequest>,
    ) -> RpcResult<pb::TriggerEstopResponse> {
        let request = request.into_inner();
        let stopped = self.emergency_stop(&request.environment_id, &request.reason).await;
        answer(stopped.map(|()| pb::TriggerEstopResponse {}))
    }

    async fn clear_estop(
        &self,
        request: Request<pb::ClearEstopRequest>,
    ) -> RpcResult<pb::ClearEstopResponse> {
        let request = request.into_inner();
        let cleared = self.clear_stop(&request.environment_id, &request.reason).await;
        answer(cleared.map(|()| pb::ClearEstopResponse {}))
    }
}

/// Refuses to start anything in an environment that is stopped (OBEY-2011).
pub(super) fn check_running(environment: &EnvironmentRow) -> Result<(), Error> {
    let Some(stop) = &environment.emergency_stop else { return Ok(()) };
    let message = format!(
        "environment_id: the emergency stop of {} is active ({}); nothing starts there until SafetyService/ClearEstop",
        environment.name, stop.reason
    );
    Err(Error::new(ErrorCode::WrongState, message))
}

/// Returns why an emergency stop ended a task, if one did.
pub(super) fn stop_reason(row: &TaskRow) -> Option<&str> {
    row.error.strip_prefix(STOPPED)
}

impl Roz {
    async fn safety_status(&self, id: &str) -> Result<pb::SafetyStatus, Error> {
        let environment = self.environment(id).await?;
        let mode = match environment.mode.as_str() {
            "" => self.supervisor.default_mode_in(&environment.directory).await?.name().to_owned(),
            mode => mode.to_owned(),
        };
        let wait = match environment.answer_wait_secs {
            0 => limits::APPROVAL_WAIT.as_secs(),
            seconds => u64::from(seconds),
        };
        let mut active_guards = vec![format!("permissions:{mode}"), format!("approval_timeout:{wait}s")];
        let is_stopped = environment.emergency_stop.is_some();
        if is_stopped {
            active_guards.push("emergency_stop".to_owned());
        }
        let level = if is_stopped { "emergency_stop" } else { "normal" };
        Ok(pb::SafetyStatus {
            environment_id: environment.id,
            estop_active: is_stopped,
            level: level.to_owned(),
            active_guards,
        })
    }

    /// Stops an environment: notes it, then ends its tasks and every session whose folder is in it, at once.
    async fn emergency_stop(&self, id: &str, reason: &str) -> Result<(), Error> {
        let environment = self.environment(id).await?;
        check_reason(reason)?;
        let reason = if reason.trim().is_empty() { "no reason given" } else { reason };
        let stop = EmergencyStop { at: clock::now(), reason: reason.to_owned() };
        let environments = self.supervisor.environments();
        // A second one changes nothing of the first, but ends what the first could not.
        if environment.emergency_stop.is_none() {
            environments.set_emergency_stop(&environment.id, Some(stop)).await?;
        }
        let mut ends = Vec::new();
        for session in self.sessions_in(Path::new(&environment.directory)).await? {
            ends.push(self.stop_aside(session));
        }
        for row in environments.tasks_in(&environment.id).await? {
            let (roz, reason) = (self.clone(), reason.to_owned());
            ends.push(tokio::spawn(async move { roz.stop_task(row, &reason).await }));
        }
        let mut failure = None;
        for end in ends {
            let ended = end.await.unwrap_or_else(|error| {
                Err(Error::new(ErrorCode::StopTimedOut, "a session cannot be stopped")
                    .with_detail(error.to_string()))
            });
            failure = failure.or(ended.err());
        }
        failure.map_or(Ok(()), Err)
    }

    async fn clear_stop(&self, id: &str, reason: &str) -> Result<(), Error> {
        let environment = self.environment(id).await?;
        check_reason(reason)?;
        let cleared = self.supervisor.environments().set_emergency_stop(&environment.id, None).await;
        tracing::info!(environment = environment.id, reason, "an emergency stop is cleared");
        cleared.map(drop)
    }

    /// Returns the sessions that have not ended and whose folder is this one or below it, whoever started them.
    async fn sessions_in(&self, folder: &Path) -> Result<Vec<SessionId>, Error> {
        let running = self.supervisor.list(SessionFilter::default()).await?;
        let inside = running.into_iter().filter(|session| session.spec.working_dir.starts_with(folder));
        Ok(inside.map(|session| session.spec.id).collect())
    }

    fn stop_aside(&self, session: SessionId) -> tokio::task::JoinHandle<Result<(), Error>> {
        let roz = self.clone();
        tokio::spawn(async move { roz.stop_now(&session).await })
    }

    async fn stop_now(&self, session: &SessionId) -> Result<(), Error> {
        match self.supervisor.stop(session, StopMode::Now).await {
            Err(error) if matches!(error.code, ErrorCode::AlreadyStopped | ErrorCode::SessionNotFound) => {
                Ok(())
            }
            stopped => stopped.map(drop),
        }
    }

    /// Ends a task that has not ended, and notes why.
    async fn stop_task(&self, mut row: TaskRow, reason: &str) -> Result<(), Error> {
        if self.starting.cancel(&row.id) != CancelledStart::None {
            // After the deadline the row says what there is.
            let _ = tokio::time::timeout(limits::TASK_START_WAIT, self.starting.over(&row.id)).await;
            row = self.supervisor.environments().task(&row.id).await?;
        } else if self.has_ended(&row).await? {
            return Ok(());
        }
        let session = SessionId::new(row.session_id.as_str());
        row.error = format!("{STOPPED}{reason}");
        row.updated_at = clock::now();
        self.supervisor.environments().put_task(row).await?;
        if session.as_str().is_empty() { Ok(()) } else { self.stop_now(&session).await }
    }
}

fn check_reason(reason: &str) -> Result<(), Error> {
    let most = limits::REASON_MAX_BYTES;
    match reason.len() > most {
        true => Err(Error::invalid("reason", format_args!("is longer than {most} bytes"))),
        false => Ok(()),
    }
}

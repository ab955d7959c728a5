//! `WatchTeam`: the activity of a task's workers, read from their journals, so that a late watcher misses
//! nothing. The stream ends when the task and all its workers have ended.

use std::pin::Pin;

use domain::turn::EndReason;
use domain::{Error, ErrorCode, EventKind, SessionId};
use runtime::Supervisor;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;
use wire::roz::v1 as pb;
use wire::roz::v1::team_event::Event as Body;

use super::{Roz, from_wire};
use crate::limits;
use surface::pump::Messages;
use surface::status;

type Sender = mpsc::Sender<Result<pb::TeamEvent, Status>>;

impl Roz {
    /// Streams the activity of a team. The id is that of a task or of the lead's session.
    pub(super) async fn team(&self, id: &str) -> Result<Messages<pb::TeamEvent>, Error> {
        let (lead, host) = if id.starts_with(domain::id::SESSION_PREFIX) {
            (SessionId::new(id), String::new())
        } else {
            from_wire::uuid("task_id", id)?;
            let row = self.supervisor.environments().task(id).await?;
            (self.session_of(&row)?, row.host_id)
        };
        self.supervisor.snapshot(&lead).await?;
        let (sender, receiver) = mpsc::channel(limits::TEAM_READY_MAX);
        let task = id.to_owned();
        let member =
            TeamMember { supervisor: self.supervisor.clone(), session: lead, is_lead: true, task, host };
        tokio::spawn(member.follow(sender));
        Ok(Box::pin(ReceiverStream::new(receiver)))
    }
}

/// The lead or a worker of a team.
struct TeamMember {
    supervisor: Supervisor,
    session: SessionId,
    /// Of the lead only its workers are reported.
    is_lead: bool,
    task: String,
    host: String,
}

/// The watcher is gone.
struct WatcherGone;

impl TeamMember {
    /// Follows a member's journal. Boxed, because workers can have workers.
    fn follow(self, sender: Sender) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            if let Err(error) = self.stream_events(&sender).await
                && error.code != ErrorCode::SessionNotFound
            {
                // A watcher that has left does not need the reason.
                let _ = sender.send(Err(status::grpc(&error))).await;
            }
        })
    }

    /// Streams one member's events from the beginning of its journal until its session ends.
    async fn stream_events(&self, sender: &Sender) -> Result<(), Error> {
        let mut cursor = self.supervisor.events_after(&self.session, 0).await?;
        let mut view = WorkerView { worker: self.session.to_string(), settled: false };
        loop {
            let events = tokio::select! {
                events = cursor.next() => events,
                () = sender.closed() => return Ok(()),
            };
            let events = match events {
                Err(error) if error.code == ErrorCode::EventsExpired => {
                    cursor.skip_removed().await?;
                    continue;
                }
                events => events?,
            };
            for event in events {
                if self.show(&mut view, &event.kind, sender).await.is_err() {
                    return Ok(());
                }
                let ended = matches!(&event.kind, EventKind::StatusChanged { to, .. } if to.is_terminal());
                // A session that was restarted meanwhile continues.
                if ended && self.has_ended().await? && cursor.seq() >= cursor.newest() {
                    return Ok(());
                }
            }
        }
    }

    async fn has_ended(&self) -> Result<bool, Error> {
        Ok(self.supervisor.snapshot(&self.session).await?.state.status.is_terminal())
    }

    /// Sends the messages for one event. A worker with its own session is followed separately.
    async fn show(
        &self,
        view: &mut WorkerView,
        kind: &EventKind,
        sender: &Sender,
    ) -> Result<(), WatcherGone> {
        let mut bodies = Vec::new();
        if let EventKind::WorkerStarted { worker, .. } = kind
            && worker.starts_with(domain::id::SESSION_PREFIX)
        {
            let member = TeamMember {
                supervisor: self.supervisor.clone(),
                session: SessionId::new(worker.as_str()),
                is_lead: false,
                task: self.task.clone(),
                host: self.host.clone(),
            };
            tokio::spawn(member.follow(sender.clone()));
        } else if self.is_lead {
            own_worker(kind, &self.host, &self.task, &mut bodies);
        } else {
            view.take(kind, &self.host, &self.task, &mut bodies);
        }
        for body in bodies {
            sender.send(Ok(pb::TeamEvent { event: Some(body) })).await.map_err(|_| WatcherGone)?;
        }
        Ok(())
    }
}

/// Reports a worker inside the lead's own agent.
fn own_worker(kind: &EventKind, host: &str, task: &str, out: &mut Vec<Body>) {
    match kind {
        EventKind::WorkerStarted { worker, .. } => out.push(Body::WorkerStarted(pb::WorkerStarted {
            worker_id: worker.clone(),
            host_id: host.to_owned(),
        })),
        EventKind::WorkerFinished { worker, ok, summary }
            if !worker.starts_with(domain::id::SESSION_PREFIX) =>
        {
            let worker_id = worker.clone();
            out.push(if *ok {
                Body::WorkerCompleted(pb::WorkerCompleted { worker_id, result: summary.clone() })
            } else {
                Body::WorkerFailed(pb::WorkerFailed { worker_id, reason: "model_error".to_owned() })
            });
            let (worker_id, parent_task_id) = (worker.clone(), task.to_owned());
            out.push(Body::WorkerExited(pb::WorkerExited { worker_id, parent_task_id }));
        }
        _ => {}
    }
}

/// Projects a worker's journal for watchers.
struct WorkerView {
    worker: String,
    /// The result of its last turn was reported.
    settled: bool,
}

impl WorkerView {
    /// Converts an event of a worker's session.
    fn take(&mut self, kind: &EventKind, host: &str, task: &str, out: &mut Vec<Body>) {
        let worker_id = self.worker.clone();
        match kind {
            EventKind::SessionCreated { .. } => {
                let host_id = host.to_owned();
                out.push(Body::WorkerStarted(pb::WorkerStarted { worker_id, host_id }));
            }
            EventKind::TurnStarted { turn, .. } => {
                self.settled = false;
                let phase = super::to_wire::small(turn.0);
                let mode = "react".to_owned();
                out.push(Body::WorkerPhase(pb::WorkerPhase { worker_id, phase, mode }));
            }
            EventKind::ToolStarted { tool, .. } => {
                let tool = tool.clone();
                out.push(Body::WorkerToolCall(pb::WorkerToolCall { worker_id, tool }));
            }
            EventKind::TurnEnded { reason: EndReason::Completed, text, .. } => {
                self.settled = true;
                let result = text.clone();
                out.push(Body::WorkerCompleted(pb::WorkerCompleted { worker_id, result }));
            }
            EventKind::TurnEnded { reason, error, .. } => {
                self.settled = true;
                let reason = failure(*reason, error).to_owned();
                out.push(Body::WorkerFailed(pb::WorkerFailed { worker_id, reason }));
            }
            EventKind::StatusChanged { to, message, .. } if to.is_terminal() => {
                if !std::mem::replace(&mut self.settled, true) {
                    let reason = failure(EndReason::Interrupted, message).to_owned();
                    out.push(Body::WorkerFailed(pb::WorkerFailed { worker_id: worker_id.clone(), reason }));
                }
                let parent_task_id = task.to_owned();
                out.push(Body::WorkerExited(pb::WorkerExited { worker_id, parent_task_id }));
            }
            _ => {}
        }
    }
}

/// Returns the published reason of a worker's failure.
fn failure(reason: EndReason, error: &str) -> &'static str {
    match reason {
        EndReason::Cancelled => "e_stop",
        EndReason::Refused => "safety_violation",
        EndReason::Interrupted if error.contains(&ErrorCode::SessionTimeout.to_string()) => "timeout",
        EndReason::Completed
        | EndReason::Failed
        | EndReason::LimitReached
        | EndReason::BudgetExceeded
        | EndReason::Interrupted => "model_error",
    }
}

#[cfg(test)]
mod tests {
    use domain::{Status as SessionStatus, TurnId};

    use super::*;

    fn taken(kinds: &[EventKind]) -> Vec<String> {
        let mut view = WorkerView { worker: "w".to_owned(), settled: false };
        let mut out = Vec::new();
        for kind in kinds {
            view.take(kind, "h", "t", &mut out);
        }
        out.iter()
            .map(|body| format!("{body:?}"))
            .map(|text| text.split('(').next().unwrap_or_default().to_owned())
            .collect()
    }

    fn ended(reason: EndReason) -> EventKind {
        EventKind::TurnEnded { turn: TurnId(1), reason, text: String::new(), error: String::new() }
    }

    fn status(to: SessionStatus) -> EventKind {
        EventKind::StatusChanged { from: SessionStatus::Stopping, to, message: String::new(), code: None }
    }

    #[test]
    fn a_worker_exits_once_and_says_first_how_it_went() {
        assert_eq!(
            taken(&[ended(EndReason::Completed), status(SessionStatus::Stopped)]),
            ["WorkerCompleted", "WorkerExited"]
        );
        assert_eq!(taken(&[status(SessionStatus::Failed)]), ["WorkerFailed", "WorkerExited"]);
        assert_eq!(
            taken(&[ended(EndReason::Cancelled), status(SessionStatus::Stopped)]),
            ["WorkerFailed", "WorkerExited"]
        );
    }

    #[test]
    fn every_failure_has_a_published_reason() {
        assert_eq!(failure(EndReason::Cancelled, ""), "e_stop");
        assert_eq!(failure(EndReason::Interrupted, "OBEY-2014: late"), "timeout");
        assert_eq!(failure(EndReason::Failed, ""), "model_error");
        assert_eq!(failure(EndReason::Refused, ""), "safety_violation");
    }
}

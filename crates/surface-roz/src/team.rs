//! `WatchTeam`: the activity of a task's workers, read from their journals, so that a late watcher misses
//! nothing. The stream ends when the task and all its workers have ended.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;

use domain::answer::AnswerText;
use domain::turn::EndReason;
use domain::{CallId, Error, ErrorCode, Event, EventKind, SessionId, Status as SessionStatus, any_event};
use runtime::Supervisor;
use runtime::journal::Cursor;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;
use wire::roz::v1 as pb;
use wire::roz::v1::team_event::Event as Body;

use super::{Roz, from_wire};
use crate::limits;
use storage::environments::TaskRow;
use surface::follow::{self, FollowEnd, Follower};
use surface::pump::{Flow, Messages};
use surface::status;

/// How workers work, in the publication's word.
const MODE: &str = "react";

type Sender = mpsc::Sender<Result<pb::TeamEvent, Status>>;

impl Roz {
    /// Streams the activity of a team. The id is that of a task or of the lead's session.
    pub(super) async fn team(&self, id: &str) -> Result<Messages<pb::TeamEvent>, Error> {
        let (lead, host) = if id.starts_with(domain::id::SESSION_PREFIX) {
            (SessionId::new(id), String::new())
        } else {
            from_wire::uuid("task_id", id)?;
            let row = self.supervisor.environments().task(id).await?;
            let host = row.host_id.clone();
            match self.session_of(row).await {
                Ok(session) => (session, host),
                // A task whose agent did not start has no team.
                Err(error) if error.code == ErrorCode::WrongState => {
                    return Ok(Box::pin(tokio_stream::empty()));
                }
                Err(error) => return Err(error),
            }
        };
        self.supervisor.snapshot(&lead).await?;
        let (sender, receiver) = mpsc::channel(limits::TEAM_READY_MAX);
        let task = id.to_owned();
        let member =
            TeamMember { supervisor: self.supervisor.clone(), session: lead, is_lead: true, task, host };
        tokio::spawn(member.send_events(sender));
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

impl TeamMember {
    /// Sends a member's events from the beginning of its journal until its session ends. Boxed, because workers can
    /// have workers.
    fn send_events(self, sender: Sender) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            let (supervisor, session) = (self.supervisor.clone(), self.session.clone());
            let mut member = self;
            let worker = member.worker_id().await;
            let view = WorkerView::new(worker);
            let inside = InnerWorkers::default();
            let mut feed = TeamFeed { member, view, inside, sender: sender.clone(), may_have_ended: false };
            let followed = match supervisor.events_after(&session, 0).await {
                Ok(cursor) => follow::follow(cursor, &mut feed).await,
                Err(error) => Err(error.into()),
            };
            if let Err(FollowEnd::Failed(error)) = followed
                && error.code != ErrorCode::SessionNotFound
            {
                // A watcher that has left does not need the reason.
                let _ = sender.send(Err(status::grpc(&error))).await;
            }
        })
    }

    /// Returns the id by which watchers know a worker: that of its task, whose host is then the worker's, else of its session.
    async fn worker_id(&mut self) -> String {
        match self.own_task().await {
            Some(row) if !self.is_lead => {
                self.host = row.host_id;
                row.id
            }
            _ => self.session.to_string(),
        }
    }

    /// Returns the task that the session runs. A worker that an agent starts has the task of its parent, and none of its own.
    async fn own_task(&self) -> Option<TaskRow> {
        let snapshot = self.supervisor.snapshot(&self.session).await.ok()?;
        let task = &snapshot.spec.task_id;
        if let Some(parent) = &snapshot.spec.parent
            && self.supervisor.snapshot(parent).await.ok()?.spec.task_id == *task
        {
            return None;
        }
        self.supervisor.environments().task(task).await.ok()
    }
}

/// Sends the events of one member to a watcher.
struct TeamFeed {
    member: TeamMember,
    view: WorkerView,
    inside: InnerWorkers,
    sender: Sender,
    /// An event said that the session has ended.
    may_have_ended: bool,
}

impl Follower for TeamFeed {
    type Signal = ();

    async fn take(&mut self, events: Vec<Arc<Event>>) -> Result<Flow, FollowEnd> {
        for event in events {
            self.show(&event.kind).await?;
            self.may_have_ended |= event.kind.ends_session();
        }
        Ok(Flow::More)
    }

    async fn signal(&mut self) -> Result<(), FollowEnd> {
        self.sender.closed().await;
        Err(FollowEnd::ClientGone)
    }

    async fn before_wait(&mut self, cursor: &Cursor) -> Result<Flow, FollowEnd> {
        if !self.may_have_ended || cursor.seq() < cursor.newest() {
            return Ok(Flow::More);
        }
        // A session that was restarted meanwhile continues.
        let snapshot = self.member.supervisor.snapshot(&self.member.session).await?;
        Ok(if snapshot.state.status.is_terminal() { Flow::Done } else { Flow::More })
    }
}

impl TeamFeed {
    /// Sends the messages for one event. A worker with its own session is followed separately.
    async fn show(&mut self, kind: &EventKind) -> Result<(), FollowEnd> {
        let Self { member: this, view, inside, sender, .. } = self;
        let mut bodies = Vec::new();
        if let EventKind::WorkerStarted { worker, .. } = kind
            && worker.starts_with(domain::id::SESSION_PREFIX)
        {
            let member = TeamMember {
                supervisor: this.supervisor.clone(),
                session: SessionId::new(worker.as_str()),
                is_lead: false,
                task: this.task.clone(),
                host: this.host.clone(),
            };
            tokio::spawn(member.send_events(sender.clone()));
        } else if this.is_lead {
            inside.take(kind, &this.host, &this.task, &mut bodies);
        } else {
            view.take(kind, &this.host, &this.task, &mut bodies);
        }
        for body in bodies {
            sender.send(Ok(pb::TeamEvent { event: Some(body) })).await?;
        }
        Ok(())
    }
}

/// The workers inside the lead's own agent, each by the call that started it.
#[derive(Default)]
struct InnerWorkers {
    by_call: HashMap<CallId, String>,
    /// The lead is being stopped, or its turn is.
    is_stopping: bool,
}

impl InnerWorkers {
    /// Converts an event of the lead's session.
    fn take(&mut self, kind: &EventKind, host: &str, task: &str, out: &mut Vec<Body>) {
        match kind {
            EventKind::WorkerStarted { worker, call, .. } => {
                let (worker_id, host_id) = (worker.clone(), host.to_owned());
                out.push(Body::WorkerStarted(pb::WorkerStarted { worker_id: worker_id.clone(), host_id }));
                // It has one turn.
                let mode = MODE.to_owned();
                out.push(Body::WorkerPhase(pb::WorkerPhase { worker_id, phase: 1, mode }));
                if let Some(call) = call {
                    self.by_call.insert(call.clone(), worker.clone());
                }
            }
            EventKind::ToolStarted { tool, parent: Some(parent), .. } => {
                if let Some(worker) = self.by_call.get(parent) {
                    let (worker_id, tool) = (worker.clone(), tool.clone());
                    out.push(Body::WorkerToolCall(pb::WorkerToolCall { worker_id, tool }));
                }
            }
            EventKind::WorkerFinished { worker, ok, summary, .. }
                if !worker.starts_with(domain::id::SESSION_PREFIX) =>
            {
                let worker_id = worker.clone();
                out.push(if *ok {
                    Body::WorkerCompleted(pb::WorkerCompleted { worker_id, result: summary.clone() })
                } else {
                    let reason = if self.is_stopping { EndReason::Cancelled } else { EndReason::Failed };
                    let reason = failure(reason, "").to_owned();
                    Body::WorkerFailed(pb::WorkerFailed { worker_id, reason })
                });
                let (worker_id, parent_task_id) = (worker.clone(), task.to_owned());
                out.push(Body::WorkerExited(pb::WorkerExited { worker_id, parent_task_id }));
            }
            EventKind::StatusChanged { to, .. } => self.is_stopping = *to == SessionStatus::Stopping,
            EventKind::InterruptRequested { .. } => self.is_stopping = true,
            EventKind::TurnStarted { .. } => self.is_stopping = false,
            any_event!(
                SessionCreated AgentStarted AgentReady AgentExited AgentLogged Restarted MessageAdded TurnEnded
                TextDelta ThinkingDelta ToolStarted ToolProgress ToolFinished request settings plan usage
                WorkerProgressed WorkerFinished report
            ) => {}
        }
    }
}

/// Projects a worker's journal for watchers.
struct WorkerView {
    worker: String,
    /// The result of its last turn was reported.
    settled: bool,
    /// Somebody stops it: what ends now did not fail.
    is_stopping: bool,
    answer: AnswerText,
}

impl WorkerView {
    fn new(worker: String) -> Self {
        Self { worker, settled: false, is_stopping: false, answer: AnswerText::default() }
    }

    /// Returns the published reason of the failure; a turn that is cut short by a stop was stopped, unless its time was up.
    fn failure(&self, reason: EndReason, error: &str) -> String {
        match failure(reason, error) {
            "model_error" if self.is_stopping && reason == EndReason::Interrupted => "e_stop",
            other => other,
        }
        .to_owned()
    }

    /// Converts an event of a worker's session.
    fn take(&mut self, kind: &EventKind, host: &str, task: &str, out: &mut Vec<Body>) {
        let worker_id = self.worker.clone();
        self.answer.take(kind);
        match kind {
            EventKind::SessionCreated { .. } => {
                let host_id = host.to_owned();
                out.push(Body::WorkerStarted(pb::WorkerStarted { worker_id, host_id }));
            }
            EventKind::TurnStarted { turn, .. } => {
                self.settled = false;
                let phase = super::to_wire::small(turn.0);
                let mode = MODE.to_owned();
                out.push(Body::WorkerPhase(pb::WorkerPhase { worker_id, phase, mode }));
            }
            EventKind::ToolStarted { tool, .. } => {
                let tool = tool.clone();
                out.push(Body::WorkerToolCall(pb::WorkerToolCall { worker_id, tool }));
            }
            EventKind::TurnEnded { reason: EndReason::Completed, text, .. } => {
                self.settled = true;
                let result = self.answer.answer(text).to_owned();
                out.push(Body::WorkerCompleted(pb::WorkerCompleted { worker_id, result }));
            }
            EventKind::TurnEnded { reason, error, .. } => {
                self.settled = true;
                let reason = self.failure(*reason, error);
                out.push(Body::WorkerFailed(pb::WorkerFailed { worker_id, reason }));
            }
            EventKind::StatusChanged { to: SessionStatus::Stopping, .. } => self.is_stopping = true,
            EventKind::StatusChanged { to, message, .. } if to.is_terminal() => {
                self.is_stopping |= *to == SessionStatus::Stopped;
                if !std::mem::replace(&mut self.settled, true) {
                    let reason = self.failure(EndReason::Interrupted, message);
                    out.push(Body::WorkerFailed(pb::WorkerFailed { worker_id: worker_id.clone(), reason }));
                }
                let parent_task_id = task.to_owned();
                out.push(Body::WorkerExited(pb::WorkerExited { worker_id, parent_task_id }));
            }
            EventKind::Restarted { .. } => self.is_stopping = false,
            any_event!(
                StatusChanged AgentStarted AgentReady AgentExited AgentLogged InterruptRequested
                MessageAdded TextDelta ThinkingDelta ToolProgress ToolFinished request settings plan usage
                worker report
            ) => {}
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
    use domain::TurnId;

    use super::*;

    fn bodies(kinds: &[EventKind]) -> Vec<Body> {
        let mut view = WorkerView::new("w".to_owned());
        let mut out = Vec::new();
        for kind in kinds {
            view.take(kind, "h", "t", &mut out);
        }
        out
    }

    fn reasons(bodies: &[Body]) -> Vec<&str> {
        let failed = bodies.iter().filter_map(|body| match body {
            Body::WorkerFailed(failed) => Some(failed.reason.as_str()),
            _ => None,
        });
        failed.collect()
    }

    fn taken(kinds: &[EventKind]) -> Vec<String> {
        bodies(kinds)
            .iter()
            .map(|body| format!("{body:?}"))
            .map(|text| text.split('(').next().unwrap_or_default().to_owned())
            .collect()
    }

    #[test]
    fn a_worker_inside_the_agent_says_what_it_does() {
        let call = |name: &str| CallId::new(name);
        let started = |call: CallId, parent| EventKind::ToolStarted {
            call,
            tool: "Bash".to_owned(),
            input: serde_json::json!({}),
            title: String::new(),
            parent,
        };
        let (worker, title) = ("a1".to_owned(), "look".to_owned());
        let mut out = Vec::new();
        let mut inside = InnerWorkers::default();
        for kind in [
            EventKind::WorkerStarted { worker, call: Some(call("task")), title },
            started(call("own"), None),
            started(call("unknown"), Some(call("other"))),
            started(call("inner"), Some(call("task"))),
        ] {
            inside.take(&kind, "h", "t", &mut out);
        }
        let worker_id = "a1".to_owned();
        assert_eq!(
            out,
            [
                Body::WorkerStarted(pb::WorkerStarted {
                    worker_id: worker_id.clone(),
                    host_id: "h".to_owned()
                }),
                Body::WorkerPhase(pb::WorkerPhase {
                    worker_id: worker_id.clone(),
                    phase: 1,
                    mode: "react".to_owned()
                }),
                Body::WorkerToolCall(pb::WorkerToolCall { worker_id, tool: "Bash".to_owned() }),
            ]
        );
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
    fn a_worker_that_is_stopped_did_not_fail() {
        let (stopping, stopped) = (status(SessionStatus::Stopping), status(SessionStatus::Stopped));
        let cut = ended(EndReason::Interrupted);
        assert_eq!(reasons(&bodies(&[stopping.clone(), cut.clone(), stopped.clone()])), ["e_stop"]);
        assert_eq!(reasons(&bodies(&[stopping, stopped])), ["e_stop"]);
        assert_eq!(reasons(&bodies(&[cut, status(SessionStatus::Failed)])), ["model_error"]);
        let late = EventKind::TurnEnded {
            turn: TurnId(1),
            reason: EndReason::Interrupted,
            text: String::new(),
            error: "OBEY-2014: late".to_owned(),
        };
        assert_eq!(reasons(&bodies(&[status(SessionStatus::Stopping), late])), ["timeout"]);
    }

    #[test]
    fn a_worker_inside_the_agent_that_is_stopped_with_its_lead_did_not_fail() {
        let finished = || EventKind::WorkerFinished {
            worker: "a1".to_owned(),
            ok: false,
            summary: String::new(),
            spent: None,
        };
        let reason = |before: Option<EventKind>| {
            let (mut inside, mut out) = (InnerWorkers::default(), Vec::new());
            for kind in before.into_iter().chain([finished()]) {
                inside.take(&kind, "h", "t", &mut out);
            }
            reasons(&out).concat()
        };
        assert_eq!(reason(None), "model_error");
        assert_eq!(reason(Some(status(SessionStatus::Stopping))), "e_stop");
    }

    #[test]
    fn every_failure_has_a_published_reason() {
        assert_eq!(failure(EndReason::Cancelled, ""), "e_stop");
        assert_eq!(failure(EndReason::Interrupted, "OBEY-2014: late"), "timeout");
        assert_eq!(failure(EndReason::Failed, ""), "model_error");
        assert_eq!(failure(EndReason::Refused, ""), "safety_violation");
    }
}

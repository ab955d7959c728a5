//! `WatchSubagent`: the journal of a worker's session as the events of a worker. At most one event per entry of the journal.

use std::sync::Arc;

use domain::request::RequestSubject;
use domain::turn::EndReason;
use domain::worker::{WorkerEnd, WorkerStatus, WorkerTurn};
use domain::{Error, Event, EventKind, SessionId, Status, any_event};
use runtime::workers::Workers;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use wire::betcode::v1 as pb;
use wire::betcode::v1::subagent_event::Event as Body;

use super::super::Betcode;
use super::super::to_wire::timestamp;
use crate::limits;
use surface::follow::{self, FollowEnd, Follower};
use surface::pump::{Flow, Messages};
use surface::{shorten, status};

impl Betcode {
    /// Streams what a worker did after a sequence number and does, to its end.
    pub(super) async fn watch_worker(
        &self,
        request: pb::WatchSubagentRequest,
    ) -> Result<Messages<pb::SubagentEvent>, Error> {
        let found = self.workers().find(&request.subagent_id, None).await?;
        let session = found.record.session;
        let newest = self.supervisor.events_after(&session, 0).await?.newest();
        if request.from_sequence > newest {
            let what = format!("{} is after the newest event, {newest}", request.from_sequence);
            return Err(Error::invalid("from_sequence", what));
        }
        // From the beginning: how a worker ended depends on the events before.
        let cursor = self.supervisor.events_after(&session, 0).await?;
        let (sender, receiver) = mpsc::channel(surface::limits::STREAM_READY_MAX);
        let mut feed = WorkerFeed {
            workers: self.workers(),
            projector: WorkerProjector::new(session),
            after: request.from_sequence,
            sender,
        };
        tokio::spawn(async move {
            if let Err(FollowEnd::Failed(error)) = follow::follow(cursor, &mut feed).await {
                // A client that has left does not need the reason.
                let _ = feed.sender.send(Err(status::grpc(&error))).await;
            }
        });
        Ok(Box::pin(ReceiverStream::new(receiver)))
    }
}

/// Sends the events of one worker to a watcher.
struct WorkerFeed {
    workers: Workers,
    projector: WorkerProjector,
    /// The watcher has the events up to this one.
    after: u64,
    sender: mpsc::Sender<Result<pb::SubagentEvent, tonic::Status>>,
}

impl Follower for WorkerFeed {
    type Signal = ();

    async fn take(&mut self, events: Vec<Arc<Event>>) -> Result<Flow, FollowEnd> {
        for event in events {
            let body = match self.projector.take(&event) {
                Projected::Nothing => continue,
                Projected::Body(body) => body,
                Projected::Ended(status) => self.projector.end(&self.workers, status).await?,
            };
            let is_last = matches!(body, Body::Completed(_) | Body::Failed(_) | Body::Cancelled(_));
            if event.seq > self.after {
                let message = pb::SubagentEvent {
                    subagent_id: self.projector.worker.to_string(),
                    timestamp: Some(timestamp(event.at)),
                    sequence: event.seq,
                    event: Some(body),
                };
                self.sender.send(Ok(message)).await?;
            }
            if is_last {
                return Ok(Flow::Done);
            }
        }
        Ok(Flow::More)
    }

    async fn signal(&mut self) -> Result<(), FollowEnd> {
        self.sender.closed().await;
        Err(FollowEnd::ClientGone)
    }
}

/// What an entry of the journal is to a watcher.
enum Projected {
    Nothing,
    Body(Body),
    /// The session has ended so; how the worker did is asked for.
    Ended(Status),
}

/// Folds the journal of a worker's session.
struct WorkerProjector {
    worker: SessionId,
    model: String,
    is_started: bool,
    last_turn: Option<WorkerTurn>,
    exit_code: i32,
    error: String,
}

impl WorkerProjector {
    fn new(worker: SessionId) -> Self {
        let (model, error) = (String::new(), String::new());
        Self { worker, model, is_started: false, last_turn: None, exit_code: 0, error }
    }

    fn take(&mut self, event: &Event) -> Projected {
        Projected::Body(match &event.kind {
            EventKind::SessionCreated { model, .. } => {
                self.model.clone_from(model);
                return Projected::Nothing;
            }
            EventKind::StatusChanged { to: Status::Starting, .. } if !self.is_started => {
                self.is_started = true;
                let session_id = self.worker.to_string();
                Body::Started(pb::SubagentStarted { session_id, model: self.model.clone() })
            }
            EventKind::StatusChanged { to, message, .. } if to.is_terminal() => {
                self.error.clone_from(message);
                return Projected::Ended(*to);
            }
            EventKind::TextDelta { text, .. } => output(text, false),
            EventKind::TurnEnded { reason, text, error, .. } => {
                let turn = WorkerTurn { reason: *reason, text: text.clone(), error: error.clone() };
                self.last_turn = Some(turn);
                if *reason != EndReason::Completed {
                    return Projected::Nothing;
                }
                output(text, true)
            }
            EventKind::ToolStarted { call, tool, title, .. } => Body::ToolUse(pb::SubagentToolUse {
                tool_id: call.to_string(),
                tool_name: tool.clone(),
                description: title.clone(),
            }),
            EventKind::RequestOpened { request, automatic: false, ask, .. } => {
                let (tool_name, description) = asked(ask);
                let request_id = request.to_string();
                Body::PermissionRequest(pb::SubagentPermissionRequest { request_id, tool_name, description })
            }
            EventKind::AgentExited { exit_code, .. } => {
                self.exit_code = exit_code.unwrap_or(-1);
                return Projected::Nothing;
            }
            any_event!(
                StatusChanged AgentStarted AgentReady AgentLogged Restarted TurnStarted InterruptRequested
                MessageAdded ThinkingDelta ToolProgress ToolFinished RequestOpened RequestSettled
                GrantsChanged settings plan usage worker report
            ) => return Projected::Nothing,
        })
    }

    /// Returns the last event of a worker whose session has ended.
    async fn end(&self, workers: &Workers, status: Status) -> Result<Body, Error> {
        let cancelled = workers.find(self.worker.as_str(), None).await?.cancel_reason;
        let end = WorkerEnd::of(status, &self.error, self.last_turn.as_ref(), cancelled.as_deref());
        let summary = shorten::text(&end.summary, limits::SUBAGENT_RESULT_MAX_BYTES);
        Ok(match end.status {
            WorkerStatus::Completed => {
                Body::Completed(pb::SubagentCompleted { exit_code: 0, result_summary: summary })
            }
            WorkerStatus::Cancelled => Body::Cancelled(pb::SubagentCancelled { reason: summary }),
            WorkerStatus::Failed | WorkerStatus::Pending | WorkerStatus::Running => {
                // A turn fails without a failed process.
                let exit_code = if self.exit_code == 0 { 1 } else { self.exit_code };
                Body::Failed(pb::SubagentFailed { exit_code, error_message: summary })
            }
        })
    }
}

fn output(text: &str, is_complete: bool) -> Body {
    Body::Output(pb::SubagentOutput { text: text.to_owned(), is_complete })
}

/// Returns the tool that a request is about, and what it asks.
fn asked(ask: &RequestSubject) -> (String, String) {
    match ask {
        RequestSubject::Permission(asked) => (asked.tool.clone(), asked.title.clone()),
        RequestSubject::ClientTool { tool, .. } => (tool.clone(), String::new()),
        RequestSubject::Question { questions, .. } => {
            (String::new(), crate::questions::question_text(questions))
        }
    }
}

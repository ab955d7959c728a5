//! `WatchOrchestration`: an orchestration's own journal as its events, from the beginning and then live.

use domain::Error;
use domain::orchestration::{Orchestration, OrchestrationChange};
use storage::orchestrations::OrchestrationEvent;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use wire::betcode::v1 as pb;
use wire::betcode::v1::orchestration_event::Event as Body;

use super::super::Betcode;
use super::super::to_wire::timestamp;
use surface::pump::Messages;
use surface::status;

type EventSender = mpsc::Sender<Result<pb::OrchestrationEvent, tonic::Status>>;

impl Betcode {
    /// Streams the events of an orchestration to its end.
    pub(super) async fn watch_orchestration_events(
        &self,
        request: pb::WatchOrchestrationRequest,
    ) -> Result<Messages<pb::OrchestrationEvent>, Error> {
        let id = request.orchestration_id;
        self.workers().orchestration(&id).await?;
        let (sender, receiver) = mpsc::channel(surface::limits::STREAM_READY_MAX);
        let betcode = self.clone();
        tokio::spawn(async move {
            if let Err(error) = betcode.follow_orchestration(&id, &sender).await {
                // A client that has left does not need the reason.
                let _ = sender.send(Err(status::grpc(&error))).await;
            }
        });
        Ok(Box::pin(ReceiverStream::new(receiver)))
    }

    async fn follow_orchestration(&self, id: &str, sender: &EventSender) -> Result<(), Error> {
        let workers = self.workers();
        let (mut state, mut after) = (Orchestration::default(), 0);
        loop {
            // Subscribed first: what is written after the read below is then noticed.
            let growth = workers.orchestration_growth(id);
            for event in workers.orchestration_events(id, after).await? {
                after = event.seq;
                state.evolve(&event.change);
                if let Some(body) = body(&state, &event) {
                    let message = pb::OrchestrationEvent {
                        orchestration_id: id.to_owned(),
                        timestamp: Some(timestamp(event.at)),
                        sequence: event.seq,
                        event: Some(body),
                    };
                    if sender.send(Ok(message)).await.is_err() {
                        return Ok(());
                    }
                }
            }
            let Some(mut growth) = growth.filter(|_| !state.has_ended()) else { return Ok(()) };
            tokio::select! {
                grown = growth.wait_for(|newest| *newest > after) => drop(grown),
                () = sender.closed() => return Ok(()),
            }
        }
    }
}

/// Returns the event of a journal entry that has just been applied; none if watchers are not told.
fn body(state: &Orchestration, event: &OrchestrationEvent) -> Option<Body> {
    let counts = state.counts();
    let count = |number: usize| i32::try_from(number).unwrap_or(i32::MAX);
    Some(match &event.change {
        OrchestrationChange::StepStarted { step, worker, .. } => {
            let name = state.step(step).map(|(step, _)| step.name.clone()).unwrap_or_default();
            let (step_id, subagent_id) = (step.clone(), worker.to_string());
            Body::StepStarted(pb::OrchestrationStepStarted { step_id, subagent_id, name })
        }
        OrchestrationChange::StepSucceeded { step, result } => {
            Body::StepCompleted(pb::OrchestrationStepCompleted {
                step_id: step.clone(),
                result_summary: result.clone(),
                completed_count: count(counts.succeeded),
                total_count: count(counts.total),
            })
        }
        OrchestrationChange::StepFailed { retried: true, .. } => return None,
        OrchestrationChange::StepFailed { step, error, blocked, .. } => {
            Body::StepFailed(pb::OrchestrationStepFailed {
                step_id: step.clone(),
                error_message: error.clone(),
                blocked_steps: blocked.clone(),
            })
        }
        OrchestrationChange::Ended {} if state.has_failed() => Body::Failed(pb::OrchestrationFailed {
            error_message: match state.cancelled() {
                Some(reason) => format!("cancelled: {reason}"),
                None => format!("{} of {} steps failed", counts.failed, counts.total),
            },
            completed_steps: count(counts.succeeded),
            failed_steps: count(counts.failed),
        }),
        OrchestrationChange::Ended {} => Body::Completed(pb::OrchestrationCompleted {
            total_steps: count(counts.total),
            succeeded: count(counts.succeeded),
            failed: count(counts.failed),
        }),
        OrchestrationChange::Created { .. }
        | OrchestrationChange::StepsSkipped { .. }
        | OrchestrationChange::CancelRequested { .. } => return None,
    })
}

//! Watches the plans of a session while they are shown.

use std::sync::Arc;

use config::failure::Failure;
use tokio::sync::mpsc;
use view::{PlanStepSummary, PlanSummary};
use wire::obey::v1 as pb;

use super::DaemonSettings;
use crate::data::Update;
use crate::limits;

/// Reads the plans of a session and follows them, until the task is ended.
pub(super) async fn watch(settings: Arc<DaemonSettings>, updates: mpsc::Sender<Update>, session: String) {
    loop {
        let problem = match watch_once(&settings, &updates, &session).await {
            Ok(()) => String::new(),
            Err(failure) if failure.is_connection_lost() => String::new(),
            Err(failure) => failure.for_people(),
        };
        let over = !problem.is_empty();
        let update = Update::PlansRead { session: session.clone(), problem };
        if updates.send(update).await.is_err() || over {
            return;
        }
        tokio::time::sleep(limits::FOLLOW_PAUSE).await;
    }
}

async fn watch_once(
    settings: &DaemonSettings,
    updates: &mpsc::Sender<Update>,
    session: &str,
) -> Result<(), Failure> {
    let mut service = settings.client.plans();
    let request = pb::ListPlansRequest { parent_session_id: session.to_owned() };
    let listed = service.list(request).await?.into_inner().plans;
    for plan in listed {
        if updates.send(Update::Plan { session: session.to_owned(), plan: summary(plan) }).await.is_err() {
            return Ok(());
        }
    }
    if updates.send(Update::PlansRead { session: session.to_owned(), problem: String::new() }).await.is_err()
    {
        return Ok(());
    }
    let request = pb::WatchPlanRequest { parent_session_id: session.to_owned(), ..Default::default() };
    let mut stream = service.watch(request).await?.into_inner();
    while let Some(plan) = stream.message().await? {
        if updates.send(Update::Plan { session: session.to_owned(), plan: summary(plan) }).await.is_err() {
            return Ok(());
        }
    }
    Ok(())
}

fn summary(plan: pb::Plan) -> PlanSummary {
    let step = |state: pb::PlanStepState| {
        let step = state.step.unwrap_or_default();
        PlanStepSummary {
            id: step.id,
            name: step.name,
            state: state.state,
            session: state.session_id,
            attempts: state.attempts,
            depends_on: step.depends_on,
            text: state.text,
        }
    };
    let steps = plan.steps.into_iter().map(step).collect();
    PlanSummary { id: plan.id, state: plan.state, strategy: plan.strategy, steps }
}

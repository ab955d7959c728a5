//! `PlanService`: plans of steps that run as workers.

use std::collections::BTreeMap;

use domain::orchestration::{OrchestrationPlan, OrchestrationStrategy, PlanStep, StepCondition, StepState};
use domain::{Error, ErrorCode, LaunchPolicy, ProviderKind, SessionId, caller_environment, worker};
use runtime::NewSession;
use runtime::workers::{NewOrchestration, OrchestrationView, Workers};
use surface::peer::{Caller, Signer};
use surface::pump::Messages;
use surface::{shorten, status};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};
use wire::obey::v1 as pb;
use wire::obey::v1::plan_service_server::PlanService;

use super::local::answer;
use super::{Obey, to_wire};
use crate::limits;

#[tonic::async_trait]
impl PlanService for Obey {
    async fn run(
        &self,
        request: Request<pb::RunPlanRequest>,
    ) -> Result<Response<pb::RunPlanResponse>, Status> {
        let by = Signer::of(request.extensions()).name();
        let caller = surface::peer::caller(request.extensions());
        let request = request.into_inner();
        // A PATH chooses the programs that run: only the user at this machine has one that means something here.
        if !request.caller_environment.is_empty() && caller != Caller::User {
            let what =
                "is taken only from this machine's user; leave it out, and the workers have the daemon's own";
            return answer(Err(Error::invalid("caller_environment", what)));
        }
        answer(self.run_plan(request, by).await)
    }

    async fn get(&self, request: Request<pb::GetPlanRequest>) -> Result<Response<pb::Plan>, Status> {
        answer(self.plan(&request.get_ref().plan_id).await)
    }

    async fn list(
        &self,
        request: Request<pb::ListPlansRequest>,
    ) -> Result<Response<pb::ListPlansResponse>, Status> {
        answer(self.session_plans(&request.get_ref().parent_session_id).await)
    }

    type WatchStream = Messages<pb::Plan>;

    async fn watch(
        &self,
        request: Request<pb::WatchPlanRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let request = request.into_inner();
        match (request.plan_id.is_empty(), request.parent_session_id.is_empty()) {
            (true, false) => answer(self.watch_session_plans(&request.parent_session_id).await),
            (false, false) => {
                answer(Err(Error::invalid("parent_session_id", "is taken instead of plan_id, not beside it")))
            }
            (_, true) => answer(self.watch_plan(request.plan_id).await),
        }
    }

    async fn cancel(
        &self,
        request: Request<pb::CancelPlanRequest>,
    ) -> Result<Response<pb::CancelPlanResponse>, Status> {
        let request = request.into_inner();
        let cancelled = self.workers().cancel_orchestration(&request.plan_id, &request.reason).await;
        answer(cancelled.map_err(in_our_words).map(|()| pb::CancelPlanResponse {}))
    }
}

impl Obey {
    pub(super) fn workers(&self) -> Workers {
        Workers::new(&self.supervisor)
    }

    async fn run_plan(&self, request: pb::RunPlanRequest, by: String) -> Result<pb::RunPlanResponse, Error> {
        let strategy = OrchestrationStrategy::parse(&request.strategy).ok_or_else(|| {
            let what = format!("{:?} is none; use parallel, sequential or dag", request.strategy);
            Error::invalid("strategy", what)
        })?;
        let steps = request.steps.iter().enumerate().map(|(at, step)| plan_step(at, step));
        let plan = OrchestrationPlan::new(strategy, steps.collect::<Result<_, _>>()?)?;
        let owns_parent = request.parent_session_id.is_empty();
        let parent = match owns_parent {
            true => self.plan_session(request, &by).await?,
            false => SessionId::new(request.parent_session_id),
        };
        let new = NewOrchestration { parent: parent.clone(), plan, owns_parent, by };
        match self.workers().orchestrate(new).await {
            Ok(plan_id) => Ok(pb::RunPlanResponse { plan_id, parent_session_id: parent.to_string() }),
            Err(error) => {
                if owns_parent {
                    self.supervisor.delete(&parent).await?;
                }
                Err(error)
            }
        }
    }

    /// Creates the session that a plan's workers work for. Its own agent is never started.
    async fn plan_session(&self, request: pb::RunPlanRequest, by: &str) -> Result<SessionId, Error> {
        let (name, agent) = match request.provider.split_once('/') {
            Some((name, agent)) => (name, Some(agent)),
            None => (request.provider.as_str(), None),
        };
        let provider = ProviderKind::parse(name).ok_or_else(|| {
            let what = format!("provider: {name:?} is no provider; name one, or one for each step");
            Error::new(ErrorCode::ProviderUnsupported, what)
        })?;
        // A worker takes over what its own provider needs.
        let kinds = request.steps.iter().filter_map(|step| ProviderKind::parse(&step.provider));
        let mut environment = BTreeMap::new();
        for kind in kinds.chain([provider]).filter(|_| !request.caller_environment.is_empty()) {
            environment.extend(caller_environment::read(kind, &request.caller_environment)?);
        }
        let provider_config: BTreeMap<String, String> =
            agent.map(|agent| ("agent".to_owned(), agent.to_owned())).into_iter().collect();
        let new = NewSession {
            directory: request.working_directory,
            model: request.model,
            name: "plan".to_owned(),
            provider_config,
            caller_environment: environment,
            launch: LaunchPolicy::OnPrompt,
            ..NewSession::new(provider, by.to_owned())
        };
        Ok(self.supervisor.create(new).await?.spec.id.clone())
    }

    pub(super) async fn plan(&self, id: &str) -> Result<pb::Plan, Error> {
        let view = self.workers().orchestration(id).await.map_err(in_our_words)?;
        Ok(plan_message(&view, &self.shown_prompts(&view)))
    }

    async fn watch_plan(&self, id: String) -> Result<Messages<pb::Plan>, Error> {
        self.plan(&id).await?;
        let (sender, receiver) = mpsc::channel(1);
        let obey = self.clone();
        tokio::spawn(async move {
            if let Err(error) = obey.follow_plan(&id, &sender).await {
                // A client that has left does not need the reason.
                let _ = sender.send(Err(status::grpc(&error))).await;
            }
        });
        Ok(Box::pin(ReceiverStream::new(receiver)))
    }

    pub(super) async fn follow_plan(
        &self,
        id: &str,
        sender: &mpsc::Sender<Result<pb::Plan, Status>>,
    ) -> Result<(), Error> {
        let mut view = self.workers().orchestration(id).await?;
        let prompts = self.shown_prompts(&view);
        loop {
            // Subscribed first: what is written after the read below is then noticed.
            let growth = self.workers().orchestration_growth(id);
            let news = self.workers().orchestration_events(id, view.last_seq).await?;
            news.iter().for_each(|event| view.apply(event));
            if sender.send(Ok(plan_message(&view, &prompts))).await.is_err() {
                return Ok(());
            }
            let Some(mut growth) = growth.filter(|_| !view.state.has_ended()) else { return Ok(()) };
            tokio::select! {
                grown = growth.wait_for(|last| *last > view.last_seq) => drop(grown),
                () = sender.closed() => return Ok(()),
            }
            tokio::time::sleep(limits::PLAN_GATHER_WAIT).await;
        }
    }

    /// Returns the prompts of the steps as they are shown.
    fn shown_prompts(&self, view: &OrchestrationView) -> Vec<String> {
        let shown = |step: &PlanStep| cut(&self.supervisor.without_secrets(&step.prompt));
        view.state.plan().steps.iter().map(shown).collect()
    }
}

fn cut(text: &str) -> String {
    shorten::text(text, limits::PLAN_TEXT_MAX_BYTES)
}

fn plan_message(view: &OrchestrationView, prompts: &[String]) -> pb::Plan {
    let state = match (view.state.has_ended(), view.state.has_failed()) {
        (false, _) => "running",
        (true, true) => "failed",
        (true, false) => "completed",
    };
    let steps = view.state.steps().zip(prompts);
    pb::Plan {
        id: view.id.clone(),
        parent_session_id: view.parent.to_string(),
        strategy: view.state.plan().strategy.name().to_owned(),
        state: state.to_owned(),
        steps: steps.map(|((step, state), prompt)| step_message(view, step, state, prompt)).collect(),
        created_at: Some(to_wire::timestamp(view.created_at)),
        ended_at: view.ended_at.map(to_wire::timestamp),
        cancelled: view.state.cancelled().unwrap_or_default().to_owned(),
        last_seq: view.last_seq,
    }
}

fn step_message(
    view: &OrchestrationView,
    step: &PlanStep,
    state: &StepState,
    prompt: &str,
) -> pb::PlanStepState {
    let text = match state {
        StepState::Succeeded { result: text, .. }
        | StepState::Failed { error: text, .. }
        | StepState::Cancelled { reason: text, .. } => text.as_str(),
        StepState::Waiting | StepState::Running { .. } | StepState::Blocked | StepState::Skipped => "",
    };
    let shown = pb::PlanStep {
        id: step.id.clone(),
        name: step.name.clone(),
        prompt: prompt.to_owned(),
        provider: step.provider.clone(),
        model: step.model.clone(),
        working_directory: step.working_directory.clone(),
        allowed_tools: step.allowed_tools.clone(),
        depends_on: step.depends_on.clone(),
        max_turns: i32::try_from(step.max_turns).unwrap_or(i32::MAX),
        auto_approve: step.auto_approve,
        worktree: step.worktree,
        merge: step.merge,
        retries: i32::try_from(step.retries).unwrap_or(i32::MAX),
        condition: step.condition.name().to_owned(),
    };
    pb::PlanStepState {
        state: state.name().to_owned(),
        session_id: state.worker().map(ToString::to_string).unwrap_or_default(),
        attempts: view.state.attempts(&step.id),
        text: cut(text),
        step: Some(shown),
    }
}

/// Converts a step.
fn plan_step(at: usize, step: &pb::PlanStep) -> Result<PlanStep, Error> {
    let in_step = |error: Error| Error { message: format!("steps[{at}].{}", error.message), ..error };
    let condition = StepCondition::parse(&step.condition).ok_or_else(|| {
        let what = format!("{:?} is none; use succeeded, failed or ended", step.condition);
        in_step(Error::invalid("condition", what))
    })?;
    let retries = u32::try_from(step.retries)
        .map_err(|_| in_step(Error::invalid("retries", format_args!("{} is below 0", step.retries))))?;
    Ok(PlanStep {
        id: step.id.clone(),
        name: step.name.clone(),
        prompt: step.prompt.clone(),
        provider: step.provider.clone(),
        model: step.model.clone(),
        working_directory: step.working_directory.clone(),
        allowed_tools: step.allowed_tools.clone(),
        depends_on: step.depends_on.clone(),
        max_turns: worker::max_turns(i64::from(step.max_turns)).map_err(in_step)?,
        auto_approve: step.auto_approve,
        worktree: step.worktree,
        merge: step.merge,
        retries,
        condition,
    })
}

/// This interface says plan where betcode.v1 says orchestration.
fn in_our_words(error: Error) -> Error {
    match error.message.strip_prefix("orchestration_id: ") {
        Some(what) => {
            Error { message: format!("plan_id: {}", what.replace("orchestration", "plan")), ..error }
        }
        None => error,
    }
}

//! Converts the steps of an orchestration. Pure; errors name the invalid field.

use domain::Error;
use domain::orchestration::{OrchestrationPlan, OrchestrationStrategy, PlanStep, StepCondition};
use domain::worker;
use wire::betcode::v1 as pb;

/// Converts and checks a plan.
pub(super) fn plan(strategy: i32, steps: Vec<pb::OrchestrationStep>) -> Result<OrchestrationPlan, Error> {
    let strategy = match pb::OrchestrationStrategy::try_from(strategy) {
        Ok(pb::OrchestrationStrategy::Parallel) => OrchestrationStrategy::Parallel,
        Ok(pb::OrchestrationStrategy::Sequential) => OrchestrationStrategy::Sequential,
        Ok(pb::OrchestrationStrategy::Dag) => OrchestrationStrategy::Dag,
        Ok(pb::OrchestrationStrategy::Unspecified) | Err(_) => {
            return Err(Error::invalid("strategy", "is required: PARALLEL, SEQUENTIAL or DAG"));
        }
    };
    let steps =
        steps.into_iter().enumerate().map(|(at, step)| self::step(at, step)).collect::<Result<_, _>>()?;
    OrchestrationPlan::new(strategy, steps)
}

fn step(at: usize, step: pb::OrchestrationStep) -> Result<PlanStep, Error> {
    let in_step = |error: Error| Error { message: format!("steps[{at}].{}", error.message), ..error };
    let condition = StepCondition::parse(&step.condition).ok_or_else(|| {
        let what = format!("{:?} is no condition; use succeeded, failed or ended", step.condition);
        in_step(Error::invalid("condition", what))
    })?;
    let retries = u32::try_from(step.retries)
        .map_err(|_| in_step(Error::invalid("retries", format_args!("{} is below 0", step.retries))))?;
    Ok(PlanStep {
        id: step.id,
        name: step.name,
        prompt: step.prompt,
        provider: step.provider,
        model: step.model,
        working_directory: step.working_directory,
        allowed_tools: step.allowed_tools,
        depends_on: step.depends_on,
        max_turns: worker::max_turns(i64::from(step.max_turns)).map_err(in_step)?,
        auto_approve: step.auto_approve,
        worktree: step.worktree,
        merge: step.merge,
        retries,
        condition,
    })
}

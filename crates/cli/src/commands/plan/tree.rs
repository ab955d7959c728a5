//! A plan as lines of a tree, as `view` makes them.

use view::{PlanStepSummary, PlanSummary};
use wire::obey::v1 as pb;

use client::format;

/// Columns of a result or an error.
pub(super) const TEXT_COLUMNS: usize = 60;

/// Returns the lines of a plan.
pub(super) fn lines(plan: &pb::Plan) -> Vec<String> {
    let summary = summary(plan);
    let head = format!("{}  {} ({})", summary.id, summary.state, summary.strategy);
    let line = |indent: &str, step: &PlanStepSummary| format!("{indent}{}", describe(step));
    let steps = summary.lines().into_iter().map(|at| line(&at.indent, &summary.steps[at.step]));
    std::iter::once(head).chain(steps).collect()
}

fn summary(plan: &pb::Plan) -> PlanSummary {
    let step = |state: &pb::PlanStepState| {
        let step = state.step.clone().unwrap_or_default();
        PlanStepSummary {
            id: step.id,
            name: step.name,
            state: state.state.clone(),
            session: state.session_id.clone(),
            attempts: state.attempts,
            depends_on: step.depends_on,
            text: state.text.clone(),
        }
    };
    PlanSummary {
        id: plan.id.clone(),
        state: plan.state.clone(),
        strategy: plan.strategy.clone(),
        steps: plan.steps.iter().map(step).collect(),
    }
}

fn describe(step: &PlanStepSummary) -> String {
    let mut line = step.describe();
    if step.state == "running" {
        line.push_str(&format!("  {}", step.session));
    }
    if !step.text.is_empty() {
        line.push_str(&format!(": {}", format::shorten(&format::one_line(&step.text), TEXT_COLUMNS)));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_below_the_first_one_that_they_depend_on() {
        let step = |id: &str, on: &[&str], state: &str| pb::PlanStepState {
            step: Some(pb::PlanStep {
                id: id.to_owned(),
                depends_on: on.iter().map(ToString::to_string).collect(),
                ..Default::default()
            }),
            state: state.to_owned(),
            ..Default::default()
        };
        let plan = pb::Plan {
            id: "orch_1".to_owned(),
            state: "running".to_owned(),
            strategy: "dag".to_owned(),
            steps: vec![
                step("a", &[], "succeeded"),
                step("b", &["a"], "running"),
                step("c", &["a", "d"], "waiting"),
                step("d", &[], "failed"),
            ],
            ..Default::default()
        };
        let expected = [
            "orch_1  running (dag)",
            "├─ a succeeded",
            "│  ├─ b running  ",
            "│  └─ c waiting, after a, d",
            "└─ d failed",
        ];
        assert_eq!(lines(&plan), expected);
    }
}

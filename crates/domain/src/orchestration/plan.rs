//! A plan: the steps of an orchestration and how they depend on each other. A plan that exists has been checked.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorCode};
use crate::limits;
use crate::permission::pattern::CallPattern;

/// In which order the steps of a plan run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OrchestrationStrategy {
    /// All of them at once.
    Parallel,
    /// One after another, in the given order.
    Sequential,
    /// Each when the steps that it depends on have ended.
    #[default]
    Dag,
}

impl OrchestrationStrategy {
    /// Returns the printed name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Parallel => "parallel",
            Self::Sequential => "sequential",
            Self::Dag => "dag",
        }
    }

    /// Parses the printed name.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Parallel, Self::Sequential, Self::Dag].into_iter().find(|strategy| strategy.name() == text)
    }
}

/// How the steps that a step depends on must have ended for it to run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepCondition {
    /// All of them succeeded.
    #[default]
    Succeeded,
    /// At least one of them failed.
    Failed,
    /// Anyhow.
    Ended,
}

impl StepCondition {
    /// Returns the printed name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Ended => "ended",
        }
    }

    /// Parses the printed name; empty: the default.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "" => Some(Self::default()),
            text => [Self::Succeeded, Self::Failed, Self::Ended].into_iter().find(|one| one.name() == text),
        }
    }
}

/// One step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PlanStep {
    pub id: String,
    pub name: String,
    /// May contain secrets: sent to the agent, never shown as it is.
    pub prompt: String,
    /// Empty: the parent's provider.
    pub provider: String,
    pub model: String,
    /// Empty: the parent's.
    pub working_directory: String,
    pub allowed_tools: Vec<String>,
    pub depends_on: Vec<String>,
    pub max_turns: u32,
    pub auto_approve: bool,
    /// A working tree of its own.
    pub worktree: bool,
    /// The tree is merged when the step has succeeded.
    pub merge: bool,
    pub retries: u32,
    pub condition: StepCondition,
}

/// Steps with an order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrchestrationPlan {
    pub strategy: OrchestrationStrategy,
    pub steps: Vec<PlanStep>,
}

impl OrchestrationPlan {
    /// Checks steps and makes a plan of them.
    pub fn new(strategy: OrchestrationStrategy, mut steps: Vec<PlanStep>) -> Result<Self, Error> {
        check_size(&steps)?;
        let mut places = HashMap::new();
        for (at, step) in steps.iter().enumerate() {
            check_step(at, step)?;
            if places.insert(step.id.clone(), at).is_some() {
                return Err(invalid(at, "id", format!("{:?} is the id of an earlier step too", step.id)));
            }
        }
        for (at, step) in steps.iter().enumerate() {
            check_dependencies(strategy, at, step, &places)?;
        }
        for at in 0..steps.len() {
            let mut seen = HashSet::new();
            steps[at].depends_on.retain(|id| seen.insert(id.clone()));
            if strategy == OrchestrationStrategy::Sequential && at > 0 {
                let before = steps[at - 1].id.clone();
                if !steps[at].depends_on.contains(&before) {
                    steps[at].depends_on.push(before);
                }
            }
        }
        match cycle(&steps, &places) {
            Some(path) => Err(Error::invalid(
                "steps",
                format_args!("depend on each other in a circle: {}", path.join(" → ")),
            )),
            None => Ok(Self { strategy, steps }),
        }
    }

    /// Returns the places of the steps in the order in which their working trees are merged: the given one, but no step before
    /// those that it depends on. Nobody waits in a circle, because everything that a step waits for is earlier in it.
    pub(super) fn merge_order(&self) -> Vec<usize> {
        let places: HashMap<&str, usize> =
            self.steps.iter().enumerate().map(|(at, step)| (step.id.as_str(), at)).collect();
        let mut missing: Vec<usize> = self.steps.iter().map(|step| step.depends_on.len()).collect();
        let mut dependents: Vec<Vec<usize>> = vec![Vec::new(); self.steps.len()];
        for (at, step) in self.steps.iter().enumerate() {
            for on in step.depends_on.iter().filter_map(|id| places.get(id.as_str())) {
                dependents[*on].push(at);
            }
        }
        let mut ready: BinaryHeap<Reverse<usize>> =
            (0..self.steps.len()).filter(|at| missing[*at] == 0).map(Reverse).collect();
        let mut order = Vec::with_capacity(self.steps.len());
        while let Some(Reverse(at)) = ready.pop() {
            order.push(at);
            for dependent in &dependents[at] {
                missing[*dependent] -= 1;
                if missing[*dependent] == 0 {
                    ready.push(Reverse(*dependent));
                }
            }
        }
        order
    }
}

fn invalid(at: usize, field: &str, what: impl std::fmt::Display) -> Error {
    Error::invalid(&format!("steps[{at}].{field}"), what)
}

fn check_size(steps: &[PlanStep]) -> Result<(), Error> {
    if steps.is_empty() {
        return Err(Error::invalid("steps", "is required: at least one step"));
    }
    if steps.len() > limits::ORCHESTRATION_STEPS_MAX {
        let (count, most) = (steps.len(), limits::ORCHESTRATION_STEPS_MAX);
        return Err(Error::new(
            ErrorCode::LimitReached,
            format!("steps: {count} steps; the limit is {most}"),
        ));
    }
    let texts = |step: &PlanStep| {
        let lists = step.allowed_tools.iter().chain(&step.depends_on).map(String::len).sum::<usize>();
        step.prompt.len() + step.name.len() + step.working_directory.len() + lists
    };
    let bytes: usize = steps.iter().map(texts).sum();
    if bytes > limits::ORCHESTRATION_MAX_BYTES {
        let most = limits::ORCHESTRATION_MAX_BYTES;
        return Err(Error::new(
            ErrorCode::LimitReached,
            format!("steps: {bytes} bytes; the limit is {most}"),
        ));
    }
    Ok(())
}

fn check_step(at: usize, step: &PlanStep) -> Result<(), Error> {
    let is_short =
        |text: &str| text.chars().count() <= limits::NAME_MAX_CHARS && !text.chars().any(char::is_control);
    if step.id.trim().is_empty() {
        return Err(invalid(at, "id", "is required"));
    }
    for (field, text) in [("id", &step.id), ("name", &step.name), ("model", &step.model)] {
        if !is_short(text) {
            let most = limits::NAME_MAX_CHARS;
            return Err(invalid(
                at,
                field,
                format!("must have at most {most} letters and no control characters"),
            ));
        }
    }
    if step.prompt.trim().is_empty() {
        return Err(invalid(at, "prompt", "is required"));
    }
    if step.auto_approve && step.allowed_tools.is_empty() {
        return Err(invalid(at, "allowed_tools", "is required with auto_approve: name what is approved"));
    }
    for pattern in &step.allowed_tools {
        CallPattern::parse(&format!("steps[{at}].allowed_tools"), pattern)?;
    }
    if step.merge && !step.worktree {
        return Err(invalid(
            at,
            "merge",
            "only a step with a worktree of its own can be merged; set worktree",
        ));
    }
    if step.retries > limits::STEP_RETRIES_MAX {
        let most = limits::STEP_RETRIES_MAX;
        return Err(invalid(at, "retries", format!("{} is more than {most}", step.retries)));
    }
    Ok(())
}

fn check_dependencies(
    strategy: OrchestrationStrategy,
    at: usize,
    step: &PlanStep,
    places: &HashMap<String, usize>,
) -> Result<(), Error> {
    for id in &step.depends_on {
        let problem = match places.get(id) {
            _ if strategy == OrchestrationStrategy::Parallel => {
                "steps of a parallel plan run at once; leave it out or use the strategy dag".to_owned()
            }
            None => format!("there is no step {id:?}"),
            Some(other) if *other == at => "a step cannot depend on itself".to_owned(),
            Some(other) if strategy == OrchestrationStrategy::Sequential && *other > at => {
                format!("{id:?} comes later; order the steps, or use the strategy dag")
            }
            Some(_) => continue,
        };
        return Err(invalid(at, "depends_on", problem));
    }
    Ok(())
}

/// Returns the ids of a circle of dependencies, the first one again at the end; none if there is no circle.
fn cycle(steps: &[PlanStep], places: &HashMap<String, usize>) -> Option<Vec<String>> {
    let dependencies: Vec<Vec<usize>> = steps
        .iter()
        .map(|step| step.depends_on.iter().filter_map(|id| places.get(id).copied()).collect())
        .collect();
    let mut left: HashSet<usize> = (0..steps.len()).collect();
    loop {
        let free: Vec<usize> =
            left.iter().copied().filter(|at| dependencies[*at].iter().all(|on| !left.contains(on))).collect();
        if free.is_empty() {
            break;
        }
        for at in free {
            left.remove(&at);
        }
    }
    // Each step that is left depends on one that is left, so following them comes back to a step.
    let mut at = *left.iter().min()?;
    let mut path: Vec<usize> = Vec::new();
    while !path.contains(&at) {
        path.push(at);
        at = *dependencies[at].iter().find(|on| left.contains(on))?;
    }
    let start = path.iter().position(|other| *other == at)?;
    let mut ids: Vec<String> = path[start..].iter().map(|at| steps[*at].id.clone()).collect();
    ids.push(steps[at].id.clone());
    Some(ids)
}

//! The file of a plan: TOML or JSON, the fields of docs/plan.schema.json. Knows the form; the daemon checks the meaning.

use serde::Deserialize;
use wire::obey::v1 as pb;

use config::failure::{Failure, Result};

/// A plan as people write it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PlanFile {
    pub(super) strategy: String,
    steps: Vec<StepFile>,
}

/// A step as people write it.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct StepFile {
    id: String,
    name: String,
    prompt: String,
    provider: String,
    model: String,
    working_directory: String,
    allowed_tools: Vec<String>,
    depends_on: Vec<String>,
    max_turns: i32,
    auto_approve: bool,
    worktree: bool,
    merge: bool,
    retries: i32,
    condition: String,
}

/// Parses a plan. One that begins with a brace is JSON.
pub(super) fn parse(text: &str) -> Result<PlanFile> {
    let is_json = text.trim_start().starts_with('{');
    let parsed = match is_json {
        true => serde_json::from_str(text).map_err(|error| error.to_string()),
        false => toml::from_str(text).map_err(|error| error.to_string()),
    };
    parsed.map_err(|error| {
        Failure::usage(format!("the plan cannot be read: {}", error.trim_end()))
            .with_hint("a plan has `strategy` (parallel, sequential or dag) and `steps` with `id` and `prompt`; see docs/plans.md")
    })
}

impl PlanFile {
    pub(super) fn steps(&self) -> Vec<pb::PlanStep> {
        let step = |step: &StepFile| pb::PlanStep {
            id: step.id.clone(),
            name: step.name.clone(),
            prompt: step.prompt.clone(),
            provider: step.provider.clone(),
            model: step.model.clone(),
            working_directory: step.working_directory.clone(),
            allowed_tools: step.allowed_tools.clone(),
            depends_on: step.depends_on.clone(),
            max_turns: step.max_turns,
            auto_approve: step.auto_approve,
            worktree: step.worktree,
            merge: step.merge,
            retries: step.retries,
            condition: step.condition.clone(),
        };
        self.steps.iter().map(step).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn toml_and_json_say_the_same_and_what_is_misspelt_is_refused() {
        let toml = "strategy = 'dag'\n[[steps]]\nid = 'a'\nprompt = 'x'\n[[steps]]\nid = 'b'\nprompt = 'y'\ndepends_on = ['a']";
        let json = r#"{"strategy": "dag", "steps": [{"id": "a", "prompt": "x"}, {"id": "b", "prompt": "y", "depends_on": ["a"]}]}"#;
        let (first, second) = (parse(toml).unwrap(), parse(json).unwrap());
        assert_eq!(first.steps(), second.steps());
        assert_eq!((first.strategy.as_str(), second.strategy.as_str()), ("dag", "dag"));
        let misspelt = parse("strategy = 'dag'\n[[steps]]\nid = 'a'\npromt = 'x'").unwrap_err();
        assert!(misspelt.message.contains("promt"), "{}", misspelt.message);
    }

    #[test]
    fn the_schema_names_every_field() {
        let schema: serde_json::Value =
            serde_json::from_str(include_str!("../../../../../docs/plan.schema.json")).unwrap();
        let fields = schema["properties"]["steps"]["items"]["properties"].as_object().unwrap();
        // A misspelt field makes serde list all those it knows.
        let unknown = parse("strategy = 'dag'\n[[steps]]\nnothing_of_this_name = 1").unwrap_err().message;
        let known = unknown.matches('`').count() / 2 - 1;
        assert_eq!(fields.len(), known, "{unknown}");
        assert!(fields.keys().all(|field| unknown.contains(&format!("`{field}`"))), "{unknown}");
    }
}

//! The workbench's operations as tools of agents: one toolbox of the bridge. An agent works in its own session; what
//! changes files or runs commands is asked for, as with every other tool.

use domain::Error;
use runtime::{Snapshot, Supervisor};
use serde_json::{Value, json};
use surfaces::bridge::{self, Call, Output, Tool, Toolbox};
use surfaces::contextd::operations::Operation;
use surfaces::contextd::{self, Contextd};
use surfaces::peer::Caller;

/// What agents do not get: sessions are theirs already, and characters of agents are their user's.
const WITHHELD: &[&str] = &["Session.Start", "Session.End", "Agent.Create", "Agent.Update", "Agent.Delete"];

/// What changes nothing.
const READ_ONLY: &[&str] = &[
    "SafeExec.Read",
    "Ref.GetContent",
    "Memory.Search",
    "Memory.Get",
    "Checkpoint.List",
    "Checkpoint.Resume",
    "Policy.Check",
    "Policy.List",
    "Policy.Get",
    "Skill.List",
    "Skill.Get",
    "Agent.List",
    "Agent.Get",
    "Remediation.Search",
];

/// What is asked for: it changes the project, or what other sessions are told to do.
const ASKED: &[&str] = &["SafeExec.Bash", "SafeExec.Write", "Skill.Create", "Skill.Update", "Skill.Delete"];

/// The operations as tools.
pub(super) struct BenchTools {
    contextd: Contextd,
    supervisor: Supervisor,
    tools: Vec<(&'static Operation, Tool)>,
}

impl BenchTools {
    pub(super) fn new(contextd: Contextd, supervisor: Supervisor) -> Self {
        let offered =
            contextd::tools().into_iter().filter(|(operation, ..)| !WITHHELD.contains(&operation.key));
        let tools = offered.map(|(operation, description, input_schema)| {
            let (name, read_only) = (operation.tool.to_owned(), READ_ONLY.contains(&operation.key));
            (operation, Tool { name, description, input_schema, read_only })
        });
        Self { contextd, supervisor, tools: tools.collect() }
    }
}

#[tonic::async_trait]
impl Toolbox for BenchTools {
    fn tools(&self, _session: &Snapshot) -> Vec<Tool> {
        self.tools.iter().map(|(_, tool)| tool.clone()).collect()
    }

    async fn call(&self, call: Call) -> Result<Output, Error> {
        let Some((operation, _)) = self.tools.iter().find(|(_, tool)| tool.name == call.tool) else {
            return Ok(Output::failed(format!("there is no tool {:?}", call.tool)));
        };
        if ASKED.contains(&operation.key)
            && let Err(reason) = bridge::permission(&self.supervisor, &call, title(&call)).await
        {
            return Ok(Output::failed(reason));
        }
        let session = call.session.spec.id.clone();
        let Value::Object(mut input) = call.arguments else {
            return Err(Error::invalid("arguments", "are no object"));
        };
        input.insert("session_id".to_owned(), json!(session.as_str()));
        let answer = self.contextd.call(operation, Caller::Agent(session), input).await?;
        Ok(Output { ok: true, text: answer.to_string() })
    }
}

/// Says in a line what is asked for.
fn title(call: &Call) -> String {
    let text = |name: &str| call.arguments[name].as_str().map(str::to_owned);
    let what = text("cmd").or_else(|| text("path")).or_else(|| text("name")).unwrap_or_default();
    format!("{}: {what}", call.tool)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_is_offered_withheld_or_asked_for_by_name() {
        let keys: Vec<&str> = contextd::tools().iter().map(|(operation, ..)| operation.key).collect();
        for key in WITHHELD.iter().chain(READ_ONLY).chain(ASKED) {
            assert!(keys.contains(key), "{key} is no operation");
        }
        for (operation, description, schema) in contextd::tools() {
            assert!(!description.is_empty() && schema["type"] == "object", "{}", operation.key);
            assert!(schema["properties"]["session_id"].is_null(), "{}", operation.key);
            let required = schema["required"].as_array().cloned().unwrap_or_default();
            assert!(!required.contains(&json!("session_id")), "{}", operation.key);
        }
    }
}

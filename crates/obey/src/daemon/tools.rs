//! The workbench's operations as tools of agents: a toolbox of the bridge for agents that are programs, and what agents
//! inside the daemon are offered directly. An agent works in its own session; what changes files or runs commands is
//! asked for, as with every other tool, and rules that deny bind every call.

use std::sync::Arc;

use domain::{Error, ErrorCode, Mode, SessionId};
use runtime::toolbox::{Need, Offer};
use runtime::{Snapshot, Supervisor};
use serde_json::{Value, json};
use surfaces::bridge::{self, Call, Output, Tool, Toolbox};
use surfaces::contextd::operations::Operation;
use surfaces::contextd::{self, Contextd};
use surfaces::peer::Caller;

/// What agents do not get: sessions are theirs already, and characters of agents are their user's.
const WITHHELD: &[&str] = &["Session.Start", "Session.End", "Agent.Create", "Agent.Update", "Agent.Delete"];

/// What changes nothing.
pub(super) const READ_ONLY: &[&str] = &[
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

/// The operations as tools. Cheap to clone.
#[derive(Clone)]
pub(crate) struct BenchTools(Arc<Inner>);

struct Inner {
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
        Self(Arc::new(Inner { contextd, supervisor, tools: tools.collect() }))
    }

    /// Returns the tools for an agent inside the daemon.
    pub(crate) fn offers(&self) -> Vec<Offer> {
        let offer = |(operation, tool): &(&'static Operation, Tool)| Offer {
            name: tool.name.clone(),
            description: tool.description.clone(),
            input_schema: tool.input_schema.clone(),
            need: need(operation.key),
        };
        self.0.tools.iter().map(offer).collect()
    }

    /// Runs a tool for an agent inside the daemon, which has asked for what must be asked for.
    pub(crate) async fn call(
        &self,
        session: &SessionId,
        tool: &str,
        arguments: Value,
    ) -> Result<String, Error> {
        let operation = self.find(tool)?;
        if need(operation.key) == Need::Nothing {
            let snapshot = self.0.supervisor.snapshot(session).await?;
            if self.0.supervisor.denies(&snapshot, tool, &arguments) {
                let message = format!("the permission rules of this session deny {tool}");
                return Err(Error::new(ErrorCode::NotAllowed, message));
            }
        }
        self.run(operation, session, arguments).await
    }

    fn find(&self, tool: &str) -> Result<&'static Operation, Error> {
        let found = self.0.tools.iter().find(|(_, known)| known.name == tool);
        found
            .map(|(operation, _)| *operation)
            .ok_or_else(|| Error::invalid("tool", format_args!("there is no tool {tool:?}")))
    }

    async fn run(
        &self,
        operation: &'static Operation,
        session: &SessionId,
        arguments: Value,
    ) -> Result<String, Error> {
        let Value::Object(mut input) = arguments else {
            return Err(Error::invalid("arguments", "are no object"));
        };
        input.insert("session_id".to_owned(), json!(session.as_str()));
        let answer = self.0.contextd.call(operation, Caller::Agent(session.clone()), input).await?;
        Ok(answer.to_string())
    }
}

#[tonic::async_trait]
impl Toolbox for BenchTools {
    fn tools(&self, _session: &Snapshot) -> Vec<Tool> {
        self.0.tools.iter().map(|(_, tool)| tool.clone()).collect()
    }

    async fn call(&self, call: Call) -> Result<Output, Error> {
        let operation = self.find(&call.tool)?;
        let asks = match (need(operation.key), call.session.state.mode) {
            (Need::Nothing, _) => false,
            (_, Mode::Plan) => return Ok(Output::failed("plan mode: observation only")),
            (Need::EditPermission, Mode::AcceptEdits) => false,
            (Need::EditPermission | Need::Permission, _) => true,
        };
        // A denial is asked for, too: then it is answered and recorded like every other.
        if (asks || self.0.supervisor.denies(&call.session, &call.tool, &call.arguments))
            && let Err(reason) = bridge::permission(&self.0.supervisor, &call, title(&call)).await
        {
            return Ok(Output::failed(reason));
        }
        let text = self.run(operation, &call.session.spec.id, call.arguments).await?;
        Ok(Output { ok: true, text })
    }
}

/// Says what a call needs before it is made.
fn need(key: &str) -> Need {
    match key {
        "SafeExec.Write" => Need::EditPermission,
        key if ASKED.contains(&key) => Need::Permission,
        _ => Need::Nothing,
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

//! The workbench's operations as tools for agents: a toolbox of the bridge for external agents, and a direct
//! offer for in-process ones. An agent works in its own session; operations that change files or run commands
//! need a permission like every other tool, and deny rules apply to every call.

use std::sync::Arc;

use agent_port::toolbox::{OfferedTool, RequiredPermission};
use domain::{Error, SessionId};
use runtime::Snapshot;
use serde_json::{Value, json};
use surface::access;
use surface::asking::Asking;
use surface::peer::Caller;
use surface_contextd::operations::Operation;
use surface_contextd::{self, Contextd};
use surface_mcp::{BridgeOutput, BridgeTool, BridgeToolbox, Call};
use wire::access::{Effect, Needs, Offer as Offered};

/// The operations as tools. Cheap to clone.
#[derive(Clone)]
pub(crate) struct WorkbenchTools(Arc<Inner>);

struct Inner {
    contextd: Contextd,
    tools: Vec<(&'static Operation, BridgeTool)>,
}

impl WorkbenchTools {
    pub(super) fn new(contextd: Contextd) -> Self {
        let offered = surface_contextd::tools()
            .into_iter()
            .filter(|(operation, ..)| operation.access().is_some_and(|row| row.offer == Offered::Offered));
        let tools = offered.map(|(operation, description, input_schema)| {
            let (name, read_only) = (operation.tool.to_owned(), is_read_only(operation));
            (operation, BridgeTool { name, description, input_schema, read_only })
        });
        Self(Arc::new(Inner { contextd, tools: tools.collect() }))
    }

    /// Returns the tools for an in-process agent.
    pub(crate) fn offers(&self) -> Vec<OfferedTool> {
        let offer = |(operation, tool): &(&'static Operation, BridgeTool)| OfferedTool {
            name: tool.name.clone(),
            description: tool.description.clone(),
            input_schema: tool.input_schema.clone(),
            need: need(operation.tool),
        };
        self.0.tools.iter().map(offer).collect()
    }

    /// Executes a tool for an in-process agent, which has already requested the necessary permissions.
    pub(crate) async fn call(
        &self,
        session: &SessionId,
        tool: &str,
        arguments: Value,
    ) -> Result<String, Error> {
        self.run(self.find(tool)?, session, arguments, Asking::Done).await
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
        asking: Asking,
    ) -> Result<String, Error> {
        let Value::Object(mut input) = arguments else {
            return Err(Error::invalid("arguments", "are no object"));
        };
        input.insert("session_id".to_owned(), json!(session.as_str()));
        let answer = self.0.contextd.call(operation, Caller::Agent(session.clone()), input, asking).await?;
        Ok(answer.to_string())
    }
}

#[tonic::async_trait]
impl BridgeToolbox for WorkbenchTools {
    fn tools(&self, _session: &Snapshot) -> Vec<BridgeTool> {
        self.0.tools.iter().map(|(_, tool)| tool.clone()).collect()
    }

    async fn call(&self, call: Call) -> Result<BridgeOutput, Error> {
        let operation = self.find(&call.tool)?;
        let asking = Asking::Named { id: call.id, call: call.call };
        let text = self.run(operation, &call.session.spec.id, call.arguments, asking).await?;
        Ok(BridgeOutput { ok: true, text })
    }
}

/// Returns what a tool needs before it is called; without a row in the access table, a permission.
pub(super) fn need(tool: &str) -> RequiredPermission {
    match access::tool(tool).map(|row| row.needs) {
        Some(Needs::Nothing) => RequiredPermission::Nothing,
        Some(Needs::EditPermission) => RequiredPermission::EditPermission,
        Some(Needs::Permission | Needs::Declared) | None => RequiredPermission::Permission,
    }
}

/// Whether an operation changes nothing.
pub(super) fn is_read_only(operation: &Operation) -> bool {
    operation.access().is_some_and(|row| row.effect == Effect::Reads)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_is_described_and_leaves_the_session_to_the_daemon() {
        for (operation, description, schema) in surface_contextd::tools() {
            assert!(!description.is_empty() && schema["type"] == "object", "{}", operation.key);
            assert!(schema["properties"]["session_id"].is_null(), "{}", operation.key);
            let required = schema["required"].as_array().cloned().unwrap_or_default();
            assert!(!required.contains(&json!("session_id")), "{}", operation.key);
        }
    }
}

//! Tools that clients execute: registered with the session by a client, executed by it, limited by the
//! session's rules.

use domain::request::{RequestOrigin, RequestOutcome};
use domain::{Command, Error, tools};
use runtime::{Snapshot, Supervisor};
use serde_json::json;
use wire::access::Needs;

use super::{BridgeOutput, BridgeTool, BridgeToolbox, Call};
use surface::asking;

/// The tools of a session's clients.
pub struct ClientTools {
    supervisor: Supervisor,
}

impl ClientTools {
    pub fn new(supervisor: Supervisor) -> Self {
        Self { supervisor }
    }
}

#[tonic::async_trait]
impl BridgeToolbox for ClientTools {
    fn tools(&self, session: &Snapshot) -> Vec<BridgeTool> {
        let offered = tools::offered(&session.state.tools).into_iter();
        offered
            .map(|tool| BridgeTool {
                name: tool.name.clone(),
                description: tool.description.clone(),
                input_schema: if tool.input_schema.is_object() {
                    tool.input_schema.clone()
                } else {
                    json!({"type": "object"})
                },
                read_only: !tool.exclusive && !tool.asks,
            })
            .collect()
    }

    async fn call(&self, call: Call) -> Result<BridgeOutput, Error> {
        let state = &call.session.state;
        let asks = tools::find(&state.tools, &call.tool).is_some_and(|tool| tool.asks);
        let needs = if asks { Needs::Permission } else { Needs::Nothing };
        if let Err(reason) = asking::consent(&self.supervisor, needs, &call, call.tool.clone()).await {
            return Ok(BridgeOutput::failed(reason));
        }
        let native = RequestOrigin::Bridge(&call.id).to_string();
        let command = Command::CallTool {
            native: native.clone(),
            call: call.call,
            tool: call.tool,
            input: call.arguments,
        };
        let answer = asking::request(&self.supervisor, &call.session.spec.id, command, &native).await?;
        Ok(match answer.outcome {
            RequestOutcome::ToolReturned { ok, output } => BridgeOutput { ok, text: output },
            RequestOutcome::Withdrawn { reason } => BridgeOutput::failed(reason),
            RequestOutcome::Decided { .. } | RequestOutcome::Answered { .. } => {
                BridgeOutput::failed(answer.message)
            }
        })
    }
}

//! Tools that clients run: offered by whoever registered them with the session, run by them, bounded by the rules.

use domain::request::{Outcome, bridged};
use domain::{Command, Error, tools};
use runtime::{Snapshot, Supervisor};
use serde_json::json;
use wire::access::Needs;

use super::{Call, Output, Tool, Toolbox};
use crate::asking;

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
impl Toolbox for ClientTools {
    fn tools(&self, session: &Snapshot) -> Vec<Tool> {
        let offered = tools::offered(&session.state.tools).into_iter();
        offered
            .map(|tool| Tool {
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

    async fn call(&self, call: Call) -> Result<Output, Error> {
        let state = &call.session.state;
        let asks = tools::find(&state.tools, &call.tool).is_some_and(|tool| tool.asks);
        let needs = if asks { Needs::Permission } else { Needs::Nothing };
        if let Err(reason) = asking::consent(&self.supervisor, needs, &call, call.tool.clone()).await {
            return Ok(Output::failed(reason));
        }
        let native = bridged(&call.id);
        let command = Command::CallTool {
            native: native.clone(),
            call: call.call,
            tool: call.tool,
            input: call.arguments,
        };
        let answer = asking::request(&self.supervisor, &call.session.spec.id, command, &native).await?;
        Ok(match answer.outcome {
            Outcome::ToolReturned { ok, output } => Output { ok, text: output },
            Outcome::Withdrawn { reason } => Output::failed(reason),
            Outcome::Decided { .. } | Outcome::Answered { .. } => Output::failed(answer.message),
        })
    }
}

//! Worker tools: an agent starts sessions that work for it, and checks on them. The supervisor enforces their
//! limits.

use std::time::Duration;

use domain::{CallId, Error, SessionId};
use runtime::supervisor::NewWorker;
use runtime::{Snapshot, Supervisor};
use serde_json::{Value, json};
use wire::access::Needs;

use super::{BridgeOutput, BridgeTool, BridgeToolbox, Call};
use crate::limits;
use surface::{access, asking};

const SPAWN: &str = "spawn_worker";
const WATCH: &str = "watch_team";

/// The tools of a team. Cheap to clone.
#[derive(Clone)]
pub struct TeamTools {
    supervisor: Supervisor,
}

impl TeamTools {
    pub fn new(supervisor: Supervisor) -> Self {
        Self { supervisor }
    }
}

#[tonic::async_trait]
impl BridgeToolbox for TeamTools {
    fn tools(&self, _session: &Snapshot) -> Vec<BridgeTool> {
        Self::offers()
    }

    async fn call(&self, call: Call) -> Result<BridgeOutput, Error> {
        if call.tool == SPAWN {
            self.spawn(call).await
        } else {
            self.watch(&call.session, &call.arguments).await
        }
    }
}

impl TeamTools {
    /// Returns the tools, the same for every session.
    pub fn offers() -> Vec<BridgeTool> {
        vec![
            BridgeTool {
                name: SPAWN.to_owned(),
                description:
                    "Starts another agent in the same folder that works on a prompt by itself. Returns its \
                              id at once; watch_team tells how it does."
                        .to_owned(),
                input_schema: json!({
                    "type": "object",
                    "properties": {
                        "prompt": {"type": "string", "description": "What the worker is to do"},
                        "name": {"type": "string", "description": "A short name for it"},
                        "provider": {
                            "type": "string",
                            "description": "What kind of agent it is: claude-code, codex, openai-api, openclaw, or \
                                            acp/ and the agent's name; yours unless given",
                        },
                        "model": {
                            "type": "string",
                            "description": "Its model; yours unless given, or that agent's default",
                        },
                    },
                    "required": ["prompt"],
                }),
                read_only: false,
            },
            BridgeTool {
                name: WATCH.to_owned(),
                description: "Lists your workers with their status and, once they have ended, their results."
                    .to_owned(),
                input_schema: json!({
                    "type": "object",
                    "properties": {
                        "wait": {"type": "boolean", "description": "Wait until all have ended"},
                        "timeout_secs": {"type": "integer", "description": "How long to wait at most"},
                    },
                }),
                read_only: true,
            },
        ]
    }

    /// Executes a tool for an in-process agent, which has already asked for the necessary permissions.
    pub async fn call_inside(
        &self,
        session: &SessionId,
        tool: &str,
        input: &Value,
    ) -> Result<BridgeOutput, Error> {
        if tool != SPAWN {
            let session = self.supervisor.snapshot(session).await?;
            return self.watch(&session, input).await;
        }
        self.begin(session, worker(input, None)).await
    }

    async fn begin(&self, parent: &SessionId, new: NewWorker) -> Result<BridgeOutput, Error> {
        let worker = self.supervisor.spawn_worker(parent, new).await?;
        Ok(BridgeOutput { ok: true, text: json!({"worker_id": worker.as_str()}).to_string() })
    }

    /// Starts a worker, if the user consents.
    async fn spawn(&self, call: Call) -> Result<BridgeOutput, Error> {
        let new = worker(&call.arguments, Some(call.call.clone()));
        // Checked first: there is no point in asking about an impossible worker.
        let kind = self.supervisor.check_worker(&call.session, &new).await?;
        let first_line = new.prompt.lines().next().unwrap_or_default();
        let title = format!("{SPAWN} ({}): {first_line}", kind.provider.name());
        if let Err(reason) = asking::consent(&self.supervisor, needs(SPAWN), &call, title).await {
            return Ok(BridgeOutput::failed(reason));
        }
        self.begin(&call.session.spec.id, new).await
    }

    /// Lists the workers; with `wait`, after they have ended or the timeout has passed.
    async fn watch(&self, session: &Snapshot, input: &Value) -> Result<BridgeOutput, Error> {
        let workers = self.supervisor.workers(&session.spec.id).await?;
        if input["wait"].as_bool().unwrap_or(false) {
            let seconds = input["timeout_secs"].as_u64().unwrap_or(limits::TEAM_WAIT_SECS);
            let wait = Duration::from_secs(seconds.min(limits::TEAM_WAIT_MAX_SECS));
            // Workers that have not ended by then are listed with their current status.
            let _ = tokio::time::timeout(wait, self.all_ended(&workers)).await;
        }
        let mut rows = Vec::new();
        for worker in &workers {
            rows.push(self.row(worker).await?);
        }
        Ok(BridgeOutput { ok: true, text: json!({"workers": rows}).to_string() })
    }

    /// Waits until all workers have ended.
    async fn all_ended(&self, workers: &[SessionId]) -> Result<(), Error> {
        for worker in workers {
            let ended = |snapshot: &Snapshot| snapshot.state.status.is_terminal();
            if !ended(&*self.supervisor.snapshot(worker).await?) {
                self.supervisor.session(worker).await?.wait_until(ended).await?;
            }
        }
        Ok(())
    }

    /// Describes a worker: its status and its last result or error.
    async fn row(&self, worker: &SessionId) -> Result<Value, Error> {
        let snapshot = self.supervisor.snapshot(worker).await?;
        let last = self.supervisor.last_turn(worker).await?;
        let mut row = json!({
            "worker_id": worker.as_str(),
            "name": snapshot.state.name,
            "status": snapshot.state.status.name(),
        });
        if let Some(last) = last {
            row["result"] = json!(last.text);
            if !last.error.is_empty() {
                row["error"] = json!(last.error);
            }
        } else if !snapshot.state.error.is_empty() {
            row["error"] = json!(snapshot.state.error);
        }
        Ok(row)
    }
}

/// Returns what a tool needs according to the access table; without a row, a permission.
fn needs(tool: &str) -> Needs {
    access::tool(tool).map_or(Needs::Permission, |row| row.needs)
}

/// Parses the parameters of a worker.
fn worker(input: &Value, call: Option<CallId>) -> NewWorker {
    let text = |key: &str| input[key].as_str().unwrap_or_default().to_owned();
    NewWorker {
        prompt: text("prompt"),
        name: text("name"),
        provider: text("provider"),
        model: text("model"),
        call,
    }
}

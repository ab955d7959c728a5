//! Tools by which an agent leads workers on any provider: start, wait, list, send, cancel. Only sessions that allow workers
//! have them. The supervisor enforces number, depth, budget and permissions.

use std::time::Duration;

use domain::worker::WorkerAuthority;
use domain::{CallId, Error, SessionId};
use runtime::workers::{SpawnWorker, WorkerView, Workers};
use runtime::{Snapshot, Supervisor};
use serde_json::{Value, json};
use wire::access::Needs;

use super::{BridgeOutput, BridgeTool, BridgeToolbox, Call};
use crate::limits;
use surface::{access, asking};

const START: &str = "worker_start";
const WAIT: &str = "worker_wait";
const LIST: &str = "worker_list";
const SEND: &str = "worker_send";
const CANCEL: &str = "worker_cancel";

/// The tools for workers. Cheap to clone.
#[derive(Clone)]
pub struct WorkerTools {
    supervisor: Supervisor,
}

#[tonic::async_trait]
impl BridgeToolbox for WorkerTools {
    fn tools(&self, session: &Snapshot) -> Vec<BridgeTool> {
        if session.spec.workers > 0 { Self::offers() } else { Vec::new() }
    }

    async fn call(&self, call: Call) -> Result<BridgeOutput, Error> {
        // Rules and plan mode may deny what the session allows.
        let needs = access::tool(&call.tool).map_or(Needs::Permission, |row| row.needs);
        if let Err(reason) = asking::consent(&self.supervisor, needs, &call, call.tool.clone()).await {
            return Ok(BridgeOutput::failed(reason));
        }
        let by_call = Some(call.call.clone());
        self.perform(&call.session.spec.id, &call.tool, &call.arguments, by_call).await
    }
}

impl WorkerTools {
    pub fn new(supervisor: Supervisor) -> Self {
        Self { supervisor }
    }

    /// Returns the tools, the same for every session that has them.
    pub fn offers() -> Vec<BridgeTool> {
        let tool =
            |name: &str, description: &str, properties: Value, required: &[&str], read_only| BridgeTool {
                name: name.to_owned(),
                description: description.to_owned(),
                input_schema: json!({"type": "object", "properties": properties, "required": required}),
                read_only,
            };
        let text = |description: &str| json!({"type": "string", "description": description});
        let waited = json!({
            "worker_ids": {"type": "array", "items": {"type": "string"}, "description": "Those to wait for; all unless given"},
            "timeout_secs": {"type": "integer", "description": "How long to wait at most"},
        });
        let started = json!({
            "prompt": text("What the worker is to do"),
            "name": text("A short name for it"),
            "provider": text("What kind of agent it is: claude-code, codex, openai-api, openclaw, or acp/ and the agent's \
                              name; yours unless given"),
            "model": text("Its model; yours unless given, or that agent's default"),
            "allowed_tools": {"type": "array", "items": {"type": "string"}, "description": "Which of your own permissions it \
                              gets; all of them unless given"},
            "worktree": {"type": "boolean", "description": "Give it a working tree of its own"},
        });
        let sent = json!({"worker_id": text("Its id"), "message": text("What to tell it")});
        let cancelled = json!({"worker_id": text("Its id"), "reason": text("Why, for the record")});
        vec![
            tool(
                START,
                "Starts another agent that works on a prompt by itself. Returns its id at once.",
                started,
                &["prompt"],
                false,
            ),
            tool(WAIT, "Waits until workers have ended and returns their results.", waited, &[], true),
            tool(LIST, "Lists your workers with their status and results.", json!({}), &[], true),
            tool(SEND, "Sends a running worker a message.", sent, &["worker_id", "message"], false),
            tool(CANCEL, "Ends a worker.", cancelled, &["worker_id"], false),
        ]
    }

    /// Executes a tool for an agent whose session allows it.
    pub async fn perform(
        &self,
        session: &SessionId,
        tool: &str,
        input: &Value,
        call: Option<CallId>,
    ) -> Result<BridgeOutput, Error> {
        let parent = self.supervisor.snapshot(session).await?;
        if parent.spec.workers == 0 {
            return Ok(BridgeOutput::failed(
                "this session allows no workers; its user can with `--workers N`",
            ));
        }
        let workers = Workers::new(&self.supervisor);
        let result = match tool {
            START => {
                let spawned = workers.spawn(spawn(session, input, call)).await?;
                json!({"worker_id": spawned.record.session.as_str(), "status": spawned.status.name()})
            }
            WAIT => self.wait(&workers, session, input).await?,
            LIST => {
                let rows: Vec<Value> = workers.list(Some(session)).await?.iter().map(row).collect();
                json!({"workers": rows})
            }
            SEND => {
                let found = workers.find(&field(input, "worker_id"), Some(session)).await?;
                let by = format!("agent of {session}");
                workers.send(&found.record.session, field(input, "message"), by).await?;
                json!({"delivered": true})
            }
            CANCEL => {
                let found = workers.find(&field(input, "worker_id"), Some(session)).await?;
                row(&workers.cancel(&found.record.session, &field(input, "reason"), false).await?)
            }
            _ => return Err(Error::invalid("tool", format_args!("there is no tool {tool:?}"))),
        };
        Ok(BridgeOutput { ok: true, text: result.to_string() })
    }

    /// Waits for workers, and returns how they are then.
    async fn wait(&self, workers: &Workers, session: &SessionId, input: &Value) -> Result<Value, Error> {
        let seconds = input["timeout_secs"].as_u64().unwrap_or(limits::TEAM_WAIT_SECS);
        let until =
            tokio::time::Instant::now() + Duration::from_secs(seconds.min(limits::TEAM_WAIT_MAX_SECS));
        let mut wanted = Vec::new();
        match input["worker_ids"].as_array() {
            Some(ids) => {
                for id in ids {
                    let found = workers.find(id.as_str().unwrap_or_default(), Some(session)).await?;
                    wanted.push(found.record.session);
                }
            }
            None => {
                let all = workers.list(Some(session)).await?;
                wanted.extend(all.into_iter().map(|view| view.record.session));
            }
        }
        let mut rows = Vec::new();
        for id in wanted {
            let left = until.saturating_duration_since(tokio::time::Instant::now());
            rows.push(row(&workers.wait(&id, left).await?));
        }
        Ok(json!({"workers": rows}))
    }
}

fn field(input: &Value, key: &str) -> String {
    input[key].as_str().unwrap_or_default().to_owned()
}

/// Parses the parameters of a worker.
fn spawn(parent: &SessionId, input: &Value, call: Option<CallId>) -> SpawnWorker {
    let tools = input["allowed_tools"].as_array().into_iter().flatten();
    SpawnWorker {
        parent: parent.clone(),
        prompt: field(input, "prompt"),
        provider: field(input, "provider"),
        model: field(input, "model"),
        name: field(input, "name"),
        working_directory: String::new(),
        allowed_tools: tools.filter_map(|tool| tool.as_str().map(str::to_owned)).collect(),
        auto_approve: false,
        max_turns: 0,
        environment: std::collections::BTreeMap::new(),
        worktree: input["worktree"].as_bool().unwrap_or(false),
        authority: WorkerAuthority::Agent,
        call,
        by: format!("agent of {parent}"),
    }
}

/// Describes a worker.
fn row(view: &WorkerView) -> Value {
    json!({
        "worker_id": view.record.session.as_str(),
        "name": view.snapshot.state.name,
        "provider": view.record.provider.name(),
        "status": view.status.name(),
        "result": view.summary,
    })
}

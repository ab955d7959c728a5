//! Tool calls as an editor sees them: started once, updated, finished once. Tracks the open calls and how
//! much of their output was sent.

use std::collections::HashMap;
use std::path::Path;

use domain::request::RequestOutcome;
use domain::{CallId, RequestId};
use serde_json::{Value, json};

use super::{text_content, tools};
use crate::limits;

/// The open calls.
#[derive(Debug, Default)]
pub(super) struct OpenToolCalls {
    open: HashMap<CallId, OpenToolCall>,
    /// The calls that wait for a permission.
    asked: HashMap<RequestId, CallId>,
}

#[derive(Debug, Default)]
struct OpenToolCall {
    /// Its changes; they stay part of its content.
    diffs: Vec<Value>,
    output: String,
    /// Bytes of the output that were sent.
    told: usize,
}

impl OpenToolCalls {
    /// Returns the update for a call that begins, pending as yet. Its changes are kept while it is open.
    pub(super) fn started(
        &mut self,
        call: &CallId,
        tool: &str,
        input: &Value,
        title: &str,
        working_dir: &Path,
    ) -> Value {
        let diffs = tools::diffs(tool, input, working_dir);
        if self.open.len() < limits::ACP_CALLS_OPEN_MAX {
            self.open.insert(call.clone(), OpenToolCall { diffs, ..OpenToolCall::default() });
        }
        let mut update = pending(call.as_str(), tool, input, title, working_dir);
        update["sessionUpdate"] = "tool_call".into();
        update
    }

    /// Notes that a call waits for a permission.
    pub(super) fn asked(&mut self, request: RequestId, call: Option<&CallId>) {
        if let Some(call) = call.filter(|call| self.open.contains_key(*call)) {
            self.asked.insert(request, call.clone());
        }
    }

    /// Returns the update for a call that was permitted. The end of one that was not tells so itself.
    pub(super) fn settled(&mut self, request: RequestId, outcome: &RequestOutcome) -> Option<Value> {
        let call = self.asked.remove(&request)?;
        let is_allowed = matches!(outcome, RequestOutcome::Decided { decision } if decision.allows());
        (is_allowed && self.open.contains_key(&call)).then(|| {
            json!({"sessionUpdate": "tool_call_update", "toolCallId": call.as_str(), "status": "in_progress"})
        })
    }

    /// Adds output. Each update contains all of it, so an update is sent only once the output has doubled or
    /// grown by `ACP_PROGRESS_STEP_BYTES`, and at the end.
    pub(super) fn progressed(&mut self, call: &CallId, output: &str) -> Option<Value> {
        let open = self.open.get_mut(call)?;
        if open.output.len() >= limits::ACP_PROGRESS_MAX_BYTES {
            return None;
        }
        open.output.push_str(output);
        let step = open.told.clamp(1, limits::ACP_PROGRESS_STEP_BYTES);
        if open.output.len() < open.told + step {
            return None;
        }
        open.told = open.output.len();
        let mut content = open.diffs.clone();
        content.push(text_content(&open.output));
        Some(json!({
            "sessionUpdate": "tool_call_update", "toolCallId": call.as_str(), "status": "in_progress",
            "content": content,
        }))
    }

    /// Returns the update for a call that has ended.
    pub(super) fn finished(&mut self, call: &CallId, ok: bool, output: &str) -> Value {
        let mut content = self.open.remove(call).unwrap_or_default().diffs;
        if !output.is_empty() {
            content.push(text_content(output));
        }
        let mut update = json!({
            "sessionUpdate": "tool_call_update", "toolCallId": call.as_str(),
            "status": if ok { "completed" } else { "failed" },
            "rawOutput": {"output": tools::preview(output)},
        });
        if !content.is_empty() {
            update["content"] = content.into();
        }
        update
    }

    /// Fails the calls that a turn left open.
    pub(super) fn turn_ended(&mut self) -> Vec<Value> {
        self.asked.clear();
        let mut left: Vec<CallId> = self.open.drain().map(|(call, _)| call).collect();
        left.sort();
        let failed = |call: &CallId| json!({"sessionUpdate": "tool_call_update", "toolCallId": call.as_str(), "status": "failed"});
        left.iter().map(failed).collect()
    }
}

/// Returns a call that has not started.
pub(super) fn pending(call: &str, tool: &str, input: &Value, title: &str, working_dir: &Path) -> Value {
    let mut update = json!({
        "toolCallId": call,
        "title": if title.is_empty() { tool } else { title },
        "kind": tools::kind(tool),
        "status": "pending",
        "rawInput": input,
    });
    let locations = tools::locations(input, working_dir);
    if !locations.is_empty() {
        update["locations"] = locations.into();
    }
    let diffs = tools::diffs(tool, input, working_dir);
    if !diffs.is_empty() {
        update["content"] = diffs.into();
    }
    update
}

//! Turns of sub-agents. The agent lets them continue when the turn that they work for is interrupted; we do
//! not.

use agent_port::{Decoded, Revisioned};
use domain::{AgentEvent, CallId};
use serde_json::{Value, json};

use super::super::rpc::CodexRequestKind;
use super::super::state::{CodexCall, CodexCallKind, CodexState};
use provider_common::json_fields::Look;

/// Handles the start of a sub-agent's turn.
pub(super) fn began(state: &mut Revisioned<CodexState>, params: &Value, out: &mut Decoded) {
    let Some(worker) = state.workers.get_mut(params.text("threadId")) else { return };
    params.under("turn").text("id").clone_into(&mut worker.turn);
    worker.has_begun = true;
    if worker.is_cut {
        let params = json!({"threadId": params.text("threadId"), "turnId": worker.turn});
        state.send_request(CodexRequestKind::Interrupt, params, &mut out.replies);
    }
}

/// Handles the end of a sub-agent's turn. Searches for everything that an interrupted turn left running,
/// wherever it started.
pub(super) fn ended(state: &mut Revisioned<CodexState>, params: &Value, out: &mut Decoded) {
    let thread = params.text("threadId");
    let Some(worker) = state.workers.get_mut(thread) else { return };
    worker.turn.clear();
    let parent = worker.call.clone();
    close_calls(state, &parent, out);
    let Some(worker) = state.workers.get_mut(thread) else { return };
    if std::mem::take(&mut worker.is_cut) {
        list_terminals(state, thread, out);
    }
}

/// Closes the calls of a sub-agent whose turn has ended: nobody reports their end.
fn close_calls(state: &mut Revisioned<CodexState>, parent: &CallId, out: &mut Decoded) {
    let of_worker = |open: &CodexCall| open.parent.as_ref() == Some(parent);
    let calls: Vec<CallId> =
        state.calls.iter().filter(|(_, open)| of_worker(open)).map(|(call, _)| call.clone()).collect();
    for call in calls {
        let Some(open) = state.calls.remove(&call) else { continue };
        let (ok, output) = match open.kind == CodexCallKind::Command {
            true => (true, "still running in the background"),
            false => (false, "not finished when the turn ended"),
        };
        out.events.push(AgentEvent::ToolFinished { call, ok, output: output.to_owned() });
    }
}

/// Ends the turns of all sub-agents, including those that are about to start their first.
pub(super) fn stop(state: &mut Revisioned<CodexState>, out: &mut Decoded) {
    let mut open = Vec::new();
    for (thread, worker) in &mut state.workers {
        worker.is_cut |= !worker.has_begun || !worker.turn.is_empty();
        if !worker.turn.is_empty() {
            open.push(json!({"threadId": thread, "turnId": worker.turn}));
        }
    }
    for params in open {
        state.send_request(CodexRequestKind::Interrupt, params, &mut out.replies);
    }
}

/// Asks which commands of a conversation run.
pub(super) fn list_terminals(state: &mut Revisioned<CodexState>, thread: &str, out: &mut Decoded) {
    let request =
        state.send_request(CodexRequestKind::Terminals, json!({"threadId": thread}), &mut out.replies);
    state.lists.insert(request, thread.to_owned());
}

/// Ends the commands that an interrupted turn left running: those of the session's own turn, which may have
/// older ones beside it, and all of a sub-agent.
pub(super) fn end_strays(
    state: &mut Revisioned<CodexState>,
    request: &Value,
    page: Option<&Value>,
    out: &mut Decoded,
) {
    let thread = request.as_str().and_then(|request| state.lists.remove(request)).unwrap_or_default();
    let strays = if thread == state.thread { Some(std::mem::take(&mut state.strays)) } else { None };
    for terminal in page.map(|page| page.list("data")).unwrap_or_default() {
        if strays.as_ref().is_none_or(|strays| strays.contains(terminal.text("itemId"))) {
            let params = json!({"threadId": thread, "processId": terminal.text("processId")});
            state.send_request(CodexRequestKind::Terminate, params, &mut out.replies);
        }
    }
}

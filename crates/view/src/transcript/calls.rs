//! The calls of a transcript: runs of them, their outputs, and the changes of those that edit files.

use serde_json::Value;

use super::Step;
use crate::call::{call_kind, call_text, calls_summary};
use crate::change::file_changes;
use crate::limits;
use crate::row::{CallRow, CallState, RowBody};
use crate::text;

impl Step<'_> {
    /// Adds a call to the run that grows, or begins a row.
    pub(super) fn call_started(
        &mut self,
        id: &str,
        tool: &str,
        input: &Value,
        title: &str,
        parent: Option<String>,
    ) {
        let waits = self.transcript.waiting.values().any(|call| call == id);
        let call = CallRow {
            call: id.to_owned(),
            seq: self.seq,
            tool: tool.to_owned(),
            kind: call_kind(tool),
            text: call_text(tool, input, title),
            input: input.clone(),
            state: if waits { CallState::Waiting } else { CallState::Running },
            output: String::new(),
            output_omitted: 0,
            output_chars: 0,
            started: self.at,
            took_ms: None,
            permission: self.transcript.permissions.remove(id).unwrap_or_default(),
        };
        let files = file_changes(tool, input);
        if !files.is_empty() {
            let place = self.begin(parent, RowBody::Edit { call, files });
            self.transcript.calls.insert(id.to_owned(), (place, 0));
            return;
        }
        let place_and_index = self.add_to_run(call, parent);
        self.transcript.calls.insert(id.to_owned(), place_and_index);
    }

    fn add_to_run(&mut self, call: CallRow, parent: Option<String>) -> (usize, usize) {
        let seq = self.seq;
        if let Some(&place) = self.transcript.growing.get(&parent)
            && let Some(row) = self.transcript.row_mut(place)
            && let RowBody::Calls { summary, calls, .. } = &mut row.body
            && calls.len() < limits::CALLS_ROW_MAX
        {
            calls.push(call);
            *summary = calls_summary(calls);
            row.last = seq;
            return (place, calls.len() - 1);
        }
        let summary = calls_summary(std::slice::from_ref(&call));
        (self.begin(parent, RowBody::Calls { summary, calls: vec![call], closed: false }), 0)
    }

    /// Adds output to a call that runs.
    pub(super) fn call_progressed(&mut self, id: &str, output: &str) {
        self.change_call(id, |call, _| append_output(call, output));
    }

    /// Records a call's result. A call whose beginning is not in the fold gets a row of its own.
    pub(super) fn call_finished(&mut self, id: &str, tool: &str, ok: bool, output: &str) {
        if !self.transcript.calls.contains_key(id) {
            self.call_started(id, tool, &Value::Null, "", None);
        }
        self.change_call(id, |call, at| {
            call.state = if ok { CallState::Ok } else { CallState::Failed };
            call.took_ms = Some(at - call.started);
            // Some agents report the output only piece by piece.
            if !output.is_empty() {
                (call.output, call.output_omitted) = text::tail(output, limits::OUTPUT_MAX_CHARS);
            }
        });
        self.transcript.calls.remove(id);
    }

    /// Records how a call was permitted, also if it has not started yet.
    pub(super) fn call_permitted(&mut self, id: &str, permission: String) {
        if self.transcript.calls.contains_key(id) {
            self.change_call(id, |call, _| call.permission = permission);
        } else {
            self.transcript.permissions.insert(id.to_owned(), permission);
        }
    }

    /// Records that a call waits for the answer to a request.
    pub(super) fn call_waits(&mut self, request: String, id: String) {
        self.change_call(&id, |call, _| {
            if call.state == CallState::Running {
                call.state = CallState::Waiting;
            }
        });
        self.transcript.waiting.insert(request, id);
    }

    /// Records that a request was answered: its call goes on, unless it waits for another answer.
    pub(super) fn call_goes_on(&mut self, request: &str) {
        let Some(id) = self.transcript.waiting.remove(request) else { return };
        if self.transcript.waiting.values().any(|call| *call == id) {
            return;
        }
        self.change_call(&id, |call, _| {
            if call.state == CallState::Waiting {
                call.state = CallState::Running;
            }
        });
    }

    fn change_call(&mut self, id: &str, change: impl FnOnce(&mut CallRow, i64)) {
        let (seq, at) = (self.seq, self.at);
        let Some(&(place, index)) = self.transcript.calls.get(id) else { return };
        if let Some(row) = self.transcript.row_mut(place)
            && let Some(call) = call_mut(&mut row.body, index)
        {
            change(call, at);
            row.last = seq;
        }
    }
}

fn append_output(call: &mut CallRow, output: &str) {
    call.output.push_str(output);
    call.output_chars += output.chars().count();
    // Cut rarely, since each cut copies what is kept.
    if call.output_chars > 2 * limits::OUTPUT_MAX_CHARS {
        let (kept, omitted) = text::tail(&call.output, limits::OUTPUT_MAX_CHARS);
        call.output = kept;
        call.output_chars = limits::OUTPUT_MAX_CHARS;
        call.output_omitted += omitted;
    }
}

/// Returns a call of a row.
pub(super) fn call_mut(body: &mut RowBody, index: usize) -> Option<&mut CallRow> {
    match body {
        RowBody::Calls { calls, .. } => calls.get_mut(index),
        RowBody::Edit { call, .. } => Some(call),
        _ => None,
    }
}

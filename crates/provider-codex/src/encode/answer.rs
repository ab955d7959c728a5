//! Answers to requests of Codex: each kind of request needs its own form. An answer is always sent, because
//! an agent that gets none waits forever.

use agent_port::Revisioned;
use std::collections::BTreeMap;

use domain::request::{RequestSubject, spoken_denial};
use domain::turn::EndReason;
use domain::{Decision, Mode};
use serde_json::{Map, Value, json};

use super::super::rpc::{self, CodexRequestKind};
use super::super::settings::CodexSettings;
use super::super::state::{AnswerForm, CodexState};
use super::{change_stance, say, steer, text_part};
use crate::limits::MESSAGE_MAX_CHARS;
use provider_common::json_rpc;
use provider_common::text::cut;

/// The message that tells the agent to carry out its plan; the text its own interface uses.
const CARRY_OUT: &str = "Implement the plan.";

/// A decision as it was made.
pub(super) struct Decided<'a> {
    pub(super) decision: Decision,
    pub(super) message: &'a str,
    pub(super) updated: Option<&'a Value>,
    pub(super) ask: &'a RequestSubject,
}

impl Decided<'_> {
    fn input(&self) -> &Value {
        match self.ask {
            RequestSubject::Permission(permission) => &permission.input,
            RequestSubject::ClientTool { input, .. } => input,
            RequestSubject::Question { .. } => &Value::Null,
        }
    }

    /// Returns the changed call, if it was changed. Codex runs what it asked about or nothing.
    fn changed(&self) -> Option<&Value> {
        self.updated.filter(|updated| self.decision.allows() && *updated != self.input())
    }

    /// Returns the agent's word for it. Nothing is added to the agent's own rules for "always": the session's
    /// grants answer the next such request, exactly and on record.
    fn word(&self) -> &'static str {
        match self.decision {
            _ if self.changed().is_some() => "decline",
            Decision::AllowOnce | Decision::AllowSession => "accept",
            Decision::Deny => "decline",
            Decision::DenyAndStop => "cancel",
        }
    }
}

/// Answers a request with a decision.
pub(super) fn decide(
    state: &mut Revisioned<CodexState>,
    settings: &CodexSettings,
    native: &str,
    decided: &Decided<'_>,
    wire: &mut Vec<u8>,
) {
    let asking = state.asks.remove(native).unwrap_or(AnswerForm::Decision);
    let result = match asking {
        AnswerForm::Plan => return decide_plan(state, settings, decided, wire),
        AnswerForm::Consent => consent(decided.word(), json!({})),
        // The server's own form may have been filled in.
        AnswerForm::Form(_) => {
            let content = decided.updated.cloned().unwrap_or_else(|| json!({}));
            let word = if decided.decision.allows() { "accept" } else { decided.word() };
            consent(word, content)
        }
        AnswerForm::Decision => json!({"decision": decided.word()}),
        AnswerForm::Permissions => {
            let allowed = decided.decision.allows();
            let given = if allowed { decided.input()["permissions"].clone() } else { json!({}) };
            json!({"permissions": given, "scope": "turn"})
        }
        AnswerForm::Answers => json!({"answers": {}}),
    };
    let explained = if matches!(asking, AnswerForm::Form(_)) { None } else { explain(state, decided, wire) };
    match explained {
        // The agent reads the message with its next request if it has it before the answer. It handles inputs
        // in any order, so the answer waits until the message was accepted. After the answer, the message
        // would interrupt the text that the model has begun to write, which would then be repeated.
        Some(message) => drop(state.held.insert(message, rpc::answer(&id_of(native), result))),
        None => rpc::reply(&id_of(native), result, wire),
    }
}

/// Sends the answer that waited for this request of ours.
pub(crate) fn release(state: &mut Revisioned<CodexState>, request: &Value, wire: &mut Vec<u8>) {
    if let Some(answer) = request.as_str().and_then(|request| state.held.remove(request)) {
        json_rpc::write(&answer, wire);
    }
}

/// Sends the agent what its protocol has no field for: why something was denied, and what to do instead.
/// Returns the id of that request.
fn explain(state: &mut Revisioned<CodexState>, decided: &Decided<'_>, wire: &mut Vec<u8>) -> Option<String> {
    if let Some(changed) = decided.changed() {
        return Some(steer(
            state,
            &format!("I did not allow that as it stands. Do this instead: {changed}"),
            wire,
        ));
    }
    if decided.decision != Decision::Deny || decided.message.is_empty() {
        return None;
    }
    let call = decided.ask.permission().and_then(|permission| permission.call.as_ref());
    if let Some(call) = call.and_then(|call| state.calls.get_mut(call)) {
        call.denied = cut(decided.message, MESSAGE_MAX_CHARS);
    }
    Some(steer(state, &spoken_denial(decided.message), wire))
}

fn consent(word: &str, content: Value) -> Value {
    let content = if word == "accept" { content } else { Value::Null };
    json!({"action": word, "content": content})
}

/// Carries out a plan, has it changed, or does nothing more. The agent is idle, so the next step is ours.
fn decide_plan(
    state: &mut Revisioned<CodexState>,
    settings: &CodexSettings,
    decided: &Decided<'_>,
    wire: &mut Vec<u8>,
) {
    state.plan.clear();
    if let Some(turn) = &mut state.turn {
        // The next message starts a turn of the agent, which can be interrupted.
        turn.plan_asked = false;
    }
    if decided.decision.allows() {
        state.mode = Mode::Supervised;
        state.left_plan = true;
        change_stance(state, settings, wire);
        say(state, CodexRequestKind::Turn, json!([text_part(CARRY_OUT)]), wire);
    } else if decided.decision == Decision::Deny && !decided.message.is_empty() {
        say(state, CodexRequestKind::Turn, json!([text_part(decided.message)]), wire);
    } else {
        let stopped = decided.decision == Decision::DenyAndStop;
        state.settle(if stopped { EndReason::Cancelled } else { EndReason::Completed }, wire);
    }
}

/// Answers questions.
pub(super) fn answer(
    state: &mut Revisioned<CodexState>,
    native: &str,
    answers: &BTreeMap<String, String>,
    ask: &RequestSubject,
    wire: &mut Vec<u8>,
) {
    let asking = state.asks.remove(native).unwrap_or(AnswerForm::Answers);
    let given = ask.questions().iter().filter_map(|question| {
        let answer = answers.get(&question.id).or_else(|| answers.get(&question.text))?;
        Some((question.id.clone(), answer.as_str()))
    });
    let result = match asking {
        AnswerForm::Form(fields) => {
            let content: Map<String, Value> = given
                .map(|(field, answer)| {
                    let kind = fields.get(&field).map(String::as_str).unwrap_or_default();
                    (field, typed(answer, kind))
                })
                .collect();
            json!({"action": "accept", "content": content})
        }
        _ => {
            let answers: Map<String, Value> =
                given.map(|(id, answer)| (id, json!({"answers": [answer]}))).collect();
            json!({"answers": answers})
        }
    };
    rpc::reply(&id_of(native), result, wire);
}

/// Converts an answer to the field's type. What does not fit is sent as written, so that the server reports
/// the error.
fn typed(answer: &str, kind: &str) -> Value {
    let text = answer.trim();
    let value = match kind {
        "boolean" => match text.to_ascii_lowercase().as_str() {
            "yes" | "true" | "y" | "1" => Some(json!(true)),
            "no" | "false" | "n" | "0" => Some(json!(false)),
            _ => None,
        },
        "integer" => text.parse::<i64>().ok().map(Value::from),
        "number" => text.parse::<f64>().ok().map(Value::from),
        "array" => serde_json::from_str::<Vec<Value>>(text)
            .ok()
            .or_else(|| Some(text.split(',').map(|part| json!(part.trim())).collect()))
            .map(Value::from),
        _ => None,
    };
    value.unwrap_or_else(|| json!(answer))
}

/// Returns the request's id as the agent wrote it.
fn id_of(native: &str) -> Value {
    serde_json::from_str(native).unwrap_or_else(|_| Value::from(native))
}

//! Turns: how one ends, what it used, and what is sent next in the same turn.

use agent_client_protocol_schema::v1;
use agent_port::{Decoded, Revisioned};
use domain::event::Level;
use domain::request::spoken_denial;
use domain::turn::EndReason;
use domain::{AgentEvent, Usage};
use serde_json::Value;

use super::super::rpc::RpcError;
use super::super::state::AcpState;
use super::super::{encode, typed};
use super::notice;
use crate::limits::MESSAGE_MAX_CHARS;
use provider_common::json_fields::Look;
use provider_common::text::cut;

/// Handles the answer to a prompt, which is the end of the agent's turn.
pub(super) fn answered(
    state: &mut Revisioned<AcpState>,
    number: u64,
    result: Result<Value, RpcError>,
    out: &mut Decoded,
) {
    // Agents that were cancelled answer an older prompt late.
    if state.turn.as_ref().is_none_or(|turn| turn.prompt != number) {
        return;
    }
    let (reason, error) = match result {
        Ok(mut result) => {
            let read = typed::read(&mut result, "session/prompt");
            let said = read.unwrap_or_else(|| v1::PromptResponse::new(v1::StopReason::EndTurn));
            count(state, &said, out);
            (reason(said.stop_reason), String::new())
        }
        Err(refusal) => {
            let reason = cut(&refusal.message, MESSAGE_MAX_CHARS);
            if refusal.is_rate_limited {
                // It does not say until when.
                out.events.push(AgentEvent::RateLimited { resumes_at: None, reason: reason.clone() });
            }
            (EndReason::Failed, reason)
        }
    };
    close_calls(state, out);
    if go_on(state, out) {
        // The turn continues with what was queued; the earlier failure is reported all the same.
        notice(out, Level::Error, &error);
        return;
    }
    let (interrupted, text) = match &state.turn {
        Some(turn) => (turn.interrupted, turn.said.clone().unwrap_or_default()),
        None => (false, String::new()),
    };
    // Some agents end a cancelled turn as if nothing had happened, others with an error.
    let reason = if interrupted { EndReason::Cancelled } else { reason };
    // The session drops them with the turn.
    encode::refuse_asks(state, "the turn has ended", &mut out.replies);
    state.end_turn();
    out.events.push(AgentEvent::TurnEnded { reason, text, error });
}

fn reason(stop: v1::StopReason) -> EndReason {
    match stop {
        v1::StopReason::MaxTokens | v1::StopReason::MaxTurnRequests => EndReason::LimitReached,
        v1::StopReason::Refusal => EndReason::Refused,
        v1::StopReason::Cancelled => EndReason::Cancelled,
        _ => EndReason::Completed,
    }
}

/// Sends what is queued, in the same turn: a message that arrived during it, or a person's message to a
/// denial that ended it. Returns whether there was something.
fn go_on(state: &mut Revisioned<AcpState>, out: &mut Decoded) -> bool {
    let Some(turn) = state.turn.as_mut().filter(|turn| !turn.interrupted) else { return false };
    let denial = std::mem::take(&mut turn.denial);
    let said = match state.queued.pop_front() {
        Some(said) => said,
        // Its model said nothing after the denial, so it does not know the reason.
        None if !denial.is_empty() => spoken_denial(&denial),
        None => return false,
    };
    encode::prompt(state, vec![said.into()], &mut out.replies);
    true
}

/// Ends calls the agent left open.
fn close_calls(state: &mut Revisioned<AcpState>, out: &mut Decoded) {
    for (call, open) in std::mem::take(&mut state.calls) {
        let output = match (open.denied.is_empty(), open.output.is_empty()) {
            (false, _) => open.denied,
            (true, false) => open.output,
            (true, true) => "the agent did not say what became of it".to_owned(),
        };
        out.events.push(AgentEvent::ToolFinished { call, ok: false, output });
    }
}

/// Reports the usage of the turn.
fn count(state: &mut Revisioned<AcpState>, said: &v1::PromptResponse, out: &mut Decoded) {
    let quota = said.meta.as_ref().and_then(|meta| meta.get("quota")).map(|quota| quota.under("token_count"));
    let usage = if let Some(usage) = &said.usage {
        Usage {
            input_tokens: usage.input_tokens,
            output_tokens: usage.output_tokens,
            cache_read_tokens: usage.cached_read_tokens.unwrap_or(0),
            cache_write_tokens: usage.cached_write_tokens.unwrap_or(0),
            ..Usage::default()
        }
    } else if let Some(quota @ Value::Object(_)) = quota {
        // Gemini's own field for it.
        Usage {
            input_tokens: quota.count("input_tokens").unwrap_or(0),
            output_tokens: quota.count("output_tokens").unwrap_or(0),
            ..Usage::default()
        }
    } else {
        // Some agents only report how full the window was after each reply: all of that was sent or received.
        let used = state.turn.as_mut().map(|turn| std::mem::take(&mut turn.used)).unwrap_or(0);
        Usage { input_tokens: used, ..Usage::default() }
    };
    if !usage.is_empty() {
        out.events.push(AgentEvent::Usage {
            usage,
            context_tokens: None,
            context_window: None,
            parent: None,
        });
    }
}

//! Requests of the gateway, and their answers. Pure.

use domain::request::{PermissionSubject, RequestSubject};
use domain::{AgentEvent, Decision};
use serde_json::{Value, json};

use super::text::title;
use super::{FrameEffects, GatewayConversation, SentDecision};
use crate::limits::ASKS_MAX;
use provider_common::json_fields::Look;

impl GatewayConversation {
    /// Answers an approval. The gateway has no field for the reason of a denial: it is shown with the call.
    pub(crate) fn decide(&mut self, native: &str, decision: Decision, message: &str, out: &mut FrameEffects) {
        let allowed = decision.allows();
        if decision == Decision::DenyAndStop {
            // Before the denial is sent: its model would continue.
            self.interrupt(out);
        }
        if let Some(call) = self.asks.remove(native) {
            if let (false, false, Some(call)) = (allowed, message.is_empty(), call) {
                self.denials.insert(call, message.to_owned());
            }
            self.resolve(native, allowed, out);
        }
    }

    /// Sends a decision to the gateway; it is sent again until it is confirmed.
    fn resolve(&mut self, native: &str, allowed: bool, out: &mut FrameEffects) {
        let decision = if allowed { "allow-once" } else { "deny" };
        let params = json!({"id": native, "decision": decision});
        let request = self.ask("exec.approval.resolve", params, out);
        self.decided.insert(native.to_owned(), SentDecision { allowed, request });
    }

    /// Handles the list of approvals pending at the gateway after a reconnect, if it sends one.
    pub(super) fn waiting(&mut self, list: Option<&Value>, out: &mut FrameEffects) {
        let all = list.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let own = all.iter().filter(|entry| entry.under("request").text("sessionKey") == self.key);
        let own: Vec<&Value> = own.collect();
        let waits = |native: &str| list.is_none() || own.iter().any(|entry| entry.text("id") == native);
        let gone: Vec<String> = self.asks.keys().filter(|native| !waits(native)).cloned().collect();
        for native in gone {
            self.asks.remove(&native);
            out.events.push(AgentEvent::Withdrew { native });
        }
        // Decisions that are no longer pending at the gateway were received, or are too late.
        self.decided.retain(|native, _| waits(native));
        let decided: Vec<(String, bool)> =
            self.decided.iter().map(|(native, told)| (native.clone(), told.allowed)).collect();
        for (native, allowed) in decided {
            self.resolve(&native, allowed, out);
        }
        for entry in own {
            self.asked(entry, out);
        }
        self.resume(out);
    }

    /// Opens a permission for an approval the gateway asks for.
    pub(super) fn asked(&mut self, payload: &Value, out: &mut FrameEffects) {
        let request = payload.under("request");
        if self.run.is_none()
            || (!request.text("sessionKey").is_empty() && request.text("sessionKey") != self.key)
        {
            return;
        }
        let native = payload.text("id").to_owned();
        let is_known = self.asks.contains_key(&native) || self.decided.contains_key(&native);
        if is_known || self.asks.len() >= ASKS_MAX {
            return;
        }
        let call = self.calls.iter().next_back().cloned();
        let input = json!({"command": request.text("command"), "cwd": request.text("cwd")});
        self.asks.insert(native.clone(), call.clone());
        let ask = PermissionSubject {
            call,
            tool: "Bash".to_owned(),
            title: title("exec", &input),
            input,
            parent: None,
        };
        out.events.push(AgentEvent::Asked { native, ask: RequestSubject::Permission(ask) });
    }
}

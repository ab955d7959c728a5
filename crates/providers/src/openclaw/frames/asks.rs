//! What the gateway asks, and what it is answered. Pure.

use domain::request::{Ask, PermissionAsk};
use domain::{AgentEvent, Decision};
use serde_json::{Value, json};

use super::words::title;
use super::{Out, Talk};
use crate::look::Look;

impl Talk {
    /// Answers an approval. The gateway has no place for the reason of a denial: it is shown with the call.
    pub(in crate::openclaw) fn decide(
        &mut self,
        native: &str,
        decision: Decision,
        message: &str,
        out: &mut Out,
    ) {
        let allowed = decision.allows();
        if decision == Decision::DenyAndStop {
            // Before it hears of the denial: its model would go on.
            self.interrupt(out);
        }
        if let Some(call) = self.asks.remove(native) {
            if let (false, false, Some(call)) = (allowed, message.is_empty(), call) {
                self.denials.insert(call, message.to_owned());
            }
            let decision = if allowed { "allow-once" } else { "deny" };
            self.ask("exec.approval.resolve", json!({"id": native, "decision": decision}), out);
        }
    }

    pub(super) fn asked(&mut self, payload: &Value, out: &mut Out) {
        let request = payload.under("request");
        if self.run.is_none()
            || (!request.text("sessionKey").is_empty() && request.text("sessionKey") != self.key)
        {
            return;
        }
        let native = payload.text("id").to_owned();
        let call = self.calls.iter().next_back().cloned();
        let input = json!({"command": request.text("command"), "cwd": request.text("cwd")});
        self.asks.insert(native.clone(), call.clone());
        let ask = PermissionAsk {
            call,
            tool: "Bash".to_owned(),
            title: title("exec", &input),
            input,
            parent: None,
        };
        out.events.push(AgentEvent::Asked { native, ask: Ask::Permission(ask) });
    }
}

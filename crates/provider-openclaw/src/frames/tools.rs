//! Calls of tools at the gateway, and the MCP servers that a conversation has there. Pure.

use agent_port::BridgeServer;
use domain::event::Level;
use domain::{AgentEvent, CallId, ErrorCode};
use serde_json::{Value, json};

use super::text::{title, tool_name};
use super::{FrameEffects, GatewayConversation, broken, notice};
use crate::limits::OPEN_CALLS_MAX;
use crate::servers;
use provider_common::json_fields::Look;

/// The tool by which the gateway's model calls tools that are not in its list.
const WRAPPER: &str = "tool_call";

impl GatewayConversation {
    /// Continues once the servers are registered at the gateway, or were refused.
    pub(crate) fn registered(&mut self, told: Result<(), String>, out: &mut FrameEffects) {
        match told {
            Ok(()) => self.create(out),
            Err(reason) => {
                if self.unserved(&reason, out) {
                    self.create(out);
                }
            }
        }
    }

    /// Handles a conversation that cannot have its servers. Returns whether it continues without them: the
    /// daemon's own are optional, those that were requested are required.
    pub(super) fn unserved(&mut self, reason: &str, out: &mut FrameEffects) -> bool {
        let asked = self.servers.values().any(|own| own != BridgeServer::NAME);
        self.servers.clear();
        if asked {
            let message = format!(
                "provider_config.mcp_servers: the OpenClaw gateway does not take them: {reason}; leave them away and \
                 define them at the gateway with `openclaw mcp add`, or let it change its configuration"
            );
            broken(out, ErrorCode::ProviderNotReady, message);
            return false;
        }
        let message = format!("the daemon's tools do not reach this OpenClaw gateway: {reason}");
        notice(out, Level::Warning, &message);
        true
    }

    /// The conversation exists: its servers are enabled for it alone, in addition to what was enabled before.
    pub(super) fn created(&mut self, entry: &Value, out: &mut FrameEffects) {
        if self.servers.is_empty() || self.was_ready {
            self.subscribe(out);
            return;
        }
        let mut overrides = entry.under("toolOverrides").as_object().cloned().unwrap_or_default();
        let mut switched =
            overrides.remove("mcpServers").and_then(|map| map.as_object().cloned()).unwrap_or_default();
        switched.extend(self.servers.keys().map(|name| (name.clone(), true.into())));
        overrides.insert("mcpServers".to_owned(), switched.into());
        let params = json!({"key": self.key, "toolOverrides": overrides});
        self.ask("sessions.patch", params, out);
    }

    pub(super) fn subscribe(&mut self, out: &mut FrameEffects) {
        let params = json!({"key": self.key});
        self.ask("sessions.messages.subscribe", params, out);
    }

    /// Handles the start or the result of a call.
    pub(super) fn tool(&mut self, data: &Value, out: &mut FrameEffects) {
        let id = CallId::new(data.text("toolCallId"));
        match data.text("phase") {
            // The forwarded call is reported separately; without such a report, this is the call.
            "start" if data.text("name") == WRAPPER && self.wrappers.len() < OPEN_CALLS_MAX => {
                self.wrappers.insert(id, data.under("args").clone());
            }
            "start" if self.calls.len() < OPEN_CALLS_MAX && self.calls.insert(id.clone()) => {
                self.wrappers.remove(&CallId::new(data.text("parentToolCallId")));
                self.started(id, data.text("name"), data.under("args"), out);
            }
            "result" if data.text("name") == WRAPPER => {
                if let Some(args) = self.wrappers.remove(&id) {
                    self.started(id.clone(), args.text("id"), args.under("args"), out);
                    self.finished(id, data, out);
                }
            }
            "result" if self.calls.remove(&id) => self.finished(id, data, out),
            _ => {}
        }
    }

    fn started(&mut self, call: CallId, name: &str, input: &Value, out: &mut FrameEffects) {
        if let Some(run) = &mut self.run {
            // Text after a call is a new message.
            run.text.clear();
            run.is_counted = false;
        }
        let own = servers::tool(&self.servers, name);
        let (tool, title) = match own {
            Some(own) => (own.clone(), title(&own, input)),
            None => (tool_name(name), title(name, input)),
        };
        out.events.push(AgentEvent::ToolStarted { call, tool, input: input.clone(), title, parent: None });
    }

    fn finished(&mut self, call: CallId, data: &Value, out: &mut FrameEffects) {
        let result = data.under("result");
        let parts = result.list("content").iter().map(|part| part.text("text"));
        let mut output: String = parts.collect::<Vec<_>>().join("\n");
        if let Some(why) = self.denials.remove(&call) {
            output = format!("denied: {why}\n{output}");
        }
        let exit = result.under("details").under("exitCode");
        let failed = result.under("details").text("status") == "failed" || exit.as_i64().unwrap_or(0) != 0;
        out.events.push(AgentEvent::ToolFinished { call, ok: !data.is("isError") && !failed, output });
    }
}

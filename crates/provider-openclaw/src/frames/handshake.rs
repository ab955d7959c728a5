//! From the gateway's challenge to a conversation that is ready, the first time and after a loss. Pure.

use std::time::Duration;

use domain::event::Level;
use domain::{AgentEvent, ErrorCode};
use serde_json::{Value, json};

use super::text::hello;
use super::{FrameEffects, GatewayConversation, PROTOCOL, TESTED, broken, lost, notice};
use provider_common::json_fields::Look;
use provider_common::suggestion::near;

impl GatewayConversation {
    pub(super) fn connect(&mut self, out: &mut FrameEffects) {
        let params = hello(&self.token);
        self.ask("connect", params, out);
    }

    /// Handles the gateway's greeting: version, tick interval and process; then checks the model if one is
    /// requested.
    pub(super) fn connected(&mut self, hello: &Value, out: &mut FrameEffects) {
        hello.under("server").text("version").clone_into(&mut self.version);
        self.tick = hello.under("policy").count("tickIntervalMs").map(Duration::from_millis);
        let boot = hello.under("server").text("bootId").to_owned();
        if std::mem::replace(&mut self.boot, boot.clone()) != boot {
            self.forgotten(out);
        }
        if !self.was_ready && (hello.count("protocol") != Some(PROTOCOL) || !self.version.starts_with(TESTED))
        {
            let message = format!(
                "this OpenClaw gateway is {} with protocol {}; obey is tested with {TESTED} and protocol {PROTOCOL}",
                self.version,
                hello.count("protocol").unwrap_or(0)
            );
            notice(out, Level::Warning, &message);
        }
        if self.model.is_empty() || self.was_ready {
            self.begin(out);
        } else {
            self.ask("models.list", json!({}), out);
        }
    }

    /// Handles an answer from a different gateway process than the one that had the run: it does not know how
    /// the run ended.
    fn forgotten(&mut self, out: &mut FrameEffects) {
        self.fail(lost("it was started anew, and what it was doing is gone"), out);
        // Nothing is left there to be aborted.
        self.left.clear();
    }

    /// Checks the requested model against the gateway's list.
    pub(super) fn listed(&mut self, payload: &Value, ok: bool, out: &mut FrameEffects) {
        let model = |model: &Value| match (model.text("provider"), model.text("id")) {
            ("", id) => id.to_owned(),
            (provider, id) if id.starts_with(&format!("{provider}/")) => id.to_owned(),
            (provider, id) => format!("{provider}/{id}"),
        };
        let names: Vec<String> = payload.list("models").iter().map(model).collect();
        let known =
            names.iter().any(|name| *name == self.model || name.ends_with(&format!("/{}", self.model)));
        if ok && !names.is_empty() && !known {
            let remedy = match near(&self.model, names.iter().map(String::as_str)).first() {
                Some(name) => format!("did you mean {name}?"),
                None => format!("it has {}", names.join(", ")),
            };
            let message = format!("model: the gateway has no model {:?}; {remedy}", self.model);
            broken(out, ErrorCode::ModelUnsupported, message);
            return;
        }
        self.begin(out);
    }

    fn begin(&mut self, out: &mut FrameEffects) {
        if self.servers.is_empty() || self.was_ready {
            self.create(out);
        } else {
            out.register = true;
        }
    }

    pub(super) fn create(&mut self, out: &mut FrameEffects) {
        let mut params = json!({"key": self.key, "agentId": self.agent_id, "cwd": self.working_dir});
        if !self.model.is_empty() {
            params["model"] = json!(self.model);
        }
        self.ask("sessions.create", params, out);
    }

    /// Completes the handshake: reports readiness the first time, resumes after a loss.
    pub(super) fn ready(&mut self, out: &mut FrameEffects) {
        if self.was_ready {
            // Pending approvals come before anything else is sent.
            if self.run.is_some() {
                self.ask("exec.approval.list", json!({}), out);
                // The gateway reports calls to the connection that started the run, which was another one,
                // and to those that subscribe to all.
                self.ask("sessions.subscribe", json!({}), out);
            } else {
                self.resume(out);
            }
            return;
        }
        self.is_connected = true;
        self.was_ready = true;
        if self.is_remote {
            let message = "the daemon's own tools do not reach a gateway on another machine";
            notice(out, Level::Info, message);
        }
        if self.had_turns {
            self.ask_history(out);
        }
        out.events.push(AgentEvent::Ready {
            native_session: self.key.clone(),
            model: self.model.clone(),
            version: self.version.clone(),
            resolved_model: String::new(),
        });
    }

    /// Resumes where the connection was lost.
    pub(super) fn resume(&mut self, out: &mut FrameEffects) {
        self.is_connected = true;
        notice(out, Level::Info, "the OpenClaw gateway is back");
        for run in std::mem::take(&mut self.left) {
            self.abort(&run, out);
        }
        for (_, params) in std::mem::take(&mut self.unheard) {
            self.send(params, out);
        }
        let Some(run) = &self.run else {
            // A run at the gateway without an open turn here is aborted.
            return self.ask_history(out);
        };
        if run.interrupted {
            let run = run.id.clone();
            self.abort(&run, out);
        }
        // Asks what happened to the run meanwhile.
        self.look(out);
    }
}

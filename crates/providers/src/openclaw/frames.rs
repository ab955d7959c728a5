//! The gateway's protocol, version 4: text frames of JSON. Turns frames into what happened and what an agent is told
//! into frames. Pure: no socket, no clock, no chance; names of runs come from outside.

use std::collections::{BTreeMap, BTreeSet};

use domain::event::Level;
use domain::request::{Ask, PermissionAsk};
use domain::turn::EndReason;
use domain::{AgentEvent, CallId, Decision, ErrorCode};
use serde_json::{Value, json};

use crate::limits::MESSAGE_MAX_CHARS;
use crate::look::Look;
use crate::near::near;
use crate::text::cut;
use words::{title, usage};

pub(super) use words::{hello, reason};

/// The protocol this code was tested with.
const PROTOCOL: u64 = 4;
const TESTED: &str = "2026.9";

/// What is known of the conversation. Lives as long as its session's agent; the gateway keeps the rest.
#[derive(Debug, Default)]
pub(super) struct Talk {
    pub(super) key: String,
    agent_id: String,
    token: String,
    model: String,
    working_dir: String,
    had_turns: bool,
    /// The session's servers of tools: as the gateway calls them, and as the session does.
    servers: BTreeMap<String, String>,
    is_remote: bool,
    sent: u64,
    version: String,
    /// The gateway has been told who we are, and knows the conversation.
    pub(super) is_connected: bool,
    was_ready: bool,
    /// The gateway would not begin the conversation in the session's folder, so its agent is told where that is.
    is_elsewhere: bool,
    /// The run that is open.
    run: Option<Run>,
    calls: BTreeSet<CallId>,
    /// Calls that only pass another one on, until it is seen.
    wrappers: BTreeMap<CallId, Value>,
    /// Approvals that wait, with their calls.
    asks: BTreeMap<String, Option<CallId>>,
    /// Why calls were denied.
    denials: BTreeMap<CallId, String>,
}

#[derive(Debug, Default)]
struct Run {
    id: String,
    text: String,
    interrupted: bool,
    /// What the last message of the model used is known.
    is_counted: bool,
    /// It is over, but for that.
    is_over: bool,
}

/// What frames lead to.
#[derive(Debug, Default)]
pub(super) struct Out {
    pub(super) events: Vec<AgentEvent>,
    pub(super) frames: Vec<String>,
    /// The gateway must be told of the session's servers before it is told more.
    pub(super) register: bool,
}

/// What a conversation is to be.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    /// The conversation's name at the gateway.
    pub(super) key: String,
    pub(super) agent_id: String,
    pub(super) token: String,
    /// Empty: the gateway's own.
    pub(super) model: String,
    pub(super) working_dir: String,
    /// The session had turns before, so a conversation that the gateway does not have is a loss.
    pub(super) had_turns: bool,
    /// Servers of tools: as the gateway calls them, and as the session does.
    pub(super) servers: BTreeMap<String, String>,
    /// The gateway is on another machine, where the daemon's own tools cannot be reached.
    pub(super) is_remote: bool,
}

impl Talk {
    pub(super) fn new(wanted: Wanted) -> Self {
        let Wanted { key, agent_id, token, model, working_dir, had_turns, servers, is_remote } = wanted;
        Self { key, agent_id, token, model, working_dir, had_turns, servers, is_remote, ..Self::default() }
    }

    fn ask(&mut self, method: &str, params: Value, out: &mut Out) {
        self.sent += 1;
        let id = format!("{method}#{}", self.sent);
        out.frames.push(json!({"type": "req", "id": id, "method": method, "params": params}).to_string());
    }

    /// Says something as the user; `run` names what it starts.
    pub(super) fn prompt(&mut self, text: &str, attachments: Vec<Value>, run: String, out: &mut Out) {
        let message = if std::mem::take(&mut self.is_elsewhere) {
            format!("[Working directory: {}]\n\n{text}", self.working_dir)
        } else {
            text.to_owned()
        };
        let mut params = json!({"sessionKey": self.key, "message": message, "idempotencyKey": run});
        if !attachments.is_empty() {
            params["attachments"] = attachments.into();
        }
        self.run = Some(Run { id: run, ..Run::default() });
        self.ask("chat.send", params, out);
    }

    /// Adds a message to the run.
    pub(super) fn steer(&mut self, text: &str, name: &str, out: &mut Out) {
        let params =
            json!({"sessionKey": self.key, "message": text, "idempotencyKey": name, "queueMode": "steer"});
        self.ask("chat.send", params, out);
    }

    pub(super) fn interrupt(&mut self, out: &mut Out) {
        let Some(run) = &mut self.run else { return };
        run.interrupted = true;
        let params = json!({"sessionKey": self.key, "runId": run.id});
        self.ask("chat.abort", params, out);
    }

    /// Answers an approval. The gateway has no place for the reason of a denial: it is shown with the call.
    pub(super) fn decide(&mut self, native: &str, decision: Decision, message: &str, out: &mut Out) {
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

    /// Returns whether a run is open.
    pub(super) fn is_at_work(&self) -> bool {
        self.run.is_some()
    }

    /// Returns whether the conversation has begun, so that a lost connection is a loss.
    pub(super) fn has_begun(&self) -> bool {
        self.was_ready
    }

    /// The connection is gone; whatever was asked before has no answer any more.
    pub(super) fn lose(&mut self) {
        self.is_connected = false;
    }

    /// Ends the open run without the gateway's part.
    pub(super) fn fail(&mut self, error: String, out: &mut Out) {
        let reason = if self.run.as_ref().is_some_and(|run| run.interrupted) {
            EndReason::Cancelled
        } else {
            EndReason::Failed
        };
        self.end(reason, error, out);
    }

    fn end(&mut self, reason: EndReason, error: String, out: &mut Out) {
        let Some(run) = self.run.take() else { return };
        for call in std::mem::take(&mut self.calls) {
            let output = match self.denials.remove(&call) {
                Some(why) => format!("denied: {why}"),
                None => "the gateway did not say what became of it".to_owned(),
            };
            out.events.push(AgentEvent::ToolFinished { call, ok: false, output });
        }
        self.wrappers.clear();
        self.asks.clear();
        self.denials.clear();
        let reason = if run.interrupted { EndReason::Cancelled } else { reason };
        out.events.push(AgentEvent::TurnEnded { reason, text: run.text, error });
    }

    /// Takes one frame.
    pub(super) fn take(&mut self, frame: &str, out: &mut Out) {
        let Ok(frame) = serde_json::from_str::<Value>(frame) else {
            out.events.push(crate::text::unparsed(frame.as_bytes()));
            return;
        };
        match frame.text("type") {
            "event" => self.event(frame.text("event"), frame.under("payload"), out),
            "res" => self.answer(&frame, out),
            _ => {}
        }
    }

    fn event(&mut self, name: &str, payload: &Value, out: &mut Out) {
        let own = payload.text("sessionKey") == self.key;
        match name {
            "connect.challenge" => self.connect(out),
            "chat" if own => self.chat(payload, out),
            "agent" if own => self.agent(payload, out),
            "session.message" if own => self.counted(payload.under("message"), out),
            "exec.approval.requested" => self.asked(payload, out),
            "exec.approval.resolved" => {
                let native = payload.text("id").to_owned();
                if self.asks.remove(&native).is_some() {
                    out.events.push(AgentEvent::Withdrew { native });
                }
            }
            "shutdown" => notice(out, Level::Warning, "the OpenClaw gateway is shutting down"),
            _ => {}
        }
    }

    fn connect(&mut self, out: &mut Out) {
        let params = hello(&self.token);
        self.ask("connect", params, out);
    }

    fn answer(&mut self, frame: &Value, out: &mut Out) {
        let method = frame.text("id").split('#').next().unwrap_or_default().to_owned();
        let (payload, error) = (frame.under("payload"), frame.under("error"));
        let ok = frame.is("ok");
        match method.as_str() {
            "connect" if ok => self.connected(payload, out),
            // It is still starting and hangs up; we come back.
            "connect" if error.text("code") == "UNAVAILABLE" || error.is("retryable") => {}
            "connect" => {
                let message = format!(
                    "the OpenClaw gateway refuses the connection: {}; check its token",
                    reason(error)
                );
                broken(out, ErrorCode::ProviderNotReady, message);
            }
            "models.list" => self.listed(payload, ok, out),
            "sessions.create" => {
                if !ok && !self.was_ready {
                    self.is_elsewhere = true;
                    let message = format!("the gateway works in a folder of its own: {}", reason(error));
                    notice(out, Level::Warning, &message);
                }
                self.created(payload.under("entry"), out);
            }
            "sessions.patch" if ok || self.unserved(&reason(error), out) => self.subscribe(out),
            "sessions.messages.subscribe" => self.ready(out),
            "chat.send" if !ok => self.fail(reason(error), out),
            "agent.wait" => self.waited(payload, out),
            // The gateway keeps the conversation; the journal has what was said in it.
            "chat.history" if ok && payload.list("messages").is_empty() => {
                let message = "the gateway no longer has this conversation; a new one is begun";
                notice(out, Level::Warning, message);
            }
            "exec.approval.resolve" if !ok => {
                notice(
                    out,
                    Level::Warning,
                    &format!("the gateway did not take the decision: {}", reason(error)),
                );
            }
            _ => {}
        }
    }

    fn connected(&mut self, hello: &Value, out: &mut Out) {
        hello.under("server").text("version").clone_into(&mut self.version);
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

    fn listed(&mut self, payload: &Value, ok: bool, out: &mut Out) {
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

    fn begin(&mut self, out: &mut Out) {
        if self.servers.is_empty() || self.was_ready {
            self.create(out);
        } else {
            out.register = true;
        }
    }

    fn create(&mut self, out: &mut Out) {
        let mut params = json!({"key": self.key, "agentId": self.agent_id, "cwd": self.working_dir});
        if !self.model.is_empty() {
            params["model"] = json!(self.model);
        }
        self.ask("sessions.create", params, out);
    }

    fn ready(&mut self, out: &mut Out) {
        self.is_connected = true;
        if self.was_ready {
            notice(out, Level::Info, "the OpenClaw gateway is back");
            // What happened to the run meanwhile is asked for.
            if let Some(run) = &self.run {
                let params = json!({"runId": run.id, "timeoutMs": 1000});
                self.ask("agent.wait", params, out);
            }
            return;
        }
        self.was_ready = true;
        if self.is_remote {
            let message = "the daemon's own tools do not reach a gateway on another machine";
            notice(out, Level::Info, message);
        }
        if self.had_turns {
            self.ask("chat.history", json!({"sessionKey": self.key, "limit": 1}), out);
        }
        out.events.push(AgentEvent::Ready {
            native_session: self.key.clone(),
            model: self.model.clone(),
            version: self.version.clone(),
        });
    }

    /// A run that ended while nobody listened; one that goes on reports itself.
    fn waited(&mut self, payload: &Value, out: &mut Out) {
        let reason = match payload.text("status") {
            "ok" => EndReason::Completed,
            "error" => EndReason::Failed,
            _ => return,
        };
        let text = payload.under("terminalReply").text("text");
        let said = self.run.as_ref().map(|run| run.text.clone()).unwrap_or_default();
        if let Some(rest) = text.strip_prefix(said.as_str()) {
            self.say(rest, out);
        }
        self.end(reason, payload.text("error").to_owned(), out);
    }

    fn is_own(&self, payload: &Value) -> bool {
        // A late word of an older run arrives inside the next.
        self.run.as_ref().is_some_and(|run| run.id == payload.text("runId"))
    }

    fn say(&mut self, text: &str, out: &mut Out) {
        if text.is_empty() {
            return;
        }
        if let Some(run) = &mut self.run {
            run.text.push_str(text);
        }
        out.events.push(AgentEvent::Text { text: text.to_owned(), parent: None });
    }

    fn chat(&mut self, payload: &Value, out: &mut Out) {
        if !self.is_own(payload) {
            return;
        }
        match payload.text("state") {
            "final" => {
                let parts = payload.under("message").list("content").iter().map(|part| part.text("text"));
                let text: String = parts.collect();
                let said = self.run.as_ref().map(|run| run.text.clone()).unwrap_or_default();
                if let Some(rest) = text.strip_prefix(said.as_str()) {
                    self.say(rest, out);
                }
                // What it used is said beside it, and on a busy machine behind it.
                match &mut self.run {
                    Some(run) if !run.is_counted => run.is_over = true,
                    _ => self.end(EndReason::Completed, String::new(), out),
                }
            }
            "aborted" => self.end(EndReason::Cancelled, String::new(), out),
            "error" => self.end(EndReason::Failed, cut(payload.text("errorMessage"), MESSAGE_MAX_CHARS), out),
            _ => {}
        }
    }

    fn agent(&mut self, payload: &Value, out: &mut Out) {
        if !self.is_own(payload) {
            return;
        }
        let data = payload.under("data");
        match payload.text("stream") {
            "assistant" => self.say(data.text("delta"), out),
            "thinking" | "reasoning" => {
                let text = data.text("delta").to_owned();
                if !text.is_empty() {
                    out.events.push(AgentEvent::Thinking { text, parent: None });
                }
            }
            "tool" => self.tool(data, out),
            "run_status" if data.text("phase") == "retrying" => {
                notice(out, Level::Warning, data.text("message"))
            }
            _ => {}
        }
    }

    /// Counts what a message of the run used; it comes before the run's end.
    fn counted(&mut self, message: &Value, out: &mut Out) {
        let usage = usage(message);
        if message.text("role") == "assistant"
            && self.is_own(message.under("__openclaw"))
            && !usage.is_empty()
        {
            out.events.push(AgentEvent::Usage { usage, context_tokens: None, context_window: None });
            if let Some(run) = &mut self.run {
                run.is_counted = true;
            }
            self.settle(out);
        }
    }

    /// Returns whether the run is over and only what it used is not known.
    pub(super) fn is_over(&self) -> bool {
        self.run.as_ref().is_some_and(|run| run.is_over)
    }

    /// Ends a run that is over.
    pub(super) fn settle(&mut self, out: &mut Out) {
        if self.is_over() {
            self.end(EndReason::Completed, String::new(), out);
        }
    }

    fn asked(&mut self, payload: &Value, out: &mut Out) {
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

fn broken(out: &mut Out, code: ErrorCode, message: String) {
    out.events.push(AgentEvent::Broken { code: Some(code), message });
}

fn notice(out: &mut Out, level: Level, message: &str) {
    out.events.push(AgentEvent::Notice { level, message: cut(message, MESSAGE_MAX_CHARS) });
}

mod tools;
mod words;

#[cfg(test)]
mod tests;

//! The gateway's protocol, version 4: text frames of JSON. Translates frames into events and inputs into
//! frames. Pure: no socket, no clock, no randomness; run ids are passed in.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use domain::event::Level;
use domain::{AgentEvent, CallId, ErrorCode};
use serde_json::{Value, json};

use crate::limits::{
    GATEWAY_SILENCE_MAX, GATEWAY_SILENCE_MIN, GATEWAY_SILENT_TICKS, GATEWAY_TICK, GATEWAY_UNHEARD_MAX,
    MESSAGE_MAX_CHARS,
};
use provider_common::json_fields::Look;
use provider_common::text::cut;
pub(super) use text::{hello, reason};

/// The protocol this code was tested with.
const PROTOCOL: u64 = 4;
const TESTED: &str = "2026.9";

/// The state of the conversation. Exists as long as its session's agent; the gateway keeps the rest.
#[derive(Debug, Default)]
pub(super) struct GatewayConversation {
    pub(super) key: String,
    agent_id: String,
    token: String,
    model: String,
    working_dir: String,
    had_turns: bool,
    /// The session's MCP servers: the gateway's name and the session's name of each.
    servers: BTreeMap<String, String>,
    is_remote: bool,
    sent: u64,
    version: String,
    /// The announced maximum interval between two messages of the gateway.
    tick: Option<Duration>,
    /// The gateway process that answered last; another one knows nothing of its runs.
    boot: String,
    /// The gateway has accepted our greeting, and knows the conversation.
    pub(super) is_connected: bool,
    was_ready: bool,
    /// The gateway refused to start the conversation in the session's folder, so its agent gets the path.
    is_elsewhere: bool,
    /// The open run.
    run: Option<GatewayRun>,
    /// The last messages sent to runs. One that arrives too late starts its own run.
    steers: VecDeque<String>,
    /// The run that started last in the conversation, whoever started it; empty once it has ended.
    started: String,
    /// Set when the session ends: the request that aborts its run, or empty once that is done.
    farewell: Option<String>,
    /// Messages to a run that has not started, with their ids.
    held: Vec<(String, String)>,
    /// The state of the run was asked for, and is not known yet.
    is_unsure: bool,
    /// Messages that the gateway has not confirmed: by the id of their request, as they were sent.
    unheard: BTreeMap<String, Value>,
    calls: BTreeSet<CallId>,
    /// Calls that only forward another one, until that is seen.
    wrappers: BTreeMap<CallId, Value>,
    /// Pending approvals, with their calls.
    asks: BTreeMap<String, Option<CallId>>,
    /// Decisions that the gateway has not confirmed, with their requests.
    decided: BTreeMap<String, SentDecision>,
    /// Runs that ended here while the connection was lost. They are aborted at the gateway after the
    /// reconnect.
    left: Vec<String>,
    /// Why calls were denied.
    denials: BTreeMap<CallId, String>,
}

#[derive(Debug, Default)]
struct GatewayRun {
    id: String,
    /// The gateway has started it; or it is queued there until something else has ended.
    has_begun: bool,
    is_queued: bool,
    /// The text of its last message so far.
    text: String,
    /// The message item being streamed, and all of its text so far.
    item: String,
    said: String,
    /// Text may have been missed before the next piece, and at all.
    has_gap: bool,
    was_lost: bool,
    interrupted: bool,
    /// The usage of the model's last message is known.
    is_counted: bool,
    /// It has ended, except for that.
    is_over: bool,
    /// The previous run of the same turn, for which frames may still arrive.
    former: String,
}

/// A decision and the id of the request that sent it.
#[derive(Debug)]
struct SentDecision {
    allowed: bool,
    request: String,
}

/// The effects of a frame.
#[derive(Debug, Default)]
pub(super) struct FrameEffects {
    pub(super) events: Vec<AgentEvent>,
    pub(super) frames: Vec<String>,
    /// The session's servers must be registered at the gateway before anything else is sent.
    pub(super) register: bool,
}

/// The settings of a conversation.
#[derive(Debug, Default)]
pub(super) struct ConversationSettings {
    /// The conversation's key at the gateway.
    pub(super) key: String,
    pub(super) agent_id: String,
    pub(super) token: String,
    /// Empty: the gateway's default.
    pub(super) model: String,
    pub(super) working_dir: String,
    /// The session had turns before, so a conversation that the gateway does not have is a loss.
    pub(super) had_turns: bool,
    /// MCP servers: the gateway's name and the session's name of each.
    pub(super) servers: BTreeMap<String, String>,
    /// The gateway is on another machine, where the daemon's own tools cannot be reached.
    pub(super) is_remote: bool,
}

impl GatewayConversation {
    pub(super) fn new(wanted: ConversationSettings) -> Self {
        let ConversationSettings { key, agent_id, token, model, working_dir, had_turns, servers, is_remote } =
            wanted;
        Self { key, agent_id, token, model, working_dir, had_turns, servers, is_remote, ..Self::default() }
    }

    /// Sends a request to the gateway. Returns its id; ids sort in the order of the requests.
    fn ask(&mut self, method: &str, params: Value, out: &mut FrameEffects) -> String {
        self.sent += 1;
        let id = format!("{method}#{:08}", self.sent);
        out.frames.push(json!({"type": "req", "id": id, "method": method, "params": params}).to_string());
        id
    }

    /// Sends a prompt; `run` is the id of the run it starts.
    pub(super) fn prompt(
        &mut self,
        text: &str,
        attachments: Vec<Value>,
        run: String,
        out: &mut FrameEffects,
    ) {
        let message = if std::mem::take(&mut self.is_elsewhere) {
            format!("[Working directory: {}]\n\n{text}", self.working_dir)
        } else {
            text.to_owned()
        };
        let mut params = json!({"sessionKey": self.key, "message": message, "idempotencyKey": run});
        // A run of another client must not take the message for its own.
        params["queueMode"] = json!("followup");
        if !attachments.is_empty() {
            params["attachments"] = attachments.into();
        }
        self.run = Some(GatewayRun { id: run, ..GatewayRun::default() });
        self.send(params, out);
    }

    /// Sends a message. The gateway accepts its id once, so that it can be sent again until it is confirmed.
    fn send(&mut self, params: Value, out: &mut FrameEffects) {
        let request = self.ask("chat.send", params.clone(), out);
        self.unheard.insert(request, params);
    }

    /// Adds a message to the run.
    pub(super) fn steer(&mut self, text: &str, name: &str, out: &mut FrameEffects) {
        if self.holds(text, name, out) {
            return;
        }
        if self.unheard.len() >= GATEWAY_UNHEARD_MAX {
            notice(
                out,
                Level::Warning,
                "a message was not passed on: the gateway has not taken those before it",
            );
            return;
        }
        let mut params = json!({"sessionKey": self.key, "message": text, "idempotencyKey": name});
        if self.is_over() {
            // The run is at its end, but its turn is not: the message starts the turn's next run.
            params["queueMode"] = json!("followup");
            self.follow(name.to_owned());
        } else {
            params["queueMode"] = json!("steer");
            self.steers.push_back(name.to_owned());
            if self.steers.len() > GATEWAY_UNHEARD_MAX {
                self.steers.pop_front();
            }
        }
        self.send(params, out);
    }

    /// Aborts the open run; its turn ends when the gateway reports that.
    pub(super) fn interrupt(&mut self, out: &mut FrameEffects) {
        let Some(run) = &mut self.run else { return };
        run.interrupted = true;
        let run = run.id.clone();
        self.abort(&run, out);
    }

    /// Asks the gateway to abort a run. Returns the request's id.
    fn abort(&mut self, run: &str, out: &mut FrameEffects) -> String {
        let params = json!({"sessionKey": self.key, "runId": run});
        self.ask("chat.abort", params, out)
    }

    /// Aborts what is being done, because the session ends.
    pub(super) fn leave(&mut self, out: &mut FrameEffects) {
        let run = self.run.as_ref().map(|run| run.id.clone());
        self.farewell = Some(run.map(|run| self.abort(&run, out)).unwrap_or_default());
    }

    /// Returns whether nothing is being done any more after `leave`.
    pub(super) fn has_left(&self) -> bool {
        self.farewell.as_ref().is_some_and(String::is_empty)
    }

    /// Returns how long a living gateway may be silent.
    pub(super) fn silence(&self) -> Duration {
        let tick = self.tick.unwrap_or(GATEWAY_TICK);
        tick.saturating_mul(GATEWAY_SILENT_TICKS).clamp(GATEWAY_SILENCE_MIN, GATEWAY_SILENCE_MAX)
    }

    /// Returns whether a run is open.
    pub(super) fn is_at_work(&self) -> bool {
        self.run.is_some()
    }

    /// Returns whether the conversation was ready once, so that a lost connection must be reported.
    pub(super) fn has_begun(&self) -> bool {
        self.was_ready
    }

    /// Handles the loss of the connection; earlier requests get no answer any more.
    pub(super) fn lose(&mut self) {
        self.is_connected = false;
        // The run may end unseen.
        self.started.clear();
        if let Some(run) = &mut self.run {
            run.has_gap = true;
            run.was_lost = true;
        }
    }

    /// Handles one frame.
    pub(super) fn take(&mut self, frame: &str, out: &mut FrameEffects) {
        let Ok(frame) = serde_json::from_str::<Value>(frame) else {
            out.events.push(provider_common::text::unparsed(frame.as_bytes()));
            return;
        };
        match frame.text("type") {
            "event" => self.event(frame.text("event"), frame.under("payload"), out),
            "res" => self.answer(&frame, out),
            _ => {}
        }
    }

    /// Dispatches an event of the gateway.
    fn event(&mut self, name: &str, payload: &Value, out: &mut FrameEffects) {
        let own = payload.text("sessionKey") == self.key;
        match name {
            "connect.challenge" => self.connect(out),
            "chat" if own => self.chat(payload, out),
            "agent" | "session.tool" if own => self.agent(payload, out),
            "session.message" if own => {
                self.written(payload.under("message"), out);
                self.counted(payload.under("message"), out);
            }
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

    /// Dispatches an answer of the gateway by the method in the request's id.
    fn answer(&mut self, frame: &Value, out: &mut FrameEffects) {
        let method = frame.text("id").split('#').next().unwrap_or_default().to_owned();
        let (payload, error) = (frame.under("payload"), frame.under("error"));
        let ok = frame.is("ok");
        match method.as_str() {
            "connect" if ok => self.connected(payload, out),
            // It is still starting and closes the connection; we reconnect.
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
            "chat.send" => {
                let sent = self.unheard.remove(frame.text("id")).unwrap_or_default();
                if !ok {
                    self.refused(&sent, &reason(error), out);
                }
            }
            "agent.wait" if ok || error.is("retryable") || error.text("code") == "UNAVAILABLE" => {
                self.waited(payload, out);
            }
            "agent.wait" => self.fail(lost(&reason(error)), out),
            "chat.abort" if self.farewell.as_deref() == Some(frame.text("id")) => {
                self.farewell = Some(String::new())
            }
            "chat.abort" => self.stopped(payload, out),
            // The gateway keeps the conversation; the journal has its content.
            "chat.history"
                if ok && self.had_turns && !self.is_queued() && payload.list("messages").is_empty() =>
            {
                let message = "the gateway no longer has this conversation; a new one is begun";
                notice(out, Level::Warning, message);
            }
            "chat.history" if ok => self.remembered(payload, out),
            "chat.history" => self.is_unsure = true,
            "exec.approval.list" => self.waiting(ok.then_some(payload), out),
            "exec.approval.resolve" => {
                self.decided.retain(|_, told| told.request != frame.text("id"));
                if !ok {
                    let message = format!("the gateway did not take the decision: {}", reason(error));
                    notice(out, Level::Warning, &message);
                }
            }
            _ => {}
        }
    }
}

/// Returns the error of a turn that cannot continue.
pub(super) fn lost(reason: &str) -> String {
    format!("{}: the connection to the OpenClaw gateway is lost: {reason}", ErrorCode::ConnectionLost)
}

fn broken(out: &mut FrameEffects, code: ErrorCode, message: String) {
    out.events.push(AgentEvent::Broken { code: Some(code), message });
}

fn notice(out: &mut FrameEffects, level: Level, message: &str) {
    out.events.push(AgentEvent::Notice { level, message: cut(message, MESSAGE_MAX_CHARS) });
}

mod handshake;
mod queue;
mod requests;
mod runs;
mod text;
mod tools;

#[cfg(test)]
mod tests;

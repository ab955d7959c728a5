//! The gateway's protocol, version 4: text frames of JSON. Turns frames into what happened and what an agent is told
//! into frames. Pure: no socket, no clock, no chance; names of runs come from outside.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use domain::event::Level;
use domain::{AgentEvent, CallId, ErrorCode};
use serde_json::{Value, json};

use crate::json_fields::Look;
use crate::limits::{
    GATEWAY_SILENCE_MAX, GATEWAY_SILENCE_MIN, GATEWAY_SILENT_TICKS, GATEWAY_TICK, GATEWAY_UNHEARD_MAX,
    MESSAGE_MAX_CHARS,
};
use crate::text::cut;
pub(super) use text::{hello, reason};

/// The protocol this code was tested with.
const PROTOCOL: u64 = 4;
const TESTED: &str = "2026.9";

/// What is known of the conversation. Lives as long as its session's agent; the gateway keeps the rest.
#[derive(Debug, Default)]
pub(super) struct GatewayConversation {
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
    /// How often the gateway says at least something.
    tick: Option<Duration>,
    /// The gateway's process that answered last; another one knows nothing of its runs.
    boot: String,
    /// The gateway has been told who we are, and knows the conversation.
    pub(super) is_connected: bool,
    was_ready: bool,
    /// The gateway would not begin the conversation in the session's folder, so its agent is told where that is.
    is_elsewhere: bool,
    /// The run that is open.
    run: Option<GatewayRun>,
    /// Messages to runs that were sent, the last ones. One that comes too late begins a run of its own.
    steers: VecDeque<String>,
    /// The run that began last in the conversation, whoever began it; empty when it is over.
    started: String,
    /// The session ends: the request that ends its run, or nothing when that is over.
    farewell: Option<String>,
    /// Messages to a run that has not begun, with their names.
    held: Vec<(String, String)>,
    /// What became of it was asked for, and is not known yet.
    is_unsure: bool,
    /// Messages that the gateway has not confirmed: by the names of their requests, as they were sent.
    unheard: BTreeMap<String, Value>,
    calls: BTreeSet<CallId>,
    /// Calls that only pass another one on, until it is seen.
    wrappers: BTreeMap<CallId, Value>,
    /// Approvals that wait, with their calls.
    asks: BTreeMap<String, Option<CallId>>,
    /// Decisions that the gateway has not confirmed, with the requests that told it.
    decided: BTreeMap<String, SentDecision>,
    /// Runs that ended here while the connection was lost. The gateway is told to end them when it is back.
    left: Vec<String>,
    /// Why calls were denied.
    denials: BTreeMap<CallId, String>,
}

#[derive(Debug, Default)]
struct GatewayRun {
    id: String,
    /// The gateway has begun with it; or it waits there until something else is over.
    has_begun: bool,
    is_queued: bool,
    /// What its last message says, so far.
    text: String,
    /// The piece of text that is being said, and all of it that was.
    item: String,
    said: String,
    /// Pieces may have been missed before the next one, and at all.
    has_gap: bool,
    was_lost: bool,
    interrupted: bool,
    /// What the last message of the model used is known.
    is_counted: bool,
    /// It is over, but for that.
    is_over: bool,
    /// The run of the same turn before this one, of which something may still be said.
    former: String,
}

/// A decision and the name of the request that told it.
#[derive(Debug)]
struct SentDecision {
    allowed: bool,
    request: String,
}

/// What frames lead to.
#[derive(Debug, Default)]
pub(super) struct FrameEffects {
    pub(super) events: Vec<AgentEvent>,
    pub(super) frames: Vec<String>,
    /// The gateway must be told of the session's servers before it is told more.
    pub(super) register: bool,
}

/// What a conversation is to be.
#[derive(Debug, Default)]
pub(super) struct ConversationSettings {
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

impl GatewayConversation {
    pub(super) fn new(wanted: ConversationSettings) -> Self {
        let ConversationSettings { key, agent_id, token, model, working_dir, had_turns, servers, is_remote } =
            wanted;
        Self { key, agent_id, token, model, working_dir, had_turns, servers, is_remote, ..Self::default() }
    }

    /// Asks the gateway for something. Returns the request's name; names are in the order of what was asked.
    fn ask(&mut self, method: &str, params: Value, out: &mut FrameEffects) -> String {
        self.sent += 1;
        let id = format!("{method}#{:08}", self.sent);
        out.frames.push(json!({"type": "req", "id": id, "method": method, "params": params}).to_string());
        id
    }

    /// Says something as the user; `run` names what it starts.
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
        // Nobody else's run may take the message for one to itself.
        params["queueMode"] = json!("followup");
        if !attachments.is_empty() {
            params["attachments"] = attachments.into();
        }
        self.run = Some(GatewayRun { id: run, ..GatewayRun::default() });
        self.send(params, out);
    }

    /// Sends a message. The gateway takes its name once, so that it can be sent again until it is confirmed.
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
            // The run is at its end, and its turn is not: the message begins the turn's next run.
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

    pub(super) fn interrupt(&mut self, out: &mut FrameEffects) {
        let Some(run) = &mut self.run else { return };
        run.interrupted = true;
        let run = run.id.clone();
        self.abort(&run, out);
    }

    /// Asks the gateway to end a run. Returns the request's name.
    fn abort(&mut self, run: &str, out: &mut FrameEffects) -> String {
        let params = json!({"sessionKey": self.key, "runId": run});
        self.ask("chat.abort", params, out)
    }

    /// Ends what is being done, for good.
    pub(super) fn leave(&mut self, out: &mut FrameEffects) {
        let run = self.run.as_ref().map(|run| run.id.clone());
        self.farewell = Some(run.map(|run| self.abort(&run, out)).unwrap_or_default());
    }

    /// Returns whether nothing is done here any more.
    pub(super) fn has_left(&self) -> bool {
        self.farewell.as_ref().is_some_and(String::is_empty)
    }

    /// Returns how long a gateway that is there may say nothing at all.
    pub(super) fn silence(&self) -> Duration {
        let tick = self.tick.unwrap_or(GATEWAY_TICK);
        tick.saturating_mul(GATEWAY_SILENT_TICKS).clamp(GATEWAY_SILENCE_MIN, GATEWAY_SILENCE_MAX)
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
        // It may end unseen.
        self.started.clear();
        if let Some(run) = &mut self.run {
            run.has_gap = true;
            run.was_lost = true;
        }
    }

    /// Takes one frame.
    pub(super) fn take(&mut self, frame: &str, out: &mut FrameEffects) {
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

    fn answer(&mut self, frame: &Value, out: &mut FrameEffects) {
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
            // The gateway keeps the conversation; the journal has what was said in it.
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

/// Why a turn cannot go on.
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

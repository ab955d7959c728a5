//! What the gateway reports about the open run: its text, its usage, its end. Pure.

use domain::AgentEvent;
use domain::event::Level;
use domain::turn::EndReason;
use serde_json::{Value, json};

use super::text::usage;
use super::{FrameEffects, GatewayConversation, GatewayRun, notice};
use crate::limits::{GATEWAY_RUN_WAIT, GATEWAY_UNHEARD_MAX, MESSAGE_MAX_CHARS};
use provider_common::json_fields::Look;
use provider_common::text::cut;

impl GatewayConversation {
    /// Ends the open run without the gateway.
    pub(crate) fn fail(&mut self, error: String, out: &mut FrameEffects) {
        let reason = if self.run.as_ref().is_some_and(|run| run.interrupted) {
            EndReason::Cancelled
        } else {
            EndReason::Failed
        };
        if let Some(run) = &self.run
            && !self.is_connected
            && self.left.len() < GATEWAY_UNHEARD_MAX
        {
            self.left.push(run.id.clone());
        }
        self.end(reason, error, out);
    }

    /// Ends the open run and its turn, closing everything that is still open.
    pub(super) fn end(&mut self, reason: EndReason, error: String, out: &mut FrameEffects) {
        let Some(run) = self.run.take() else { return };
        self.had_turns |= reason == EndReason::Completed;
        self.unheard.clear();
        self.drop_held(out);
        for call in std::mem::take(&mut self.calls) {
            let output = match self.denials.remove(&call) {
                Some(why) => format!("denied: {why}"),
                None => "the gateway did not say what became of it".to_owned(),
            };
            out.events.push(AgentEvent::ToolFinished { call, ok: false, output });
        }
        self.wrappers.clear();
        self.asks.clear();
        self.decided.clear();
        self.denials.clear();
        let reason = if run.interrupted { EndReason::Cancelled } else { reason };
        out.events.push(AgentEvent::TurnEnded { reason, text: run.text, error });
    }

    /// Asks for the state of the run.
    pub(crate) fn look(&mut self, out: &mut FrameEffects) {
        self.is_unsure = false;
        let Some(run) = &self.run else { return };
        if run.is_queued {
            return self.ask_history(out);
        }
        let params = json!({"runId": run.id, "timeoutMs": GATEWAY_RUN_WAIT.as_millis() as u64});
        self.ask("agent.wait", params, out);
    }

    /// Returns whether the state of the run is unknown, so that it must be asked for again.
    pub(crate) fn is_unsure(&self) -> bool {
        self.is_unsure && self.run.is_some()
    }

    /// Handles a run that ended while the connection was lost. One that continues reports itself, or is asked
    /// for again.
    pub(super) fn waited(&mut self, payload: &Value, out: &mut FrameEffects) {
        let mut error = payload.text("error").to_owned();
        let reason = match payload.text("status") {
            _ if !payload.text("runId").is_empty() && !self.is_own(payload) => return,
            // The gateway also reports "ok" for a prompt that is queued.
            "ok" if !self.is_running() && payload.under("terminalReply").text("text").is_empty() => {
                return self.queued(out);
            }
            "ok" => EndReason::Completed,
            "error" => EndReason::Failed,
            // The same status for a wait that was too short and for a run that was stopped; only the latter
            // has an end time.
            "timeout" if payload.count("endedAt").is_some() => {
                if error.is_empty() {
                    error = format!("the gateway stopped it ({})", payload.text("stopReason"));
                }
                EndReason::Failed
            }
            _ => {
                self.is_unsure = true;
                return;
            }
        };
        self.conclude(payload.under("terminalReply").text("text"), out);
        self.end(reason, error, out);
    }

    /// Handles a refused message. Without the one that started it there is no run; without another one it
    /// continues.
    pub(super) fn refused(&mut self, sent: &Value, reason: &str, out: &mut FrameEffects) {
        let name = sent.text("idempotencyKey");
        if self.run.as_ref().is_some_and(|run| run.id == name) {
            self.fail(reason.to_owned(), out);
        } else {
            self.steers.retain(|steer| steer != name);
            notice(out, Level::Warning, &format!("the gateway did not take a message: {reason}"));
        }
    }

    /// Continues the turn with another run.
    pub(super) fn follow(&mut self, id: String) {
        let former = self.run.take().unwrap_or_default();
        self.run = Some(GatewayRun {
            id,
            former: former.id,
            interrupted: former.interrupted,
            ..GatewayRun::default()
        });
    }

    /// Handles a message that arrived too late for its run and started its own: the turn's next run, or that
    /// of a new turn.
    fn begun(&mut self, payload: &Value, out: &mut FrameEffects) {
        let id = payload.text("runId");
        let Some(at) = self.steers.iter().position(|steer| steer == id) else { return };
        self.steers.remove(at);
        if self.run.is_none() {
            out.events.push(AgentEvent::TurnStarted);
        }
        self.follow(id.to_owned());
    }

    fn is_running(&self) -> bool {
        self.run.as_ref().is_some_and(|run| run.has_begun)
    }

    fn is_own(&self, payload: &Value) -> bool {
        // A late frame of an older run may arrive during the next one.
        self.run.as_ref().is_some_and(|run| run.id == payload.text("runId"))
    }

    fn is_former(&self, payload: &Value) -> bool {
        let run = self.run.as_ref().filter(|run| !run.former.is_empty());
        run.is_some_and(|run| run.former == payload.text("runId"))
    }

    fn say(&mut self, text: &str, out: &mut FrameEffects) {
        if text.is_empty() {
            return;
        }
        if let Some(run) = &mut self.run {
            run.text.push_str(text);
        }
        out.events.push(AgentEvent::Text { text: text.to_owned(), parent: None });
    }

    /// Handles a piece of text. It comes with all the text before it, which is used if some may have been
    /// missed. The gateway normalises that text, so otherwise the piece itself is what the model wrote.
    fn heard(&mut self, data: &Value, out: &mut FrameEffects) {
        let Some(run) = &mut self.run else { return };
        let item = data.text("itemId");
        if item != run.item {
            // Another message of the model.
            item.clone_into(&mut run.item);
            run.said.clear();
            run.text.clear();
        }
        let had_gap = std::mem::take(&mut run.has_gap);
        let whole = data.text("text").strip_prefix(run.said.as_str()).filter(|_| had_gap);
        let piece = whole.unwrap_or(data.text("delta")).to_owned();
        run.said.push_str(&piece);
        self.say(&piece, out);
    }

    /// Handles the complete text of the run's last message.
    pub(super) fn conclude(&mut self, text: &str, out: &mut FrameEffects) {
        let Some(run) = &self.run else { return };
        let (said, was_lost) = (run.text.clone(), run.was_lost);
        match text.strip_prefix(said.as_str()) {
            Some(rest) => self.say(rest, out),
            None if !was_lost => {}
            // It may include the text before its last call, and lack surrounding white space.
            None if text.trim().is_empty() || text.trim_end().ends_with(said.trim()) => {}
            None => self.correct(text, out),
        }
    }

    /// Handles a text that differs from what was streamed. That cannot be withdrawn, but the turn ends with
    /// the right text.
    fn correct(&mut self, text: &str, out: &mut FrameEffects) {
        if let Some(run) = &mut self.run {
            text.clone_into(&mut run.text);
            notice(
                out,
                Level::Warning,
                "the gateway changed what it had said; the turn's last text is the right one",
            );
        }
    }

    /// Handles the state of the run's reply.
    pub(super) fn chat(&mut self, payload: &Value, out: &mut FrameEffects) {
        if !self.is_own(payload) {
            return;
        }
        match payload.text("state") {
            "final" if payload.get("message").is_none() && !self.is_running() => self.queued(out),
            "final" => {
                let parts = payload.under("message").list("content").iter().map(|part| part.text("text"));
                let text: String = parts.collect();
                self.conclude(&text, out);
                // The usage is sent separately, on a busy machine after this.
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

    /// Handles an event of a run: lifecycle, text, thinking, calls and retries.
    pub(super) fn agent(&mut self, payload: &Value, out: &mut FrameEffects) {
        if payload.text("stream") == "lifecycle" {
            let phase = payload.under("data").text("phase");
            self.observe(payload.text("runId"), phase);
            if phase == "start" {
                self.begun(payload, out);
            }
        }
        if !self.is_own(payload) {
            return;
        }
        if let Some(run) = &mut self.run {
            run.has_begun = true;
        }
        let data = payload.under("data");
        match payload.text("stream") {
            "assistant" => self.heard(data, out),
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

    /// Counts the usage of a message of the run; it arrives before the run's end.
    pub(super) fn counted(&mut self, message: &Value, out: &mut FrameEffects) {
        let usage = usage(message);
        if message.text("role") == "assistant"
            && (self.is_own(message.under("__openclaw")) || self.is_former(message.under("__openclaw")))
            && !usage.is_empty()
        {
            out.events.push(AgentEvent::Usage {
                usage,
                context_tokens: None,
                context_window: None,
                parent: None,
            });
            if self.is_former(message.under("__openclaw")) {
                return;
            }
            if let Some(run) = &mut self.run {
                run.is_counted = true;
            }
            self.settle(out);
        }
    }

    /// Returns whether the run has ended and only its usage is unknown.
    pub(crate) fn is_over(&self) -> bool {
        self.run.as_ref().is_some_and(|run| run.is_over)
    }

    /// Ends a run that is over.
    pub(crate) fn settle(&mut self, out: &mut FrameEffects) {
        if self.is_over() {
            self.end(EndReason::Completed, String::new(), out);
        }
    }
}

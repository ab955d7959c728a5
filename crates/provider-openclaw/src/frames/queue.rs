//! A prompt that the gateway did not start at once: something else is running in the conversation, and the
//! prompt is queued until that has ended. It then runs under an id that the gateway chooses. Pure.
//!
//! What else can be running is a run of another client, which is waited for, or a turn that a restarted
//! gateway resumes on its own. The latter has already failed here, so it is aborted.

use domain::event::Level;
use domain::turn::EndReason;
use serde_json::{Value, json};

use super::{FrameEffects, GatewayConversation, GatewayRun, notice};
use crate::limits::{GATEWAY_HISTORY_LOOK, GATEWAY_RUN_LOOK, GATEWAY_UNHEARD_MAX};
use provider_common::json_fields::Look;

/// The marker of a message that a gateway wrote to resume a turn of its previous process.
const RECOVERY: &str = "main_session_restart_recovery";

impl GatewayConversation {
    /// Asks for the end of the conversation, with what is queued and what is running there.
    pub(super) fn ask_history(&mut self, out: &mut FrameEffects) {
        let limit = if self.is_queued() { GATEWAY_RUN_LOOK } else { GATEWAY_HISTORY_LOOK };
        let params = json!({"sessionKey": self.key, "limit": limit});
        self.ask("chat.history", params, out);
    }

    /// Handles a prompt that the gateway has accepted without starting a run for it.
    pub(super) fn queued(&mut self, out: &mut FrameEffects) {
        let Some(run) = &mut self.run else { return };
        run.is_queued = true;
        if run.interrupted {
            let id = run.id.clone();
            self.abort(&id, out);
        } else {
            self.ask_history(out);
        }
    }

    /// Holds back a message until its run has started. Returns whether it does.
    pub(super) fn holds(&mut self, text: &str, name: &str, out: &mut FrameEffects) -> bool {
        if !self.is_queued() {
            return false;
        }
        if self.held.len() < GATEWAY_UNHEARD_MAX {
            self.held.push((text.to_owned(), name.to_owned()));
        } else {
            notice(out, Level::Warning, "a message was not passed on: the prompt before it still waits");
        }
        true
    }

    /// Drops messages to a run that does not start.
    pub(super) fn drop_held(&mut self, out: &mut FrameEffects) {
        if !std::mem::take(&mut self.held).is_empty() {
            notice(out, Level::Warning, "a message was not passed on: the prompt before it was never run");
        }
    }

    /// Handles a message that was written to the conversation; a user's message starts a run.
    pub(super) fn written(&mut self, message: &Value, out: &mut FrameEffects) {
        let Some(name) = began_by(message) else { return };
        if is_recovery(message) {
            self.stop_recovered(name, out);
        } else if self.is_queued_as(name) && !self.started.is_empty() {
            let run = std::mem::take(&mut self.started);
            self.promote(run, out);
        }
    }

    /// Records which run is active, whoever started it.
    pub(super) fn observe(&mut self, run: &str, phase: &str) {
        match phase {
            "start" => run.clone_into(&mut self.started),
            "end" | "error" if self.started == run => self.started.clear(),
            _ => {}
        }
    }

    pub(super) fn is_queued(&self) -> bool {
        self.run.as_ref().is_some_and(|run| run.is_queued)
    }

    fn is_queued_as(&self, name: &str) -> bool {
        self.run.as_ref().is_some_and(|run| run.is_queued && run.id == name)
    }

    /// The queued prompt has started: this is its run.
    fn promote(&mut self, id: String, out: &mut FrameEffects) {
        self.follow(id.clone());
        if let Some(run) = &mut self.run {
            run.has_begun = true;
            // Some of its text may have been sent already.
            run.has_gap = true;
            if run.interrupted {
                self.drop_held(out);
                self.abort(&id, out);
            }
        }
        for (text, name) in std::mem::take(&mut self.held) {
            self.steer(&text, &name, out);
        }
    }

    fn stop_recovered(&mut self, run: &str, out: &mut FrameEffects) {
        self.abort(run, out);
        notice(out, Level::Info, "the gateway took up the lost turn by itself; it is stopped there");
    }

    /// Handles the end of the conversation, after a loss or for a queued prompt.
    pub(super) fn remembered(&mut self, history: &Value, out: &mut FrameEffects) {
        let messages = history.list("messages");
        let info = history.under("sessionInfo");
        // A run that is past its start is not in the list.
        let listed = info.list("activeRunIds").iter().filter_map(Value::as_str);
        let active: Vec<&str> = listed.chain([history.under("inFlightRun").text("runId")]).collect();
        let recovered = messages.iter().rev().filter(|message| is_recovery(message)).find_map(began_by);
        // Whether it is the active one is not always known; aborting one that has ended does no harm.
        if let Some(run) = recovered.filter(|run| active.contains(run) || info.is("hasActiveRun")) {
            self.stop_recovered(run, out);
        }
        self.stop_stale(&active, out);
        let Some(own) = self.run.as_ref().filter(|run| run.is_queued).map(|run| run.id.clone()) else {
            return;
        };
        let waits = history.under("pendingInputs").list("items").iter().any(|item| item.text("runId") == own);
        let at = messages.iter().position(|message| began_by(message) == Some(own.as_str()));
        let other = active.iter().find(|run| !run.is_empty() && **run != own && Some(**run) != recovered);
        // A run with more messages than were asked for started before them.
        let last = messages.iter().rposition(|message| message.text("role") == "user").map_or(0, |at| at + 1);
        let behind = at.map(|at| at + 1).or((messages.len() >= GATEWAY_RUN_LOOK).then_some(last));
        match (behind, other) {
            _ if waits => self.is_unsure = true,
            (Some(_), Some(run)) => self.promote((*run).to_owned(), out),
            (Some(behind), None) => self.catch_up(&messages[behind..], out),
            (None, Some(_)) => self.is_unsure = true,
            (None, None) => {
                let message = "the gateway took the prompt and began no run for it";
                notice(out, Level::Warning, message);
                self.end(EndReason::Completed, String::new(), out);
            }
        }
    }

    /// Aborts our runs whose turn has ended, for example with a daemon that was killed: no client sees their
    /// output, and the next prompt would wait for them.
    fn stop_stale(&mut self, active: &[&str], out: &mut FrameEffects) {
        let prefix = format!("{}-", self.key);
        let is_open = |run: &str| {
            let own = self.run.as_ref().is_some_and(|own| own.id == run || own.former == run);
            own || self.steers.iter().any(|steer| steer == run)
        };
        let stale: Vec<&str> =
            active.iter().copied().filter(|run| run.starts_with(&prefix) && !is_open(run)).collect();
        for run in stale {
            self.abort(run, out);
            notice(
                out,
                Level::Info,
                "the gateway was at work for a turn that has ended; it is stopped there",
            );
        }
    }

    /// Handles a run of the prompt that started and ended unseen; these are the messages after it.
    fn catch_up(&mut self, messages: &[Value], out: &mut FrameEffects) {
        let own = messages.iter().take_while(|message| message.text("role") != "user");
        let mut text = String::new();
        for message in own.filter(|message| message.text("role") == "assistant") {
            let id = message.under("__openclaw").text("runId").to_owned();
            self.follow(id);
            self.counted(message, out);
            text = message.list("content").iter().map(|part| part.text("text")).collect();
        }
        self.conclude(&text, out);
        self.end(EndReason::Completed, String::new(), out);
    }

    /// Handles the answer to an abort, which may have had nothing to abort.
    pub(super) fn stopped(&mut self, payload: &Value, out: &mut FrameEffects) {
        let Some(GatewayRun { id, is_queued: true, interrupted: true, .. }) = &self.run else { return };
        if payload.list("runIds").iter().any(|run| run.as_str() == Some(id)) {
            // The end of a run that had not started is not reported.
            self.end(EndReason::Cancelled, String::new(), out);
        } else {
            self.ask_history(out);
        }
    }
}

/// Returns the id that a user's message was sent with.
fn began_by(message: &Value) -> Option<&str> {
    let key = message.text("idempotencyKey").strip_suffix(":user")?;
    (message.text("role") == "user").then_some(key)
}

fn is_recovery(message: &Value) -> bool {
    message.under("provenance").text("sourceTool") == RECOVERY
}

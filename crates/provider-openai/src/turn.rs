//! One turn: ask the model, report its reply, carry out its calls, ask again. Inputs that arrive meanwhile
//! are handled at once.

use std::collections::HashSet;
use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use domain::turn::EndReason;
use domain::{AgentEvent, AgentInput, ErrorCode};

use super::agent::{OpenaiWorker, SessionGone};
use super::history::HistoryCall;
use super::http::ReplyStream;
use super::instructions::instructions;
use super::reply::{FailureKind, ReplyEnd, ReplyFailure, ReplyPiece};
use super::request::ModelRequest;
use super::{models, retry, tools};
use crate::limits::{REPLY_CALLS_MAX, TURN_STEPS_MAX};

/// Why a turn stops before its end.
pub(super) enum TurnStop {
    Gone,
    Cancelled,
    Failed { reason: EndReason, error: String },
}

impl From<SessionGone> for TurnStop {
    fn from(_: SessionGone) -> Self {
        Self::Gone
    }
}

impl TurnStop {
    pub(super) fn failed(error: impl Into<String>) -> Self {
        Self::Failed { reason: EndReason::Failed, error: error.into() }
    }
}

/// One reply of the model.
struct ModelReply {
    text: String,
    calls: Vec<HistoryCall>,
    ended: ReplyEnd,
}

/// The model's thinking over all attempts at one reply. What was shown cannot be withdrawn; a further attempt
/// shows only what goes beyond it.
#[derive(Default)]
struct ThinkingFilter {
    shown: String,
    /// Of the current attempt.
    now: String,
}

impl ThinkingFilter {
    /// Adds a piece and returns the part of it that is to be shown.
    fn fresh(&mut self, piece: &str) -> String {
        self.now.push_str(piece);
        let more = self.now.strip_prefix(self.shown.as_str()).unwrap_or_default().to_owned();
        self.shown.push_str(&more);
        more
    }
}

/// Why an attempt brought no reply.
enum AttemptFailure {
    Stop(TurnStop),
    /// `spoke`: some of its text was already reported and cannot be withdrawn. Thinking does not count:
    /// another attempt starts its own.
    Failed {
        failure: ReplyFailure,
        spoke: bool,
    },
}

impl From<TurnStop> for AttemptFailure {
    fn from(stop: TurnStop) -> Self {
        Self::Stop(stop)
    }
}

impl From<SessionGone> for AttemptFailure {
    fn from(_: SessionGone) -> Self {
        Self::Stop(TurnStop::Gone)
    }
}

impl OpenaiWorker {
    /// Runs a turn whose prompt is in the history.
    pub(super) async fn turn(&mut self) -> Result<(), SessionGone> {
        self.emit(AgentEvent::TurnStarted).await?;
        let outcome = self.steps().await;
        self.conclude(outcome).await
    }

    /// Reports how a turn ended.
    pub(super) async fn conclude(
        &mut self,
        outcome: Result<(EndReason, String), TurnStop>,
    ) -> Result<(), SessionGone> {
        self.history.end_turn();
        let (reason, text, error) = match outcome {
            Ok((reason, text)) => (reason, text, String::new()),
            Err(TurnStop::Gone) => return Err(SessionGone),
            Err(TurnStop::Cancelled) => (EndReason::Cancelled, String::new(), String::new()),
            Err(TurnStop::Failed { reason, error }) => (reason, String::new(), error),
        };
        self.emit(AgentEvent::TurnEnded { reason, text, error }).await
    }

    /// Alternates between replies and calls until the model is done or the step limit is reached.
    async fn steps(&mut self) -> Result<(EndReason, String), TurnStop> {
        let mut used = HashSet::new();
        for _ in 0..TURN_STEPS_MAX {
            self.ask_servers().await?;
            self.warn_of_hidden().await?;
            self.make_room().await?;
            let reply = self.reply().await?;
            if reply.ended != ReplyEnd::Whole || (reply.calls.is_empty() && !self.is_steered) {
                return Ok((reply.ended.reason(), reply.text));
            }
            if !reply.calls.is_empty() {
                let calls = reply.calls.into_iter().map(|call| named(call, &mut used)).collect();
                self.carry_out(calls).await?;
            }
        }
        let error = format!("the turn was ended after {TURN_STEPS_MAX} replies of the model");
        Err(TurnStop::Failed { reason: EndReason::LimitReached, error })
    }

    /// Asks servers whose tools have changed, while handling the inbox.
    async fn ask_servers(&mut self) -> Result<(), TurnStop> {
        let changed = self.servers.changed();
        if changed.is_empty() {
            return Ok(());
        }
        let asking = self.servers.ask(&changed);
        tokio::pin!(asking);
        let answers = loop {
            tokio::select! {
                biased;
                input = self.inbox.recv() => {
                    if let Err(stop) = self.take_input(input) {
                        self.servers.ask_later(&changed);
                        return Err(stop);
                    }
                }
                answers = &mut asking => break answers,
            }
        };
        let report = self.servers.take_in(answers);
        Ok(self.tell_of_servers(Some(report)).await?)
    }

    /// Asks the model until there is a reply, or a retry is pointless.
    async fn reply(&mut self) -> Result<ModelReply, TurnStop> {
        let (mut retries, mut compacted) = (0, false);
        let mut thought = ThinkingFilter::default();
        loop {
            thought.now.clear();
            let began = self.history.begin_reply();
            let (failure, spoke) = match self.attempt(&mut thought).await {
                Ok(reply) => {
                    self.history.end_reply(!reply.calls.is_empty());
                    return Ok(reply);
                }
                Err(AttemptFailure::Stop(stop)) => return Err(stop),
                Err(AttemptFailure::Failed { failure, spoke }) => (failure, spoke),
            };
            if !spoke {
                self.history.undo_reply(began);
            }
            if failure.kind == FailureKind::TooLong
                && !spoke
                && !compacted
                && !self.history.answered().is_empty()
            {
                compacted = true;
                self.compact().await?;
                continue;
            }
            if spoke || !failure.is_passing() {
                return Err(self.given_up(&failure));
            }
            self.wait_out(&failure, retries).await?;
            retries += 1;
        }
    }

    /// Waits before a retry, or gives up.
    pub(super) async fn wait_out(&mut self, failure: &ReplyFailure, retries: u32) -> Result<(), TurnStop> {
        let most = self.settings.max_retries;
        let Some(wait) = retry::wait(retries, most, failure.retry_after, chance()) else {
            if failure.is_rate_limited || failure.retry_after.is_some() {
                let resumes_at = failure.retry_after.map(|wait| host::clock::now().after(wait));
                self.emit(AgentEvent::RateLimited { resumes_at, reason: failure.message.clone() }).await?;
            }
            return Err(self.given_up(failure));
        };
        let seconds = wait.as_secs_f64();
        let message =
            format!("{}; trying again in {seconds:.1} s ({} of {most})", failure.message, retries + 1);
        self.emit(AgentEvent::Waits { code: failure.wait_code(), message }).await?;
        self.pause(wait).await
    }

    /// Returns why a turn ends without a reply.
    pub(super) fn given_up(&self, failure: &ReplyFailure) -> TurnStop {
        let (reason, remedy) = match failure.kind {
            FailureKind::Key => (EndReason::Failed, self.key_remedy()),
            FailureKind::TooLong => (EndReason::LimitReached, "; compact the conversation".to_owned()),
            FailureKind::Unreachable => (EndReason::Failed, format!(" ({})", ErrorCode::ConnectionLost)),
            _ => (EndReason::Failed, String::new()),
        };
        TurnStop::Failed { reason, error: format!("{}{remedy}", failure.message) }
    }

    /// Waits, while handling the inbox.
    async fn pause(&mut self, wait: Duration) -> Result<(), TurnStop> {
        let until = tokio::time::Instant::now() + wait;
        loop {
            tokio::select! {
                input = self.inbox.recv() => self.take_input(input)?,
                () = tokio::time::sleep_until(until) => return Ok(()),
            }
        }
    }

    /// Takes something in during a turn. Answers belong to calls and are dealt with there.
    pub(super) fn take_input(&mut self, input: Option<AgentInput>) -> Result<(), TurnStop> {
        match input {
            None | Some(AgentInput::Leave) => return Err(TurnStop::Gone),
            Some(AgentInput::Interrupt) => return Err(TurnStop::Cancelled),
            Some(AgentInput::Steer { text } | AgentInput::Prompt { text, .. }) => {
                self.history.user(&text, &[]);
                self.is_steered = true;
            }
            Some(other) => self.adopt(other),
        }
        Ok(())
    }

    fn request_body(&self) -> String {
        let instructions = instructions(&self.working_dir, self.mode, &self.settings.append_system_prompt);
        let tools = tools::offers(self.mode, self.others());
        let request = ModelRequest {
            model: &self.model,
            instructions: &instructions,
            items: self.history.items(),
            tools: &tools,
            effort: &self.settings.reasoning_effort,
            temperature: self.settings.temperature,
            max_output_tokens: self.settings.max_output_tokens,
            session: &self.session,
        };
        self.endpoint.wire().body(&request).to_string()
    }

    /// Asks the model once and reports its reply.
    async fn attempt(&mut self, thought: &mut ThinkingFilter) -> Result<ModelReply, AttemptFailure> {
        self.is_steered = false;
        let body = self.request_body();
        let mut stream = self.open(body).await?;
        let mut reply = ModelReply { text: String::new(), calls: Vec::new(), ended: ReplyEnd::Whole };
        loop {
            let piece = tokio::select! {
                biased;
                input = self.inbox.recv() => {
                    self.take_input(input)?;
                    continue;
                }
                piece = stream.next() => piece,
            };
            let spoke = !reply.text.is_empty();
            match piece.map_err(|failure| AttemptFailure::Failed { failure, spoke })? {
                Some(ReplyPiece::Ended(ended)) => {
                    reply.ended = ended;
                    return Ok(reply);
                }
                Some(ReplyPiece::Failed(failure)) => return Err(AttemptFailure::Failed { failure, spoke }),
                Some(piece) => self.pass_on(piece, &mut reply, thought).await?,
                None => {
                    let failure =
                        ReplyFailure::new(FailureKind::Passing, "the endpoint ended its reply in the middle");
                    return Err(AttemptFailure::Failed { failure, spoke });
                }
            }
        }
    }

    /// Sends a request, handling the inbox until there is an answer.
    async fn open(&mut self, body: String) -> Result<ReplyStream, AttemptFailure> {
        let endpoint = std::sync::Arc::clone(&self.endpoint);
        let asking = endpoint.ask(body);
        tokio::pin!(asking);
        loop {
            tokio::select! {
                biased;
                input = self.inbox.recv() => self.take_input(input)?,
                answer = &mut asking => {
                    return answer.map_err(|failure| AttemptFailure::Failed { failure, spoke: false });
                }
            }
        }
    }

    /// Adds a piece to the reply and the history, and reports it.
    async fn pass_on(
        &mut self,
        piece: ReplyPiece,
        reply: &mut ModelReply,
        thought: &mut ThinkingFilter,
    ) -> Result<(), SessionGone> {
        match piece {
            ReplyPiece::Text(text) => {
                reply.text.push_str(&text);
                self.history.text(&text);
                self.emit(AgentEvent::Text { text, parent: None }).await
            }
            ReplyPiece::Thinking(text) => {
                let text = thought.fresh(&text);
                if text.is_empty() {
                    return Ok(());
                }
                self.emit(AgentEvent::Thinking { text, parent: None }).await
            }
            ReplyPiece::Call(call) => {
                if reply.calls.len() < REPLY_CALLS_MAX {
                    reply.calls.push(call);
                }
                Ok(())
            }
            ReplyPiece::Reasoning(item) => {
                self.history.reasoning(item);
                Ok(())
            }
            ReplyPiece::Used(used) => {
                self.counted = (used.context_tokens, self.history.items().len());
                self.emit(AgentEvent::Usage {
                    usage: used.usage,
                    context_tokens: Some(used.context_tokens),
                    context_window: Some(self.window()),
                    parent: None,
                })
                .await
            }
            ReplyPiece::Ended(_) | ReplyPiece::Failed(_) => Ok(()),
        }
    }

    /// Returns the context window of the model in tokens.
    pub(super) fn window(&self) -> u64 {
        self.settings.context_window.unwrap_or_else(|| models::window(&self.model))
    }
}

/// Gives a call an id that is unique within the turn; some endpoints send none, or the same again.
fn named(mut call: HistoryCall, used: &mut HashSet<String>) -> HistoryCall {
    if call.id.is_empty() {
        call.id = "call".to_owned();
    }
    let given = call.id.clone();
    let mut number = 1;
    while !used.insert(call.id.clone()) {
        number += 1;
        call.id = format!("{given}_{number}");
    }
    call
}

/// Returns a random number between 0 and 1.
fn chance() -> f64 {
    let random = RandomState::new().hash_one(0) >> 11;
    random as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_thought_is_shown_once() {
        let mut thought = ThinkingFilter::default();
        assert_eq!(thought.fresh("a deep "), "a deep ");
        assert_eq!(thought.fresh("thou"), "thou");
        thought.now.clear();
        let again: Vec<String> = ["a ", "deep thought", " more"].map(|piece| thought.fresh(piece)).into();
        assert_eq!(again.concat(), "ght more");
        thought.now.clear();
        assert_eq!(thought.fresh("something else"), "");
        assert_eq!(thought.shown, "a deep thought more");
    }
}

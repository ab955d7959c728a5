//! One turn: ask the model, pass on what it says, do what it calls for, ask again. Whatever comes through the inbox
//! meanwhile is heeded at once.

use std::collections::HashSet;
use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use domain::event::Level;
use domain::turn::EndReason;
use domain::{AgentEvent, AgentInput, ErrorCode};

use super::agent::{Gone, Worker};
use super::history::Call;
use super::http::Stream;
use super::instructions::instructions;
use super::reply::{Ended, Failure, Kind, Piece};
use super::request::Request;
use super::{models, retry, tools};
use crate::limits::{REPLY_CALLS_MAX, TURN_STEPS_MAX};

/// Why a turn stops before its end.
pub(super) enum Stop {
    Gone,
    Cancelled,
    Failed { reason: EndReason, error: String },
}

impl From<Gone> for Stop {
    fn from(_: Gone) -> Self {
        Self::Gone
    }
}

impl Stop {
    pub(super) fn failed(error: impl Into<String>) -> Self {
        Self::Failed { reason: EndReason::Failed, error: error.into() }
    }
}

/// One reply of the model.
struct Reply {
    text: String,
    calls: Vec<Call>,
    ended: Ended,
}

/// What was thought, over all attempts at one reply. What was shown cannot be taken back; a further attempt shows only
/// what goes beyond it.
#[derive(Default)]
struct Thought {
    shown: String,
    /// Of the attempt under way.
    now: String,
}

impl Thought {
    /// Takes in a piece and returns what of it is to be shown.
    fn fresh(&mut self, piece: &str) -> String {
        self.now.push_str(piece);
        let more = self.now.strip_prefix(self.shown.as_str()).unwrap_or_default().to_owned();
        self.shown.push_str(&more);
        more
    }
}

/// Why an attempt brought no reply.
enum Miss {
    Stop(Stop),
    /// `spoke`: some of its text was passed on already and cannot be taken back. What was thought does not count: another
    /// attempt thinks anew.
    Failed {
        failure: Failure,
        spoke: bool,
    },
}

impl From<Stop> for Miss {
    fn from(stop: Stop) -> Self {
        Self::Stop(stop)
    }
}

impl From<Gone> for Miss {
    fn from(_: Gone) -> Self {
        Self::Stop(Stop::Gone)
    }
}

impl Worker {
    /// Runs a turn whose prompt is in the history.
    pub(super) async fn turn(&mut self) -> Result<(), Gone> {
        self.emit(AgentEvent::TurnStarted).await?;
        let outcome = self.steps().await;
        self.conclude(outcome).await
    }

    /// Reports how a turn ended.
    pub(super) async fn conclude(&mut self, outcome: Result<(EndReason, String), Stop>) -> Result<(), Gone> {
        self.history.end_turn();
        let (reason, text, error) = match outcome {
            Ok((reason, text)) => (reason, text, String::new()),
            Err(Stop::Gone) => return Err(Gone),
            Err(Stop::Cancelled) => (EndReason::Cancelled, String::new(), String::new()),
            Err(Stop::Failed { reason, error }) => (reason, String::new(), error),
        };
        self.emit(AgentEvent::TurnEnded { reason, text, error }).await
    }

    async fn steps(&mut self) -> Result<(EndReason, String), Stop> {
        let mut used = HashSet::new();
        for _ in 0..TURN_STEPS_MAX {
            self.ask_servers().await?;
            self.warn_of_hidden().await?;
            self.make_room().await?;
            let reply = self.reply().await?;
            if reply.ended != Ended::Whole || (reply.calls.is_empty() && !self.is_steered) {
                return Ok((reply.ended.reason(), reply.text));
            }
            if !reply.calls.is_empty() {
                let calls = reply.calls.into_iter().map(|call| named(call, &mut used)).collect();
                self.carry_out(calls).await?;
            }
        }
        let error = format!("the turn was ended after {TURN_STEPS_MAX} replies of the model");
        Err(Stop::Failed { reason: EndReason::LimitReached, error })
    }

    /// Asks servers whose tools are others now, heeding the inbox.
    async fn ask_servers(&mut self) -> Result<(), Stop> {
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
                    if let Err(stop) = self.heed(input) {
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

    /// Asks the model until there is a reply, or no hope of one.
    async fn reply(&mut self) -> Result<Reply, Stop> {
        let (mut retries, mut compacted) = (0, false);
        let mut thought = Thought::default();
        loop {
            thought.now.clear();
            let began = self.history.begin_reply();
            let (failure, spoke) = match self.attempt(&mut thought).await {
                Ok(reply) => {
                    self.history.end_reply(!reply.calls.is_empty());
                    return Ok(reply);
                }
                Err(Miss::Stop(stop)) => return Err(stop),
                Err(Miss::Failed { failure, spoke }) => (failure, spoke),
            };
            if !spoke {
                self.history.undo_reply(began);
            }
            if failure.kind == Kind::TooLong && !spoke && !compacted && !self.history.answered().is_empty() {
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

    /// Waits before another attempt, or gives up.
    pub(super) async fn wait_out(&mut self, failure: &Failure, retries: u32) -> Result<(), Stop> {
        let most = self.settings.max_retries;
        let Some(wait) = retry::wait(retries, most, failure.retry_after, chance()) else {
            return Err(self.given_up(failure));
        };
        let seconds = wait.as_secs_f64();
        let message =
            format!("{}; trying again in {seconds:.1} s ({} of {most})", failure.message, retries + 1);
        self.notice(Level::Warning, message).await?;
        self.pause(wait).await
    }

    /// Says why a turn ends without a reply.
    pub(super) fn given_up(&self, failure: &Failure) -> Stop {
        let (reason, remedy) = match failure.kind {
            Kind::Key => (EndReason::Failed, self.key_remedy()),
            Kind::TooLong => (EndReason::LimitReached, "; compact the conversation".to_owned()),
            Kind::Unreachable => (EndReason::Failed, format!(" ({})", ErrorCode::ConnectionLost)),
            _ => (EndReason::Failed, String::new()),
        };
        Stop::Failed { reason, error: format!("{}{remedy}", failure.message) }
    }

    /// Waits, heeding the inbox.
    async fn pause(&mut self, wait: Duration) -> Result<(), Stop> {
        let until = tokio::time::Instant::now() + wait;
        loop {
            tokio::select! {
                input = self.inbox.recv() => self.heed(input)?,
                () = tokio::time::sleep_until(until) => return Ok(()),
            }
        }
    }

    /// Takes something in during a turn. Answers belong to calls and are dealt with there.
    pub(super) fn heed(&mut self, input: Option<AgentInput>) -> Result<(), Stop> {
        match input {
            None | Some(AgentInput::Leave) => return Err(Stop::Gone),
            Some(AgentInput::Interrupt) => return Err(Stop::Cancelled),
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
        let request = Request {
            model: &self.model,
            instructions: &instructions,
            items: self.history.items(),
            tools: &tools,
            effort: &self.settings.reasoning_effort,
            max_output_tokens: self.settings.max_output_tokens,
            session: &self.session,
        };
        self.endpoint.wire().body(&request).to_string()
    }

    /// Asks the model once and passes on what it says.
    async fn attempt(&mut self, thought: &mut Thought) -> Result<Reply, Miss> {
        self.is_steered = false;
        let body = self.request_body();
        let mut stream = self.open(body).await?;
        let mut reply = Reply { text: String::new(), calls: Vec::new(), ended: Ended::Whole };
        loop {
            let piece = tokio::select! {
                biased;
                input = self.inbox.recv() => {
                    self.heed(input)?;
                    continue;
                }
                piece = stream.next() => piece,
            };
            let spoke = !reply.text.is_empty();
            match piece.map_err(|failure| Miss::Failed { failure, spoke })? {
                Some(Piece::Ended(ended)) => {
                    reply.ended = ended;
                    return Ok(reply);
                }
                Some(Piece::Failed(failure)) => return Err(Miss::Failed { failure, spoke }),
                Some(piece) => self.pass_on(piece, &mut reply, thought).await?,
                None => {
                    let failure = Failure::new(Kind::Passing, "the endpoint ended its reply in the middle");
                    return Err(Miss::Failed { failure, spoke });
                }
            }
        }
    }

    /// Sends a request, heeding the inbox until there is an answer.
    async fn open(&mut self, body: String) -> Result<Stream, Miss> {
        let endpoint = std::sync::Arc::clone(&self.endpoint);
        let asking = endpoint.ask(body);
        tokio::pin!(asking);
        loop {
            tokio::select! {
                biased;
                input = self.inbox.recv() => self.heed(input)?,
                answer = &mut asking => {
                    return answer.map_err(|failure| Miss::Failed { failure, spoke: false });
                }
            }
        }
    }

    async fn pass_on(&mut self, piece: Piece, reply: &mut Reply, thought: &mut Thought) -> Result<(), Gone> {
        match piece {
            Piece::Text(text) => {
                reply.text.push_str(&text);
                self.history.text(&text);
                self.emit(AgentEvent::Text { text, parent: None }).await
            }
            Piece::Thinking(text) => {
                let text = thought.fresh(&text);
                if text.is_empty() {
                    return Ok(());
                }
                self.emit(AgentEvent::Thinking { text, parent: None }).await
            }
            Piece::Call(call) => {
                if reply.calls.len() < REPLY_CALLS_MAX {
                    reply.calls.push(call);
                }
                Ok(())
            }
            Piece::Reasoning(item) => {
                self.history.reasoning(item);
                Ok(())
            }
            Piece::Used(used) => {
                self.counted = (used.context_tokens, self.history.items().len());
                self.emit(AgentEvent::Usage {
                    usage: used.usage,
                    context_tokens: Some(used.context_tokens),
                    context_window: Some(self.window()),
                })
                .await
            }
            Piece::Ended(_) | Piece::Failed(_) => Ok(()),
        }
    }

    /// Returns how many tokens the model takes in.
    pub(super) fn window(&self) -> u64 {
        self.settings.context_window.unwrap_or_else(|| models::window(&self.model))
    }
}

/// Gives a call a name of its own within the turn; some endpoints give none, or the same again.
fn named(mut call: Call, used: &mut HashSet<String>) -> Call {
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

/// Returns a number between 0 and 1 that nobody else has.
fn chance() -> f64 {
    let random = RandomState::new().hash_one(0) >> 11;
    random as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_thought_is_shown_once() {
        let mut thought = Thought::default();
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

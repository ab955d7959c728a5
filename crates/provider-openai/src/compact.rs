//! Compaction: when a conversation comes close to the model's context window, the model summarises it, and
//! the summary replaces the conversation.

use domain::AgentEvent;
use domain::event::Level;
use domain::turn::EndReason;

use super::agent::{OpenaiWorker, SessionGone};
use super::history::{self, HistoryItem};
use super::instructions::{SUMMARISE, instructions};
use super::reply::{FailureKind, ReplyFailure, ReplyPiece};
use super::request::ModelRequest;
use super::shorten::shorter;
use super::turn::TurnStop;
use crate::limits::SHORTER_MAX;

/// The part of the window that may be used before compaction; the rest is for the reply.
const FULL_PERCENT: u64 = 80;

impl OpenaiWorker {
    /// Compacts on request: a separate turn.
    pub(super) async fn compaction_turn(&mut self) -> Result<(), SessionGone> {
        self.history.begin_turn();
        self.emit(AgentEvent::TurnStarted).await?;
        let outcome = if self.history.answered().is_empty() {
            self.notice(Level::Info, "there is nothing to compact yet".to_owned()).await?;
            Ok(())
        } else {
            self.compact().await
        };
        self.conclude(outcome.map(|()| (EndReason::Completed, String::new()))).await
    }

    /// Compacts if the conversation has come close to the window.
    pub(super) async fn make_room(&mut self) -> Result<(), TurnStop> {
        let full = self.window() / 100 * FULL_PERCENT;
        // A single entry is already a summary, or the first prompt.
        if self.tokens() > full && self.history.answered().len() > 1 {
            self.compact().await?;
        }
        Ok(())
    }

    /// Returns roughly how many tokens the conversation has: what the endpoint counted, plus what was added
    /// since.
    fn tokens(&self) -> u64 {
        let (counted, entries) = self.counted;
        let since = self.history.items().get(entries..).unwrap_or_default();
        if counted == 0 {
            self.history.tokens()
        } else {
            counted + since.iter().map(history::tokens).sum::<u64>()
        }
    }

    /// Replaces the conversation with a summary. If the endpoint does not accept all of it, it is shortened
    /// until it does: a summary of a part is better than a session that can do nothing more.
    pub(super) async fn compact(&mut self) -> Result<(), TurnStop> {
        let before = self.tokens();
        let (mut retries, mut round, mut left_out) = (0, 0, 0);
        let mut items = self.history.answered().to_vec();
        let summary = loop {
            match self.summary(items.clone()).await? {
                Ok(summary) => break summary,
                Err(failure) if failure.kind == FailureKind::TooLong => {
                    round += 1;
                    if round > SHORTER_MAX {
                        let message =
                            format!("no part of the conversation can be summed up: {}", failure.message);
                        return Err(TurnStop::Failed { reason: EndReason::LimitReached, error: message });
                    }
                    (items, left_out) = shorter(self.history.answered(), round);
                }
                Err(failure) if failure.is_passing() => {
                    self.wait_out(&failure, retries).await?;
                    retries += 1;
                }
                Err(failure) => return Err(self.given_up(&failure)),
            }
        };
        if round > 0 {
            let message = format!(
                "the conversation was too long to be summed up as a whole: long texts were shortened and its {left_out} \
                 oldest entries left out"
            );
            self.notice(Level::Warning, message).await?;
        }
        self.history.compacted(&summary);
        self.counted = (0, 0);
        let after = self.history.tokens();
        self.emit(AgentEvent::Compacted { tokens_before: Some(before), tokens_after: Some(after), summary })
            .await?;
        Ok(())
    }

    /// Asks the model to summarise these entries.
    async fn summary(
        &mut self,
        mut items: Vec<HistoryItem>,
    ) -> Result<Result<String, ReplyFailure>, TurnStop> {
        items.push(HistoryItem::User { text: SUMMARISE.to_owned(), attachments: Vec::new() });
        let instructions = instructions(&self.working_dir, self.mode, "");
        let request = ModelRequest {
            model: &self.model,
            instructions: &instructions,
            items: &items,
            tools: &[],
            effort: "",
            temperature: self.settings.temperature,
            max_output_tokens: self.settings.max_output_tokens,
            session: &self.session,
        };
        let body = self.endpoint.wire().body(&request).to_string();
        let endpoint = std::sync::Arc::clone(&self.endpoint);
        let collected = collect(&endpoint, body);
        tokio::pin!(collected);
        loop {
            tokio::select! {
                biased;
                input = self.inbox.recv() => self.take_input(input)?,
                outcome = &mut collected => {
                    let (text, used) = match outcome {
                        Ok(whole) => whole,
                        Err(failure) => return Ok(Err(failure)),
                    };
                    if let Some(used) = used {
                        let (context_tokens, context_window) = (None, Some(self.window()));
                        self.emit(AgentEvent::Usage { usage: used.usage, context_tokens, context_window, parent: None }).await?;
                    }
                    return Ok(Ok(text));
                }
            }
        }
    }
}

/// Returns a whole reply.
async fn collect(
    endpoint: &super::http::Endpoint,
    body: String,
) -> Result<(String, Option<super::reply::ReplyUsage>), ReplyFailure> {
    let mut stream = endpoint.ask(body).await?;
    let (mut text, mut used) = (String::new(), None);
    loop {
        match stream.next().await? {
            Some(ReplyPiece::Text(more)) => text.push_str(&more),
            Some(ReplyPiece::Used(counted)) => used = Some(counted),
            Some(ReplyPiece::Failed(failure)) => return Err(failure),
            Some(ReplyPiece::Ended(_)) if text.trim().is_empty() => {
                return Err(ReplyFailure::new(FailureKind::Lasting, "the model gave no summary"));
            }
            Some(ReplyPiece::Ended(_)) => return Ok((text, used)),
            Some(_) => {}
            None => {
                return Err(ReplyFailure::new(
                    FailureKind::Passing,
                    "the endpoint ended its reply in the middle",
                ));
            }
        }
    }
}

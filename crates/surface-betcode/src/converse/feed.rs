//! The outgoing half of a conversation: sends the history, then the live events, in one loop over the
//! journal.

use std::collections::BTreeSet;

use domain::{Error, ErrorCode, EventKind, RequestId, SessionId};
use runtime::Supervisor;
use runtime::journal::Cursor;
use tokio::sync::watch;

use super::{ConverseClientGone, ConverseSender, ConverseStream, OpenedConversation, to_wire};
use crate::to_wire::BetcodeProjector;

/// Why a feed ends early; `None`: the client is gone.
type FeedEnd = Option<Error>;

/// The outgoing half of one conversation.
pub(super) struct ConverseFeed {
    supervisor: Supervisor,
    session: SessionId,
    line: ConverseSender,
    conversation: BetcodeProjector,
    /// The client already has the events up to this one.
    after: u64,
    /// The client has closed its half; it receives the running turn to its end.
    last_word: watch::Receiver<bool>,
    deleted: watch::Receiver<bool>,
}

impl ConverseFeed {
    pub(super) fn new(
        talk: &ConverseStream,
        opened: &OpenedConversation,
        last_word: watch::Receiver<bool>,
        deleted: watch::Receiver<bool>,
    ) -> Self {
        Self {
            supervisor: talk.betcode.supervisor.clone(),
            session: talk.session.clone(),
            line: talk.line.clone(),
            conversation: BetcodeProjector::new(&opened.snapshot, opened.worktree_id.clone()),
            after: opened.after,
            last_word,
            deleted,
        }
    }

    pub(super) async fn run(mut self) {
        if let Err(Some(error)) = self.follow().await {
            self.line.fail(&error).await;
        }
    }

    /// Sends the history, then each new event, until the conversation is over.
    async fn follow(&mut self) -> Result<(), FeedEnd> {
        self.catch_up().await?;
        let mut cursor = self.supervisor.events_after(&self.session, self.after).await?;
        let mut messages = Vec::new();
        loop {
            if *self.last_word.borrow() && self.is_over(&cursor).await? {
                return Ok(());
            }
            let listening = !*self.last_word.borrow();
            let events = tokio::select! {
                events = cursor.next() => events,
                heard = self.last_word.wait_for(|last| *last), if listening => match heard {
                    Ok(_) => continue,
                    Err(_) => return Err(None),
                },
                _ = self.deleted.wait_for(|deleted| *deleted) => return Err(Some(gone(&self.session))),
                () = self.line.hung_up() => return Err(None),
            };
            let events = match events {
                Ok(events) => events,
                Err(error) if error.code == ErrorCode::EventsExpired => {
                    self.line.refuse(&error).await?;
                    cursor.skip_removed().await?;
                    continue;
                }
                Err(error) => return Err(Some(error)),
            };
            for event in events {
                self.conversation.take(&event, &mut messages);
                for message in messages.drain(..) {
                    self.line.send(message).await?;
                }
            }
        }
    }

    /// Applies the events the client already has without sending them. Pending requests are sent again, so
    /// that a client that reconnects can answer them.
    async fn catch_up(&mut self) -> Result<(), FeedEnd> {
        if self.after == 0 {
            return Ok(());
        }
        let mut cursor = self.supervisor.events_after(&self.session, 0).await?;
        let mut asked: BTreeSet<RequestId> = BTreeSet::new();
        while cursor.seq() < self.after {
            let events = match cursor.available().await {
                Err(error) if error.code == ErrorCode::EventsExpired => {
                    cursor.skip_removed().await?;
                    continue;
                }
                events => events?,
            };
            for event in events.iter().filter(|event| event.seq <= self.after) {
                if let EventKind::RequestOpened { request, automatic: false, .. } = &event.kind {
                    asked.insert(*request);
                }
                self.conversation.take(event, &mut Vec::new());
            }
        }
        let snapshot = self.supervisor.snapshot(&self.session).await?;
        for pending in snapshot.state.requests.values().filter(|pending| asked.contains(&pending.id)) {
            if let Some((parent, body)) = to_wire::request(pending) {
                let mut message = to_wire::unnumbered(pending.asked_at, body);
                message.parent_tool_use_id = parent.map(ToString::to_string).unwrap_or_default();
                self.line.send(message).await?;
            }
        }
        Ok(())
    }

    /// Returns whether nothing more is expected: no turn is open and all events are sent.
    async fn is_over(&self, cursor: &Cursor) -> Result<bool, FeedEnd> {
        let snapshot = self.supervisor.snapshot(&self.session).await?;
        Ok(snapshot.state.turn.is_none() && cursor.seq() >= snapshot.last_seq.max(cursor.newest()))
    }
}

impl From<ConverseClientGone> for FeedEnd {
    fn from(_: ConverseClientGone) -> Self {
        None
    }
}

fn gone(session: &SessionId) -> Error {
    Error::new(ErrorCode::SessionNotFound, format!("session_id: {session} was deleted"))
}

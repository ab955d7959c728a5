//! The outgoing half of a conversation: sends the history, then the live events, in one loop over the
//! journal.

use std::collections::BTreeSet;
use std::sync::Arc;

use domain::{Error, ErrorCode, Event, EventKind, RequestId, SessionId};
use runtime::Supervisor;
use runtime::journal::Cursor;
use surface::follow::{self, FollowEnd, Follower, JournalGap, LastWord};
use surface::pump::Flow;
use tokio::sync::watch;

use super::{ConverseClientGone, ConverseSender, ConverseStream, OpenedConversation, to_wire};
use crate::to_wire::BetcodeProjector;

/// The outgoing half of one conversation.
pub(super) struct ConverseFeed {
    supervisor: Supervisor,
    session: SessionId,
    line: ConverseSender,
    conversation: BetcodeProjector,
    /// The client already has the events up to this one.
    after: u64,
    last_word: LastWord,
    /// Why the stream must end.
    ending: watch::Receiver<Option<Error>>,
    /// The daemon ends.
    leaving: watch::Receiver<bool>,
}

impl ConverseFeed {
    pub(super) fn new(
        talk: &ConverseStream,
        opened: &OpenedConversation,
        last_word: watch::Receiver<bool>,
        ending: watch::Receiver<Option<Error>>,
    ) -> Self {
        Self {
            supervisor: talk.betcode.supervisor.clone(),
            session: talk.session.clone(),
            line: talk.line.clone(),
            conversation: BetcodeProjector::new(&opened.snapshot, opened.worktree_id.clone()),
            after: opened.after,
            last_word: LastWord::new(last_word),
            ending,
            leaving: talk.betcode.about.leaving.clone(),
        }
    }

    /// Sends the history, then each new event, until the conversation is over.
    pub(super) async fn run(mut self) {
        if let Err(FollowEnd::Failed(error)) = self.send_events().await {
            self.line.fail(&error).await;
        }
    }

    async fn send_events(&mut self) -> Result<(), FollowEnd> {
        self.catch_up().await?;
        let cursor = self.supervisor.events_after(&self.session, self.after).await?;
        follow::follow(cursor, self).await
    }

    /// Applies the events the client already has without sending them. Pending requests are sent again, so
    /// that a client that reconnects can answer them.
    async fn catch_up(&mut self) -> Result<(), FollowEnd> {
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
}

impl Follower for ConverseFeed {
    type Signal = ();

    async fn take(&mut self, events: Vec<Arc<Event>>) -> Result<Flow, FollowEnd> {
        let mut messages = Vec::new();
        for event in events {
            self.conversation.take(&event, &mut messages);
            for message in messages.drain(..) {
                self.line.send(message).await?;
            }
        }
        Ok(Flow::More)
    }

    async fn signal(&mut self) -> Result<(), FollowEnd> {
        tokio::select! {
            heard = self.last_word.heard() => heard,
            reason = self.ending.wait_for(Option::is_some) => Err(ended(reason.ok().and_then(|reason| reason.clone()))),
            _ = self.leaving.wait_for(|leaving| *leaving) => Err(daemon_ends().into()),
            () = self.line.hung_up() => Err(FollowEnd::ClientGone),
        }
    }

    async fn before_wait(&mut self, cursor: &Cursor) -> Result<Flow, FollowEnd> {
        self.last_word.is_over(&self.supervisor, &self.session, cursor).await
    }

    async fn skipped(&mut self, gap: JournalGap) -> Result<(), FollowEnd> {
        Ok(self.line.refuse(&gap.error).await?)
    }
}

impl From<ConverseClientGone> for FollowEnd {
    fn from(_: ConverseClientGone) -> Self {
        Self::ClientGone
    }
}

/// Ends a stream for the reason that its clients are told; without one the client has left.
fn ended(reason: Option<Error>) -> FollowEnd {
    reason.map_or(FollowEnd::ClientGone, FollowEnd::Failed)
}

/// The reason of streams that end with the daemon.
fn daemon_ends() -> Error {
    let message = "the daemon ends; a session that it has not ended goes on, connect again to follow it";
    Error::new(ErrorCode::DaemonUnreachable, message)
}

//! The outgoing half of a stream: sends the journal's events, and keepalives during a long turn.

use std::sync::Arc;

use domain::request::RequestSubject;
use domain::{Command, Decision, Event, EventKind, SessionId};
use runtime::Supervisor;
use runtime::journal::Cursor;
use surface::follow::{self, FollowEnd, Follower, LastWord};
use surface::pump::Flow;
use tokio::sync::watch;
use tokio::time::{Interval, MissedTickBehavior};

use super::start::StartedSession;
use super::{RozClientGone, RozSender};
use crate::limits;
use crate::to_wire::RozProjector;

/// The outgoing half of one stream.
pub(super) struct RozFeed {
    supervisor: Supervisor,
    session: SessionId,
    line: RozSender,
    conversation: RozProjector,
    after: u64,
    last_word: LastWord,
    /// When the next keepalive of a turn is due.
    keepalive: Interval,
}

impl From<RozClientGone> for FollowEnd {
    fn from(_: RozClientGone) -> Self {
        Self::ClientGone
    }
}

impl RozFeed {
    pub(super) fn new(
        supervisor: Supervisor,
        opened: &StartedSession,
        line: RozSender,
        last_word: watch::Receiver<bool>,
    ) -> Self {
        let mut keepalive = tokio::time::interval(limits::KEEPALIVE_EVERY);
        keepalive.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            supervisor,
            session: opened.snapshot.spec.id.clone(),
            line,
            conversation: RozProjector::new(&opened.snapshot, opened.max_context_tokens),
            after: opened.snapshot.last_seq,
            last_word: LastWord::new(last_word),
            keepalive,
        }
    }

    /// Runs the feed. Returns true if the client has received everything, false if it is gone.
    pub(super) async fn run(mut self) -> bool {
        match self.send_events().await {
            Ok(()) => !self.line.is_closed(),
            Err(FollowEnd::ClientGone) => false,
            Err(FollowEnd::Failed(error)) => {
                self.line.fail(&error).await;
                false
            }
        }
    }

    async fn send_events(&mut self) -> Result<(), FollowEnd> {
        let cursor = self.supervisor.events_after(&self.session, self.after).await?;
        follow::follow(cursor, self).await
    }

    /// Sends the messages for one event. Questions are declined at once.
    async fn show(&mut self, event: &Event) -> Result<(), FollowEnd> {
        let mut messages = Vec::new();
        let event = &*self.supervisor.to_execute(&self.session, event);
        self.conversation.take(event, &mut messages);
        for message in messages {
            self.line.send(message).await?;
        }
        if let EventKind::RequestOpened {
            request,
            automatic: false,
            ask: RequestSubject::Question { .. },
            ..
        } = &event.kind
        {
            // This protocol cannot answer questions, and an unanswered question must not block the turn.
            let command = Command::Decide {
                request: *request,
                decision: Decision::Deny,
                message: "this client cannot answer questions; decide for yourself".to_owned(),
                updated_input: None,
                grant: None,
                by: "roz".to_owned(),
            };
            self.supervisor.command(&self.session, command).await?;
        }
        Ok(())
    }
}

impl Follower for RozFeed {
    /// Whether a keepalive is due.
    type Signal = bool;

    async fn take(&mut self, events: Vec<Arc<Event>>) -> Result<Flow, FollowEnd> {
        for event in events {
            let was_in_turn = self.conversation.in_turn();
            self.show(&event).await?;
            if self.conversation.in_turn() && !was_in_turn {
                // The first keepalive comes a full interval after the turn began.
                self.keepalive.reset();
            }
            if self.conversation.has_ended() {
                return Ok(Flow::Done);
            }
        }
        Ok(Flow::More)
    }

    async fn signal(&mut self) -> Result<bool, FollowEnd> {
        let in_turn = self.conversation.in_turn();
        tokio::select! {
            _ = self.keepalive.tick(), if in_turn => Ok(true),
            heard = self.last_word.heard() => heard.map(|()| false),
            () = self.line.hung_up() => Err(FollowEnd::ClientGone),
        }
    }

    async fn handle(&mut self, keepalive_due: bool) -> Result<Flow, FollowEnd> {
        if keepalive_due {
            self.line.send_body(self.conversation.keepalive()).await?;
        }
        Ok(Flow::More)
    }

    async fn before_wait(&mut self, cursor: &Cursor) -> Result<Flow, FollowEnd> {
        self.last_word.is_over(&self.supervisor, &self.session, cursor).await
    }
}

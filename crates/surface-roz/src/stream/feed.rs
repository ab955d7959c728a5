//! The outgoing half of a stream: sends the journal's events, and keepalives during a long turn.

use domain::request::RequestSubject;
use domain::{Command, Decision, Error, ErrorCode, EventKind, SessionId};
use runtime::Supervisor;
use runtime::journal::Cursor;
use tokio::sync::watch;

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
    /// The client has closed its half; it receives the running turn to its end.
    last_word: watch::Receiver<bool>,
}

/// Why a feed ends early; `None`: the client is gone.
type FeedEnd = Option<Error>;

impl From<RozClientGone> for FeedEnd {
    fn from(_: RozClientGone) -> Self {
        None
    }
}

impl RozFeed {
    pub(super) fn new(
        supervisor: Supervisor,
        opened: &StartedSession,
        line: RozSender,
        last_word: watch::Receiver<bool>,
    ) -> Self {
        Self {
            supervisor,
            session: opened.snapshot.spec.id.clone(),
            line,
            conversation: RozProjector::new(&opened.snapshot, opened.max_context_tokens),
            after: opened.snapshot.last_seq,
            last_word,
        }
    }

    /// Runs the feed. Returns true if the client has received everything, false if it is gone.
    pub(super) async fn run(mut self) -> bool {
        match self.follow().await {
            Ok(()) => !self.line.is_closed(),
            Err(None) => false,
            Err(Some(error)) => {
                self.line.fail(&error).await;
                false
            }
        }
    }

    /// Sends each new event, and keepalives during a turn, until the stream is over.
    async fn follow(&mut self) -> Result<(), FeedEnd> {
        let mut cursor = self.supervisor.events_after(&self.session, self.after).await?;
        let mut alive = tokio::time::interval(limits::KEEPALIVE_EVERY);
        alive.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            if *self.last_word.borrow() && self.is_over(&cursor).await? {
                return Ok(());
            }
            let listening = !*self.last_word.borrow();
            let in_turn = self.conversation.in_turn();
            let events = tokio::select! {
                events = cursor.next() => Some(events),
                _ = alive.tick(), if in_turn => None,
                heard = self.last_word.wait_for(|last| *last), if listening => match heard {
                    Ok(_) => continue,
                    Err(_) => return Err(None),
                },
                () = self.line.hung_up() => return Err(None),
            };
            let Some(events) = events else {
                self.line.send_body(self.conversation.keepalive()).await?;
                continue;
            };
            let events = match events {
                Err(error) if error.code == ErrorCode::EventsExpired => {
                    cursor.skip_removed().await?;
                    continue;
                }
                events => events?,
            };
            for event in events {
                let was_in_turn = self.conversation.in_turn();
                self.show(&event).await?;
                if self.conversation.in_turn() && !was_in_turn {
                    // The first keepalive comes a full interval after the turn began.
                    alive.reset();
                }
                if self.conversation.has_ended() {
                    return Ok(());
                }
            }
        }
    }

    /// Sends the messages for one event. Questions are declined at once.
    async fn show(&mut self, event: &domain::Event) -> Result<(), FeedEnd> {
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

    /// Returns whether nothing more is expected: no turn is open and all events are sent.
    async fn is_over(&self, cursor: &Cursor) -> Result<bool, FeedEnd> {
        let snapshot = self.supervisor.snapshot(&self.session).await?;
        Ok(snapshot.state.turn.is_none() && cursor.seq() >= snapshot.last_seq.max(cursor.newest()))
    }
}

//! The loop from a session's journal to a client, for streams that wait for more than events: signals of the surface,
//! keepalives, the client's last word, events that retention removed. Knows no protocol; a slow client lags in the
//! journal, because events are read only after the last ones were taken.

use std::future::{Future, ready};
use std::sync::Arc;

use domain::{Error, ErrorCode, Event, SessionId};
use runtime::Supervisor;
use runtime::journal::Cursor;
use tokio::sync::{mpsc, watch};

use crate::pump::Flow;

/// Why a stream ends before its follower is done.
#[derive(Debug)]
pub enum FollowEnd {
    ClientGone,
    Failed(Error),
}

impl From<Error> for FollowEnd {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl<T> From<mpsc::error::SendError<T>> for FollowEnd {
    fn from(_: mpsc::error::SendError<T>) -> Self {
        Self::ClientGone
    }
}

/// Events that retention removed before the client had them.
#[derive(Debug)]
pub struct JournalGap {
    /// The last event before the gap.
    pub after: u64,
    /// The first event behind it.
    pub next: u64,
    /// The message for the client.
    pub error: Error,
}

/// The protocol's half of a stream.
pub trait Follower: Send {
    /// What wakes the follower besides events.
    type Signal: Send;

    /// Sends a batch of events; `Done` ends the stream.
    fn take(&mut self, events: Vec<Arc<Event>>) -> impl Future<Output = Result<Flow, FollowEnd>> + Send;

    /// Waits for a signal, or for the client's departure. Must be cancel-safe: it is dropped when events come first.
    fn signal(&mut self) -> impl Future<Output = Result<Self::Signal, FollowEnd>> + Send;

    /// Handles a signal.
    fn handle(&mut self, _: Self::Signal) -> impl Future<Output = Result<Flow, FollowEnd>> + Send {
        ready(Ok(Flow::More))
    }

    /// Called before each wait for events.
    fn before_wait(&mut self, _: &Cursor) -> impl Future<Output = Result<Flow, FollowEnd>> + Send {
        ready(Ok(Flow::More))
    }

    /// Called when removed events were skipped.
    fn skipped(&mut self, _: JournalGap) -> impl Future<Output = Result<(), FollowEnd>> + Send {
        ready(Ok(()))
    }
}

/// Feeds a follower from a journal until it is done, its client is gone, or the journal cannot be read.
pub async fn follow<F: Follower>(mut cursor: Cursor, follower: &mut F) -> Result<(), FollowEnd> {
    loop {
        if follower.before_wait(&cursor).await? == Flow::Done {
            return Ok(());
        }
        let events = tokio::select! {
            events = cursor.next() => events,
            signal = follower.signal() => {
                if follower.handle(signal?).await? == Flow::Done {
                    return Ok(());
                }
                continue;
            }
        };
        match events {
            Ok(events) => {
                if follower.take(events).await? == Flow::Done {
                    return Ok(());
                }
            }
            Err(error) if error.code == ErrorCode::EventsExpired => {
                let after = cursor.seq();
                cursor.skip_removed().await?;
                follower.skipped(JournalGap { after, next: cursor.seq() + 1, error }).await?;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// The end of the client's half of a stream. Afterwards the client gets the running turn to its end.
pub struct LastWord(watch::Receiver<bool>);

impl LastWord {
    /// The value becomes true with the last word. A sender that is dropped before means that the client is gone.
    pub fn new(heard: watch::Receiver<bool>) -> Self {
        Self(heard)
    }

    /// Waits for the last word; for ever once it has come. Cancel-safe.
    pub async fn heard(&mut self) -> Result<(), FollowEnd> {
        if *self.0.borrow() {
            return std::future::pending().await;
        }
        self.0.wait_for(|last| *last).await.map(drop).map_err(|_| FollowEnd::ClientGone)
    }

    /// Returns whether nothing more is expected: the last word has come, no turn is open and all events are sent.
    pub async fn is_over(
        &self,
        supervisor: &Supervisor,
        session: &SessionId,
        cursor: &Cursor,
    ) -> Result<Flow, FollowEnd> {
        if !*self.0.borrow() {
            return Ok(Flow::More);
        }
        let snapshot = supervisor.snapshot(session).await?;
        let is_sent = cursor.seq() >= snapshot.last_seq.max(cursor.newest());
        Ok(if snapshot.state.turn.is_none() && is_sent { Flow::Done } else { Flow::More })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_last_word_is_heard_once_and_a_dropped_sender_means_that_the_client_is_gone() {
        let (sender, receiver) = watch::channel(false);
        let mut last_word = LastWord::new(receiver.clone());
        let (heard, ()) = tokio::join!(last_word.heard(), async {
            sender.send_replace(true);
        });
        heard.unwrap();
        // It must not wake the follower again and again.
        assert!(tokio::time::timeout(std::time::Duration::ZERO, last_word.heard()).await.is_err());
        let (sender, receiver) = watch::channel(false);
        drop(sender);
        assert!(matches!(LastWord::new(receiver).heard().await, Err(FollowEnd::ClientGone)));
    }
}

//! Follows a session's journal: replay, then live events, without a gap, even across a restart of the daemon.
//! Runs in a separate task, so that waiting for the next event is cancellation-safe.

use domain::{EventKind, Status};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use wire::obey::local::v1::GetSessionRequest;
use wire::obey::v1 as pb;

use crate::connection::Client;
use crate::events::LogEvent;
use crate::limits;
use crate::names;
use config::failure::{Failure, Result};

/// An item of a feed.
#[derive(Debug)]
pub enum FeedItem {
    Event(Box<LogEvent>),
    /// The connection was lost; reconnecting.
    Lost,
    /// Reconnected; nothing was missed.
    Back,
    /// It ended with an error that a retry cannot fix.
    Failed(Failure),
}

/// The events of a session from some point on. Ends when the session has ended.
pub struct Feed {
    items: mpsc::Receiver<FeedItem>,
    task: JoinHandle<()>,
}

impl Feed {
    /// Follows a session, starting after an event.
    pub fn follow(client: &Client, session: &str, after: u64) -> Self {
        let (tx, items) = mpsc::channel(limits::EVENTS_AHEAD);
        let follower =
            Follower { client: client.clone(), session: session.to_owned(), after, has_ended: false, tx };
        Self { items, task: tokio::spawn(follower.run()) }
    }

    /// Returns the next item, or `None` if the session has ended.
    pub async fn next(&mut self) -> Option<FeedItem> {
        self.items.recv().await
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The task behind a feed.
struct Follower {
    client: Client,
    session: String,
    after: u64,
    /// The last status that was read is terminal.
    has_ended: bool,
    tx: mpsc::Sender<FeedItem>,
}

/// Why following stopped for now.
enum Pause {
    /// The feed was dropped, or the session has ended.
    Over,
    Lost(Failure),
}

impl Follower {
    /// Reads events, and reconnects when the connection is lost, until the session ends or an error is final.
    async fn run(mut self) {
        let mut lost_since: Option<Instant> = None;
        loop {
            let pause = match self.read(&mut lost_since).await {
                Ok(pause) => pause,
                // Whoever ends all sessions may end the daemon too: then nobody is left who could say that this one has ended.
                Err(failure) if self.has_ended && failure.is_connection_lost() => return,
                Err(failure) if failure.is_connection_lost() => Pause::Lost(failure),
                Err(failure) => {
                    self.send(FeedItem::Failed(failure)).await;
                    return;
                }
            };
            let Pause::Lost(failure) = pause else { return };
            let since = match lost_since {
                Some(since) => since,
                None => {
                    self.send(FeedItem::Lost).await;
                    *lost_since.insert(Instant::now())
                }
            };
            if since.elapsed() > limits::RECONNECT_WAIT {
                self.send(FeedItem::Failed(failure)).await;
                return;
            }
            tokio::time::sleep(limits::RECONNECT_PAUSE).await;
        }
    }

    /// Forwards events until the stream ends.
    async fn read(&mut self, lost_since: &mut Option<Instant>) -> Result<Pause> {
        let request = pb::ReadEventsRequest {
            session_id: self.session.clone(),
            after_seq: self.after,
            follow: true,
            max_message_bytes: limits::MESSAGE_MAX_BYTES as u32,
            ..pb::ReadEventsRequest::default()
        };
        let mut stream = self.client.events().read_events(request).await?.into_inner();
        let settled = tokio::time::sleep(limits::RECONNECT_SETTLED);
        tokio::pin!(settled);
        loop {
            let event = tokio::select! {
                event = stream.message() => match event {
                    Err(_) if self.has_ended => None,
                    event => event?,
                },
                // A daemon that is shutting down still accepts connections; only a stream that stays open or
                // delivers something counts.
                () = &mut settled, if lost_since.is_some() => {
                    self.back(lost_since).await;
                    continue;
                }
            };
            let Some(event) = event else { break };
            self.back(lost_since).await;
            self.after = event.seq;
            let event = LogEvent::read(event);
            if let Some(EventKind::StatusChanged { to, .. }) = &event.kind {
                self.has_ended = to.is_terminal();
            }
            if !self.send(FeedItem::Event(Box::new(event))).await {
                return Ok(Pause::Over);
            }
        }
        // A stream ends with its session, but also when the daemon shuts down for an upgrade.
        if self.is_over().await? {
            return Ok(Pause::Over);
        }
        Ok(Pause::Lost(Failure::from(tonic::Status::unavailable("the stream ended before the session did"))))
    }

    /// Asks the daemon whether the session has ended.
    async fn is_over(&self) -> Result<bool> {
        let request = GetSessionRequest { session_id: self.session.clone() };
        let session = self.client.daemon().get_session(request).await?.into_inner();
        Ok(names::status(session.status).is_some_and(Status::is_terminal))
    }

    async fn back(&self, lost_since: &mut Option<Instant>) {
        if lost_since.take().is_some() {
            self.send(FeedItem::Back).await;
        }
    }

    async fn send(&self, item: FeedItem) -> bool {
        self.tx.send(item).await.is_ok()
    }
}

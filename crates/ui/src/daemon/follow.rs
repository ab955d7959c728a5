//! Follows the journal of the session that is shown: what there is at once, folded here, then what comes, in batches. After
//! a lost connection it goes on behind the last event it had.

use std::sync::Arc;

use client::events::LogEvent;
use config::failure::Failure;
use domain::Timestamp;
use futures_util::FutureExt as _;
use tokio::sync::mpsc;
use view::Transcript;
use wire::obey::v1 as pb;

use super::DaemonSettings;
use crate::data::{JournalEvent, Update};
use crate::limits;

/// How far a session was read.
struct Follower {
    settings: Arc<DaemonSettings>,
    updates: mpsc::Sender<Update>,
    session: String,
    /// Events up to here were passed on.
    after: u64,
    /// Folded here until it has this event.
    target: u64,
    catching_up: Option<Box<Transcript>>,
}

/// Reads the last events of a session and follows it, until the task is ended.
pub(super) async fn follow(
    settings: Arc<DaemonSettings>,
    updates: mpsc::Sender<Update>,
    session: String,
    last_seq: u64,
    tail: u64,
) {
    let mut follower = Follower {
        settings,
        updates,
        session,
        after: last_seq.saturating_sub(tail),
        target: last_seq,
        catching_up: Some(Box::default()),
    };
    if last_seq == 0 && !follower.caught_up().await {
        return;
    }
    loop {
        match follower.read().await {
            Ok(true) => {}
            Ok(false) => return,
            Err(failure) if failure.is_connection_lost() => {}
            Err(failure) => {
                let update =
                    Update::OpenFailed { session: follower.session.clone(), why: failure.for_people() };
                let _gone = follower.updates.send(update).await;
                return;
            }
        }
        // The stream of a session that has ended ends too; it may be restarted.
        tokio::time::sleep(limits::FOLLOW_PAUSE).await;
    }
}

impl Follower {
    /// Reads until the stream ends. Returns false if nobody wants more.
    async fn read(&mut self) -> Result<bool, Failure> {
        let request = pb::ReadEventsRequest {
            session_id: self.session.clone(),
            after_seq: self.after,
            follow: true,
            max_message_bytes: limits::EVENT_MAX_BYTES,
            ..pb::ReadEventsRequest::default()
        };
        let mut stream = self.settings.client.events().read_events(request).await?.into_inner();
        while let Some(first) = stream.message().await? {
            let mut events = vec![journal_event(first)];
            let mut over = false;
            while events.len() < limits::EVENTS_PER_UPDATE {
                match stream.message().now_or_never() {
                    Some(Ok(Some(event))) => events.push(journal_event(event)),
                    // What ended it is seen by the next read.
                    Some(Ok(None) | Err(_)) => {
                        over = true;
                        break;
                    }
                    None => break,
                }
            }
            if !self.pass_on(events).await {
                return Ok(false);
            }
            if over {
                break;
            }
        }
        // A journal that has fewer events than expected is all there is.
        Ok(self.catching_up.is_none() || self.caught_up().await)
    }

    async fn pass_on(&mut self, events: Vec<JournalEvent>) -> bool {
        let Some(last) = events.last().map(|event| event.seq) else { return true };
        self.after = last;
        if let Some(transcript) = &mut self.catching_up {
            for event in &events {
                transcript.apply(event.seq, event.at, &event.name, event.kind.as_ref());
            }
            return last < self.target || self.caught_up().await;
        }
        self.updates.send(Update::Events { session: self.session.clone(), events }).await.is_ok()
    }

    async fn caught_up(&mut self) -> bool {
        let Some(transcript) = self.catching_up.take() else { return true };
        self.updates.send(Update::Opened { session: self.session.clone(), transcript }).await.is_ok()
    }
}

fn journal_event(event: pb::Event) -> JournalEvent {
    let event = LogEvent::read(event);
    JournalEvent {
        seq: event.seq,
        at: Timestamp(event.at.map_or(0, |at| at.as_microsecond())),
        name: event.name,
        kind: event.kind,
    }
}

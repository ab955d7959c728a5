//! From a journal to a stream of wire messages. A slow client lags in the journal, not in memory.

use domain::{Error, Event};
use runtime::journal::Cursor;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use crate::{limits, status};

/// Whether a stream goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    More,
    Done,
}

/// Folds events into one protocol's messages. What it remembers can be rebuilt from the journal.
pub trait Projector: Send + 'static {
    type Wire: Send + 'static;

    /// Adds the messages of one event; `Done` ends the stream after them.
    fn project(&mut self, event: &Event, out: &mut Vec<Self::Wire>) -> Flow;

    /// Says how the stream ends once it is done; an error becomes the stream's status.
    fn ending(&mut self) -> Option<Error> {
        None
    }
}

/// A stream of messages for a client.
pub type Messages<T> = ReceiverStream<Result<T, Status>>;

/// How far a reader goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// Until the projector is done or the client goes.
    Followed,
    /// Until this event, inclusive.
    Event(u64),
}

/// Runs a projector over a journal in a task of its own.
pub fn pump<P: Projector>(mut cursor: Cursor, mut projector: P, until: Until) -> Messages<P::Wire> {
    let (sender, receiver) = mpsc::channel(limits::STREAM_READY_MAX);
    tokio::spawn(async move {
        let mut messages = Vec::new();
        loop {
            if let Until::Event(last) = until
                && cursor.seq() >= last
            {
                return;
            }
            let events = tokio::select! {
                events = cursor.next() => events,
                // A client that leaves while nothing happens must not keep the reader.
                () = sender.closed() => return,
            };
            let events = match events {
                Ok(events) => events,
                Err(error) => {
                    // The client may have left; then nobody misses the error.
                    let _ = sender.send(Err(status::grpc(&error))).await;
                    return;
                }
            };
            for event in events {
                if matches!(until, Until::Event(last) if event.seq > last) {
                    return;
                }
                let flow = projector.project(&event, &mut messages);
                for message in messages.drain(..) {
                    if sender.send(Ok(message)).await.is_err() {
                        return;
                    }
                }
                if flow == Flow::Done {
                    if let Some(error) = projector.ending() {
                        let _ = sender.send(Err(status::grpc(&error))).await;
                    }
                    return;
                }
            }
        }
    });
    ReceiverStream::new(receiver)
}

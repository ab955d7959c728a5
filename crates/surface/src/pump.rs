//! Turns a journal into a stream of wire messages. A slow client lags in the journal, not in memory: events
//! are read only when its connection has room for them.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use domain::{Error, Event};
use futures_core::Stream;
use runtime::journal::Cursor;
use tonic::Status;

use crate::status;

/// Whether a stream continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    More,
    Done,
}

/// Folds events into one protocol's messages. Its state can be rebuilt from the journal.
pub trait Projector: Send + Unpin + 'static {
    type Wire: Send + Unpin + 'static;

    /// Appends the messages of one event; `Done` ends the stream after them.
    fn project(&mut self, event: &Event, out: &mut Vec<Self::Wire>) -> Flow;

    /// Returns the error a finished stream ends with, if any; it becomes the stream's status.
    fn ending(&mut self) -> Option<Error> {
        None
    }
}

/// A stream of messages for a client.
pub type Messages<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// How far a reader goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadUntil {
    /// Until the projector is done or the client disconnects.
    Followed,
    /// Until this event, inclusive.
    Event(u64),
}

/// Runs a projector over a journal, at the pace of the client.
pub fn pump<P: Projector>(cursor: Cursor, projector: P, until: ReadUntil) -> Messages<P::Wire> {
    Box::pin(Pump {
        source: Source::Here(cursor),
        projector,
        until,
        events: Vec::new().into_iter(),
        projected: Vec::new(),
        messages: VecDeque::new(),
        failure: None,
    })
}

struct Pump<P: Projector> {
    source: Source,
    projector: P,
    until: ReadUntil,
    /// Read, but not yet projected.
    events: std::vec::IntoIter<Arc<Event>>,
    projected: Vec<P::Wire>,
    /// Projected, but not yet sent.
    messages: VecDeque<P::Wire>,
    /// The error that ends the stream.
    failure: Option<Error>,
}

type Batch = Result<Vec<Arc<Event>>, Error>;

/// The state of the journal's reader.
enum Source {
    Here(Cursor),
    /// Waiting for events, or for the disk.
    Away(Pin<Box<dyn Future<Output = (Cursor, Batch)> + Send>>),
    /// Finished.
    Dry,
}

impl<P: Projector> Pump<P> {
    /// Projects the next event.
    fn project(&mut self, event: &Event) {
        if matches!(self.until, ReadUntil::Event(last) if event.seq > last) {
            return self.end(None);
        }
        let flow = self.projector.project(event, &mut self.projected);
        self.messages.extend(self.projected.drain(..));
        if flow == Flow::Done {
            let failure = self.projector.ending();
            self.end(failure);
        }
    }

    fn end(&mut self, failure: Option<Error>) {
        self.source = Source::Dry;
        self.events = Vec::new().into_iter();
        self.failure = failure;
    }

    fn take(&mut self, cursor: Cursor, batch: Batch) {
        self.source = Source::Here(cursor);
        match batch {
            Ok(events) => self.events = events.into_iter(),
            Err(error) => self.end(Some(error)),
        }
    }

    /// Reads the next batch; false: the journal is finished.
    fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<bool> {
        match std::mem::replace(&mut self.source, Source::Dry) {
            Source::Dry => return Poll::Ready(false),
            Source::Here(cursor) if matches!(self.until, ReadUntil::Event(last) if cursor.seq() >= last) => {
                return Poll::Ready(false);
            }
            Source::Here(mut cursor) => match cursor.at_hand() {
                Some(events) => {
                    self.take(cursor, Ok(events));
                    return Poll::Ready(true);
                }
                None => {
                    self.source = Source::Away(Box::pin(async move {
                        let batch = cursor.next().await;
                        (cursor, batch)
                    }));
                }
            },
            away @ Source::Away(_) => self.source = away,
        }
        if let Source::Away(reading) = &mut self.source {
            let (cursor, batch) = ready!(reading.as_mut().poll(context));
            self.take(cursor, batch);
        }
        Poll::Ready(true)
    }
}

impl<P: Projector> Stream for Pump<P> {
    type Item = Result<P::Wire, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let pump = &mut *self;
        loop {
            if let Some(message) = pump.messages.pop_front() {
                return Poll::Ready(Some(Ok(message)));
            }
            if let Some(event) = pump.events.next() {
                pump.project(&event);
                continue;
            }
            if let Some(error) = pump.failure.take() {
                return Poll::Ready(Some(Err(status::grpc(&error))));
            }
            if !ready!(pump.poll_read(context)) {
                return Poll::Ready(None);
            }
        }
    }
}

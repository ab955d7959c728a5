//! The journal of a session up to the launch of its agent, for agents that keep no history. Defines what can
//! be read; the journal itself belongs to the runtime.

use std::pin::Pin;
use std::sync::Arc;

use domain::{Error, Event};

/// A read in progress.
pub type Read<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// Reads the events of one session, in order.
pub trait EventReader: Send + Sync {
    /// Returns the sequence number of the last event returned.
    fn seq(&self) -> u64;

    /// Returns the events available now; empty at the end. Fails with OBEY-2016 if events are no longer kept.
    fn available(&mut self) -> Read<'_, Vec<Arc<Event>>>;

    /// Skips events that are no longer kept, to the oldest that is.
    fn skip_removed(&mut self) -> Read<'_, ()>;

    /// Returns another reader at the same position.
    fn fork(&self) -> Box<dyn EventReader>;
}

/// The journal of a session up to the launch of its agent.
pub struct PastEvents {
    /// Positioned before the first event.
    pub events: Box<dyn EventReader>,
    /// The last event that belongs to the past.
    pub last_seq: u64,
}

impl PastEvents {
    /// Returns an independent reader.
    pub fn fork(&self) -> Self {
        Self { events: self.events.fork(), last_seq: self.last_seq }
    }
}

//! The queue of frames for a shim: signals first, then inputs in order, sent again after a broken connection.
//! Bounded in bytes; only the one sending task waits. Must not know sockets.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use shim::frame::ToShim;
use tokio::sync::Notify;

use super::limits::{INPUT_BYTES_MAX, INPUT_IN_FLIGHT_BYTES_MAX, INPUT_QUEUED_BYTES_MAX};

/// Why something cannot be sent to an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// The shim has exited, or obeys another daemon.
    #[error("the agent can no longer be reached")]
    Gone,
    /// Too much input is pending; retry when some of it was delivered.
    #[error("too much input waits for the agent")]
    Full,
    /// The input alone exceeds the size limit.
    #[error("the input of {0} bytes is too large")]
    TooLarge(usize),
}

/// A queue shared by the callers that send to an agent and the task that writes to the socket.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    queue: Mutex<OutboxQueue>,
    changed: Notify,
    finishing: Notify,
}

/// An encoded frame.
pub(super) type Frame = Arc<Vec<u8>>;

#[derive(Debug, Default)]
struct OutboxQueue {
    urgent: VecDeque<Frame>,
    inputs: VecDeque<QueuedInput>,
    /// How many of `inputs`, from the front, were sent and wait for their record in the spool.
    sent: usize,
    queued_bytes: usize,
    in_flight_bytes: usize,
    last_write_id: u64,
    life: Life,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Life {
    #[default]
    Open,
    /// Accepts nothing more; urgent frames are still sent.
    Finishing,
    Closed,
}

#[derive(Debug)]
struct QueuedInput {
    write_id: u64,
    frame: Frame,
}

impl Outbox {
    /// Queues an input or the end of input. An id that is not higher than all before is ignored, as in the
    /// shim.
    pub(super) fn push_input(&self, write_id: u64, input: &ToShim<'_>) -> Result<(), WriteError> {
        if let ToShim::Input { bytes, .. } = input
            && bytes.len() > INPUT_BYTES_MAX
        {
            return Err(WriteError::TooLarge(bytes.len()));
        }
        let mut frame = Vec::new();
        input.encode(&mut frame);
        let mut queue = self.lock();
        if queue.life != Life::Open {
            return Err(WriteError::Gone);
        }
        if write_id <= queue.last_write_id {
            return Ok(());
        }
        if queue.queued_bytes + frame.len() > INPUT_QUEUED_BYTES_MAX {
            return Err(WriteError::Full);
        }
        queue.last_write_id = write_id;
        queue.queued_bytes += frame.len();
        queue.inputs.push_back(QueuedInput { write_id, frame: Arc::new(frame) });
        drop(queue);
        self.changed.notify_one();
        Ok(())
    }

    /// Queues a frame that overtakes all input.
    pub(super) fn push_urgent(&self, frame: &ToShim<'_>) -> Result<(), WriteError> {
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        let mut queue = self.lock();
        if queue.life != Life::Open {
            return Err(WriteError::Gone);
        }
        queue.urgent.push_back(Arc::new(bytes));
        drop(queue);
        self.changed.notify_one();
        Ok(())
    }

    /// Removes an input, and those before it, because its record was seen in the spool.
    pub(super) fn confirm(&self, write_id: u64) {
        let mut queue = self.lock();
        queue.last_write_id = queue.last_write_id.max(write_id);
        queue.forget_through(write_id);
        drop(queue);
        self.changed.notify_one();
    }

    /// Prepares for a new connection: the shim has accepted inputs up to `last_write_id`; the others are sent
    /// again.
    pub(super) fn rewind(&self, last_write_id: u64) {
        let mut queue = self.lock();
        queue.last_write_id = queue.last_write_id.max(last_write_id);
        queue.forget_through(last_write_id);
        queue.sent = 0;
        queue.in_flight_bytes = 0;
        drop(queue);
        self.changed.notify_one();
    }

    /// Stops accepting frames. Urgent frames are still sent; pending input is not (its senders have it on
    /// disk and will send it again).
    pub(super) fn finish(&self) {
        let mut queue = self.lock();
        if queue.life == Life::Open {
            queue.life = Life::Finishing;
        }
        drop(queue);
        self.changed.notify_one();
        self.finishing.notify_waiters();
    }

    /// Waits until [`Outbox::finish`] was called.
    pub(super) async fn finishing(&self) {
        let finishing = self.finishing.notified();
        if self.lock().life == Life::Open {
            finishing.await;
        }
    }

    /// Drops everything; nothing more can be sent.
    pub(super) fn close(&self) {
        *self.lock() = OutboxQueue { life: Life::Closed, ..OutboxQueue::default() };
    }

    /// Waits for the next frame to send; `None` if there will be none. Cancel-safe: a frame is marked as sent
    /// only when it is returned.
    pub(super) async fn next_frame(&self) -> Option<Frame> {
        loop {
            let changed = self.changed.notified();
            {
                let mut queue = self.lock();
                if let Some(frame) = queue.take_next() {
                    return Some(frame);
                }
                if queue.life != Life::Open {
                    return None;
                }
            }
            changed.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, OutboxQueue> {
        // Nothing panics while holding the lock; even if it did, the queue would still be consistent.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OutboxQueue {
    /// Returns the next frame that may be sent now: urgent ones first, then inputs within the window.
    fn take_next(&mut self) -> Option<Frame> {
        if let Some(frame) = self.urgent.pop_front() {
            return Some(frame);
        }
        let next = self.inputs.get(self.sent).filter(|_| self.life == Life::Open)?;
        let size = next.frame.len();
        // A single large input may exceed the window, but only alone.
        if self.in_flight_bytes > 0 && self.in_flight_bytes + size > INPUT_IN_FLIGHT_BYTES_MAX {
            return None;
        }
        self.sent += 1;
        self.in_flight_bytes += size;
        Some(next.frame.clone())
    }

    fn forget_through(&mut self, write_id: u64) {
        while let Some(done) = self.inputs.pop_front_if(|waiting| waiting.write_id <= write_id) {
            self.queued_bytes -= done.frame.len();
            if self.sent > 0 {
                self.sent -= 1;
                self.in_flight_bytes -= done.frame.len();
            }
        }
    }
}

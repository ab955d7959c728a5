//! Input on its way to the agent's stdin: each id once, in order, without ever blocking the loop. Must not
//! know where inputs come from nor where their completion is recorded.

use std::collections::VecDeque;
use std::io::{self, PipeWriter, Write};

use crate::limits::INPUT_QUEUED_BYTES_MAX;
use crate::record::{Delivery, Input};

/// What one input asks for.
pub(crate) enum InputWork {
    Write(Vec<u8>),
    Close,
}

/// Inputs accepted but not yet delivered.
#[derive(Default)]
pub(crate) struct InputQueue {
    waiting: VecDeque<(u64, InputWork)>,
    /// Bytes of the first one that are already in the pipe.
    written: usize,
    queued_bytes: usize,
    last_id: u64,
}

impl InputQueue {
    /// Accepts an input, unless its id was seen before: daemons send again what they are unsure of.
    pub(crate) fn accept(&mut self, write_id: u64, work: InputWork) {
        if write_id <= self.last_id {
            return;
        }
        self.last_id = write_id;
        if let InputWork::Write(bytes) = &work {
            self.queued_bytes += bytes.len();
        }
        self.waiting.push_back((write_id, work));
    }

    /// Returns the highest id ever accepted.
    pub(crate) fn last_id(&self) -> u64 {
        self.last_id
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns whether no more should be accepted for now.
    pub(crate) fn is_full(&self) -> bool {
        self.queued_bytes > INPUT_QUEUED_BYTES_MAX
    }

    /// Writes as much of the first input as fits. Returns it once it is completed.
    pub(crate) fn pump(&mut self, stdin: &mut Option<PipeWriter>) -> Option<Input> {
        let (_, work) = self.waiting.front()?;
        let delivery = match (work, stdin.as_mut()) {
            (InputWork::Close, _) => {
                *stdin = None;
                Delivery::Delivered
            }
            (InputWork::Write(_), None) => Delivery::Undeliverable,
            (InputWork::Write(bytes), Some(pipe)) => loop {
                let rest = &bytes[self.written..];
                if rest.is_empty() {
                    break Delivery::Delivered;
                }
                match pipe.write(rest) {
                    Ok(n) => self.written += n,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(_) => {
                        *stdin = None;
                        break Delivery::Undeliverable;
                    }
                }
            },
        };
        self.finish_first(delivery)
    }

    /// Gives up the first input because its agent has ended.
    pub(crate) fn give_up(&mut self) -> Option<Input> {
        self.finish_first(Delivery::Undeliverable)
    }

    fn finish_first(&mut self, delivery: Delivery) -> Option<Input> {
        let (write_id, work) = self.waiting.pop_front()?;
        if let InputWork::Write(bytes) = work {
            self.queued_bytes -= bytes.len();
        }
        self.written = 0;
        Some(Input { write_id, delivery })
    }
}

//! Reads a spool without blocking the daemon: near its end directly, since those bytes are still cached; far
//! behind its end on a thread for blocking work, because the bytes may have to come from the disk. Must not
//! know what the records are for.

use std::io;

use shim::Position;
use shim::limits::BATCH_BYTES_MAX;
use shim::spool::{Reader, Step};
use tokio::task::{self, JoinHandle};
use tokio::time;

use super::connection::{ShimReachability, ShimState};
use super::limits::READ_RETRY;

/// A reader that may be running on another thread. A step that was started is never lost.
pub(super) struct Spool {
    place: SpoolSource,
    at: Position,
    has_failed: bool,
}

enum SpoolSource {
    Here(Reader),
    /// On a thread, with the state known when the step started.
    Away(JoinHandle<(Reader, io::Result<Step>)>, ShimState),
    /// The thread panicked or was stopped with the runtime.
    Lost,
}

impl Spool {
    pub(super) fn new(reader: Reader) -> Spool {
        Spool { at: reader.position(), place: SpoolSource::Here(reader), has_failed: false }
    }

    /// Returns the position before the next record.
    pub(super) fn position(&self) -> Position {
        self.at
    }

    /// Takes the next step and returns it with the state it was started under. Only that state may be used to
    /// judge the step. If the shim had exited by then, an unreadable end is judged already: see
    /// [`Reader::verdict`].
    ///
    /// Cancel-safe: a step in progress is finished by the next call.
    pub(super) async fn step(&mut self, state: ShimState) -> (ShimState, io::Result<Step>) {
        if self.has_failed {
            // A caller that keeps asking must not spin.
            time::sleep(READ_RETRY).await;
            self.has_failed = false;
        }
        match std::mem::replace(&mut self.place, SpoolSource::Lost) {
            SpoolSource::Here(mut reader)
                if is_near(self.at, state.head) && state.reach != ShimReachability::Gone =>
            {
                let stepped = reader.step();
                return (state, self.arrive(reader, stepped));
            }
            SpoolSource::Here(reader) => {
                self.place =
                    SpoolSource::Away(task::spawn_blocking(move || step_far(reader, state.reach)), state);
            }
            away => self.place = away,
        }
        let SpoolSource::Away(thread, began) = &mut self.place else {
            return (state, Err(io::ErrorKind::BrokenPipe.into()));
        };
        let began = *began;
        match thread.await {
            Ok((reader, stepped)) => (began, self.arrive(reader, stepped)),
            Err(error) => {
                self.place = SpoolSource::Lost;
                self.has_failed = true;
                (began, Err(io::Error::other(error)))
            }
        }
    }

    fn arrive(&mut self, reader: Reader, stepped: io::Result<Step>) -> io::Result<Step> {
        self.at = reader.position();
        self.place = SpoolSource::Here(reader);
        self.has_failed = stepped.is_err();
        stepped
    }
}

fn step_far(mut reader: Reader, reach: ShimReachability) -> (Reader, io::Result<Step>) {
    let stepped = match reader.step() {
        Ok(Step::Torn(fault)) if reach == ShimReachability::Gone => reader.verdict(fault),
        stepped => stepped,
    };
    (reader, stepped)
}

/// Returns whether the bytes to read were written so recently that they are still in memory.
pub(super) fn is_near(at: Position, head: Position) -> bool {
    at.segment == head.segment && head.offset.saturating_sub(at.offset) <= BATCH_BYTES_MAX as u64
}

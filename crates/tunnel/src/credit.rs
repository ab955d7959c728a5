//! How many bytes of one call may still be sent. Any positive amount may be used, so that no message is too large for a
//! small window.

use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

use crate::limits;

/// The credit of a sender.
#[derive(Debug)]
pub(crate) struct Credit {
    left: Mutex<u64>,
    more: Notify,
}

/// The other end gave more credit than there can be.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Overrun;

impl Credit {
    pub(crate) fn new(bytes: u64) -> Self {
        Self { left: Mutex::new(bytes), more: Notify::new() }
    }

    /// Adds what the other end granted.
    pub(crate) fn add(&self, bytes: u64) -> Result<(), Overrun> {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let sum = left.checked_add(bytes).filter(|sum| *sum <= limits::CREDIT_MAX_BYTES).ok_or(Overrun)?;
        *left = sum;
        drop(left);
        self.more.notify_one();
        Ok(())
    }

    /// Takes up to `most` bytes; waits until there is at least one.
    pub(crate) async fn take(&self, most: usize) -> usize {
        loop {
            {
                let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
                let taken = usize::try_from(*left).unwrap_or(usize::MAX).min(most);
                if taken > 0 || most == 0 {
                    *left -= taken as u64;
                    return taken;
                }
            }
            // A grant between the look and here has stored its notification.
            self.more.notified().await;
        }
    }
}

impl Credit {
    /// Takes this many bytes; waits until all of them were there.
    pub(crate) async fn take_all(&self, bytes: usize) {
        let mut left = bytes;
        while left > 0 {
            left -= self.take(left).await;
        }
    }
}

/// What the receiver of a call's bytes has granted: counts down as they come, and says when and how much to grant again.
#[derive(Debug)]
pub(crate) struct Window {
    /// Bytes that may still come.
    left: u64,
    /// Bytes that may be under way at most.
    size: u64,
    /// Bytes that were taken since credit was last given.
    taken: u64,
}

impl Window {
    pub(crate) fn new(size: u64) -> Self {
        Self { left: size, size, taken: 0 }
    }

    /// Counts bytes that came.
    pub(crate) fn receive(&mut self, bytes: u64) -> Result<(), Overrun> {
        self.left = self.left.checked_sub(bytes).ok_or(Overrun)?;
        Ok(())
    }

    /// The same for an end that knows no credit: as long as there is any room, one message may be as large as it is.
    pub(crate) fn receive_basic(&mut self, bytes: u64) -> Result<(), Overrun> {
        if self.left == 0 && bytes > 0 {
            return Err(Overrun);
        }
        self.left = self.left.saturating_sub(bytes);
        Ok(())
    }

    /// Makes room again at an end that knows no credit.
    pub(crate) fn refill(&mut self, bytes: u64) {
        self.left = self.left.saturating_add(bytes).min(self.size);
    }

    /// Counts bytes that the reader took. Returns how much to grant, and how much of it is growth: the window grows while
    /// its reader keeps up, within what the tunnel has to spare.
    pub(crate) fn take(&mut self, bytes: u64, keeps_up: bool, spare: u64) -> Option<(u64, u64)> {
        self.taken += bytes;
        if self.taken < self.size / 2 {
            return None;
        }
        let growth = match keeps_up && self.size < limits::WINDOW_MAX_BYTES && spare >= self.size {
            true => self.size,
            false => 0,
        };
        let grant = self.taken + growth;
        self.size += growth;
        self.left += grant;
        self.taken = 0;
        Some((grant, growth))
    }

    /// Returns how far it has grown.
    pub(crate) fn growth(&self, first: u64) -> u64 {
        self.size.saturating_sub(first)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[tokio::test]
    async fn a_sender_waits_for_credit_and_uses_any() {
        let credit = std::sync::Arc::new(Credit::new(3));
        assert_eq!(credit.take(10).await, 3);
        let waiting = tokio::spawn({
            let credit = std::sync::Arc::clone(&credit);
            async move { credit.take(10).await }
        });
        credit.add(1).unwrap();
        assert_eq!(waiting.await.unwrap(), 1);
    }

    #[test]
    fn more_credit_than_there_can_be_is_a_fault() {
        let credit = Credit::new(1);
        assert_eq!(credit.add(u64::MAX), Err(Overrun));
        assert_eq!(credit.add(limits::CREDIT_MAX_BYTES), Err(Overrun));
        assert_eq!(credit.add(5), Ok(()));
    }

    #[test]
    fn bytes_beyond_the_window_are_a_fault() {
        let mut window = Window::new(10);
        assert_eq!(window.receive(10), Ok(()));
        assert_eq!(window.receive(1), Err(Overrun));
    }

    #[test]
    fn a_window_grows_only_while_its_reader_keeps_up_and_there_is_room() {
        let mut window = Window::new(64);
        window.receive(64).unwrap();
        assert_eq!(window.take(31, true, 1_000), None);
        assert_eq!(window.take(1, false, 1_000), Some((32, 0)), "a slow reader keeps its window");
        assert_eq!(window.take(32, true, 63), Some((32, 0)), "no room");
        window.receive(64).unwrap();
        assert_eq!(window.take(64, true, 64), Some((128, 64)));
        assert_eq!(window.growth(64), 64);
    }

    proptest! {
        /// Whatever the order of sends and reads: what is under way never exceeds the window, and nobody is stuck.
        #[test]
        fn credit_bounds_what_is_under_way(steps in proptest::collection::vec((0_u64..5_000, any::<bool>()), 1..200)) {
            let first = 1_024;
            let mut window = Window::new(first);
            let (mut credit, mut under_way) = (first, 0_u64);
            for (wanted, keeps_up) in steps {
                let sent = wanted.min(credit);
                credit -= sent;
                under_way += sent;
                prop_assert_eq!(window.receive(sent), Ok(()));
                let read = under_way.min(wanted / 2 + 1);
                under_way -= read;
                if let Some((grant, _)) = window.take(read, keeps_up, u64::MAX) {
                    credit += grant;
                }
                prop_assert!(under_way <= window.size);
                prop_assert!(credit > 0 || under_way + window.taken > 0, "nobody is stuck");
            }
        }
    }
}

//! Notices that this machine was suspended, or this process stopped: connections from before may be dead without a word, and
//! what failed before says nothing about the network that is there now. Knows no relay.

use std::time::Duration;

use host::clock;
use tokio::sync::watch;
use tokio::time;

use crate::limits;

/// Told after every sleep.
pub(crate) struct Wakeups(watch::Receiver<u64>);

impl Wakeups {
    /// Looks at the clock from now on, until nobody waits for a wake-up any more.
    pub(crate) fn watch() -> Self {
        let (sender, receiver) = watch::channel(0);
        tokio::spawn(async move {
            let mut sleep = SleepMeter::new(clock::since_boot());
            while !sender.is_closed() {
                // The timer does not count the time of a suspend; the clock does.
                time::sleep(limits::WAKE_CHECK).await;
                if sleep.has_slept(clock::since_boot()) {
                    sender.send_modify(|count| *count += 1);
                }
            }
        });
        Self(receiver)
    }

    /// Returns the same for sleeps that end from now on.
    pub(crate) fn upcoming(&self) -> Self {
        let mut receiver = self.0.clone();
        receiver.mark_unchanged();
        Self(receiver)
    }

    /// Waits for the end of the next sleep.
    pub(crate) async fn next(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending().await
        }
    }
}

/// Measures the time between two looks at the clock.
struct SleepMeter {
    looked: Duration,
}

impl SleepMeter {
    fn new(now: Duration) -> Self {
        Self { looked: now }
    }

    /// Whether more time has passed since the last look than a process that is awake can miss.
    fn has_slept(&mut self, now: Duration) -> bool {
        let passed = now.saturating_sub(self.looked);
        self.looked = now;
        passed >= limits::WAKE_CHECK + limits::SLEEP_MIN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_sleep_that_is_over_is_told_to_nobody_who_comes_later() {
        let (sender, receiver) = watch::channel(0);
        let wakeups = Wakeups(receiver);
        let mut before = wakeups.upcoming();
        sender.send_modify(|count| *count += 1);
        before.next().await;
        assert!(!wakeups.upcoming().0.has_changed().unwrap());
    }

    #[test]
    fn only_a_long_time_between_two_looks_is_a_sleep_and_it_is_one_once() {
        let at = Duration::from_secs;
        let mut sleep = SleepMeter::new(at(100));
        assert!(!sleep.has_slept(at(102)));
        assert!(!sleep.has_slept(at(113)), "a machine that is busy for a while is awake");
        assert!(sleep.has_slept(at(3_713)));
        assert!(!sleep.has_slept(at(3_715)));
        assert!(!sleep.has_slept(at(3_000)), "a clock that goes back is no sleep");
    }
}

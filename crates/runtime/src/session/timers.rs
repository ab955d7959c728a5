//! The timers of one session: at most one of each kind.

use std::time::Duration;

use domain::Timer;
use tokio::time::Instant;

/// The running timers with their deadlines.
#[derive(Default)]
pub(super) struct Timers {
    armed: Vec<(Timer, Instant)>,
}

impl Timers {
    /// Starts a timer, replacing one of the same kind.
    pub(super) fn arm(&mut self, timer: Timer, wait: Duration) {
        self.disarm(timer);
        // A wait beyond the clock's range never ends, as intended.
        if let Some(at) = Instant::now().checked_add(wait) {
            self.armed.push((timer, at));
        }
    }

    pub(super) fn disarm(&mut self, timer: Timer) {
        self.armed.retain(|(armed, _)| *armed != timer);
    }

    /// Waits for the next timer to expire and removes it; forever if there is none. Cancel-safe.
    pub(super) async fn next(&mut self) -> Timer {
        let soonest =
            self.armed.iter().enumerate().min_by_key(|(_, (_, at))| *at).map(|(index, (_, at))| (index, *at));
        let Some((index, at)) = soonest else { return std::future::pending().await };
        tokio::time::sleep_until(at).await;
        self.armed.swap_remove(index).0
    }
}

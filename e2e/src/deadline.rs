//! How tests wait: for an event, with a deadline, never for a time. Knows nothing of what is waited for.

use std::time::Duration;

use anyhow::{Result, anyhow};

/// The default deadline. Generous on purpose: it bounds a hang, it does not measure speed.
pub const DEADLINE: Duration = Duration::from_secs(30);

/// Waits for `what` at most [`DEADLINE`]; the error names what did not happen.
pub async fn within<T>(what: &str, event: impl Future<Output = T>) -> Result<T> {
    within_time(what, DEADLINE, event).await
}

/// Waits for `what` at most `time`.
pub async fn within_time<T>(what: &str, time: Duration, event: impl Future<Output = T>) -> Result<T> {
    tokio::time::timeout(time, event).await.map_err(|_| anyhow!("{what} did not happen within {time:?}"))
}

/// How often a condition is looked at that no event announces.
const LOOK: Duration = Duration::from_millis(20);

/// Waits until `look` finds something, at most [`DEADLINE`]. Only for what no event announces: files, processes.
pub async fn poll<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> Result<T> {
    within(what, async {
        loop {
            if let Some(found) = look() {
                return found;
            }
            tokio::time::sleep(LOOK).await;
        }
    })
    .await
}

//! How tests wait: for an event, with a deadline, never for a time. Knows nothing of what is waited for.

use std::time::Duration;

use anyhow::{Result, anyhow};

/// The deadline unless `OBEY_TEST_DEADLINE_SECS` says otherwise.
const DEFAULT: Duration = Duration::from_secs(30);

/// How long an awaited event may take. It bounds a hang and measures no speed, so a busy machine may raise it.
pub fn deadline() -> Duration {
    let chosen = std::env::var("OBEY_TEST_DEADLINE_SECS").ok().and_then(|text| text.parse().ok());
    chosen.map_or(DEFAULT, Duration::from_secs)
}

/// Waits for `what` until the deadline; the error names what did not happen.
pub async fn within<T>(what: &str, event: impl Future<Output = T>) -> Result<T> {
    within_time(what, deadline(), event).await
}

/// Waits for `what` at most `time`.
pub async fn within_time<T>(what: &str, time: Duration, event: impl Future<Output = T>) -> Result<T> {
    tokio::time::timeout(time, event).await.map_err(|_| anyhow!("{what} did not happen within {time:?}"))
}

/// How often a condition is looked at that no event announces.
const LOOK: Duration = Duration::from_millis(20);

/// Waits until `look` finds something, or the deadline. Only for what no event announces: files, processes.
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

//! The clock: if it is behind what was already written, readers see events out of order, and retention ends
//! at the wrong time.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use wire::obey::local::v1::ListSessionsRequest;

use super::Finding;
use crate::limits;
use client::connection::Client;

/// Returns the seconds since 1970.
pub(super) fn now_seconds() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// Compares the clock with the time of the last entry and the build time of this program.
pub(super) async fn examine(data_dir: &Path, daemon: Option<&Client>) -> Finding {
    let built = env!("OBEY_BUILT_AT").parse().unwrap_or(0);
    let told = match daemon {
        Some(client) => last_activity(client).await,
        None => None,
    };
    let last = last_entry(data_dir).into_iter().chain(told).max();
    judge(SystemTime::now(), UNIX_EPOCH + Duration::from_secs(built), last)
}

/// Compares the time with the last written event and with the time this program was built.
fn judge(now: SystemTime, built: SystemTime, last: Option<SystemTime>) -> Finding {
    const CHECK: &str = "clock";
    const REPAIR: &str = "set the clock: timedatectl set-ntp true, or date --set";
    let shown = seconds(now);
    let off = |since: SystemTime| since.duration_since(now).is_ok_and(|ahead| ahead > limits::CLOCK_OFF);
    if let Some(last) = last.filter(|last| off(*last)) {
        let message = format!("it is {shown}, but the last event was written at {}", seconds(last));
        return Finding::warning(CHECK, message, REPAIR);
    }
    if off(built) {
        let message = format!("it is {shown}, but this program was built at {}", seconds(built));
        return Finding::warning(CHECK, message, REPAIR);
    }
    Finding::ok(CHECK, shown)
}

/// Returns when the journal was last written, by the clock at that time.
fn last_entry(data_dir: &Path) -> Option<SystemTime> {
    let written = |name: &str| fs::metadata(data_dir.join(name)).and_then(|meta| meta.modified()).ok();
    ["daemon.db", "daemon.db-wal"].into_iter().filter_map(written).max()
}

/// Returns the last activity of a session. File times move on with the current clock; records keep their
/// time.
async fn last_activity(client: &Client) -> Option<SystemTime> {
    let request = ListSessionsRequest { include_terminated: true, ..Default::default() };
    let listed = client.daemon().list_sessions(request).await.ok()?.into_inner();
    let times = listed.sessions.into_iter().flat_map(|session| [session.last_activity_at, session.ended_at]);
    times.flatten().filter_map(|time| SystemTime::try_from(time).ok()).max()
}

fn seconds(time: SystemTime) -> String {
    Timestamp::try_from(time).map_or_else(|_| "an impossible time".to_owned(), |time| format!("{time:.0}"))
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

    #[test]
    fn a_clock_before_what_was_written_or_built_is_found() {
        let at = |hours: u64| UNIX_EPOCH + Duration::from_secs(hours * 3600);
        assert_eq!(judge(at(10), at(8), Some(at(11))).state, State::Ok);
        let late = judge(at(10), at(8), Some(at(12)));
        assert_eq!(late.state, State::Warning);
        assert_eq!(
            late.message,
            "it is 1970-01-01T10:00:00Z, but the last event was written at 1970-01-01T12:00:00Z"
        );
        let early = judge(at(10), at(12), None);
        assert_eq!(early.state, State::Warning);
        assert!(early.message.ends_with("built at 1970-01-01T12:00:00Z"), "{}", early.message);
        assert!(early.repair.contains("timedatectl"));
    }
}

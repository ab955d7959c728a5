//! Whether a request is retried, and after how long. Pure: randomness and the time are passed in.

use std::time::{Duration, SystemTime};

use jiff::fmt::rfc2822;

use crate::limits::{RETRY_AFTER_MAX, RETRY_BASE_WAIT, RETRY_MAX_WAIT};

/// Returns how long to wait before a retry, or `None` if there should be none. `retries` counts those made,
/// `said` is what the endpoint asked for, `chance` lies between 0 and 1.
pub(super) fn wait(retries: u32, most: u32, said: Option<Duration>, chance: f64) -> Option<Duration> {
    if retries >= most {
        return None;
    }
    if let Some(said) = said {
        // All clients got the same time; a random addition spreads them.
        return (said <= RETRY_AFTER_MAX).then(|| said + RETRY_BASE_WAIT.mul_f64(chance / 2.0));
    }
    let most = RETRY_BASE_WAIT.saturating_mul(2_u32.saturating_pow(retries)).min(RETRY_MAX_WAIT);
    // Between half and all of it.
    Some(most.mul_f64(0.5 + chance / 2.0))
}

/// What an endpoint says about when to retry.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RetryHeaders<'a> {
    /// `retry-after`: seconds, or a date.
    pub(super) after: Option<&'a str>,
    /// `retry-after-ms`, which some endpoints send in addition.
    pub(super) after_ms: Option<&'a str>,
    /// `date`: the endpoint's current time; its clock may differ from ours.
    pub(super) date: Option<&'a str>,
}

/// Reads how long an endpoint wants to be left alone. A date in the past means not at all; `now` stands in for the
/// endpoint's own clock.
pub(super) fn retry_after(headers: RetryHeaders<'_>, now: SystemTime) -> Option<Duration> {
    let number = |text: &str| text.trim().parse::<f64>().ok().filter(|number| (0.0..1e9).contains(number));
    let milliseconds = headers.after_ms.and_then(number).map(|number| number / 1000.0);
    if let Some(seconds) = milliseconds.or_else(|| headers.after.and_then(number)) {
        return Some(Duration::from_secs_f64(seconds));
    }
    let until = headers.after.and_then(date)?;
    let now = headers.date.and_then(date).unwrap_or(now);
    Some(until.duration_since(now).unwrap_or_default())
}

/// Parses an HTTP date.
fn date(text: &str) -> Option<SystemTime> {
    rfc2822::DateTimeParser::new().parse_timestamp(text.trim()).ok().map(SystemTime::from)
}

/// Returns whether a retry may get another status.
pub(super) fn is_passing(status: u16) -> bool {
    matches!(status, 408 | 409 | 429 | 500..=599)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_and_are_never_alike() {
        let waits: Vec<Duration> = (0..4).filter_map(|retries| wait(retries, 4, None, 0.0)).collect();
        assert_eq!(waits, [1, 2, 4, 8].map(|factor| RETRY_BASE_WAIT.mul_f64(f64::from(factor) / 2.0)));
        assert_eq!(wait(4, 4, None, 0.0), None);
        assert!(wait(0, 4, None, 0.9) > wait(0, 4, None, 0.1));
        assert!(wait(60, 100, None, 1.0) <= Some(RETRY_MAX_WAIT));
    }

    #[test]
    fn what_the_endpoint_says_counts() {
        let second = Duration::from_secs(1);
        assert_eq!(wait(0, 4, Some(second), 0.0), Some(second));
        assert!(wait(0, 4, Some(second), 0.5) > Some(second));
        assert_eq!(wait(0, 4, Some(RETRY_AFTER_MAX + second), 0.0), None);
        let now = SystemTime::UNIX_EPOCH;
        let after = |after| RetryHeaders { after: Some(after), ..RetryHeaders::default() };
        assert_eq!(retry_after(after("2"), now), Some(2 * second));
        assert_eq!(retry_after(RetryHeaders { after_ms: Some("500"), ..after("2") }, now), Some(second / 2));
        for strange in ["", "soon", "-1", "NaN", "Wed, 32 Oct 2026 07:28:00 GMT"] {
            assert_eq!(retry_after(after(strange), now), None, "{strange}");
        }
    }

    #[test]
    fn a_date_counts_from_the_endpoints_own_clock() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_792_567_680);
        let at = RetryHeaders { after: Some("Wed, 21 Oct 2026 07:28:30 GMT"), ..RetryHeaders::default() };
        assert_eq!(retry_after(at, now), Some(Duration::from_secs(30)));
        assert_eq!(retry_after(at, now + Duration::from_secs(60)), Some(Duration::ZERO));
        let date = Some("Wed, 21 Oct 2026 07:28:25 GMT");
        assert_eq!(
            retry_after(RetryHeaders { date, ..at }, SystemTime::UNIX_EPOCH),
            Some(Duration::from_secs(5))
        );
        assert_eq!(
            retry_after(RetryHeaders { date: Some("whenever"), ..at }, now),
            Some(Duration::from_secs(30))
        );
    }

    #[test]
    fn rate_limits_and_server_errors_are_retried() {
        assert!(is_passing(429) && is_passing(503) && !is_passing(400) && !is_passing(401));
    }
}

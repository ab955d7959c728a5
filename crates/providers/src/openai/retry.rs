//! When a request is tried again, and after how long. Pure: chance comes from outside.

use std::time::Duration;

use crate::limits::{RETRY_AFTER_MAX, RETRY_BASE_WAIT, RETRY_MAX_WAIT};

/// Returns how long to wait before another attempt, or nothing where that makes no sense. `retries` counts those made,
/// `said` is what the endpoint asked for, `chance` lies between 0 and 1.
pub(super) fn wait(retries: u32, most: u32, said: Option<Duration>, chance: f64) -> Option<Duration> {
    if retries >= most {
        return None;
    }
    if let Some(said) = said {
        // Everybody was told the same time; a little more keeps them apart.
        return (said <= RETRY_AFTER_MAX).then(|| said + RETRY_BASE_WAIT.mul_f64(chance / 2.0));
    }
    let most = RETRY_BASE_WAIT.saturating_mul(2_u32.saturating_pow(retries)).min(RETRY_MAX_WAIT);
    // Between half and all of it.
    Some(most.mul_f64(0.5 + chance / 2.0))
}

/// Reads how long an endpoint wants to be left alone: seconds, or milliseconds in a header of its own.
pub(super) fn said(seconds: Option<&str>, milliseconds: Option<&str>) -> Option<Duration> {
    let read = |text: &str| text.trim().parse::<f64>().ok().filter(|number| (0.0..1e9).contains(number));
    let milliseconds = milliseconds.and_then(read).map(|number| number / 1000.0);
    milliseconds.or_else(|| seconds.and_then(read)).map(Duration::from_secs_f64)
}

/// Returns whether a status may be another at the next attempt.
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
        assert_eq!(said(Some("2"), None), Some(2 * second));
        assert_eq!(said(Some("2"), Some("500")), Some(second / 2));
        for strange in ["", "soon", "-1", "NaN", "Wed, 21 Oct 2026 07:28:00 GMT"] {
            assert_eq!(said(Some(strange), None), None, "{strange}");
        }
        assert!(is_passing(429) && is_passing(503) && !is_passing(400) && !is_passing(401));
    }
}

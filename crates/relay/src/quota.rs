//! How many calls one caller may make: a bucket of tokens each, so that one who calls without end holds up nobody else. Pure
//! but for the time that it is told.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::limits;

/// The buckets of all callers.
#[derive(Default)]
pub(crate) struct CallQuotas(Mutex<HashMap<String, CallBucket>>);

/// What one caller has left, and when that was counted.
#[derive(Clone, Copy, Debug)]
struct CallBucket {
    left: f64,
    at: Instant,
}

impl CallBucket {
    fn refilled(self, now: Instant) -> Self {
        let grown =
            now.saturating_duration_since(self.at).as_secs_f64() * f64::from(limits::CALLS_PER_SECOND);
        Self { left: (self.left + grown).min(f64::from(limits::CALLS_BURST)), at: now }
    }
}

impl CallQuotas {
    /// Takes one call of a caller. Returns after how long to come back where there is none left.
    pub(crate) fn take(&self, caller: &str, now: Instant) -> Result<(), Duration> {
        let mut buckets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= limits::CALLERS_MAX {
            // A full bucket is as good as none.
            buckets.retain(|_, bucket| bucket.refilled(now).left < f64::from(limits::CALLS_BURST));
        }
        let bucket = buckets
            .entry(caller.to_owned())
            .or_insert(CallBucket { left: f64::from(limits::CALLS_BURST), at: now });
        *bucket = bucket.refilled(now);
        if bucket.left < 1.0 {
            return Err(Duration::from_secs_f64((1.0 - bucket.left) / f64::from(limits::CALLS_PER_SECOND)));
        }
        bucket.left -= 1.0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_calls_without_end_is_told_when_to_come_back_and_others_are_not() {
        let quotas = CallQuotas::default();
        let now = Instant::now();
        for _ in 0..limits::CALLS_BURST {
            assert_eq!(quotas.take("ann", now), Ok(()));
        }
        let wait = quotas.take("ann", now).unwrap_err();
        assert!(wait > Duration::ZERO && wait < Duration::from_secs(1), "{wait:?}");
        assert_eq!(quotas.take("bob", now), Ok(()));
        assert_eq!(quotas.take("ann", now + wait + Duration::from_millis(1)), Ok(()));
    }
}

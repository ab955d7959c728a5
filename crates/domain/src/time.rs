//! Points in time as plain numbers. Does not read a clock.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Microseconds since the Unix epoch, UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// Returns the time that lies `duration` later; saturates instead of overflowing.
    pub fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)))
    }

    /// Returns how long after `earlier` this is; zero if it is not.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// Returns whole seconds and the nanoseconds within the second, as protobuf timestamps need them.
    pub fn seconds_and_nanos(self) -> (i64, i32) {
        let nanos = self.0.rem_euclid(1_000_000) * 1_000;
        (self.0.div_euclid(1_000_000), i32::try_from(nanos).unwrap_or(0))
    }
}

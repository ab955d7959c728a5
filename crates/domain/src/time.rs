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

    /// Returns the minute for people, such as `2026-11-17 14:05 UTC`.
    pub fn utc_minute(self) -> String {
        let minutes = self.0.div_euclid(60_000_000);
        let (hour, minute) = (minutes.rem_euclid(1_440) / 60, minutes.rem_euclid(60));
        let (year, month, day) = civil(minutes.div_euclid(1_440));
        format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02} UTC")
    }

    /// Returns whole seconds and the nanoseconds within the second, as protobuf timestamps need them.
    pub fn seconds_and_nanos(self) -> (i64, i32) {
        let nanos = self.0.rem_euclid(1_000_000) * 1_000;
        (self.0.div_euclid(1_000_000), i32::try_from(nanos).unwrap_or(0))
    }
}

/// Returns year, month and day of a day since 1970. Counts in eras of 400 years whose years begin in March, so that a leap day is
/// the last of its year.
fn civil(day: i64) -> (i64, i64, i64) {
    let from_era = day.saturating_add(719_468);
    let (era, of_era) = (from_era.div_euclid(146_097), from_era.rem_euclid(146_097));
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let march_month = (5 * of_year + 2) / 153;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let first_of_month = (153 * march_month + 2) / 5;
    (year + era * 400 + i64::from(month <= 2), month, of_year - first_of_month + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minutes_are_those_of_the_calendar() {
        let minute = |seconds: i64| Timestamp(seconds * 1_000_000).utc_minute();
        assert_eq!(minute(0), "1970-01-01 00:00 UTC");
        assert_eq!(minute(-1), "1969-12-31 23:59 UTC");
        assert_eq!(minute(951_782_399), "2000-02-28 23:59 UTC");
        assert_eq!(minute(951_782_400), "2000-02-29 00:00 UTC");
        assert_eq!(minute(1_794_886_813), "2026-11-17 03:40 UTC");
        assert_eq!(minute(4_107_542_400), "2100-03-01 00:00 UTC");
    }
}

//! When a schedule of five fields is due: minute, hour, day of the month, month, day of the week, in UTC. Pure.

use domain::{Error, Timestamp};
use jiff::Span;
use jiff::civil::Date;
use jiff::tz::TimeZone;

/// A schedule.
#[derive(Clone, Debug)]
pub struct Cron {
    /// Whether each minute, hour, day, month and day of the week is meant; Sunday is 0.
    fields: [Vec<bool>; 5],
    /// Of the two fields of days both must fit if one of them is `*`, else one is enough.
    both_days: bool,
}

/// The lowest and the highest value of each field. 7 is Sunday too.
const BOUNDS: [(usize, usize); 5] = [(0, 59), (0, 23), (1, 31), (1, 12), (0, 7)];

/// How far ahead a date is looked for: the 29th of February comes after eight years at the latest.
const DAYS_MAX: i64 = 366 * 9;

impl Cron {
    /// Reads a schedule.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let wrong = |problem: String| Error::invalid("config.cron", problem);
        let Ok(words) = <[&str; 5]>::try_from(words) else {
            return Err(wrong(format!("{text:?} must have five fields: minute hour day month weekday")));
        };
        let mut fields: [Vec<bool>; 5] = Default::default();
        for (at, word) in words.iter().enumerate() {
            fields[at] = field(word, BOUNDS[at])
                .ok_or_else(|| wrong(format!("{word:?} is no field of a schedule")))?;
        }
        let is_sunday = fields[4][0] || fields[4][7];
        fields[4][0] = is_sunday;
        Ok(Self { both_days: words[2].starts_with('*') || words[4].starts_with('*'), fields })
    }

    /// Returns the first time after this one at which the schedule is due; `None`: it never is.
    pub fn next_after(&self, now: Timestamp) -> Option<Timestamp> {
        let now = jiff::Timestamp::from_microsecond(now.0).ok()?;
        let start = now.to_zoned(TimeZone::UTC);
        for days in 0..DAYS_MAX {
            let date = start.date().checked_add(Span::new().days(days)).ok()?;
            if !self.has_date(date) {
                continue;
            }
            for hour in (0..24).filter(|hour| self.fields[1][*hour]) {
                for minute in (0..60).filter(|minute| self.fields[0][*minute]) {
                    let (hour, minute) = (i8::try_from(hour).ok()?, i8::try_from(minute).ok()?);
                    let due = date.at(hour, minute, 0, 0).to_zoned(TimeZone::UTC).ok()?.timestamp();
                    if due > now {
                        return Some(Timestamp(due.as_microsecond()));
                    }
                }
            }
        }
        None
    }

    fn has_date(&self, date: Date) -> bool {
        let is =
            |field: usize, value: i8| usize::try_from(value).is_ok_and(|value| self.fields[field][value]);
        let (day, weekday) = (is(2, date.day()), is(4, date.weekday().to_sunday_zero_offset()));
        is(3, date.month()) && if self.both_days { day && weekday } else { day || weekday }
    }
}

/// Reads a list of values, ranges and steps, such as `*/15` or `1-5,7`.
fn field(word: &str, (low, high): (usize, usize)) -> Option<Vec<bool>> {
    let mut found = vec![false; high + 1];
    for part in word.split(',') {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, step.parse().ok().filter(|step| *step > 0)?),
            None => (part, 1),
        };
        let (from, to) = match range.split_once('-') {
            _ if range == "*" => (low, high),
            Some((from, to)) => (from.parse().ok()?, to.parse().ok()?),
            None => {
                let from = range.parse().ok()?;
                (from, if part.contains('/') { high } else { from })
            }
        };
        if from < low || to > high || from > to {
            return None;
        }
        (from..=to).step_by(step).for_each(|value| found[value] = true);
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(cron: &str, now: &str) -> String {
        let now: jiff::Timestamp = now.parse().unwrap();
        let due = Cron::parse(cron).unwrap().next_after(Timestamp(now.as_microsecond()));
        due.map_or("never".to_owned(), |at| jiff::Timestamp::from_microsecond(at.0).unwrap().to_string())
    }

    #[test]
    fn the_next_time_is_found() {
        for (cron, now, due) in [
            ("*/15 * * * *", "2026-01-01T00:00:00Z", "2026-01-01T00:15:00Z"),
            ("0 9 * * 1-5", "2026-01-02T09:00:00Z", "2026-01-05T09:00:00Z"),
            ("0 0 29 2 *", "2026-01-01T00:00:00Z", "2028-02-29T00:00:00Z"),
            ("0 0 13 * 5", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"),
            ("0 12 * * 7", "2026-01-01T00:00:00Z", "2026-01-04T12:00:00Z"),
            ("5/20 1,3 * 12 *", "2026-12-01T01:45:00Z", "2026-12-01T03:05:00Z"),
            ("0 0 31 2 *", "2026-01-01T00:00:00Z", "never"),
        ] {
            assert_eq!(next(cron, now), due, "{cron}");
        }
    }

    #[test]
    fn what_is_no_schedule_is_refused() {
        for cron in
            ["", "* * * *", "60 * * * *", "* * 0 * *", "*/0 * * * *", "5-1 * * * *", "x * * * *", "* * * * 8"]
        {
            let error = Cron::parse(cron).unwrap_err();
            assert!(error.message.starts_with("config.cron: "), "{cron}: {error}");
        }
    }
}

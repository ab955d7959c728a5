//! How much one caller, machine or address may ask for: a bucket of tokens each, and a number of places each, so that whoever asks
//! without end holds up nobody else. Pure but for the time that it is told.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::limits;

/// How often something may happen: so often at once, and then so often in a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    pub per_second: f64,
    pub burst: f64,
}

/// The buckets of everybody who is counted.
pub(crate) struct Quotas {
    rate: Rate,
    buckets: Mutex<HashMap<String, Bucket>>,
}

/// What one of them has left, and when that was counted.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    left: f64,
    at: Instant,
}

impl Bucket {
    fn refilled(self, rate: Rate, now: Instant) -> Self {
        let grown = now.saturating_duration_since(self.at).as_secs_f64() * rate.per_second;
        Self { left: (self.left + grown).min(rate.burst), at: now }
    }
}

impl Quotas {
    pub(crate) fn new(rate: Rate) -> Self {
        Self { rate, buckets: Mutex::default() }
    }

    /// Takes one of somebody's tokens. Returns after how long to come back where there is none left.
    pub(crate) fn take(&self, who: &str, now: Instant) -> Result<(), Duration> {
        let mut buckets = self.locked();
        if buckets.len() >= limits::CALLERS_MAX && !buckets.contains_key(who) {
            // A full bucket is as good as none.
            buckets.retain(|_, bucket| bucket.refilled(self.rate, now).left < self.rate.burst);
            if buckets.len() >= limits::CALLERS_MAX {
                // So many at once are no people: what they owe is worth less than the memory.
                buckets.clear();
            }
        }
        let bucket = buckets.entry(who.to_owned()).or_insert(Bucket { left: self.rate.burst, at: now });
        *bucket = bucket.refilled(self.rate, now);
        self.wait(*bucket)?;
        bucket.left -= 1.0;
        Ok(())
    }

    /// Says whether there is a token left, and takes none.
    pub(crate) fn look(&self, who: &str, now: Instant) -> Result<(), Duration> {
        let bucket = self.locked().get(who).copied();
        bucket.map_or(Ok(()), |bucket| self.wait(bucket.refilled(self.rate, now)))
    }

    fn wait(&self, bucket: Bucket) -> Result<(), Duration> {
        match bucket.left < 1.0 {
            true => Err(Duration::from_secs_f64((1.0 - bucket.left) / self.rate.per_second)),
            false => Ok(()),
        }
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<String, Bucket>> {
        self.buckets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How many things each may have at a time.
pub(crate) struct Places {
    most: usize,
    taken: Mutex<HashMap<String, usize>>,
}

/// One of them; it is given back when it is dropped.
pub(crate) struct Place {
    places: Arc<Places>,
    who: String,
}

impl Places {
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, taken: Mutex::default() })
    }

    pub(crate) fn most(&self) -> usize {
        self.most
    }

    /// Takes a place; nothing where somebody has all that they may have.
    pub(crate) fn take(self: &Arc<Self>, who: &str) -> Option<Place> {
        let mut taken = self.locked();
        let count = taken.entry(who.to_owned()).or_default();
        if *count >= self.most {
            return None;
        }
        *count += 1;
        Some(Place { places: Arc::clone(self), who: who.to_owned() })
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.locked();
        if let Some(count) = taken.get_mut(&self.who) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                taken.remove(&self.who);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate { per_second: 10.0, burst: 40.0 };

    #[test]
    fn who_calls_without_end_is_told_when_to_come_back_and_others_are_not() {
        let quotas = Quotas::new(RATE);
        let now = Instant::now();
        for _ in 0..40 {
            assert_eq!(quotas.take("ann", now), Ok(()));
        }
        let wait = quotas.take("ann", now).unwrap_err();
        assert!(wait > Duration::ZERO && wait < Duration::from_secs(1), "{wait:?}");
        assert_eq!(quotas.look("ann", now), Err(wait));
        assert_eq!((quotas.look("bob", now), quotas.take("bob", now)), (Ok(()), Ok(())));
        assert_eq!(quotas.take("ann", now + wait + Duration::from_millis(1)), Ok(()));
    }

    #[test]
    fn the_callers_that_are_counted_are_bounded() {
        let quotas = Quotas::new(RATE);
        let now = Instant::now();
        for number in 0..limits::CALLERS_MAX * 2 + 5 {
            assert_eq!(quotas.take(&number.to_string(), now), Ok(()));
        }
        assert!(quotas.locked().len() <= limits::CALLERS_MAX);
    }

    #[test]
    fn a_place_is_given_back() {
        let places = Places::new(2);
        let held = (places.take("ann"), places.take("ann"));
        assert!(held.0.is_some() && held.1.is_some() && places.take("ann").is_none());
        assert!(places.take("bob").is_some(), "others have their own");
        drop(held);
        assert!(places.locked().is_empty() && places.take("ann").is_some());
    }
}

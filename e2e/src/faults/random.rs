//! Numbers that look random and repeat with their seed. Nothing here is fit for secrets.

use std::hash::{BuildHasher, Hasher};
use std::ops::Range;
use std::time::Duration;

/// A sequence of numbers made from a seed (SplitMix64).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// A seed nobody chose, for runs that are told none.
    pub fn any_seed() -> u64 {
        // The standard library's own randomness, which is seeded anew for every process.
        std::hash::RandomState::new().build_hasher().finish() % 1_000_000_000
    }

    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number of the range; its start where the range is empty.
    pub fn within(&mut self, range: Range<u64>) -> u64 {
        range.start + self.number() % range.end.saturating_sub(range.start).max(1)
    }

    /// True once in `times`, on average.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.within(0..times) == 0
    }

    /// A time below `most`, to the microsecond.
    pub fn below(&mut self, most: Duration) -> Duration {
        let most = u64::try_from(most.as_micros()).unwrap_or(u64::MAX);
        Duration::from_micros(self.within(0..most))
    }

    /// One of several.
    pub fn pick<'a, T>(&mut self, several: &'a [T]) -> Option<&'a T> {
        several.get(self.within(0..several.len() as u64) as usize)
    }

    /// A sequence of its own, for a task that must not depend on how tasks take turns.
    pub fn branch(&mut self) -> Random {
        Random(self.number())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_and_ranges_hold() {
        let numbers = |seed| -> Vec<u64> {
            let mut random = Random::new(seed);
            (0..100).map(|_| random.within(5..9)).collect()
        };
        assert_eq!(numbers(7), numbers(7));
        assert_ne!(numbers(7), numbers(8));
        assert!(numbers(7).iter().all(|number| (5..9).contains(number)));
        assert_eq!(Random::new(1).within(3..3), 3);
        assert_eq!(Random::new(1).pick::<u8>(&[]), None);
    }
}

//! The clock both ends share: the emitter stamps its chunks with it, the reader compares.

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds of the monotonic clock.
pub(crate) fn monotonic_ns() -> u64 {
    nanos(ClockId::Monotonic)
}

/// The difference between the wall clock and the monotonic one, in nanoseconds.
pub(crate) fn wall_ahead_ns() -> u64 {
    nanos(ClockId::Realtime).saturating_sub(monotonic_ns())
}

fn nanos(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

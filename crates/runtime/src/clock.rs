//! The only place that reads a clock.

use std::time::{SystemTime, UNIX_EPOCH};

use domain::Timestamp;

/// Returns the wall clock's time.
pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}

/// Returns nanoseconds of the monotonic clock, the one the shim stamps its records with.
#[allow(unsafe_code)]
pub fn monotonic_nanos() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid, writable timespec; CLOCK_MONOTONIC exists on every supported system.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// Returns the wall-clock time at which the monotonic clock showed `mono_ns`, as seen from now. Output that waited in
/// a spool while no daemon was there keeps the time at which it was written.
pub fn wall_time_of(mono_ns: u64) -> Timestamp {
    let age_us = monotonic_nanos().saturating_sub(mono_ns) / 1_000;
    Timestamp(now().0.saturating_sub(i64::try_from(age_us).unwrap_or(0)))
}

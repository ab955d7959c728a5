//! The only place that reads a clock.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use domain::Timestamp;

/// Returns the wall clock's time.
pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = i64::try_from(since.as_micros()).unwrap_or(i64::MAX);
    #[cfg(debug_assertions)]
    let now = now.saturating_add(test_offset_us());
    Timestamp(now)
}

/// Returns how far tests have moved the clock: `OBEY_TEST_CLOCK_OFFSET`, in seconds, or what the file
/// `OBEY_TEST_CLOCK_FILE` says at this moment.
#[cfg(debug_assertions)]
fn test_offset_us() -> i64 {
    use std::sync::LazyLock;
    static OFFSET: LazyLock<i64> = LazyLock::new(|| {
        let text = std::env::var("OBEY_TEST_CLOCK_OFFSET").unwrap_or_default();
        text.parse::<i64>().unwrap_or(0).saturating_mul(1_000_000)
    });
    static FILE: LazyLock<Option<std::ffi::OsString>> =
        LazyLock::new(|| std::env::var_os("OBEY_TEST_CLOCK_FILE"));
    let moved = FILE.as_ref().and_then(|file| std::fs::read_to_string(file).ok());
    let moved = moved.and_then(|text| text.trim().parse::<i64>().ok()).unwrap_or(0);
    OFFSET.saturating_add(moved.saturating_mul(1_000_000))
}

/// Returns nanoseconds of the monotonic clock, the one the shim stamps its records with.
#[allow(unsafe_code)]
pub fn monotonic_nanos() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid, writable timespec; CLOCK_MONOTONIC exists on every supported system.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// Returns the time since the machine's boot. This clock includes suspend, unlike the monotonic one, and never jumps.
#[allow(unsafe_code)]
pub fn since_boot() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid, writable timespec; CLOCK_BOOTTIME exists since Linux 2.6.39.
    unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut time) };
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Returns how long ago a process started, by the clock in which /proc counts `start_ticks`.
#[allow(unsafe_code)]
pub fn since_ticks(start_ticks: u64) -> Duration {
    let now = since_boot();
    // SAFETY: takes a number and touches no memory.
    let per_second = u64::try_from(unsafe { libc::sysconf(libc::_SC_CLK_TCK) }).unwrap_or(100).max(1);
    now.saturating_sub(Duration::from_millis(start_ticks.saturating_mul(1_000) / per_second))
}

/// Returns the wall-clock time at which the monotonic clock showed `mono_ns`, as seen from now. Output that
/// waited in a spool while no daemon ran keeps the time at which it was written.
pub fn wall_time_of(mono_ns: u64) -> Timestamp {
    let age_us = monotonic_nanos().saturating_sub(mono_ns) / 1_000;
    Timestamp(now().0.saturating_sub(i64::try_from(age_us).unwrap_or(0)))
}

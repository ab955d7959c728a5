//! Percentiles, medians, and the formatting of figures.

use std::time::Duration;

/// The value below which this share of the sorted values lies.
pub(crate) fn percentile(sorted: &[f64], share: f64) -> f64 {
    let at = ((sorted.len() as f64 * share).ceil() as usize).saturating_sub(1);
    sorted.get(at.min(sorted.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
}

pub(crate) fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    values
}

pub(crate) fn median(values: &[f64]) -> f64 {
    percentile(&sorted(values.to_vec()), 0.5)
}

pub(crate) fn worst(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NAN, f64::max)
}

pub(crate) fn least(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NAN, f64::min)
}

pub(crate) fn micros(value: f64) -> String {
    format!("{value:.0} µs")
}

pub(crate) fn millis(value: Duration) -> f64 {
    value.as_secs_f64() * 1e3
}

pub(crate) fn per_second(value: f64) -> String {
    if value >= 10_000.0 { format!("{:.0} k/s", value / 1e3) } else { format!("{value:.0} /s") }
}

pub(crate) fn mib(kib: u64) -> String {
    format!("{:.1} MiB", kib as f64 / 1024.0)
}

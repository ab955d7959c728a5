//! What a run measured, and how it is shown.

use std::fmt;
use std::time::Duration;

/// One line of the table at the end: what, and how much. A figure with a bound that it misses fails the run.
#[derive(Clone, Debug)]
pub struct Figure {
    pub name: String,
    pub value: String,
    pub bound: String,
    pub holds: bool,
}

/// What one scenario measured.
#[derive(Clone, Debug)]
pub struct Figures {
    pub scenario: &'static str,
    pub figures: Vec<Figure>,
    /// Where it looked odd, for people.
    pub remarks: Vec<String>,
}

impl Figures {
    pub fn of(scenario: &'static str) -> Figures {
        Figures { scenario, figures: Vec::new(), remarks: Vec::new() }
    }

    /// A figure that is only told.
    pub fn tell(&mut self, name: &str, value: impl fmt::Display) {
        let (name, value) = (name.to_owned(), value.to_string());
        self.figures.push(Figure { name, value, bound: String::new(), holds: true });
    }

    /// A figure that must hold.
    pub fn demand(&mut self, name: &str, value: impl fmt::Display, bound: &str, holds: bool) {
        let (name, value) = (name.to_owned(), value.to_string());
        self.figures.push(Figure { name, value, bound: bound.to_owned(), holds });
    }

    /// A count that must be zero.
    pub fn demand_none(&mut self, name: &str, count: u64) {
        self.demand(name, grouped(count), "0", count == 0);
    }

    pub fn holds(&self) -> bool {
        self.figures.iter().all(|figure| figure.holds)
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for figure in &self.figures {
            let bound = if figure.bound.is_empty() { String::new() } else { format!("({})", figure.bound) };
            let mark = if figure.holds { "" } else { "  <- BROKEN" };
            writeln!(f, "{:<10} {:<42} {:>14}  {bound}{mark}", self.scenario, figure.name, figure.value)?;
        }
        self.remarks.iter().try_for_each(|remark| writeln!(f, "{:<10} {remark}", self.scenario))
    }
}

/// The value below which this share (in percent) of the samples lies.
pub fn percentile(samples: &[Duration], percent: usize) -> Duration {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    let at = (sorted.len() * percent).div_ceil(100).clamp(1, sorted.len().max(1)) - 1;
    sorted.get(at).copied().unwrap_or_default()
}

/// Milliseconds, for people.
pub fn millis(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1_000.0)
}

/// Mebibytes, for people.
pub fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / (1 << 20) as f64)
}

/// A number with its thousands apart.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut shown = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            shown.push(' ');
        }
        shown.push(digit);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_shown_and_judged() {
        let times: Vec<Duration> = (1..=200).map(Duration::from_millis).collect();
        assert_eq!(percentile(&times, 50), Duration::from_millis(100));
        assert_eq!(percentile(&times, 99), Duration::from_millis(198));
        assert_eq!(percentile(&times[..1], 99), Duration::from_millis(1));
        assert_eq!(percentile(&[], 99), Duration::ZERO);
        assert_eq!((grouped(999), grouped(1_234_567)), ("999".into(), "1 234 567".into()));
        let mut figures = Figures::of("kills");
        figures.tell("kills", 3);
        figures.demand_none("events lost", 0);
        assert!(figures.holds());
        figures.demand_none("events doubled", 1);
        assert!(!figures.holds());
        assert!(figures.to_string().contains("BROKEN"));
    }
}

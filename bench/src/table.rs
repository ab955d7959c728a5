//! The table: one row per figure, with the floor of the same run, the goal, and whether it is met.

use std::fmt;

use crate::stats;

#[derive(Default)]
pub(crate) struct Table {
    rows: Vec<[String; 6]>,
    ratios: Vec<(String, Vec<f64>)>,
    is_broken: bool,
}

/// The goal of a figure.
pub(crate) enum Goal {
    /// For information only.
    None,
    AtMost(f64, String),
    AtLeast(f64, String),
}

impl Table {
    /// Adds a row and prints it at once. `judged` is the number the goal applies to.
    pub(crate) fn row(&mut self, what: &str, ours: String, floor: String, judged: f64, goal: Goal) {
        let (goal, met) = match goal {
            Goal::None => (String::new(), ""),
            Goal::AtMost(most, text) => (format!("≤ {text}"), if judged <= most { "yes" } else { "NO" }),
            Goal::AtLeast(least, text) => (format!("≥ {text}"), if judged >= least { "yes" } else { "NO" }),
        };
        self.push(what, ours, floor, String::new(), goal, met);
    }

    /// Adds a row with the ratio of ours to the floor, one ratio per round.
    pub(crate) fn ratio(
        &mut self,
        what: &str,
        ours: String,
        floor: String,
        ratios: &[f64],
        most: Option<f64>,
    ) {
        let ratio = stats::median(ratios);
        let text = format!("{ratio:.2} (worst {:.2})", stats::worst(ratios));
        let (goal, met) = match most {
            Some(most) => (format!("≤ {most} × floor"), if ratio <= most { "yes" } else { "NO" }),
            None => (String::new(), ""),
        };
        self.ratios.push((what.to_owned(), ratios.to_vec()));
        self.push(what, ours, floor, text, goal, met);
    }

    /// Adds a row with the ratio of ours to a rival's figure, one ratio per round.
    pub(crate) fn beside(
        &mut self,
        what: &str,
        ours: String,
        theirs: String,
        ratios: &[f64],
        goal: Option<(f64, String)>,
    ) {
        let ratio = stats::median(ratios);
        let text = format!("{ratio:.3} (worst {:.3})", stats::worst(ratios));
        let (goal, met) = match goal {
            Some((most, text)) => (text, if ratio <= most { "yes" } else { "NO" }),
            None => (String::new(), ""),
        };
        self.ratios.push((what.to_owned(), ratios.to_vec()));
        self.push(what, ours, theirs, text, goal, met);
    }

    /// The ratios of every row that has some, by its name.
    pub(crate) fn ratios(&self) -> &[(String, Vec<f64>)] {
        &self.ratios
    }

    fn push(&mut self, what: &str, ours: String, floor: String, ratio: String, goal: String, met: &str) {
        let row = [what.to_owned(), ours, floor, ratio, goal, met.to_owned()];
        println!("   {}", row.join(" | "));
        self.rows.push(row);
    }

    /// Records a section that failed.
    pub(crate) fn failed(&mut self, section: &str) {
        self.is_broken = true;
        self.push(section, "FAILED".to_owned(), String::new(), String::new(), String::new(), "NO");
    }

    /// Whether every section finished. A missed goal is a figure, not a failure.
    pub(crate) fn is_sound(&self) -> bool {
        !self.is_broken
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = ["what", "ours", "floor", "ratio", "goal", "met?"].map(str::to_owned);
        let rule = std::array::from_fn(|_| "---".to_owned());
        let all: Vec<&[String; 6]> = [&head, &rule].into_iter().chain(&self.rows).collect();
        let width = |at: usize| all.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
        let widths: [usize; 6] = std::array::from_fn(width);
        for row in &all {
            let cell = |at: usize| format!("{}{}", row[at], " ".repeat(widths[at] - row[at].chars().count()));
            writeln!(f, "| {} |", std::array::from_fn::<String, 6, _>(cell).join(" | "))?;
        }
        Ok(())
    }
}

//! Ours beside what a user would use instead, in one run: the same stub agent or model behind each, the sides one after the other
//! in every round. The rows are numbered P1 to P20, and say who lost how many chunks.

mod agents;
mod models;

use anyhow::{Result, anyhow};

use crate::stats::{least, median, worst};
use crate::table::{Goal, Table};

/// Rows of the list P1 to P20 that other sections measure, or that no rival has.
const ELSEWHERE: &[(&str, &str)] = &[
    ("P6 reconnect", "section `replay`; a rival keeps the last 1,024 events"),
    ("P14 durable answers", "no rival syncs what it shows; section `latency` has ours"),
    ("P15 scrubbing", "`cargo run --release -p scrub-bench -- --beside`"),
    ("P16 sandbox", "section `exec`, beside fork+exec and bwrap"),
    ("P17 memory search", "section `memories`; numpy is no dependency of this program"),
    ("P19 list of sessions", "needs 10,000 stored sessions; section `start` has them"),
    ("P20 idle wake-ups", "section `idle`"),
];

/// Runs every comparison. The sides block while they read, so they have a thread of their own.
pub(crate) async fn run(table: &mut Table) -> Result<()> {
    std::thread::scope(|scope| {
        let rows = scope.spawn(|| -> Result<()> {
            agents::run(table)?;
            models::run(table)?;
            for (row, where_it_is) in ELSEWHERE {
                println!("   {row}: not run here: {where_it_is}");
            }
            Ok(())
        });
        rows.join().map_err(|_| anyhow!("a comparison panicked"))?
    })
}

/// One figure of every round, for each side.
#[derive(Default)]
struct Rounds {
    ours: Vec<f64>,
    theirs: Vec<f64>,
}

impl Rounds {
    /// Adds the row of a figure that should be low: ours as a multiple of theirs.
    fn lower(&self, table: &mut Table, what: &str, unit: &str, most: Option<f64>) {
        let ratios: Vec<f64> =
            self.ours.iter().zip(&self.theirs).map(|(ours, theirs)| ours / theirs).collect();
        self.report(table, what, &|side: &[f64]| words(side, worst, unit), &ratios, most);
    }

    /// Adds the row of a figure that should be high: theirs as a multiple of ours, so that less is better in every row.
    fn higher(&self, table: &mut Table, what: &str, unit: &str, most: Option<f64>) {
        let ratios: Vec<f64> =
            self.ours.iter().zip(&self.theirs).map(|(ours, theirs)| theirs / ours).collect();
        let what = format!("{what} (theirs to ours)");
        self.report(table, &what, &|side: &[f64]| words(side, least, unit), &ratios, most);
    }

    fn report(
        &self,
        table: &mut Table,
        what: &str,
        words: &dyn Fn(&[f64]) -> String,
        ratios: &[f64],
        most: Option<f64>,
    ) {
        let goal = most.map(|most| (most, format!("≤ {most} ×")));
        table.beside(what, words(&self.ours), words(&self.theirs), ratios, goal);
    }
}

fn words(side: &[f64], worst_of: fn(&[f64]) -> f64, unit: &str) -> String {
    format!("{} (worst {})", figure(median(side), unit), figure(worst_of(side), unit))
}

fn figure(value: f64, unit: &str) -> String {
    match unit {
        "k/s" => format!("{:.0} k/s", value / 1e3),
        "ms" | "MB" => format!("{value:.1} {unit}"),
        _ => format!("{value:.0} {unit}"),
    }
}

/// Adds the row that says how many chunks each side lost. One of ours is a failure.
fn lost(table: &mut Table, what: &str, ours: u64, theirs: u64) {
    let goal = Goal::AtMost(0.0, "0".to_owned());
    table.row(&format!("{what}: chunks lost"), ours.to_string(), theirs.to_string(), ours as f64, goal);
    if ours > 0 {
        table.failed(what);
    }
}

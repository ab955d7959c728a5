//! The guard against getting slower: ten ratios to floors of the same run, compared with those kept in `bench/guard.json`. A row
//! fails only if its rounds and the kept ones do not overlap: the better half of one run beyond the worse half of the other.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::{acp, converse, latency, throughput};
use crate::stats::{median, percentile, sorted};
use crate::table::Table;

/// Beyond this, a difference is not the layout of a build.
const TOLERATED: f64 = 1.1;

/// The ratios of every round, by row.
type Kept = BTreeMap<String, Vec<f64>>;

fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("guard.json")
}

/// Measures the rows and compares them with the kept ones.
pub(crate) async fn check(table: &mut Table) -> Result<()> {
    let kept = std::fs::read(path()).context("bench/guard.json")?;
    let kept: Kept = serde_json::from_slice(&kept).context("bench/guard.json")?;
    let now = measure(table).await?;
    for (row, before) in &kept {
        let Some(rounds) = now.get(row) else {
            println!("   {row} is kept and was not measured: make bench ONLY=guard-keep");
            table.failed(row);
            continue;
        };
        println!("   {row}: {:.2}, kept {:.2}", median(rounds), median(before));
        if is_worse(rounds, before) {
            println!("   {row} is WORSE than what is kept, beyond the spread of the rounds");
            table.failed(row);
        }
    }
    Ok(())
}

/// Measures the rows and keeps them.
pub(crate) async fn keep(table: &mut Table) -> Result<()> {
    let now = measure(table).await?;
    ensure!(table.is_sound(), "nothing is kept of a run that failed");
    Ok(std::fs::write(path(), format!("{}\n", serde_json::to_string_pretty(&now)?))?)
}

async fn measure(table: &mut Table) -> Result<Kept> {
    let from = table.ratios().len();
    latency::one(table).await?;
    latency::fan_out(table).await?;
    throughput::burst(table).await?;
    throughput::replay(table).await?;
    acp::latency_alone(table)?;
    converse::permission(table).await?;
    let rounded = |rounds: &[f64]| rounds.iter().map(|ratio| (ratio * 1e3).round() / 1e3).collect();
    Ok(table.ratios()[from..].iter().map(|(row, rounds)| (row.clone(), rounded(rounds))).collect())
}

/// Whether the better half of the rounds is beyond the worse half of the kept ones.
fn is_worse(now: &[f64], kept: &[f64]) -> bool {
    let (now, kept) = (sorted(now.to_vec()), sorted(kept.to_vec()));
    percentile(&now, 0.25) > percentile(&kept, 0.75) * TOLERATED
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_rounds_that_do_not_overlap_are_worse() {
        let kept = [1.5, 1.6, 1.7, 1.8, 4.0];
        assert!(!is_worse(&[1.7, 1.8, 1.9, 2.0, 9.0], &kept), "one slow round is noise");
        assert!(is_worse(&[2.4, 2.5, 2.5, 2.6, 2.7], &kept));
        assert!(!is_worse(&[1.0, 1.0, 1.1, 1.1, 1.2], &kept), "faster is not worse");
    }

    #[test]
    fn ten_rows_are_kept() {
        let kept: Kept = serde_json::from_slice(&std::fs::read(path()).unwrap()).unwrap();
        assert!(kept.len() >= 10 && kept.values().all(|rounds| rounds.len() >= 3), "{kept:?}");
    }
}

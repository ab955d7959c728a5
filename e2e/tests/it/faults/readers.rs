//! Many readers of one session, some of which stand still.

use anyhow::{Result, ensure};
use e2e::faults::{readers, stops};

use super::seed;

#[tokio::test]
async fn readers_that_stand_still_cost_little_and_miss_nothing() -> Result<()> {
    let options = readers::Options { seed: seed(), lines: 1_500, gap_ms: 1, healthy: 6, stuck: 10 };
    let figures = readers::run(&options).await?.figures(false);
    println!("{figures}");
    ensure!(figures.holds(), "seed {}:\n{figures}", options.seed);
    Ok(())
}

#[tokio::test]
async fn agents_that_resist_are_ended_in_time_and_leave_nothing() -> Result<()> {
    let options = stops::Options { seed: seed(), stops: 12, at_once: 6 };
    let figures = stops::run(&options, |_| {}).await?.figures();
    println!("{figures}");
    ensure!(figures.holds(), "seed {}:\n{figures}", options.seed);
    Ok(())
}

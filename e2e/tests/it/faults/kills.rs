//! The daemon is killed at random moments, in the middle of everything. Seeds are printed; `OBEY_FAULTS_SEED` repeats one.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::faults::{input, kills};

use super::seed;

#[tokio::test]
async fn twenty_sessions_lose_nothing_when_the_daemon_is_killed_again_and_again() -> Result<()> {
    let options = kills::Options {
        seed: seed(),
        kills: 20,
        sessions: 20,
        lines_max: 400,
        gap_ms: 10,
        calm: Duration::from_millis(400),
        early_once_in: 4,
    };
    let outcome = kills::run(&options, |_| {}).await?;
    let figures = outcome.figures("kills", None);
    println!("{figures}");
    ensure!(figures.holds(), "seed {}:\n{figures}", options.seed);
    Ok(())
}

#[tokio::test]
async fn an_accepted_prompt_arrives_exactly_once_wherever_the_daemon_dies() -> Result<()> {
    let options = input::Options { seed: seed(), trials: 15, sessions: 6, window: Duration::from_millis(30) };
    let outcome = input::run(&options, |_| {}).await?;
    println!("{}", outcome.figures());
    ensure!(outcome.holds(), "seed {}: {outcome:#?}", options.seed);
    Ok(())
}

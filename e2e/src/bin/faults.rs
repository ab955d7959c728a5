//! The long run: breaks the daemon as often as it is told, prints what it measured, and fails where a promise did not
//! hold. `faults [--count N] [--seed S] [--scenario all|NAME]`; the binary under test is the one beside it, or `$OBEY_BIN`.

#![allow(clippy::print_stdout, reason = "the figures are this program's output")]

use std::time::Instant;

use anyhow::{Context, Result, bail};
use e2e::faults::figures::Figures;
use e2e::faults::random::Random;
use e2e::faults::scenarios::{self, SCENARIOS};

fn main() -> Result<()> {
    let (mut count, mut seed, mut chosen) = (scenarios::COUNT_DEFAULT, Random::any_seed(), "all".to_owned());
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().with_context(|| format!("{word} needs a value"));
        match word.as_str() {
            "--count" => count = value()?.parse().context("--count")?,
            "--seed" => seed = value()?.parse().context("--seed")?,
            "--scenario" => chosen = value()?,
            _ => bail!("usage: faults [--count N] [--seed S] [--scenario all|{}]", names().join("|")),
        }
    }
    let wanted: Vec<_> =
        SCENARIOS.iter().filter(|scenario| chosen == "all" || chosen == scenario.name).collect();
    if wanted.is_empty() {
        bail!("there is no scenario {chosen:?}; there are {}", names().join(", "));
    }
    println!("seed {seed}, count {count}: repeat with --seed {seed} --count {count} --scenario {chosen}");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut all: Vec<Figures> = Vec::new();
    let mut broken = Vec::new();
    for scenario in wanted {
        let (name, began) = (scenario.name, Instant::now());
        println!("\n{name}: {}", scenario.what);
        match runtime.block_on(scenarios::run(scenario, count, seed, |line| println!("  {line}"))) {
            Ok(Some(figures)) => {
                if !figures.holds() {
                    broken.push(name);
                }
                all.push(figures);
            }
            Ok(None) => println!("  SKIPPED: {name} cannot be run here"),
            Err(error) => {
                println!("  {name} could not be finished: {error:?}");
                broken.push(name);
            }
        }
        println!("  took {:.0} s", began.elapsed().as_secs_f64());
    }
    println!();
    for figures in &all {
        print!("{figures}");
    }
    if broken.is_empty() {
        println!("\nall promises held (seed {seed})");
        return Ok(());
    }
    println!("\nBROKEN: {} (seed {seed})", broken.join(", "));
    std::process::exit(1)
}

fn names() -> Vec<&'static str> {
    SCENARIOS.iter().map(|scenario| scenario.name).collect()
}

//! Runs the targets for a limited time, or with a number of inputs:
//! `fuzz [--seconds N | --inputs N] [--seed N] [TARGET]`.

#![allow(clippy::print_stdout, reason = "it is a program for people")]

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use fuzz::{Bound, run, targets};

fn main() -> Result<()> {
    // A different seed each time, printed so that a run can be repeated.
    let (mut seconds, mut seed, mut only) = (120, u64::from(std::process::id()), String::new());
    let mut inputs = None;
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--seconds" => seconds = words.next().context("--seconds needs a number")?.parse()?,
            "--inputs" => inputs = Some(words.next().context("--inputs needs a number")?.parse()?),
            "--seed" => seed = words.next().context("--seed needs a number")?.parse()?,
            flag if flag.starts_with('-') => bail!("there is no {flag}"),
            name => name.clone_into(&mut only),
        }
    }
    let bound = inputs.map_or(Bound::Time(Duration::from_secs(seconds)), Bound::Inputs);
    // Panics are reported with the input that caused them.
    std::panic::set_hook(Box::new(|_| {}));
    let mut all = targets::all()?;
    if !only.is_empty() {
        all.retain(|target| target.name() == only);
    }
    if all.is_empty() {
        bail!("there is no target {only}");
    }
    for target in &mut all {
        println!("{}: {bound:?} from seed {seed} …", target.name());
        let began = Instant::now();
        let tried = run(target.as_mut(), seed, bound)?;
        let each_second = tried.inputs as f64 / began.elapsed().as_secs_f64().max(0.001);
        println!(
            "{}: {} inputs ({each_second:.0} a second), {} kept, nothing broke",
            target.name(),
            tried.inputs,
            tried.kept
        );
    }
    Ok(())
}

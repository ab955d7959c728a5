//! Every target for a fixed number of inputs from a fixed seed; `make fuzz` runs longer.

use anyhow::{Context, Result};
use fuzz::{Bound, run, targets};

fn bounded(name: &str, inputs: u64) -> Result<()> {
    let mut all = targets::all()?;
    let target = all.iter_mut().find(|target| target.name() == name).context("there is no such target")?;
    let tried = run(target.as_mut(), 1, Bound::Inputs(inputs))?;
    assert!(tried.inputs >= inputs && tried.kept > 0, "{tried:?}");
    Ok(())
}

#[test]
fn no_path_leads_out() -> Result<()> {
    bounded("paths", 5_000)
}

#[test]
fn no_cut_changes_what_is_scrubbed() -> Result<()> {
    bounded("scrubber", 3_000)
}

#[test]
fn no_request_breaks_the_readers() -> Result<()> {
    bounded("requests", 20_000)
}

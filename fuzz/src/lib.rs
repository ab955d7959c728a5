//! The fuzzer: generates inputs, feeds them to a target, keeps those with new behaviour, and reports one that
//! breaks it. Knows nothing of the targets.

mod mutate;
pub mod targets;

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

pub use mutate::Random;

/// A fuzz target. An error describes the violated property.
pub trait Target {
    fn name(&self) -> &'static str;

    /// Initial inputs.
    fn seeds(&self) -> Vec<Vec<u8>>;

    /// Words that inputs of this kind consist of.
    fn words(&self) -> &'static [&'static str];

    /// Tries an input. Returns a number for its behaviour: inputs with a new number are mutated further.
    fn run(&mut self, input: &[u8]) -> Result<u64>;
}

/// How long to run.
#[derive(Clone, Copy, Debug)]
pub enum Bound {
    Inputs(u64),
    Time(Duration),
}

/// What was tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tried {
    pub inputs: u64,
    /// The number of inputs that were kept.
    pub kept: usize,
}

/// Longest input.
const INPUT_MAX_BYTES: usize = 64 * 1024;

/// Maximum number of inputs kept for mutation.
const KEPT_MAX: usize = 4_096;

/// Maximum processor time of one input; a longer one can probably be made to run forever.
const INPUT_WAIT: Duration = Duration::from_secs(10);

/// Feeds a target until the bound. The error contains the input that broke it, reduced as far as was easy.
pub fn run(target: &mut dyn Target, seed: u64, bound: Bound) -> Result<Tried> {
    let mut random = Random::new(seed);
    let mut kept: Vec<Vec<u8>> = corpus(target.name())?;
    kept.extend(target.seeds());
    let mut seen = HashSet::new();
    for input in &kept {
        seen.insert(attempt(target, input)?);
    }
    let began = Instant::now();
    let mut inputs = kept.len() as u64;
    loop {
        match bound {
            Bound::Inputs(most) if inputs >= most => break,
            Bound::Time(most) if began.elapsed() >= most => break,
            _ => {}
        }
        let mut input = mutate::change(&mut random, &kept, target.words());
        input.truncate(INPUT_MAX_BYTES);
        inputs += 1;
        let how = attempt(target, &input)?;
        if seen.insert(how) && kept.len() < KEPT_MAX {
            kept.push(input);
        }
    }
    Ok(Tried { inputs, kept: kept.len() })
}

fn attempt(target: &mut dyn Target, input: &[u8]) -> Result<u64> {
    match quietly(target, input) {
        Ok(how) => Ok(how),
        Err(problem) => {
            let small = smaller(target, input);
            let place = write(target.name(), &small)?;
            let shown: String = String::from_utf8_lossy(&small).chars().take(400).collect();
            bail!(
                "{}: {problem}\ninput ({} bytes, in {}): {shown:?}",
                target.name(),
                small.len(),
                place.display()
            )
        }
    }
}

/// Tries an input; a panic, an error and a timeout are treated alike.
fn quietly(target: &mut dyn Target, input: &[u8]) -> Result<u64, String> {
    let began = worked();
    let done = catch_unwind(AssertUnwindSafe(|| target.run(input)));
    let took = worked().saturating_sub(began);
    match done {
        Ok(Ok(_)) if took > INPUT_WAIT => Err(format!("worked for {took:?}")),
        Ok(Ok(how)) => Ok(how),
        Ok(Err(error)) => Err(format!("{error:#}")),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            Err(format!("panicked: {}", text.unwrap_or_default()))
        }
    }
}

/// Returns the processor time of this thread, so that a busy machine or a slow disk does not count.
fn worked() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Reduces an input as long as it still breaks the target.
fn smaller(target: &mut dyn Target, input: &[u8]) -> Vec<u8> {
    let mut small = input.to_vec();
    let mut piece = small.len() / 2;
    let until = Instant::now() + INPUT_WAIT;
    while piece > 0 && Instant::now() < until {
        let mut at = 0;
        while at < small.len() && Instant::now() < until {
            let mut less = small.clone();
            less.drain(at..(at + piece).min(small.len()));
            if quietly(target, &less).is_err() {
                small = less;
            } else {
                at += piece;
            }
        }
        piece /= 2;
    }
    small
}

/// Inputs that broke something before.
fn corpus(name: &str) -> Result<Vec<Vec<u8>>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
    let mut files: Vec<PathBuf> = match std::fs::read_dir(&folder) {
        Ok(entries) => entries.filter_map(|entry| Some(entry.ok()?.path())).collect(),
        Err(_) => Vec::new(),
    };
    files.sort();
    files.iter().map(|file| std::fs::read(file).with_context(|| file.display().to_string())).collect()
}

fn write(name: &str, input: &[u8]) -> Result<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/fuzz");
    std::fs::create_dir_all(&folder)?;
    let place = folder.join(format!("{name}-{:016x}", mutate::hash(input)));
    std::fs::write(&place, input)?;
    Ok(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Breaks if two words are in the right order.
    struct Lock;

    impl Target for Lock {
        fn name(&self) -> &'static str {
            "lock"
        }

        fn seeds(&self) -> Vec<Vec<u8>> {
            vec![b"nothing".to_vec()]
        }

        fn words(&self) -> &'static [&'static str] {
            &["open", "sesame"]
        }

        fn run(&mut self, input: &[u8]) -> Result<u64> {
            let text = String::from_utf8_lossy(input);
            let opened = text.find("open");
            if opened.is_some_and(|at| text[at..].contains("sesame")) {
                bail!("the door is open");
            }
            Ok(u64::from(opened.is_some()))
        }
    }

    #[test]
    fn what_breaks_a_target_is_found_and_made_small() {
        let error = run(&mut Lock, 1, Bound::Inputs(100_000)).unwrap_err().to_string();
        assert!(error.contains("the door is open") && error.contains("opensesame"), "{error}");
    }
}

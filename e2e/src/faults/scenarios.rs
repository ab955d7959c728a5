//! The scenarios of the long run, by name, and how often each is done for a count.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::figures::Figures;
use super::{input, kills};

/// Kills of a run that is told no count: about a minute.
pub const COUNT_DEFAULT: usize = 200;

/// The longest that 50 sessions may take to be held again after a crash (p99).
const REATTACH_MAX: Duration = Duration::from_millis(250);

/// One way to break things.
pub struct Scenario {
    pub name: &'static str,
    pub what: &'static str,
    kind: Kind,
}

#[derive(Clone, Copy)]
enum Kind {
    Kills,
    Reattach,
    Input,
}

/// All of them, in the order of a run.
pub const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "kills",
        what: "kill -9 of the daemon at random moments, 20 sessions in their turns",
        kind: Kind::Kills,
    },
    Scenario {
        name: "reattach",
        what: "kill -9 of the daemon, 50 sessions in their turns: how soon are they held again?",
        kind: Kind::Reattach,
    },
    Scenario { name: "input", what: "prompts sent into a daemon that is being killed", kind: Kind::Input },
];

/// Runs one scenario. `say` hears about the progress.
pub async fn run(scenario: &Scenario, count: usize, seed: u64, mut say: impl FnMut(&str)) -> Result<Figures> {
    let mut progress = Progress::new(&mut say);
    match scenario.kind {
        Kind::Kills => {
            let options = kills::Options {
                seed,
                kills: count,
                sessions: 20,
                lines_max: 1_000,
                gap_ms: 5,
                calm: Duration::from_millis(500),
                early_once_in: 4,
            };
            let outcome = kills::run(&options, |done| progress.tell(done, count, "kills")).await?;
            Ok(outcome.figures("kills", None))
        }
        Kind::Reattach => {
            let kills = (count / 10).max(10);
            let options = kills::Options {
                seed,
                kills,
                sessions: 50,
                lines_max: 1_000,
                gap_ms: 10,
                calm: Duration::from_millis(1_500),
                early_once_in: 0,
            };
            let outcome = kills::run(&options, |done| progress.tell(done, kills, "kills")).await?;
            Ok(outcome.figures("reattach", Some(REATTACH_MAX)))
        }
        Kind::Input => {
            let options =
                input::Options { seed, trials: count, sessions: 6, window: Duration::from_millis(12) };
            let outcome = input::run(&options, |done| progress.tell(done, count, "trials")).await?;
            Ok(outcome.figures())
        }
    }
}

/// Tells how far a run is, now and then.
struct Progress<'a> {
    say: &'a mut dyn FnMut(&str),
    last: Instant,
}

/// Between two words about the progress.
const PROGRESS_WAIT: Duration = Duration::from_secs(10);

impl<'a> Progress<'a> {
    fn new(say: &'a mut dyn FnMut(&str)) -> Progress<'a> {
        Progress { say, last: Instant::now() }
    }

    fn tell(&mut self, done: usize, of: usize, what: &str) {
        if self.last.elapsed() >= PROGRESS_WAIT {
            self.last = Instant::now();
            (self.say)(&format!("{done} of {of} {what}"));
        }
    }
}

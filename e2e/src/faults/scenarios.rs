//! The scenarios of the long run, by name, and how often each is done for a count.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::figures::Figures;
use super::kills::Agent;
use super::{disk, input, kills, output, readers, stops};

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
    Claude,
    Input,
    Disk,
    Line,
    Flood,
    Readers,
    Stops,
}

/// All of them, in the order of a run.
pub const SCENARIOS: &[Scenario] = &[
    scenario("kills", "kill -9 of the daemon at random moments, 20 sessions in their turns", Kind::Kills),
    scenario("reattach", "kill -9 of the daemon, 50 sessions: how soon are they held again?", Kind::Reattach),
    scenario("claude", "kill -9 of the daemon, the real claude in its turns", Kind::Claude),
    scenario("input", "prompts sent into a daemon that is being killed", Kind::Input),
    scenario("disk", "a disk without room, again and again", Kind::Disk),
    scenario("line", "one line of a gigabyte", Kind::Line),
    scenario("flood", "a hundred thousand lines at once, beside another session", Kind::Flood),
    scenario("readers", "readers that stand still beside readers that keep up", Kind::Readers),
    scenario("stops", "agents that resist being stopped", Kind::Stops),
];

const fn scenario(name: &'static str, what: &'static str, kind: Kind) -> Scenario {
    Scenario { name, what, kind }
}

/// Runs one scenario for a count of kills. `say` hears about the progress. `None`: it cannot be run here.
pub async fn run(
    scenario: &Scenario,
    count: usize,
    seed: u64,
    mut say: impl FnMut(&str),
) -> Result<Option<Figures>> {
    let mut progress = Progress::new(&mut say);
    match scenario.kind {
        Kind::Kills => {
            let outcome = kills(Agent::Scripted, seed, count, &mut progress).await?;
            Ok(outcome.map(|outcome| outcome.figures("kills", None)))
        }
        Kind::Claude => {
            let outcome = kills(Agent::Claude, seed, (count / 10).max(5), &mut progress).await?;
            Ok(outcome.map(|outcome| outcome.figures("claude", None)))
        }
        Kind::Reattach => {
            let outcome = reattach(seed, (count / 10).max(10), &mut progress).await?;
            Ok(outcome.map(|outcome| outcome.figures("reattach", Some(REATTACH_MAX))))
        }
        Kind::Input => {
            let window = Duration::from_millis(12);
            let options = input::Options { seed, trials: count, sessions: 6, window };
            let outcome = input::run(&options, |done| progress.tell(done, count, "trials")).await?;
            Ok(Some(outcome.figures()))
        }
        Kind::Disk => {
            let rounds = (count / 5).max(10);
            let options = disk::Options { seed, rounds };
            let outcome = disk::run(&options, |done| progress.tell(done, rounds, "rounds")).await?;
            Ok(outcome.map(|outcome| outcome.figures()))
        }
        Kind::Line => Ok(Some(output::long_line(1_000_000_000).await?.figures())),
        // The lines travel to the agent in its prompt, which has a limit.
        Kind::Flood => Ok(Some(output::flood(LINES_AT_ONCE).await?.figures())),
        Kind::Readers => {
            let options = readers::Options { seed, lines: 5_000, gap_ms: 1, healthy: 50, stuck: 50 };
            Ok(Some(readers::run(&options).await?.figures(true)))
        }
        Kind::Stops => {
            let stops = (count / 5).max(20);
            let options = stops::Options { seed, stops, at_once: 10 };
            let outcome = stops::run(&options, |done| progress.tell(done, stops, "stops")).await?;
            Ok(Some(outcome.figures()))
        }
    }
}

/// As many different lines as fit into a prompt.
const LINES_AT_ONCE: usize = 100_000;

async fn kills(
    agent: Agent,
    seed: u64,
    kills: usize,
    progress: &mut Progress<'_>,
) -> Result<Option<kills::Outcome>> {
    let options = kills::Options {
        agent,
        seed,
        kills,
        sessions: if agent == Agent::Claude { 3 } else { 20 },
        lines_max: if agent == Agent::Claude { 300 } else { 1_000 },
        gap_ms: if agent == Agent::Claude { 20 } else { 5 },
        calm: Duration::from_millis(500),
        early_once_in: 4,
    };
    kills::run(&options, |done| progress.tell(done, kills, "kills")).await
}

async fn reattach(seed: u64, kills: usize, progress: &mut Progress<'_>) -> Result<Option<kills::Outcome>> {
    let options = kills::Options {
        agent: Agent::Scripted,
        seed,
        kills,
        sessions: 50,
        lines_max: 1_000,
        gap_ms: 10,
        calm: Duration::from_millis(1_500),
        early_once_in: 0,
    };
    kills::run(&options, |done| progress.tell(done, kills, "kills")).await
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

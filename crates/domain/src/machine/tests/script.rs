//! The script language of the rule tests: parses inputs, prints effects, compares. Every rule test goes
//! through `check`, so that the machine's types can change without touching a hundred tests.
//!
//! `given STATUS` brings a session there without output; `spec KEY=VALUE …` sets what it was created with.
//! Every other line is one input and corresponds to one line of the expected text; a line that begins with
//! `;` continues the one above it. Time stands still except for `after SECONDS`.

mod read;
mod show;

use std::fmt::Write as _;
use std::time::Duration;

pub(super) use self::read::input;
use self::read::split;
use self::show::show_all;
use crate::error::Error;
use crate::id::SessionId;
use crate::machine::{Effect, Input, Machine};
use crate::permission::Mode;
use crate::session::{LaunchPolicy, ProviderKind, SessionSpec};
use crate::shared_budget::{SharedScope, UsedUpBudget};
use crate::time::Timestamp;

/// Runs a script and compares the effects with the expected ones, line by line.
#[track_caller]
pub(super) fn check(script: &str, expected: &str) {
    let got = run(script);
    let wanted = joined(expected);
    let mut report = String::new();
    let mut differs = got.len() != wanted.len();
    for at in 0..got.len().max(wanted.len()) {
        let (line, effects) =
            got.get(at).map_or(("(no such line)", "(nothing to compare)"), |(line, got)| (line, got));
        let expects = wanted.get(at).map_or("(no such line)", String::as_str);
        if effects == expects {
            let _ = writeln!(report, "  {line}");
        } else {
            differs = true;
            let _ = writeln!(report, "≠ {line}\n    expected  {expects}\n    got       {effects}");
        }
    }
    assert!(!differs, "the rules want something else:\n{report}");
}

/// Runs a script and returns the resulting session.
pub(super) fn after(script: &str) -> Machine {
    let mut play = Play::new();
    for line in lines(script) {
        play.line(line);
    }
    play.machine
}

fn run(script: &str) -> Vec<(&str, String)> {
    let mut play = Play::new();
    let mut printed = Vec::new();
    for line in lines(script) {
        match play.line(line) {
            None => {}
            Some(Ok(effects)) => printed.push((line, show_all(&effects))),
            Some(Err(error)) => printed.push((line, format!("refused {error}"))),
        }
    }
    printed
}

fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty())
}

fn joined(expected: &str) -> Vec<String> {
    let mut wanted: Vec<String> = Vec::new();
    for line in lines(expected) {
        match wanted.last_mut() {
            Some(last) if line.starts_with(';') => last.push_str(line),
            _ => wanted.push(line.to_owned()),
        }
    }
    wanted
}

/// A session in the middle of a script.
pub(super) struct Play {
    pub(super) machine: Machine,
    pub(super) now: Timestamp,
}

impl Play {
    pub(super) fn new() -> Self {
        Self { machine: Machine::new(spec()), now: Timestamp(0) }
    }

    /// Plays one line. Returns the result of the rules unless the line is no input.
    pub(super) fn line(&mut self, line: &str) -> Option<Result<Vec<Effect>, Error>> {
        let (word, rest) = split(line);
        match word {
            "spec" => self.change_spec(rest),
            "given" => self.given(rest),
            "shared" => self.machine.set_shared_budget(shared_budget(rest)),
            "after" => self.now = self.now.after(Duration::from_secs(rest.parse().expect("seconds"))),
            _ => {
                let input = input(line);
                if is_comeback(&input) {
                    // A new daemon knows only what was stored.
                    self.machine =
                        Machine::restore(self.machine.spec().clone(), self.machine.state().clone());
                }
                return Some(self.machine.apply(self.now, input));
            }
        }
        None
    }

    fn given(&mut self, status: &str) {
        let path = match status {
            "created" => "",
            "starting" => "start\nlaunched 42",
            "running" => "start\nlaunched 42\nagent ready",
            "working" => "start\nlaunched 42\nagent ready\nprompt hi",
            "grace" => "start\nlaunched 42\nagent ready\nprompt hi\nstop graceful",
            "stopping" => "start\nlaunched 42\nagent ready\nstop now",
            "stopped" => "start\nlaunched 42\nagent ready\nstop now\nexit 0",
            "failed" => "start\nlaunched 42\nagent ready\nexit 1",
            other => panic!("no way is known to {other}"),
        };
        for line in path.lines() {
            self.line(line);
        }
    }

    fn change_spec(&mut self, settings: &str) {
        let mut spec = self.machine.spec().clone();
        for setting in settings.split_whitespace() {
            match setting.split_once('=').expect("KEY=VALUE") {
                ("launch", "on_prompt") => spec.launch = LaunchPolicy::OnPrompt,
                ("max_tokens", value) => spec.max_tokens = value.parse().expect("tokens"),
                ("timeout", value) => {
                    spec.timeout = Some(Duration::from_secs(value.parse().expect("seconds")));
                }
                ("attended", value) => {
                    spec.timeouts.attended_wait = Some(Duration::from_secs(value.parse().expect("seconds")));
                }
                ("unattended", value) => {
                    spec.timeouts.unattended_wait =
                        Some(Duration::from_secs(value.parse().expect("seconds")));
                }
                ("idle", value) => {
                    spec.timeouts.idle_wait = Some(Duration::from_secs(value.parse().expect("seconds")));
                }
                ("compact_above", value) => {
                    spec.timeouts.compact_above_tokens = Some(value.parse().expect("tokens"));
                }
                ("mode", value) => spec.mode = Mode::parse(value).expect("a mode"),
                (key, _) => panic!("no setting is called {key}"),
            }
        }
        self.machine = Machine::new(spec);
    }
}

pub(super) fn is_comeback(input: &Input) -> bool {
    matches!(input, Input::Reattached | Input::Revived)
}

pub(super) fn spec() -> SessionSpec {
    SessionSpec {
        name: "test".to_owned(),
        ..SessionSpec::new(SessionId::new("sess_1"), ProviderKind::Scripted, "/repo".into())
    }
}

/// Reads a used-up shared budget: its scope, or "none".
fn shared_budget(scope: &str) -> Option<UsedUpBudget> {
    let scope = SharedScope::parse(scope)?;
    let what = format!("the {} has used 5 of its 5 tokens", scope.name());
    Some(UsedUpBudget { scope, what, renewed: "10 tokens".to_owned(), remedy: "obey budget".to_owned() })
}

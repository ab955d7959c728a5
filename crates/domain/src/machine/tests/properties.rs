//! Properties of every sequence of inputs, however senseless. The sequences are scripts, so that a failure
//! reads like a test and can be kept as one.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::script::{Play, input, is_comeback};
use crate::event::EventKind;
use crate::id::{CallId, RequestId, TurnId};
use crate::machine::{Effect, Input, StopStep, Timer};
use crate::request::RequestSubject;
use crate::session::Status;
use crate::state::State;
use crate::time::Timestamp;

/// Every input a session can get. Few names, so that they recur.
const LINES: &[&str] = &[
    "start",
    "prompt hi",
    "steer more",
    "steer_with a.txt more",
    "cancel",
    "or_queue next",
    "queue add later",
    "queue add last",
    "queue edit 1 changed",
    "queue move 2 1",
    "queue drop 1",
    "queue pause",
    "queue resume",
    "budget tokens=60",
    "budget minutes=1 calls=2",
    "budget tokens=0 minutes=0 calls=0",
    "budget calls=9",
    "archive on",
    "timer budget",
    "timer rate_limit",
    "agent limited 30 busy",
    "agent limited never busy",
    "answer 1 budget=Leave",
    "compact",
    "decide 1 allow_once by anna",
    "decide 2 allow_session by anna",
    "decide 2 deny by ben",
    "decide 1 allow_once command uses=1 by anna",
    "decide 2 allow_once tool seconds=30 by ben",
    "decide 1 allow_once command.project by anna",
    "decide 3 deny_and_stop by ben",
    r#"decide 1 allow_session {"command":"ls"} by ben"#,
    "answer 1 q1=yes by anna",
    "answer 2 q9=yes by anna",
    "return 1 ok x by editor",
    "return 3 failed x by editor",
    "tools editor open save",
    "tools arm lift!:5",
    "tools arm",
    "tools turn look",
    "call c1 open",
    "call c2 save",
    "call c3 lift",
    "call c4 lift",
    "ask c5 lift",
    "timer tool",
    "mode autonomous",
    "mode supervised",
    "mode plan",
    "model opus",
    "rename scout",
    "grant Bash(git *) by anna",
    "forbid Bash(rm *) by anna",
    "clear all by ben",
    "hold anna",
    "hold ben",
    "release",
    "stop graceful",
    "stop now",
    "restart",
    "restart effort=high",
    "report activity 30",
    "report mode autonomous",
    "launched 42",
    "launch_failed nothing there",
    "exit 0",
    "exit 1 bad",
    "exit signal 9",
    "exit oom 1",
    "exit unprotected x",
    "oom 2",
    "timer start",
    "timer deadline",
    "timer grace",
    "timer ask",
    "timer term",
    "timer interrupt",
    "timer answer",
    "timer idle",
    "reattached",
    "revived",
    "after 20",
    "agent ready",
    "agent ready other opus",
    "agent turn",
    "agent text x",
    "agent thinking x",
    "agent tool c1 Bash",
    "agent tool c2 Read",
    "agent sub_tool c3 Bash",
    "agent result c3 ok x",
    r#"agent sub_ask n8 Bash {"command":"make"}"#,
    "agent worker_done w1",
    "agent progress c1 x",
    "agent result c1 ok x",
    "agent result c2 failed x",
    "agent done",
    "agent fails aborted",
    r#"agent ask n1 Bash {"command":"ls"}"#,
    "agent ask n2 Edit",
    r#"judged allow n5 Bash {"command":"git log"}"#,
    r#"judged deny n6 Bash {"command":"rm x"}"#,
    "judged ask n7 Edit",
    "agent context 500",
    "agent question n3 q1",
    "agent client_tool n4 open",
    "agent withdraw n1",
    "agent withdraw n3",
    "agent mode autonomous",
    "agent mode plan",
    "agent mode supervised",
    "agent plan on",
    "agent model opus",
    "agent usage 30 10",
    "agent usage 1 0",
    "agent todo x",
    "agent compacted x",
    "agent worker w1",
    "agent log x",
    "agent waits OBEY-2034 the rate limit is reached",
    "agent waits OBEY-2032 the model cannot be reached",
    "agent unparsed x",
    "agent broken x",
];

/// Typical sequences, so that deep states are reached often.
const WAYS: &[&[&str]] = &[
    &[],
    &["start", "launched 42", "agent ready"],
    &["start", "launched 42", "agent ready", "prompt hi", "agent tool c1 Bash", "agent ask n1 Bash"],
    &["prompt hi", "launched 42"],
    &["start", "launched 42", "agent ready", "prompt hi", "stop graceful"],
    &["start", "launched 42", "agent ready", "stop now", "exit 0"],
];

pub(super) fn scripts() -> impl Strategy<Value = Vec<&'static str>> {
    let specs = proptest::sample::select(vec![
        "spec",
        "spec launch=on_prompt",
        "spec timeout=60",
        "spec max_tokens=100",
        "spec launch=on_prompt timeout=60 max_tokens=100 mode=autonomous",
        "spec launch=on_prompt attended=60 unattended=3600 compact_above=400 idle=900",
    ]);
    let ways = proptest::sample::select(WAYS);
    let steps = proptest::collection::vec(proptest::sample::select(LINES), 1..40);
    (specs, ways, steps).prop_map(|(spec, way, steps)| [&[spec], way, &steps].concat())
}

/// An observer of a session: knows only what was recorded and decided, and checks it.
#[derive(Default)]
struct Witness {
    /// The journal, replayed.
    state: State,
    status: Status,
    turns: u64,
    turn: Option<TurnId>,
    calls: BTreeSet<CallId>,
    /// Calls that no turn ends.
    background: BTreeSet<CallId>,
    workers: BTreeSet<String>,
    requests_opened: u64,
    requests: BTreeSet<RequestId>,
    settled: BTreeSet<RequestId>,
    armed: BTreeMap<&'static str, ()>,
    killed: bool,
    /// The agent, which ran in a former daemon, is not started again yet.
    is_unlaunched: bool,
}

impl Witness {
    fn sees(&mut self, at: Timestamp, effects: &[Effect]) {
        let mut before = None;
        for effect in effects {
            match effect {
                Effect::Record(kind) => {
                    self.hears(kind, before);
                    self.state.evolve(at, kind);
                    before = Some(kind);
                }
                Effect::Arm(timer, _) => drop(self.armed.insert(name(*timer), ())),
                Effect::Disarm(timer) => drop(self.armed.remove(name(*timer))),
                Effect::Terminate(StopStep::Kill) => self.killed = true,
                Effect::Launch { .. } => self.killed = false,
                Effect::Tell(_)
                | Effect::RaiseSharedBudget { .. }
                | Effect::Terminate(StopStep::Ask | StopStep::Term) => {}
            }
        }
    }

    fn hears(&mut self, kind: &EventKind, before: Option<&EventKind>) {
        match kind {
            EventKind::StatusChanged { from, to, .. } => {
                assert_eq!(*from, self.status, "a status change starts where the last one ended");
                assert!(is_legal(*from, *to), "{from:?} → {to:?} is no legal change");
                let asked_for =
                    matches!(before, Some(EventKind::Restarted { .. } | EventKind::TurnStarted { .. }));
                assert!(!from.is_terminal() || asked_for, "{from:?} was left without being asked to");
                self.status = *to;
            }
            EventKind::TurnStarted { turn, .. } => {
                assert_eq!(self.turn, None, "a second turn was opened");
                assert_eq!(turn.0, self.turns + 1, "turns are counted without gaps");
                self.turns = turn.0;
                self.turn = Some(*turn);
            }
            EventKind::TurnEnded { turn, .. } => {
                assert_eq!(self.turn.take(), Some(*turn), "a turn ended that was not open");
                assert!(self.calls.is_empty(), "calls outlived their turn: {:?}", self.calls);
                let outlives = self.state.requests.values().find(|pending| pending.turn == Some(*turn));
                assert!(outlives.is_none(), "a request outlived its turn: {outlives:?}");
            }
            EventKind::ToolStarted { call, parent, .. } => {
                let known = self.calls.contains(call) || self.background.contains(call);
                assert!(!known, "call {call} started twice");
                let of_turn = self.turn.is_some() && parent.is_none();
                let calls = if of_turn { &mut self.calls } else { &mut self.background };
                calls.insert(call.clone());
            }
            EventKind::ToolFinished { call, .. } => {
                let known = self.calls.remove(call) || self.background.remove(call);
                assert!(known, "call {call} finished twice, or never started");
            }
            EventKind::WorkerStarted { worker, .. } => drop(self.workers.insert(worker.clone())),
            EventKind::WorkerFinished { worker, .. } => drop(self.workers.remove(worker)),
            EventKind::RequestOpened { request, .. } => {
                assert_eq!(request.0, self.requests_opened + 1, "requests are counted without gaps");
                self.requests_opened = request.0;
                self.requests.insert(*request);
            }
            EventKind::RequestSettled { request, .. } => {
                assert!(self.requests.remove(request), "{request} was settled, but did not wait");
                assert!(self.settled.insert(*request), "{request} was settled twice");
            }
            _ => {}
        }
    }

    /// Checks what must hold between inputs.
    fn judges(&self, play: &Play) {
        let state = play.machine.state();
        assert_eq!(&self.state, state, "the journal, replayed, gives another state");
        assert_eq!(self.status, state.status);
        let has_turn = match state.status {
            Status::Working => Some(true),
            Status::Created | Status::Running | Status::Stopped | Status::Failed => Some(false),
            Status::Starting | Status::Stopping => None,
        };
        assert_eq!(has_turn.unwrap_or(self.turn.is_some()), self.turn.is_some(), "in {:?}", state.status);
        if !state.status.has_agent() {
            assert!(self.requests.is_empty(), "nobody is left to hear an answer");
            assert!(self.background.is_empty(), "calls outlived their agent: {:?}", self.background);
            assert!(self.workers.is_empty(), "workers outlived their agent: {:?}", self.workers);
            assert_eq!(state.pid, 0, "a session without an agent names a process");
            assert!(self.armed.is_empty(), "timers run in {:?}: {:?}", state.status, self.armed);
        }
        self.judges_waits(play);
    }

    /// Checks that something ends every wait of the session.
    fn judges_waits(&self, play: &Play) {
        let state = play.machine.state();
        let armed = |timer: Timer| self.armed.contains_key(name(timer));
        match state.status {
            Status::Starting => assert!(armed(Timer::Start), "nothing bounds the start"),
            Status::Working if state.turn.as_ref().is_some_and(|turn| turn.interrupted.is_some()) => {
                assert!(armed(Timer::Interrupt), "nothing bounds the interrupt");
            }
            Status::Stopping => {
                let bounded = armed(Timer::Grace) || armed(Timer::Ask) || armed(Timer::Term) || self.killed;
                assert!(bounded, "nothing bounds the stop");
            }
            _ => {}
        }
        let permissions =
            state.requests.values().any(|pending| matches!(pending.ask, RequestSubject::Permission(_)));
        let timeouts = play.machine.spec().timeouts;
        if permissions && timeouts.attended_wait.is_some() && timeouts.unattended_wait.is_some() {
            assert!(armed(Timer::Answer), "nothing bounds the wait for an answer");
        }
        let limited_time = play.machine.state().budget_of(play.machine.spec()).work_ms.is_some();
        if state.status == Status::Working && limited_time {
            let is_interrupted = state.turn.as_ref().is_some_and(|turn| turn.interrupted.is_some());
            assert!(armed(Timer::Budget) || is_interrupted, "nothing bounds the working time");
        }
        let is_parked = state.status == Status::Running && state.rate_limit.is_some();
        assert_eq!(armed(Timer::RateLimit), is_parked, "a rate limit is waited for without a timer, or not");
        let queue = &state.queue;
        let waits = state.status == Status::Running && !queue.entries.is_empty();
        assert!(
            !waits || queue.paused.is_some() || is_parked || self.is_unlaunched,
            "a queued prompt waits for nothing"
        );
        assert_eq!(armed(Timer::Tool), state.tool_calls.deadline().is_some());
        assert_eq!(armed(Timer::Idle), state.status == Status::Running && timeouts.idle_wait.is_some());
        if matches!(state.status, Status::Starting | Status::Running | Status::Working) {
            assert_eq!(armed(Timer::Deadline), play.machine.spec().timeout.is_some());
        }
    }
}

fn name(timer: Timer) -> &'static str {
    match timer {
        Timer::Start => "start",
        Timer::Deadline => "deadline",
        Timer::Grace => "grace",
        Timer::Ask => "ask",
        Timer::Term => "term",
        Timer::Interrupt => "interrupt",
        Timer::Answer => "answer",
        Timer::Idle => "idle",
        Timer::Tool => "tool",
        Timer::Budget => "budget",
        Timer::RateLimit => "rate_limit",
    }
}

fn is_legal(from: Status, to: Status) -> bool {
    use Status::{Created, Failed, Running, Starting, Stopped, Stopping, Working};
    match from {
        Created => matches!(to, Starting | Stopped),
        Starting => matches!(to, Running | Working | Stopping | Failed),
        Running => matches!(to, Working | Stopping | Stopped | Failed),
        Working => matches!(to, Running | Stopping | Failed),
        Stopping => matches!(to, Stopped | Failed),
        Stopped | Failed => to == Starting,
    }
}

fn play(script: &[&str]) {
    let mut play = Play::new();
    let mut witness = Witness::default();
    for line in script {
        if line.starts_with("spec") {
            play.line(line);
            witness.state = play.machine.state().clone();
            continue;
        }
        if line.starts_with("after") {
            play.line(line);
            continue;
        }
        match input(line) {
            // A fired timer no longer runs; the timers of a daemon end with it.
            Input::Timer(timer) => drop(witness.armed.remove(name(timer))),
            input if is_comeback(&input) => {
                witness.armed.clear();
                witness.killed = false;
                witness.is_unlaunched = matches!(input, Input::Revived);
            }
            Input::Launched { .. } => witness.is_unlaunched = false,
            _ => {}
        }
        let before = play.machine.clone();
        match play.line(line) {
            Some(Ok(effects)) => witness.sees(play.now, &effects),
            Some(Err(_)) => assert_eq!(play.machine, before, "a refused input changed something"),
            None => {}
        }
        witness.judges(&play);
    }
    let kept = serde_json::to_string(play.machine.state()).unwrap();
    assert_eq!(&serde_json::from_str::<State>(&kept).unwrap(), play.machine.state());
}

/// `PROPTEST_CASES` asks for more than an ordinary run. A failure is kept as a script, not as a seed.
pub(super) fn config() -> ProptestConfig {
    let default = ProptestConfig::default();
    ProptestConfig { cases: default.cases.max(2_000), failure_persistence: None, ..default }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn every_sequence_of_inputs_keeps_the_rules(script in scripts()) {
        play(&script);
    }
}

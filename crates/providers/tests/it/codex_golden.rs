//! Recorded conversations with the real Codex, replayed. `codex_live` records them.

use domain::ProviderKind;
use providers::codex::Codex;

use crate::recording::Agent;
use crate::support::some_program;

pub(crate) const CODEX: Agent = Agent {
    name: "codex",
    kind: ProviderKind::Codex,
    provider: || Box::new(Codex::new(Some(some_program()))),
};

#[test]
fn recordings_mean_what_they_meant() {
    CODEX.check_meaning();
}

#[test]
fn a_daemon_that_comes_back_between_any_two_lines_hears_the_same() {
    CODEX.check_saved_state();
}

#[test]
fn every_recorded_turn_and_call_ends_once() {
    CODEX.check_ends();
}

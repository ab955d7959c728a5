//! Recorded conversations with the real Claude Code, replayed. `claude_live` records them.

use domain::ProviderKind;
use providers::claude_code::ClaudeCode;

use crate::recording::Agent;
use crate::support::some_program;

pub(crate) const CLAUDE: Agent = Agent {
    name: "claude_code",
    kind: ProviderKind::ClaudeCode,
    provider: || Box::new(ClaudeCode::new(Some(some_program()))),
};

#[test]
fn recordings_mean_what_they_meant() {
    CLAUDE.check_meaning();
}

#[test]
fn a_daemon_that_comes_back_between_any_two_lines_hears_the_same() {
    CLAUDE.check_saved_state();
}

#[test]
fn every_recorded_turn_and_call_ends_once() {
    CLAUDE.check_ends();
}

//! What every provider must do, and what became of it: each scenario leaves its outcome in a file where
//! `OBEY_SUITE_DIR` names a folder. `cargo xtask capabilities` makes the table in docs/providers.md of them.

use std::cell::Cell;

use crate::stage::Agent;

thread_local! {
    /// The agent of this test cannot do what the scenario is about.
    static UNSUPPORTED: Cell<bool> = const { Cell::new(false) };
}

/// Says that the agent cannot do what the scenario is about; the scenario then ends well and does nothing.
pub(crate) fn unsupported() {
    UNSUPPORTED.set(true);
}

/// Leaves the outcome of a scenario.
pub(crate) fn note(agent: Agent, scenario: &str, outcome: &anyhow::Result<()>) {
    let Some(folder) = std::env::var_os("OBEY_SUITE_DIR").map(std::path::PathBuf::from) else { return };
    let word = match (outcome, UNSUPPORTED.get()) {
        (Err(_), _) => "failed",
        (Ok(()), true) => "unsupported",
        (Ok(()), false) => "passed",
    };
    let file = folder.join(format!("{agent:?}.{scenario}"));
    // The table is for people; a scenario does not fail for it.
    let _ = std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(file, word));
}

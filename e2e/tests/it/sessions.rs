//! What a session does, from outside, with every agent: the promises of the published interface. Each module is one
//! subject; each scenario runs with the scripted agent and with the real claude.

mod command_line;
mod lifecycle;
mod limits;
mod listing;
mod programs;
mod requests;
mod servers;
mod turns;
mod validation;

/// Every scenario that is played with every agent.
pub(crate) fn all() -> Vec<crate::stage::Scenario> {
    [
        command_line::ALL,
        lifecycle::ALL,
        limits::ALL,
        listing::ALL,
        programs::ALL,
        requests::ALL,
        servers::ALL,
        turns::ALL,
    ]
    .concat()
}

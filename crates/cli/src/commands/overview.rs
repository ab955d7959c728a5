//! What is about all sessions: `obey ps`, `wait`, `search`, `usage` and `export`. Each has its own file.

mod export;
mod ps;
mod search;
mod usage;
mod wait;

pub(super) use export::run as export;
pub(super) use ps::{look_up, run as ps, session_typed, state_in_words};
pub(super) use search::run as search;
pub(super) use usage::run as usage;
pub(super) use wait::run as wait;

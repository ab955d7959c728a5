//! What is about all sessions: `obey ps`, `wait`, `search`, `usage` and `export`. Each has its own file.

mod export;
mod ps;
mod search;
mod usage;
mod wait;

pub(super) use export::run as export;
pub(super) use ps::run as ps;
pub(super) use search::run as search;
pub(super) use usage::run as usage;
pub(super) use wait::run as wait;

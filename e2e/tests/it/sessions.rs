//! What a session does, from outside, with every agent: the promises of the published interface. Each module is one
//! subject; each scenario runs with the scripted agent and with the real claude.

mod command_line;
mod lifecycle;
mod limits;
mod requests;
mod turns;
mod validation;

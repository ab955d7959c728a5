//! `contextd.v1` from outside: the published examples as printed, every operation over both protocols, what sessions,
//! refs, memories, policies and the audit promise, and the command line.

mod bench;
mod both;
mod browser;
mod cli;
#[path = "../../../crates/surface-contextd/src/examples.rs"]
#[allow(dead_code, reason = "shared with the surface, which uses all of it")]
mod examples;
mod faithful;
mod load;
mod makers;
mod openapi;
mod promises;
mod published;
mod qdrant;

//! Agent processes as the daemon sees them: started under a shim, read from their spool, found again after a
//! restart. An [`AgentLink`] is the daemon's connection to one agent; the agent itself outlives it. Must not
//! know what agents say, what a session is, or where positions are committed.

mod claim;
mod connection;
mod holder;
mod known_holder;
pub mod limits;
pub mod lines;
mod link;
mod outbox;
pub mod run_limits;
pub mod scan;
pub mod short_command;
mod spool;

#[cfg(test)]
pub(crate) mod tests;

use std::ffi::OsString;
use std::path::PathBuf;

pub use claim::Claim;
pub use holder::{AgentSpawner, HoldLimits, SpawnError, SpawnStage};
pub use known_holder::{KilledHolders, KnownHolder};
pub use link::{AgentControls, AgentLink, AgentOutput, AttachError, OutputEnd, UnlinkedAgent};
pub use outbox::WriteError;
pub use sandbox::session_group::RunLimits;
pub use shim::ancestry;
pub use shim::frame::{Refusal, Target};
pub use shim::group_name;
pub use shim::record::{Delivery, Exit, Fault, Input, Meta, Stream};
pub use shim::spool::{Batch, Record};
pub use shim::{PROCESS_NAME as SHIM_NAME, Position};

/// A program to run, with everything it gets. Nothing is added from the daemon's own environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessPlan {
    /// A path, or a name to look up in the `PATH` of `env`.
    pub program: PathBuf,
    pub args: Vec<OsString>,
    /// The complete environment.
    pub env: Vec<(OsString, OsString)>,
    pub cwd: PathBuf,
    /// What it and everything it starts may use, and the group they are in.
    pub limits: Option<RunLimits>,
}

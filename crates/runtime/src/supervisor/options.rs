//! The options of a supervisor, set by the daemon at start. Holds no session and decides nothing.

use std::path::PathBuf;

use domain::Mode;

use crate::containment::Policy;
use crate::settings::Settings;
use agent_port::Providers;
use storage::Store;

/// The options of a supervisor.
pub struct SupervisorOptions {
    pub store: Store,
    pub providers: Providers,
    pub agents_dir: PathBuf,
    pub shim_program: PathBuf,
    pub socket: PathBuf,
    pub spool_max_bytes: u64,
    pub active_sessions_max: usize,
    /// The mode of sessions that are created without one, where their campaign names none.
    pub default_mode: Mode,
    pub settings: Settings,
    /// Where worktrees without a given path are created.
    pub worktrees_dir: PathBuf,
    /// The daemon offers its own tools to agents, so that every agent gets a bridge.
    pub offers_tools: bool,
    /// Redacts secrets from what sessions journal; `None` redacts nothing.
    pub scrubber: Option<scrub::Scrubber>,
    /// Whether it does where a campaign says nothing.
    pub scrub_events: bool,
    /// Which agents run in the sandbox.
    pub containment: Policy,
}

//! What the daemon gives a supervisor when it starts. Holds no session and decides nothing.

use std::path::PathBuf;

use crate::containment::Policy;
use crate::settings::Settings;
use agent_port::Providers;
use storage::Store;

/// What a supervisor is made of.
pub struct SupervisorOptions {
    pub store: Store,
    pub providers: Providers,
    pub agents_dir: PathBuf,
    pub shim_program: PathBuf,
    pub socket: PathBuf,
    pub spool_max_bytes: u64,
    pub active_sessions_max: usize,
    pub settings: Settings,
    /// Where worktrees are made that name no place.
    pub worktrees_dir: PathBuf,
    /// The daemon has tools of its own for agents, so that every agent gets a bridge.
    pub offers_tools: bool,
    /// Takes secrets out of what sessions journal; none: nothing is taken out.
    pub scrubber: Option<scrub::Scrubber>,
    /// Whether it does where a campaign says nothing.
    pub scrub_events: bool,
    /// Which agents run in the sandbox.
    pub containment: Policy,
}

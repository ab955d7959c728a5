//! A running session: one actor owns its machine and its agent; all other code holds a handle.
//!
//! ```text
//!   surfaces ── SessionHandle ──mailbox──▶ Actor ──apply──▶ Machine (rules)
//!                    │                       │ effects: record, tell, launch, terminate, arm
//!                    │                       ▼
//!                    └─ SessionJournal ◀─ commit (store) ──▶ agent link (shim or in process)
//! ```

mod actor;
mod agent_handle;
pub(crate) mod audited;
mod carry;
mod handle;
mod launch;
mod measures;
mod originals;
mod plan;
mod scrubbing;
mod seal;
mod timers;
mod walls;

#[cfg(test)]
mod tests;

pub use handle::{Applied, SessionHandle, Snapshot};

pub(crate) use actor::{Actor, ActorStart};
pub(crate) use handle::ActorMessage;
pub(crate) use launch::run_dir;
pub(crate) use scrubbing::redactor;
pub(crate) use seal::remove_orphans as remove_orphan_keys;
pub(crate) use walls::clear_placeholders;

use std::path::PathBuf;
use std::sync::Arc;

use domain::SessionSpec;

use crate::history::History;
use crate::journal::Journal;
use crate::overview::Overview;
use crate::settings::Settings;
use crate::shared_budgets::BudgetLedger;
use agent_port::Providers;
use storage::{Store, sessions};

/// What every session's actor needs of the daemon.
pub struct SessionServices {
    pub store: Store,
    pub journal: Journal,
    /// Finds past events.
    pub history: History,
    /// What lists show of every session.
    pub overview: Overview,
    pub providers: Providers,
    /// Folder that contains one folder per running agent.
    pub agents_dir: PathBuf,
    /// The program that holds agents: this binary.
    pub shim_program: PathBuf,
    /// The daemon's socket; agents get its path.
    pub socket: PathBuf,
    /// Increases with every start of a daemon; shims obey the highest.
    pub epoch: u64,
    pub spool_max_bytes: u64,
    /// Includes the permission rules.
    pub settings: Settings,
    /// Whether the daemon offers its own tools to agents.
    pub offers_tools: bool,
    /// What sessions share of budgets.
    pub budgets: BudgetLedger,
    /// What models cost; empty until the daemon sets it.
    pub prices: std::sync::OnceLock<domain::price::PriceTable>,
    /// Redacts secrets from what is journalled; `None` redacts nothing.
    pub scrubber: Option<scrub::Scrubber>,
    /// Which agents run in the sandbox, and what they see there.
    pub containment: crate::containment::Policy,
    /// Whether it does where a campaign says nothing.
    pub scrub_events: bool,
    /// Agents whose shim was killed.
    pub killed_holders: crate::process::KilledHolders,
    /// Where control groups of agents are made.
    pub groups: sandbox::session_group::GroupHome,
}

impl SessionServices {
    /// Returns what takes secrets out of a session's events; nothing where its campaign or the configuration does not want it.
    pub(crate) fn scrubber_of(&self, spec: &SessionSpec) -> Option<&scrub::Scrubber> {
        self.scrubber.as_ref().filter(|_| spec.scrub.unwrap_or(self.scrub_events))
    }

    /// Whether a later daemon has begun to serve this store; a shim that obeys it does so rightly.
    pub(crate) async fn is_succeeded(&self) -> bool {
        let newest = self.store.read(sessions::epoch).await;
        // If the store cannot be read, assume so: nothing must be ended that may belong to another daemon.
        newest.map_or(true, |newest| newest > self.epoch)
    }
}

/// Shared by all actors.
pub type SharedServices = Arc<SessionServices>;

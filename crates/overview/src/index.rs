//! The sessions of an overview in memory, with the revision at which each changed last. Does not look at anything.

use std::collections::HashMap;
use std::sync::Arc;

use domain::overview::SessionFacts;
use domain::{SessionId, Timestamp};

use super::SharedRunLimits;

/// One session.
#[derive(Clone)]
pub(super) struct IndexEntry {
    pub(super) facts: Arc<SessionFacts>,
    pub(super) last_seq: u64,
    pub(super) last_event_at: Option<Timestamp>,
    pub(super) seen_at: Option<Timestamp>,
    pub(super) branch: Option<String>,
    /// What an agent without work had used when it was looked at.
    pub(super) idle_cpu_ms: Option<u64>,
    /// The branch, and the CPU time of an agent without work, were read since the session last did something.
    pub(super) is_read: bool,
    pub(super) run_limits: Option<SharedRunLimits>,
    pub(super) silence: Option<Silence>,
    /// What the last look at a silent agent told, so that a change of it is noticed.
    pub(super) told: String,
    /// How often the session did something beside streaming.
    pub(super) changes: u64,
    revision: u64,
    /// The newest revision that was more than another piece of output.
    state_revision: u64,
}

/// How much of a session changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChangeExtent {
    /// Another piece of output, and the times and counts that go with it.
    Stream,
    /// What may change its state.
    State,
}

/// What an agent had used when it fell silent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Silence {
    pub(super) since: Timestamp,
    pub(super) cpu_ms: Option<u64>,
}

impl IndexEntry {
    pub(super) fn new(facts: SessionFacts, last_seq: u64, seen_at: Option<Timestamp>) -> Self {
        let last_event_at = facts.last_activity_at;
        Self {
            facts: Arc::new(facts),
            last_seq,
            last_event_at,
            seen_at,
            branch: None,
            idle_cpu_ms: None,
            is_read: false,
            run_limits: None,
            silence: None,
            told: String::new(),
            changes: 0,
            revision: 0,
            state_revision: 0,
        }
    }

    /// Returns whether the agent has something to do.
    pub(super) fn is_at_work(&self) -> bool {
        use domain::Status::{Starting, Working};
        matches!(self.facts.status, Starting | Working)
    }
}

/// All sessions.
#[derive(Default)]
pub(super) struct Index {
    sessions: HashMap<SessionId, IndexEntry>,
    revision: u64,
    /// Increases with every removal.
    removals: u64,
}

impl Index {
    pub(super) fn revision(&self) -> u64 {
        self.revision
    }

    pub(super) fn removals(&self) -> u64 {
        self.removals
    }

    pub(super) fn get(&self, id: &SessionId) -> Option<IndexEntry> {
        self.sessions.get(id).cloned()
    }

    pub(super) fn contains(&self, id: &SessionId) -> bool {
        self.sessions.contains_key(id)
    }

    pub(super) fn ids(&self) -> Vec<SessionId> {
        self.sessions.keys().cloned().collect()
    }

    /// Adds or replaces a session.
    pub(super) fn put(&mut self, mut entry: IndexEntry) -> u64 {
        self.revision += 1;
        (entry.revision, entry.state_revision) = (self.revision, self.revision);
        self.sessions.insert(entry.facts.id.clone(), entry);
        self.revision
    }

    /// Changes a session. Returns the new revision; nothing if the session is not known.
    pub(super) fn change(
        &mut self,
        id: &SessionId,
        change: impl FnOnce(&mut IndexEntry) -> ChangeExtent,
    ) -> Option<(u64, ChangeExtent)> {
        let entry = self.sessions.get_mut(id)?;
        let extent = change(entry);
        self.revision += 1;
        entry.revision = self.revision;
        if extent == ChangeExtent::State {
            entry.state_revision = self.revision;
        }
        Some((self.revision, extent))
    }

    /// Keeps what was read, unless the session did something meanwhile. Nobody is woken: whoever read it has it.
    pub(super) fn keep_read(
        &mut self,
        id: &SessionId,
        changes: u64,
        branch: Option<&str>,
        cpu_ms: Option<u64>,
    ) {
        if let Some(entry) = self.sessions.get_mut(id).filter(|entry| entry.changes == changes) {
            entry.branch = branch.map(str::to_owned);
            entry.idle_cpu_ms = cpu_ms;
            entry.is_read = true;
        }
    }

    pub(super) fn remove(&mut self, id: &SessionId) -> u64 {
        if self.sessions.remove(id).is_some() {
            self.revision += 1;
            self.removals += 1;
        }
        self.revision
    }

    /// Returns the sessions that changed after a revision, and the newest revision.
    pub(super) fn after(&self, revision: u64) -> (u64, Vec<IndexEntry>) {
        let changed = self.sessions.values().filter(|entry| entry.revision > revision).cloned().collect();
        (self.revision, changed)
    }

    /// Returns the sessions whose state may have changed after a revision, and the newest revision.
    pub(super) fn states_after(&self, revision: u64) -> (u64, Vec<IndexEntry>) {
        let changed = self.sessions.values().filter(|entry| entry.state_revision > revision);
        (self.revision, changed.cloned().collect())
    }

    /// Returns the sessions whose agent has something to do.
    pub(super) fn at_work(&self) -> Vec<IndexEntry> {
        self.sessions.values().filter(|entry| entry.is_at_work()).cloned().collect()
    }
}

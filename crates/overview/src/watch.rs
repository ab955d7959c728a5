//! Watching an overview: a snapshot and then changes, as fast as each client reads them; and the task that looks for agents
//! which have fallen silent, since silence makes no event.

use std::collections::HashSet;
use std::sync::{Arc, Weak};

use domain::overview::Assessment;
use domain::{Error, SessionId, Timestamp};
use tokio::sync::watch;

use super::index::{ChangeExtent, Silence};
use super::{Overview, OverviewFilter, OverviewShared, SessionGlance, glance, sort};
use crate::limits;
use host::clock;

/// A reader of an overview. What happens between two reads is one change: a slow reader costs no more memory than the
/// list itself.
pub struct OverviewWatch {
    overview: Overview,
    filter: OverviewFilter,
    watched: WatchedChanges,
    wake: watch::Receiver<u64>,
    /// What the reader knows: up to which revision, which sessions, and how often sessions were removed by then.
    revision: u64,
    shown: HashSet<SessionId>,
    removals: u64,
    is_begun: bool,
}

/// Which changes a reader waits for.
#[derive(Clone, Copy, Debug)]
pub(super) enum WatchedChanges {
    All,
    /// Those that may change the state of a session.
    States,
}

/// What changed since the read before.
#[derive(Clone, Debug)]
pub struct OverviewChange {
    pub revision: u64,
    /// The first one: what is not in it does not exist.
    pub is_snapshot: bool,
    pub sessions: Vec<SessionGlance>,
    pub removed: Vec<SessionId>,
}

impl OverviewWatch {
    pub(super) fn new(
        overview: Overview,
        filter: OverviewFilter,
        watched: WatchedChanges,
        wake: watch::Receiver<u64>,
    ) -> Self {
        Self {
            overview,
            filter,
            watched,
            wake,
            revision: 0,
            shown: HashSet::new(),
            removals: 0,
            is_begun: false,
        }
    }

    /// Waits for the next change. The first one is the snapshot and comes at once.
    pub async fn next(&mut self) -> Result<OverviewChange, Error> {
        loop {
            if self.is_begun {
                // The overview owns the sender, so this cannot fail while we hold the overview.
                let _ = self.wake.changed().await;
                // Changes come in bursts: an agent that streams makes a hundred a second.
                tokio::time::sleep(limits::OVERVIEW_GATHER_WAIT).await;
            }
            let change = self.read().await?;
            if change.is_snapshot || !change.sessions.is_empty() || !change.removed.is_empty() {
                return Ok(change);
            }
        }
    }

    async fn read(&mut self) -> Result<OverviewChange, Error> {
        self.wake.borrow_and_update();
        let (revision, removals, entries) = {
            let index = self.overview.shared.lock();
            let (revision, entries) = match self.watched {
                WatchedChanges::All => index.after(self.revision),
                WatchedChanges::States => index.states_after(self.revision),
            };
            (revision, index.removals(), entries)
        };
        let (mut sessions, others): (Vec<_>, Vec<_>) =
            self.overview.glances(entries).await?.into_iter().partition(|glance| self.filter.accepts(glance));
        sort(&mut sessions);
        let mut removed: Vec<SessionId> = others
            .into_iter()
            .map(|glance| glance.facts.id.clone())
            .filter(|id| self.shown.remove(id))
            .collect();
        if removals != self.removals {
            let index = self.overview.shared.lock();
            removed.extend(self.shown.extract_if(|id| !index.contains(id)));
        }
        self.shown.extend(sessions.iter().map(|glance| glance.facts.id.clone()));
        (self.revision, self.removals) = (revision, removals);
        let is_snapshot = !std::mem::replace(&mut self.is_begun, true);
        Ok(OverviewChange { revision, is_snapshot, sessions, removed })
    }
}

/// Looks at agents that have fallen silent until the overview is gone: notes what they had used by then, and wakes the
/// watchers when silence alone has changed their state.
pub(super) async fn look_at_silent(shared: Weak<OverviewShared>) {
    loop {
        let Some(overview) = shared.upgrade() else { return };
        let mut wake = overview.revision.subscribe();
        let is_anyone_at_work = !overview.lock().at_work().is_empty();
        drop(overview);
        if is_anyone_at_work {
            tokio::time::sleep(limits::OVERVIEW_LOOK_WAIT).await;
        } else if wake.changed().await.is_err() {
            return;
        }
        let Some(overview) = shared.upgrade() else { return };
        // It reads small files of the kernel, for silent agents only.
        let looked = tokio::task::spawn_blocking(move || look(&overview, clock::now())).await;
        if let Err(error) = looked {
            tracing::warn!(%error, "the overview cannot look at silent agents");
        }
    }
}

pub(super) fn look(overview: &Arc<OverviewShared>, now: Timestamp) {
    let at_work = overview.lock().at_work();
    for entry in at_work {
        let Some(since) = entry.last_event_at else { continue };
        if now.since(since) < domain::limits::LOST_PROCESS_WAIT {
            continue;
        }
        let (id, last_seq, told) = (entry.facts.id.clone(), entry.last_seq, entry.told.clone());
        let is_noted = entry.silence.is_some_and(|silence| silence.since == since);
        let seen = glance(entry, now);
        let Assessment { reason, .. } = seen.assessment;
        if is_noted && reason == told {
            continue;
        }
        let silence = Silence { since, cpu_ms: seen.evidence.cpu_ms };
        overview.update(&id, |entry| {
            // It is silent no longer, or another look was faster.
            if entry.last_seq != last_seq {
                return ChangeExtent::State;
            }
            if !is_noted {
                entry.silence = Some(silence);
            }
            entry.told = reason;
            ChangeExtent::State
        });
    }
}

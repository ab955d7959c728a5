//! What all workers of a daemon share: places, limits, and the orchestrations that run. In memory only.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use domain::SessionId;
use tokio::sync::{Mutex as AsyncMutex, MutexGuard, OwnedSemaphorePermit, RwLock};
use tokio::sync::{RwLockReadGuard, Semaphore, mpsc, watch};

use super::parent_reports::ParentReports;
use super::run_orchestration::OrchestrationMessage;
use crate::limits;

/// How many workers there may be, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct WorkerLimits {
    /// Workers of one session at a time.
    pub at_once: usize,
    /// How long one may take; `None`: as long as it wants.
    pub timeout: Option<Duration>,
    /// Workers that the agent of a session may have at a time unless its creator says otherwise; 0: none.
    pub for_agents: u32,
}

impl Default for WorkerLimits {
    fn default() -> Self {
        Self { at_once: limits::WORKERS_AT_ONCE, timeout: Some(limits::WORKER_TIMEOUT), for_agents: 0 }
    }
}

/// A place in which one worker runs; given back when dropped.
pub(super) struct WorkerPlace {
    _permit: OwnedSemaphorePermit,
}

/// An orchestration that runs in this daemon.
#[derive(Clone)]
pub(super) struct RunningOrchestration {
    pub(super) inbox: mpsc::Sender<OrchestrationMessage>,
    /// The newest event of its journal.
    pub(super) newest: watch::Sender<u64>,
}

/// What all workers share.
pub(crate) struct WorkerContext {
    limits: OnceLock<WorkerLimits>,
    places: Mutex<HashMap<SessionId, Arc<Semaphore>>>,
    /// Closed when the daemon detaches from its sessions: from then on nothing may be decided about them here.
    gate: RwLock<()>,
    /// Counts ends of workers.
    ends: watch::Sender<u64>,
    orchestrations: Mutex<HashMap<String, RunningOrchestration>>,
    /// Counts orchestrations that were started.
    started: watch::Sender<u64>,
    reports: ParentReports,
    /// Held by the worker that is the next to get one of the daemon's places for agents.
    next_for_room: AsyncMutex<()>,
}

impl Default for WorkerContext {
    fn default() -> Self {
        Self {
            limits: OnceLock::new(),
            places: Mutex::default(),
            gate: RwLock::default(),
            ends: watch::Sender::new(0),
            orchestrations: Mutex::default(),
            started: watch::Sender::new(0),
            reports: ParentReports::default(),
            next_for_room: AsyncMutex::default(),
        }
    }
}

impl WorkerContext {
    /// Sets the limits, once and before workers run.
    pub(crate) fn set_limits(&self, limits: WorkerLimits) {
        // A second call would be a mistake of the composition root; the first one holds.
        let _ = self.limits.set(limits);
    }

    pub(crate) fn limits(&self) -> WorkerLimits {
        self.limits.get().copied().unwrap_or_default()
    }

    /// Waits for a free place among the workers of a session, in the order of the callers.
    pub(super) async fn place(&self, parent: &SessionId) -> Option<WorkerPlace> {
        let places = {
            let mut all = self.places.lock().unwrap_or_else(PoisonError::into_inner);
            // Only the map holds those that nobody uses or waits for.
            all.retain(|_, places| Arc::strong_count(places) > 1);
            let at_once = self.limits().at_once;
            Arc::clone(all.entry(parent.clone()).or_insert_with(|| Arc::new(Semaphore::new(at_once))))
        };
        Some(WorkerPlace { _permit: places.acquire_owned().await.ok()? })
    }

    /// Waits until decisions are allowed; never returns once the daemon has detached from its sessions.
    pub(super) async fn pass(&self) -> RwLockReadGuard<'_, ()> {
        self.gate.read().await
    }

    /// Lets nobody pass any more. Waits for those who have passed, at most so long.
    pub(crate) async fn close(&self, within: Duration) {
        match tokio::time::timeout(within, self.gate.write()).await {
            Ok(closed) => std::mem::forget(closed),
            Err(_) => tracing::warn!("a worker is being started or ended while the daemon leaves"),
        }
    }

    /// Waits until a worker is the next that gets one of the daemon's places for agents, in the order of the callers.
    pub(super) async fn next_for_room(&self) -> MutexGuard<'_, ()> {
        self.next_for_room.lock().await
    }

    pub(super) fn reports(&self) -> &ParentReports {
        &self.reports
    }

    pub(super) fn ends(&self) -> watch::Receiver<u64> {
        self.ends.subscribe()
    }

    pub(super) fn note_end(&self) {
        self.ends.send_modify(|count| *count += 1);
    }

    pub(super) fn orchestration(&self, id: &str) -> Option<RunningOrchestration> {
        self.orchestrations.lock().unwrap_or_else(PoisonError::into_inner).get(id).cloned()
    }

    pub(super) fn add_orchestration(&self, id: &str, running: RunningOrchestration) {
        self.orchestrations.lock().unwrap_or_else(PoisonError::into_inner).insert(id.to_owned(), running);
        self.started.send_modify(|count| *count += 1);
    }

    pub(super) fn started(&self) -> watch::Receiver<u64> {
        self.started.subscribe()
    }

    pub(super) fn remove_orchestration(&self, id: &str) {
        self.orchestrations.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
    }
}

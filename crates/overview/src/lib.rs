//! What lists show of every session: an index in memory, fed by the actors after each commit. A look at it reads no
//! journal. The states are derived by `domain::overview`; what was looked at is stored. Must not know who shows it.

mod branch;
mod index;
pub mod limits;
mod watch;

#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::overview::{Assessment, Evidence, SessionFacts, SessionState, assess};
use domain::{Error, ErrorCode, SessionId, Timestamp};
use tokio::sync::OnceCell;

use agent_process::RunLimits;
use host::clock;
use index::{ChangeExtent, Index, IndexEntry};
use storage::{Durability, Store, sessions};

use watch::WatchedChanges;
pub use watch::{OverviewChange, OverviewWatch};

/// The overview of all sessions. Cheap to clone.
#[derive(Clone)]
pub struct Overview {
    shared: Arc<OverviewShared>,
}

struct OverviewShared {
    store: Store,
    index: Mutex<Index>,
    /// The revision of the newest change; wakes watchers.
    revision: tokio::sync::watch::Sender<u64>,
    /// The revision of the newest change that was more than streamed output.
    state_revision: tokio::sync::watch::Sender<u64>,
    /// Set once the stored sessions were read and the task runs that looks at silent agents.
    loaded: OnceCell<()>,
}

/// How the agent that runs is limited; tells what it uses.
type SharedRunLimits = Arc<Mutex<Option<RunLimits>>>;

/// What lists show of one session.
#[derive(Clone, Debug)]
pub struct SessionGlance {
    pub facts: Arc<SessionFacts>,
    pub assessment: Assessment,
    pub evidence: Evidence,
    /// `None`: no branch is checked out, or there is no repository.
    pub branch: Option<String>,
    pub last_seq: u64,
    /// Somebody has looked at the end of the last turn or of the session.
    pub is_seen: bool,
}

/// Which sessions are wanted.
#[derive(Clone, Debug, Default)]
pub struct OverviewFilter {
    /// Also those that have ended.
    pub include_ended: bool,
    /// Also those that are archived.
    pub include_archived: bool,
    pub campaign_id: Option<String>,
    /// Only these, archived or not; empty: all.
    pub sessions: HashSet<SessionId>,
}

impl OverviewFilter {
    fn accepts(&self, glance: &SessionGlance) -> bool {
        let facts = &glance.facts;
        let of_campaign = match &self.campaign_id {
            Some(wanted) => facts.campaign_id.as_ref().is_some_and(|id| id.as_str() == wanted),
            None => true,
        };
        let is_over = glance.assessment.state == SessionState::Ended
            || (facts.status.is_terminal() && glance.is_seen && !facts.resumes_on_prompt);
        let is_named = self.sessions.contains(&facts.id);
        of_campaign
            && (self.include_ended || !is_over)
            && (self.include_archived || is_named || !facts.is_archived)
            && (self.sessions.is_empty() || is_named)
    }
}

impl Overview {
    /// Returns the overview of a store; it is read with the first use.
    pub fn new(store: Store) -> Self {
        Self {
            shared: Arc::new(OverviewShared {
                store,
                index: Mutex::new(Index::default()),
                revision: tokio::sync::watch::Sender::new(0),
                state_revision: tokio::sync::watch::Sender::new(0),
                loaded: OnceCell::new(),
            }),
        }
    }

    /// Returns the sessions in the order of lists, and the revision they are of.
    pub async fn list(&self, filter: &OverviewFilter) -> Result<(u64, Vec<SessionGlance>), Error> {
        self.load().await?;
        let (revision, entries) = self.shared.lock().after(0);
        let mut glances = self.glances(entries).await?;
        glances.retain(|glance| filter.accepts(glance));
        sort(&mut glances);
        Ok((revision, glances))
    }

    /// Returns one session.
    pub async fn glance(&self, id: &SessionId) -> Result<SessionGlance, Error> {
        self.load().await?;
        let entry = self.shared.lock().get(id).ok_or_else(|| {
            Error::new(ErrorCode::SessionNotFound, format!("session_id: there is no session {id}"))
        })?;
        let mut glances = self.glances(vec![entry]).await?;
        glances.pop().ok_or_else(|| Error::new(ErrorCode::SessionError, "the session cannot be looked at"))
    }

    /// Watches the sessions: a snapshot first, then changes.
    pub async fn watch(&self, filter: OverviewFilter) -> Result<OverviewWatch, Error> {
        self.load().await?;
        let wake = self.shared.revision.subscribe();
        Ok(OverviewWatch::new(self.clone(), filter, WatchedChanges::All, wake))
    }

    /// The same without the output that sessions stream: a change comes only when the state of a session may be another. For
    /// watchers inside the daemon, which would look at every agent that streams forty times a second.
    pub async fn watch_states(&self, filter: OverviewFilter) -> Result<OverviewWatch, Error> {
        self.load().await?;
        let wake = self.shared.state_revision.subscribe();
        Ok(OverviewWatch::new(self.clone(), filter, WatchedChanges::States, wake))
    }

    /// Records that somebody has looked at a session: up to an event, or (0) at everything so far.
    pub async fn mark_seen(&self, id: &SessionId, seq: u64, newest: u64) -> Result<(), Error> {
        let seq = if seq == 0 { newest } else { seq };
        if seq > newest {
            return Err(Error::invalid(
                "seq",
                format_args!("there is no event {seq}; the newest is {newest}"),
            ));
        }
        let wanted = id.clone();
        let seen = self
            .shared
            .store
            .write(Durability::Soon, move |connection| sessions::mark_seen(connection, &wanted, seq))
            .await?;
        // An event that retention removed was looked at, or nobody can any more.
        if let Some(seen_at) = seen {
            self.shared.update(id, |entry| {
                entry.seen_at = entry.seen_at.max(Some(seen_at));
                ChangeExtent::State
            });
        }
        Ok(())
    }

    /// Adds a session whose actor begins.
    pub fn begin(
        &self,
        facts: SessionFacts,
        last_seq: u64,
        seen_at: Option<Timestamp>,
        run_limits: SharedRunLimits,
    ) {
        let mut index = self.shared.lock();
        // An actor that begins anew knows no more than the index about what was looked at.
        let seen_at = index.get(&facts.id).and_then(|entry| entry.seen_at).max(seen_at);
        let mut entry = IndexEntry::new(facts, last_seq, seen_at);
        entry.run_limits = Some(run_limits);
        let revision = index.put(entry);
        drop(index);
        self.shared.wake(revision, ChangeExtent::State);
    }

    /// Replaces what is known of a session.
    pub fn change(&self, facts: SessionFacts, last_seq: u64, at: Option<Timestamp>) {
        let id = facts.id.clone();
        let facts = Arc::new(facts);
        self.shared.update(&id, |entry| {
            entry.facts = facts;
            entry.last_seq = last_seq;
            entry.last_event_at = at.or(entry.last_event_at);
            entry.is_read = false;
            entry.changes += 1;
            ChangeExtent::State
        });
    }

    /// Notes streamed output of a session.
    pub fn stream(&self, id: &SessionId, last_line: &str, last_seq: u64, at: Timestamp) {
        self.shared.update(id, |entry| {
            // Output ends a silence, and with it the state that came of the silence.
            let was_silent =
                entry.last_event_at.is_none_or(|last| at.since(last) >= domain::limits::LOST_PROCESS_WAIT);
            let is_noted = entry.silence.is_some_and(|silence| Some(silence.since) == entry.last_event_at);
            let extent = if was_silent || is_noted || entry.facts.model_wait.is_some() {
                ChangeExtent::State
            } else {
                ChangeExtent::Stream
            };
            if entry.facts.last_line != last_line || entry.facts.model_wait.is_some() {
                let facts = Arc::make_mut(&mut entry.facts);
                last_line.clone_into(&mut facts.last_line);
                // Output means that the model answers.
                facts.model_wait = None;
            }
            entry.last_seq = last_seq;
            entry.last_event_at = Some(at);
            extent
        });
    }

    /// Removes a session that was deleted.
    pub fn forget(&self, id: &SessionId) {
        let revision = self.shared.lock().remove(id);
        self.shared.wake(revision, ChangeExtent::State);
    }

    /// Removes the sessions that are no longer stored.
    pub async fn forget_removed(&self) -> Result<(), Error> {
        if !self.shared.loaded.initialized() {
            return Ok(());
        }
        // Listed before the store is read: a session that is created meanwhile is in neither.
        let known = self.shared.lock().ids();
        let stored: HashSet<String> = self.shared.store.read(sessions::ids).await?.into_iter().collect();
        for id in known.iter().filter(|id| !stored.contains(id.as_str())) {
            self.forget(id);
        }
        Ok(())
    }

    /// Reads the stored sessions once, and begins to look at silent agents.
    async fn load(&self) -> Result<(), Error> {
        let shared = &self.shared;
        shared
            .loaded
            .get_or_try_init(|| async {
                let read = |connection: &_| sessions::overview(connection, limits::OVERVIEW_ENDED_MAX);
                let rows = shared.store.read(read).await?;
                let mut index = shared.lock();
                for row in rows {
                    // Actors that began meanwhile know more.
                    if index.get(&row.spec.id).is_none() {
                        let facts = SessionFacts::of(&row.spec, &row.state);
                        index.put(IndexEntry::new(facts, row.last_seq, row.seen_at));
                    }
                }
                let revision = index.revision();
                drop(index);
                shared.revision.send_replace(revision);
                tokio::spawn(watch::look_at_silent(Arc::downgrade(shared)));
                Ok(())
            })
            .await
            .copied()
    }

    /// Looks at sessions from outside and derives their states.
    async fn glances(&self, entries: Vec<IndexEntry>) -> Result<Vec<SessionGlance>, Error> {
        let looked = move || -> Vec<(SessionGlance, Option<u64>)> {
            let now = clock::now();
            let look = |mut entry: IndexEntry| {
                let read_at = (!entry.is_read).then_some(entry.changes);
                if read_at.is_some() {
                    entry.branch = branch::checked_out(&entry.facts.folder);
                }
                (glance(entry, now), read_at)
            };
            entries.into_iter().map(look).collect()
        };
        let looked = tokio::task::spawn_blocking(looked)
            .await
            .map_err(|error| Error::new(ErrorCode::SessionError, format!("the overview broke: {error}")))?;
        let mut index = self.shared.lock();
        let keep = |(glance, read_at): (SessionGlance, Option<u64>)| {
            if let Some(changes) = read_at {
                index.keep_read(&glance.facts.id, changes, glance.branch.as_deref(), glance.evidence.cpu_ms);
            }
            glance
        };
        Ok(looked.into_iter().map(keep).collect())
    }
}

impl OverviewShared {
    fn lock(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes a session that is known and wakes the watchers.
    fn update(&self, id: &SessionId, change: impl FnOnce(&mut IndexEntry) -> ChangeExtent) {
        let changed = self.lock().change(id, change);
        if let Some((revision, extent)) = changed {
            self.wake(revision, extent);
        }
    }

    fn wake(&self, revision: u64, extent: ChangeExtent) {
        self.revision.send_replace(revision);
        if extent == ChangeExtent::State {
            self.state_revision.send_replace(revision);
        }
    }
}

/// Derives the state of a session.
fn glance(entry: IndexEntry, now: Timestamp) -> SessionGlance {
    let evidence = evidence(&entry);
    let assessment = assess(&entry.facts, &evidence, entry.seen_at, now);
    let facts = &entry.facts;
    let ended_at = facts.last_turn.as_ref().map(|turn| turn.ended_at).max(facts.ended_at);
    SessionGlance {
        is_seen: ended_at.is_none_or(|ended_at| entry.seen_at.is_some_and(|seen| seen >= ended_at)),
        assessment,
        evidence,
        branch: entry.branch,
        last_seq: entry.last_seq,
        facts: entry.facts,
    }
}

/// Looks at the process of a session's agent. Of an agent without work only whether it runs matters, and that costs no reading
/// of the kernel's files: a list of five hundred waits for none of them.
fn evidence(entry: &IndexEntry) -> Evidence {
    let facts = &entry.facts;
    let has_process = facts.status.has_agent() && facts.pid != 0;
    let (is_process_alive, cpu_ms) = if !has_process {
        (None, None)
    } else if entry.is_read && !entry.is_at_work() {
        (Some(host::process_look::exists(facts.pid)), entry.idle_cpu_ms)
    } else {
        let seen = host::process_look::look(facts.pid);
        (Some(seen.is_alive), run_cpu_ms(entry).or(seen.cpu_ms))
    };
    let baseline = entry.silence.filter(|silence| Some(silence.since) == entry.last_event_at);
    Evidence {
        is_process_alive,
        last_event_at: entry.last_event_at,
        cpu_ms,
        cpu_ms_in_silence: baseline.and_then(|silence| Some(cpu_ms?.saturating_sub(silence.cpu_ms?))),
    }
}

/// Returns the CPU time of everything an agent has started, where its control group counts it.
fn run_cpu_ms(entry: &IndexEntry) -> Option<u64> {
    let run = entry.run_limits.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner).clone();
    run?.cpu_ms()
}

/// Sorts sessions as lists show them: by state, and within one by the time it has lasted.
fn sort(glances: &mut [SessionGlance]) {
    glances.sort_by(|a, b| {
        let key = |glance: &SessionGlance| (glance.assessment.state, glance.assessment.since);
        key(a).cmp(&key(b)).then_with(|| a.facts.id.cmp(&b.facts.id))
    });
}

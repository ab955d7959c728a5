//! All sessions of the daemon: creating, finding, listing, watching, recovering and detaching from them. What
//! a surface can do is what this type and `SessionHandle` offer.

mod commands;
mod create;
mod create_begun;
mod create_once;
mod fork;
mod history_writer;
mod import;
mod names;
mod new_session;
mod options;
mod records;
mod recover;
mod resources;
mod weak;
mod workers;

pub use create_begun::BegunSession;
pub use import::{ImportedSession, ListedConversation};
pub use new_session::NewSession;
pub use options::SupervisorOptions;
pub use workers::{LastTurn, NewWorker};
pub(crate) use workers::{WorkerKind, budget_left, preview};

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use domain::permission::{Grant, GrantAction, grant};
use domain::request::RequestSubject;
use domain::{
    Command, Error, ErrorCode, Event, EventKind, Mode, ProviderKind, RequestId, Resource, SessionId, StopMode,
};
use tokio::sync::{broadcast, oneshot};

use crate::bridge::Bridges;
use crate::campaign::Campaigns;
use crate::containment::Policy;
use crate::environments::Environments;
use crate::execute::{Execution, Running};
use crate::grants::Grants;
use crate::history::History;
use crate::journal::{Cursor, Journal};
use crate::overview::Overview;
use crate::process::{KilledHolders, scan};
use crate::project_files::ProjectFiles;
use crate::session::{
    Actor, ActorMessage, ActorStart, SessionHandle, SessionServices, SharedServices, Snapshot,
};
use crate::settings::Settings;
use crate::shared_budgets::BudgetLedger;
use crate::workers::WorkerContext;
use crate::worktree::{self, Worktrees};
use agent_port::Providers;
use host::clock;
use storage::audit::Audit;
use storage::sessions::{self, SessionFilter};
use storage::{Durability, SessionRow, Store};

/// The sessions of this daemon. Cheap to clone.
#[derive(Clone)]
pub struct Supervisor {
    inner: Arc<SupervisorInner>,
}

struct SupervisorInner {
    services: SharedServices,
    campaigns: Campaigns,
    environments: Environments,
    bridges: Bridges,
    actors: Mutex<HashMap<SessionId, SessionHandle>>,
    /// Sessions whose records are being removed; no actor may be started for them.
    leaving: Mutex<HashSet<SessionId>>,
    worktrees: worktree::WorktreeContext,
    project_files: ProjectFiles,
    workers: WorkerContext,
    active_sessions_max: usize,
    /// One import at a time.
    imports: tokio::sync::Mutex<()>,
    /// Held while a name is looked for and taken.
    naming: tokio::sync::Mutex<()>,
}

impl Supervisor {
    /// Creates the supervisor of a store. `recover` resumes the sessions of an earlier daemon.
    pub async fn new(options: SupervisorOptions) -> Result<Self, Error> {
        let epoch = options.store.write(Durability::Synced, next_epoch).await?;
        let groups = resources::find_groups(&options.agents_dir);
        let services = Arc::new(SessionServices {
            journal: Journal::new(options.store.clone()),
            overview: Overview::new(options.store.clone()),
            history: History::start(&options.store)?,
            budgets: BudgetLedger::open(&options.store).await?,
            store: options.store.clone(),
            providers: options.providers,
            killed_holders: KilledHolders::load(&options.agents_dir),
            agents_dir: options.agents_dir,
            shim_program: options.shim_program,
            socket: options.socket,
            epoch,
            spool_max_bytes: options.spool_max_bytes,
            offers_tools: options.offers_tools,
            prices: std::sync::OnceLock::new(),
            scrubber: options.scrubber,
            containment: options.containment,
            scrub_events: options.scrub_events,
            groups,
            settings: options.settings,
        });
        let inner = SupervisorInner {
            services,
            campaigns: Campaigns::new(options.store.clone()).with_default_mode(options.default_mode),
            environments: Environments::new(options.store),
            bridges: Bridges::default(),
            actors: Mutex::new(HashMap::new()),
            leaving: Mutex::new(HashSet::new()),
            worktrees: worktree::WorktreeContext::new(options.worktrees_dir),
            project_files: ProjectFiles::default(),
            workers: WorkerContext::default(),
            active_sessions_max: options.active_sessions_max,
            imports: tokio::sync::Mutex::default(),
            naming: tokio::sync::Mutex::default(),
        };
        let supervisor = Self { inner: Arc::new(inner) };
        worktree::record_turns(&supervisor);
        crate::workers::watch_parents(&supervisor);
        Ok(supervisor)
    }

    /// Sets what models cost, once and before sessions run: what agents report without a cost is then estimated.
    pub fn set_prices(&self, prices: domain::price::PriceTable) {
        // A second table is ignored: estimates of one daemon are made with one.
        let _ = self.inner.services.prices.set(prices);
    }

    pub fn campaigns(&self) -> &Campaigns {
        &self.inner.campaigns
    }

    pub fn worktrees(&self) -> Worktrees {
        Worktrees::new(self.clone())
    }

    pub(crate) fn worker_context(&self) -> &WorkerContext {
        &self.inner.workers
    }

    pub(crate) fn worktree_state(&self) -> &worktree::WorktreeContext {
        &self.inner.worktrees
    }

    pub fn environments(&self) -> &Environments {
        &self.inner.environments
    }

    /// Returns which tools each agent has read over its bridge.
    pub fn bridges(&self) -> &Bridges {
        &self.inner.bridges
    }

    /// Returns what finds past events.
    pub fn history(&self) -> &History {
        &self.inner.services.history
    }

    /// Returns what lists show of every session.
    pub fn overview(&self) -> &Overview {
        &self.inner.services.overview
    }

    /// Returns the grants of sessions and of the user's rule file.
    pub fn grants(&self) -> Grants {
        Grants::new(self.clone())
    }

    pub fn settings(&self) -> &Settings {
        &self.inner.services.settings
    }

    pub(crate) fn project_files(&self) -> &ProjectFiles {
        &self.inner.project_files
    }

    pub(crate) fn containment(&self) -> &Policy {
        &self.inner.services.containment
    }

    pub fn providers(&self) -> &Providers {
        &self.inner.services.providers
    }

    /// Returns a session's snapshot without starting its actor.
    pub async fn snapshot(&self, id: &SessionId) -> Result<Arc<Snapshot>, Error> {
        if let Some(handle) = self.actor(id) {
            return Ok(handle.snapshot());
        }
        Ok(Arc::new(snapshot_of(self.row(id).await?)))
    }

    /// Returns the sessions that match a filter, oldest first.
    pub async fn list(&self, filter: SessionFilter) -> Result<Vec<Snapshot>, Error> {
        let rows = self.store().read(move |connection| sessions::list(connection, &filter)).await?;
        Ok(rows.into_iter().map(snapshot_of).collect())
    }

    /// Returns the handle of a session; starts its actor if there is none.
    pub async fn session(&self, id: &SessionId) -> Result<SessionHandle, Error> {
        if self.is_leaving(id) {
            return Err(not_found(id));
        }
        if let Some(handle) = self.actor(id) {
            return Ok(handle);
        }
        Ok(self.respawn_actor(self.row(id).await?))
    }

    /// Starts an actor for a session that has none. If the session should have an agent, its previous actor
    /// panicked.
    fn respawn_actor(&self, row: SessionRow) -> SessionHandle {
        let beginning = if row.state.status.has_agent() {
            ActorStart::Broken("an internal error broke the session; see the daemon's log".to_owned())
        } else {
            ActorStart::Idle
        };
        self.spawn_actor(row, beginning)
    }

    /// Returns what the permission rules in force say about a tool in a session, independent of its input.
    pub fn judge(&self, spec: &domain::SessionSpec, tool: &str) -> domain::permission::RuleVerdict {
        let ask = domain::request::PermissionSubject {
            call: None,
            tool: tool.to_owned(),
            input: serde_json::Value::Object(serde_json::Map::new()),
            title: String::new(),
            parent: None,
        };
        crate::permissions::evaluate(self.settings(), spec, &ask).verdict
    }

    /// Returns whether the session's grants or the rules in force deny a call of its agent.
    pub fn denies(&self, session: &Snapshot, tool: &str, input: &serde_json::Value) -> bool {
        let (spec, state) = (&session.spec, &session.state);
        let ask = domain::request::PermissionSubject {
            call: None,
            tool: tool.to_owned(),
            input: input.clone(),
            title: String::new(),
            parent: None,
        };
        let findings = crate::permissions::evaluate(self.settings(), spec, &ask);
        let call = domain::permission::pattern::PatternCall {
            tool,
            input,
            working_dir: &spec.working_dir,
            real_paths: Some(&findings.real_paths),
        };
        let asked = grant::Asked { call, parent: None, root: spec.place().root, now: clock::now() };
        let denied = |grant: &Grant| grant.action == GrantAction::Deny;
        matches!(findings.verdict, domain::permission::RuleVerdict::Deny { .. })
            || grant::strictest(&state.grants, &asked).is_some_and(denied)
    }

    /// Returns a reader of a session's journal, strictly after a sequence number.
    pub async fn events_after(&self, id: &SessionId, seq: u64) -> Result<Cursor, Error> {
        if let Some(handle) = self.actor(id) {
            return Ok(handle.events_after(seq));
        }
        let row = self.row(id).await?;
        Ok(self.inner.services.journal.stream(id, row.key, row.last_seq).read_after(seq))
    }

    /// Returns an event as it was before redaction, while that is kept: for the user, who may see it, and for
    /// the agent itself, whose own text or answer it is.
    pub fn original(&self, id: &SessionId, seq: u64) -> Option<EventKind> {
        self.actor(id)?.original(seq)
    }

    /// Returns a request for the client that must execute it: a call of a client's tool with its true input.
    /// Every other request stays as shown.
    pub fn ask_to_execute(
        &self,
        id: &SessionId,
        request: RequestId,
        shown: &RequestSubject,
    ) -> RequestSubject {
        match (shown, self.actor(id)) {
            (RequestSubject::ClientTool { .. }, Some(handle)) => handle.as_asked(request, shown),
            _ => shown.clone(),
        }
    }

    /// The same for the event that opened the request.
    pub fn to_execute<'e>(&self, id: &SessionId, event: &'e Event) -> Cow<'e, Event> {
        if let EventKind::RequestOpened { request, ask: shown @ RequestSubject::ClientTool { .. }, .. } =
            &event.kind
        {
            let asked = self.ask_to_execute(id, *request, shown);
            let mut event = event.clone();
            if let EventKind::RequestOpened { ask, .. } = &mut event.kind {
                *ask = asked;
            }
            return Cow::Owned(event);
        }
        Cow::Borrowed(event)
    }

    /// Subscribes to the status changes of all sessions from now on.
    pub fn watch_statuses(&self) -> broadcast::Receiver<Arc<Event>> {
        self.inner.services.journal.watch_statuses()
    }

    /// Stops a session and waits for its end.
    pub async fn stop(&self, id: &SessionId, how: StopMode) -> Result<Arc<Snapshot>, Error> {
        self.session(id).await?.stop(how).await
    }

    /// Restarts a session under the same id, with changed provider settings if given.
    pub async fn restart(
        &self,
        id: &SessionId,
        mut provider_config: BTreeMap<String, String>,
    ) -> Result<Arc<Snapshot>, Error> {
        let handle = self.session(id).await?;
        let mut spec = handle.snapshot().spec.clone();
        if let Some(resource) = Resource::ALL.into_iter().find(|one| provider_config.contains_key(one.key()))
        {
            let field = format!("provider_config.{}", resource.key());
            return Err(Error::invalid(
                &field,
                "limits are chosen when a session is created; create another one",
            ));
        }
        let mode = create::take_mode(&mut provider_config)?;
        spec.provider_config.extend(provider_config.clone());
        self.providers().get(spec.provider)?.check(&spec)?;
        // One that runs gives its own place back.
        if !handle.snapshot().state.status.has_agent() {
            self.check_room()?;
        }
        if let Some(mode) = mode {
            self.command(id, Command::SetMode { mode }).await?;
        }
        let count = handle.snapshot().state.restart_count;
        self.command(id, Command::Restart { provider_config }).await?;
        let handle = self.session(id).await?;
        // A stop that arrives in between wins over the restart.
        let over =
            |snapshot: &Snapshot| snapshot.state.restart_count > count || snapshot.state.status.is_terminal();
        if handle.wait_until(over).await?.state.restart_count == count {
            return Err(Error::new(
                ErrorCode::WrongState,
                format!("session {id} was stopped while it was being restarted"),
            ));
        }
        let started = handle.started().await?;
        create::check_started(&started)?;
        Ok(started)
    }

    /// Changes the mode of a session.
    pub async fn set_mode(&self, id: &SessionId, mode: Mode) -> Result<(), Error> {
        self.command(id, Command::SetMode { mode }).await.map(|_| ())
    }

    /// Returns the audit of this daemon.
    pub fn audit(&self) -> Audit {
        self.store().audit()
    }

    /// Runs one allowed command in a campaign's folder.
    pub async fn execute(&self, execution: Execution) -> Result<Running, Error> {
        execution.start(&self.inner.services).await
    }

    /// Detaches from all sessions. Agents that are processes keep running and the next daemon finds them.
    pub async fn detach(&self, within: Duration) {
        self.inner.workers.close(within).await;
        let handles: Vec<SessionHandle> = self.lock().drain().map(|(_, handle)| handle).collect();
        let all = async {
            for handle in handles {
                let (done, left) = oneshot::channel();
                if handle.mailbox.send(ActorMessage::Detach { done }).await.is_ok() {
                    // An actor that has ended has nothing to detach from.
                    let _ = left.await;
                }
            }
        };
        if tokio::time::timeout(within, all).await.is_err() {
            tracing::warn!("some sessions did not let go in time");
        }
        self.providers().iter().for_each(|provider| provider.end());
    }

    /// Returns the session whose agent, or whose agent's shim, a process is.
    pub fn session_of_process(&self, pid: u32) -> Option<SessionId> {
        let known =
            self.lock().values().find(|handle| handle.is_process(pid)).map(|handle| handle.id().clone());
        // An agent may call before its shim is known here; the shim's command line names its session.
        known
            .or_else(|| scan::session_held_by(&self.inner.services.agents_dir, pid).map(SessionId::new))
            .or_else(|| self.session_at_a_gateway(pid))
    }

    /// Returns the kernel's start time of the oldest agent whose shim is gone without having ended it: what such an agent
    /// started may have nothing above it that tells it from the user's.
    pub fn agents_lost_since(&self) -> Option<u64> {
        let lost = self.lock().values().filter_map(SessionHandle::holder_lost_since).min();
        lost.into_iter().chain(self.inner.services.killed_holders.since()).min()
    }

    /// Returns the session for which a gateway started this process as its bridge. A gateway serves many
    /// sessions and is not our shim, so only the process itself says which one. It gains no more by a false
    /// claim than another session of the same gateway has.
    fn session_at_a_gateway(&self, pid: u32) -> Option<SessionId> {
        let session = self.actor(&SessionId::new(scan::session_bridged_by(pid)?))?;
        (session.snapshot().spec.provider == ProviderKind::Openclaw).then(|| session.id().clone())
    }

    /// Returns how many sessions have an agent.
    pub fn active_count(&self) -> usize {
        self.active().len()
    }

    fn active(&self) -> Vec<SessionHandle> {
        let actors = self.lock();
        actors.values().filter(|handle| handle.snapshot().state.status.has_agent()).cloned().collect()
    }

    pub(crate) fn store(&self) -> &Store {
        &self.inner.services.store
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<SessionId, SessionHandle>> {
        self.inner.actors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn actor(&self, id: &SessionId) -> Option<SessionHandle> {
        self.lock().get(id).filter(|handle| !handle.is_gone()).cloned()
    }

    async fn row(&self, id: &SessionId) -> Result<SessionRow, Error> {
        let wanted = id.clone();
        let row = self.store().read(move |connection| sessions::find(connection, &wanted)).await?;
        row.filter(|_| !self.is_leaving(id)).ok_or_else(|| not_found(id))
    }

    /// Starts an actor unless another caller was faster; the row read before is then stale and dropped.
    fn spawn_actor(&self, row: SessionRow, beginning: ActorStart) -> SessionHandle {
        let id = row.spec.id.clone();
        let mut actors = self.lock();
        if let Some(handle) = actors.get(&id).filter(|handle| !handle.is_gone()) {
            return handle.clone();
        }
        let (handle, task) = Actor::start(&self.inner.services, row, beginning);
        actors.insert(id.clone(), handle.clone());
        drop(actors);
        tokio::spawn(self.clone().watch_actor(id, task));
        handle
    }

    /// Waits for an actor's end and removes its handle. If the actor panicked, ends its session.
    async fn watch_actor(self, id: SessionId, task: tokio::task::JoinHandle<()>) {
        let ended = task.await;
        {
            let mut actors = self.lock();
            if actors.get(&id).is_some_and(SessionHandle::is_gone) {
                actors.remove(&id);
            }
        }
        if let Err(error) = ended
            && error.is_panic()
        {
            tracing::error!(session = %id, %error, "the session's actor broke down");
            if let Ok(row) = self.row(&id).await {
                self.respawn_actor(row);
            }
        }
    }
}

fn not_found(id: &SessionId) -> Error {
    Error::new(
        ErrorCode::SessionNotFound,
        format!("session_id: there is no session {id}; `obey session list --all` shows them"),
    )
}

fn snapshot_of(row: SessionRow) -> Snapshot {
    Snapshot { spec: row.spec, state: row.state, last_seq: row.last_seq, grace_ran_out: false }
}

fn next_epoch(connection: &rusqlite::Connection) -> rusqlite::Result<u64> {
    let next = "UPDATE meta SET value = value + 1 WHERE key = 'epoch' RETURNING value";
    connection.query_row(next, [], |row| row.get::<_, i64>(0)).map(|epoch| epoch as u64)
}

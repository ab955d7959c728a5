//! Starts workers: checks the request against the parent, creates the session, and puts both on record.

use std::collections::BTreeMap;
use std::path::Path;

use domain::worker::{self, AUTO_APPROVE, WorkerAuthority, WorkerRecord};
use domain::{CallId, Command, Error, ErrorCode, EventKind, LaunchPolicy, ProviderKind, SessionId, Timeouts};
use host::{clock, ids};
use storage::Durability;
use storage::workers as rows;

use super::{WorkerView, Workers};
use crate::limits;
use crate::session::Snapshot;
use crate::supervisor::{NewSession, NewWorker, WorkerKind, budget_left, preview};

/// The fields of a worker to start. An empty text means the default.
#[derive(Clone, Debug)]
pub struct SpawnWorker {
    pub parent: SessionId,
    pub prompt: String,
    /// A provider's name; for `acp` followed by a slash and the agent's name. Empty: the parent's provider.
    pub provider: String,
    pub model: String,
    pub name: String,
    /// Absolute, or below the parent's folder.
    pub working_directory: String,
    pub allowed_tools: Vec<String>,
    pub auto_approve: bool,
    /// Prompts that it may be given; 0: the default.
    pub max_turns: i64,
    pub environment: BTreeMap<String, String>,
    /// A working tree of its own.
    pub worktree: bool,
    pub authority: WorkerAuthority,
    /// The call of the parent's agent that asks for it.
    pub call: Option<CallId>,
    /// Who starts it, for the record.
    pub by: String,
}

/// Where a worker comes from besides a request.
pub(super) struct WorkerOrigin {
    /// The id of its session.
    pub(super) id: SessionId,
    /// The orchestration whose step it is; empty: none.
    pub(super) orchestration: String,
}

impl Workers {
    /// Starts a worker. When this returns, it is on record; it waits for a free place of its parent's workers.
    pub async fn spawn(&self, spawn: SpawnWorker) -> Result<WorkerView, Error> {
        let origin = WorkerOrigin { id: ids::session(), orchestration: String::new() };
        let record = self.create(spawn, origin).await?;
        self.drive_aside(record.clone());
        self.find(record.session.as_str(), None).await
    }

    /// Checks a worker, and creates its session and its record; nobody starts it yet.
    pub(super) async fn create(
        &self,
        spawn: SpawnWorker,
        origin: WorkerOrigin,
    ) -> Result<WorkerRecord, Error> {
        let _pass = self.context().pass().await;
        let parent = self.supervisor.snapshot(&spawn.parent).await.map_err(in_our_words)?;
        check_parent(&parent)?;
        self.check_count(&parent, &spawn, &origin).await?;
        let max_turns = worker::max_turns(spawn.max_turns)?;
        worker::check_environment(spawn.environment.keys())?;
        let (new, first) = self.session_of(&parent, &spawn, &origin.id, max_turns).await?;
        let provider = new.provider;
        let (made, tree) = self.supervisor.create_unstarted(new, origin.id.clone(), first).await?;
        let record = WorkerRecord {
            session: origin.id,
            parent: spawn.parent,
            prompt: spawn.prompt,
            provider,
            model: made.spec.model.clone(),
            name: made.state.name.clone(),
            working_dir: made.spec.working_dir.clone(),
            allowed_tools: spawn.allowed_tools,
            auto_approve: spawn.auto_approve,
            max_turns,
            worktree: tree.map(|tree| tree.id).unwrap_or_default(),
            orchestration: origin.orchestration,
            lingers: false,
            call: spawn.call,
            created_at: made.spec.created_at,
        };
        if let Err(error) = self.put_on_record(&record).await {
            // Whoever asked for it learns that there is none.
            self.supervisor.delete(&record.session).await?;
            return Err(error);
        }
        Ok(record)
    }

    /// Stores what a worker was started with, and tells its parent.
    pub(crate) async fn put_on_record(&self, record: &WorkerRecord) -> Result<(), Error> {
        let stored = record.clone();
        let insert = move |connection: &rusqlite::Connection| rows::insert(connection, &stored);
        // Commits reach the disk in order, so that the next one makes this one durable too.
        self.supervisor.store().write(Durability::Soon, insert).await?;
        let title = if record.name.is_empty() { preview(&record.prompt) } else { record.name.clone() };
        let started =
            EventKind::WorkerStarted { worker: record.session.to_string(), call: record.call.clone(), title };
        self.report(&record.parent, started).await?;
        if record.lingers {
            return Ok(());
        }
        // The parent may have ended after it was looked at; then nobody else ends this worker.
        let parent = self.supervisor.snapshot(&record.parent).await?;
        if check_parent(&parent).is_err() {
            self.end_all_aside(&record.parent, "its parent has ended");
        }
        Ok(())
    }

    /// Returns the session of a worker to create, and the commands that prepare it.
    async fn session_of(
        &self,
        parent: &Snapshot,
        spawn: &SpawnWorker,
        id: &SessionId,
        max_turns: u32,
    ) -> Result<(NewSession, Vec<Command>), Error> {
        let wanted = NewWorker {
            prompt: spawn.prompt.clone(),
            provider: spawn.provider.clone(),
            model: spawn.model.clone(),
            ..NewWorker::default()
        };
        if wanted.prompt.trim().is_empty() {
            return Err(Error::invalid("prompt", "is required"));
        }
        let WorkerKind { provider, mut provider_config, model } =
            self.supervisor.worker_kind(&parent.spec, &wanted)?;
        let left = budget_left(&parent.spec, &parent.state)?;
        if provider == ProviderKind::ClaudeCode {
            provider_config.insert("max_turns".to_owned(), max_turns.to_string());
        }
        if spawn.worktree {
            provider_config.insert("worktree".to_owned(), String::new());
        }
        if parent.spec.workers > 0 {
            provider_config.insert("workers".to_owned(), parent.spec.workers.to_string());
        }
        let grants = worker::worker_grants(
            &parent.state.grants,
            &spawn.allowed_tools,
            spawn.auto_approve,
            spawn.authority,
            clock::now(),
        )?;
        let is_automatic = spawn.auto_approve && spawn.authority == WorkerAuthority::User;
        let mut first: Vec<Command> = Vec::new();
        for grant in grants {
            let by = match grant.action {
                domain::permission::GrantAction::Allow if is_automatic => AUTO_APPROVE.to_owned(),
                _ => format!("parent {}", spawn.parent),
            };
            first.push(Command::SetGrant { grant: Box::new(grant), by });
        }
        if !left.is_unlimited() {
            first.push(Command::SetBudget { change: left, by: format!("parent {}", spawn.parent) });
        }
        let limit = self.context().limits().timeout;
        let name =
            if spawn.name.is_empty() { format!("worker-{}", ids::short(id)) } else { spawn.name.clone() };
        let new = NewSession {
            directory: folder(parent, &spawn.working_directory, spawn.authority)?,
            model,
            name,
            festival_id: parent.spec.festival_id.clone(),
            task_id: parent.spec.task_id.clone(),
            parent: Some(spawn.parent.clone()),
            mode: Some(parent.state.mode),
            provider_config,
            // Checked when the parent was created.
            caller_environment: parent.spec.environment.clone(),
            environment: spawn.environment.clone(),
            max_tokens: left.tokens.unwrap_or(0),
            timeout: [limit, parent.spec.timeout].into_iter().flatten().min(),
            initial_message: spawn.prompt.clone(),
            timeouts: Timeouts { idle_wait: None, ..parent.spec.timeouts },
            ..NewSession::new(provider, spawn.by.clone())
        };
        Ok((new, first))
    }

    /// Checks how many workers there are, and how deeply they nest.
    async fn check_count(
        &self,
        parent: &Snapshot,
        spawn: &SpawnWorker,
        origin: &WorkerOrigin,
    ) -> Result<(), Error> {
        self.supervisor.check_depth(parent).await?;
        // The steps of an orchestration wait for their turn themselves.
        if !origin.orchestration.is_empty() {
            return Ok(());
        }
        let open = self.open_rows(Some(&spawn.parent)).await?.len();
        let limit = |what: String| Err(Error::new(ErrorCode::LimitReached, what));
        if open >= limits::WORKERS_WAITING_MAX {
            return limit(format!("{open} workers of the session have not ended; wait for some"));
        }
        if spawn.authority == WorkerAuthority::User {
            return Ok(());
        }
        if open >= parent.spec.workers as usize {
            return limit(format!(
                "{open} workers are at work already, and the session allows {}; wait for one to end",
                parent.spec.workers
            ));
        }
        let total = self.rows_of(Some(&spawn.parent)).await?.len();
        if total >= limits::WORKERS_TOTAL_MAX {
            return limit(format!("this session has had {total} workers already"));
        }
        Ok(())
    }
}

/// Checks that a session can have workers: that it has not ended for good.
pub(super) fn check_parent(parent: &Snapshot) -> Result<(), Error> {
    let status = parent.state.status;
    if status.is_terminal() && parent.spec.launch == LaunchPolicy::Now {
        let message = format!("parent_session_id: session {} is {}", parent.spec.id, status.name());
        return Err(Error::new(ErrorCode::WrongState, message));
    }
    Ok(())
}

/// Returns the folder of a worker. What an agent starts stays below the root of its session.
fn folder(parent: &Snapshot, wanted: &str, authority: WorkerAuthority) -> Result<String, Error> {
    let own = &parent.spec.working_dir;
    if wanted.is_empty() {
        return Ok(own.display().to_string());
    }
    let unusable = |error: std::io::Error| {
        Error::invalid("working_directory", format_args!("{wanted:?} cannot be used: {error}"))
    };
    let folder = own.join(Path::new(wanted)).canonicalize().map_err(unusable)?;
    if authority == WorkerAuthority::Agent && !folder.starts_with(parent.spec.place().root) {
        let root = parent.spec.place().root.display();
        return Err(Error::invalid("working_directory", format_args!("{wanted:?} is not below {root}")));
    }
    Ok(folder.display().to_string())
}

/// Errors about the parent name the field of this request.
fn in_our_words(error: Error) -> Error {
    match error.message.strip_prefix("session_id: ") {
        Some(what) => Error { message: format!("parent_session_id: {what}"), ..error },
        None => error,
    }
}

//! Workers: sessions that another session's agent, or a task, has started. They work in their parent's
//! folder, have no more permissions than it, and end with their prompt.

use std::collections::BTreeMap;
use std::ffi::OsString;

use domain::turn::EndReason;
use domain::worker::WorkerRecord;
use domain::{
    Budget, CallId, Command, Error, ErrorCode, EventKind, ProviderKind, SessionId, SessionSpec, State,
    Timeouts,
};

use super::{NewSession, Supervisor};
use crate::limits;
use crate::session::Snapshot;
use crate::workers::{WorkerLimits, Workers};
use agent_port::Availability;
use host::clock;
use storage::environments;

/// The fields of a worker to start.
#[derive(Clone, Debug, Default)]
pub struct NewWorker {
    pub prompt: String,
    /// Empty: a default name.
    pub name: String,
    /// A provider's name; for `acp` followed by a slash and the agent's name. Empty: the parent's provider.
    pub provider: String,
    /// Empty: the parent's model, or the default of a different provider.
    pub model: String,
    /// The call of the parent's agent that asked for the worker.
    pub call: Option<CallId>,
}

/// The provider and model of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerKind {
    pub provider: ProviderKind,
    pub provider_config: BTreeMap<String, String>,
    /// Empty: the provider's default.
    pub model: String,
}

/// How the last turn of a session ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastTurn {
    pub reason: EndReason,
    pub text: String,
    pub error: String,
}

impl Supervisor {
    /// Starts a worker of a session, within the limits, and records it in the parent's journal.
    pub async fn spawn_worker(&self, parent: &SessionId, new: NewWorker) -> Result<SessionId, Error> {
        let snapshot = self.snapshot(parent).await?;
        let WorkerKind { provider, provider_config, model } = self.check_worker(&snapshot, &new).await?;
        let left = budget_left(&snapshot.spec, &snapshot.state)?;
        let title = if new.name.is_empty() { preview(&new.prompt) } else { new.name.clone() };
        let call = new.call.clone();
        let child = NewSession {
            directory: snapshot.spec.working_dir.display().to_string(),
            model,
            name: new.name,
            festival_id: snapshot.spec.festival_id.clone(),
            task_id: snapshot.spec.task_id.clone(),
            parent: Some(parent.clone()),
            mode: Some(snapshot.state.mode),
            provider_config,
            // Checked when the parent was created.
            caller_environment: snapshot.spec.environment.clone(),
            max_tokens: left.tokens.unwrap_or(0),
            timeout: snapshot.spec.timeout,
            initial_message: new.prompt,
            timeouts: Timeouts { idle_wait: Some(limits::WORKER_IDLE_WAIT), ..snapshot.spec.timeouts },
            ..NewSession::new(provider, format!("agent of {parent}"))
        };
        let offered = Command::RegisterTools { source: "team".to_owned(), tools: Vec::new() };
        let mut first_of_all = vec![offered];
        if !left.is_unlimited() {
            first_of_all.push(Command::SetBudget { change: left, by: format!("agent of {parent}") });
        }
        let created = self.create_prepared(child, first_of_all).await?;
        let worker = created.spec.id.clone();
        self.tell_of_worker(parent, &worker, call, title).await?;
        Ok(worker)
    }

    /// Checks that a session may have such a worker now, and returns its provider and model.
    pub async fn check_worker(&self, parent: &Snapshot, new: &NewWorker) -> Result<WorkerKind, Error> {
        if new.prompt.trim().is_empty() {
            return Err(Error::invalid("prompt", "is required"));
        }
        let kind = self.worker_kind(&parent.spec, new)?;
        self.check_workers(parent).await?;
        Ok(kind)
    }

    /// Determines provider, settings and model of a worker from its request and its parent.
    pub(crate) fn worker_kind(&self, parent: &SessionSpec, new: &NewWorker) -> Result<WorkerKind, Error> {
        let (name, agent) = match new.provider.split_once('/') {
            Some((name, agent)) => (name, Some(agent)),
            None => (new.provider.as_str(), None),
        };
        let own = parent.provider;
        let provider = match name {
            "" if agent.is_none() => own,
            name => ProviderKind::parse(name).ok_or_else(|| unknown_provider(&new.provider))?,
        };
        let model = |usual: &str| if new.model.is_empty() { usual.to_owned() } else { new.model.clone() };
        if provider == own && agent.is_none() {
            let provider_config = parent.provider_config.clone();
            return Ok(WorkerKind { provider, provider_config, model: model(&parent.model) });
        }
        if agent.is_some() && provider != ProviderKind::Acp {
            return Err(unknown_provider(&new.provider));
        }
        // The worker gets its parent's variables.
        let path = parent.environment.get("PATH").map(OsString::from).or_else(|| std::env::var_os("PATH"));
        if let Availability::Missing { remedy } =
            self.providers().get(provider)?.availability(path.as_deref())
        {
            return Err(Error::new(
                ErrorCode::ProviderNotReady,
                format!("provider: {} cannot be run here: {remedy}", provider.name()),
            ));
        }
        // Settings for the parent's provider mean nothing to another one.
        let provider_config = agent.map(|agent| ("agent".to_owned(), agent.to_owned())).into_iter().collect();
        Ok(WorkerKind { provider, provider_config, model: model("") })
    }

    /// Records in the parent's journal that it has a worker, and later how that ended.
    pub async fn tell_of_worker(
        &self,
        parent: &SessionId,
        worker: &SessionId,
        call: Option<CallId>,
        title: String,
    ) -> Result<(), Error> {
        let snapshot = self.snapshot(worker).await?;
        let record = WorkerRecord {
            session: worker.clone(),
            parent: parent.clone(),
            prompt: title.clone(),
            provider: snapshot.spec.provider,
            model: snapshot.spec.model.clone(),
            name: title,
            working_dir: snapshot.spec.working_dir.clone(),
            allowed_tools: Vec::new(),
            auto_approve: false,
            max_turns: domain::limits::WORKER_TURNS_DEFAULT,
            worktree: String::new(),
            orchestration: String::new(),
            lingers: true,
            call,
            created_at: snapshot.spec.created_at,
        };
        let workers = Workers::new(self);
        workers.put_on_record(&record).await?;
        workers.drive_aside(record);
        Ok(())
    }

    /// Sets how many workers there may be, once and before they run.
    pub fn set_worker_limits(&self, limits: WorkerLimits) {
        self.worker_context().set_limits(limits);
    }

    /// Returns the workers of a session, oldest first.
    pub async fn workers(&self, parent: &SessionId) -> Result<Vec<SessionId>, Error> {
        let wanted = parent.to_string();
        let found = self.store().read(move |connection| environments::children(connection, &wanted)).await?;
        Ok(found.into_iter().map(SessionId::new).collect())
    }

    /// Returns how the last turn of a session ended; `None` if no turn has ended.
    pub async fn last_turn(&self, id: &SessionId) -> Result<Option<LastTurn>, Error> {
        let mut cursor = self.events_after(id, 0).await?;
        let mut last = None;
        loop {
            let events = match cursor.available().await {
                Err(error) if error.code == ErrorCode::EventsExpired => {
                    cursor.skip_removed().await?;
                    continue;
                }
                events => events?,
            };
            if events.is_empty() {
                return Ok(last);
            }
            for event in events {
                if let EventKind::TurnEnded { reason, text, error, .. } = &event.kind {
                    last = Some(LastTurn { reason: *reason, text: text.clone(), error: error.clone() });
                }
            }
        }
    }

    /// Checks how deeply workers nest.
    pub(crate) async fn check_depth(&self, parent: &Snapshot) -> Result<(), Error> {
        let limit = |what: String| Error::new(ErrorCode::LimitReached, what);
        let mut depth = 0;
        let mut above = parent.spec.parent.clone();
        while let Some(id) = above {
            depth += 1;
            if depth >= limits::WORKERS_DEPTH_MAX {
                return Err(limit(format!(
                    "workers may have workers of their own {} levels deep",
                    limits::WORKERS_DEPTH_MAX
                )));
            }
            // A deleted parent adds no further limit.
            above = self.snapshot(&id).await.ok().and_then(|found| found.spec.parent.clone());
        }
        Ok(())
    }

    /// Checks depth, total number and active number of workers against the limits.
    async fn check_workers(&self, parent: &Snapshot) -> Result<(), Error> {
        let limit = |what: String| Error::new(ErrorCode::LimitReached, what);
        self.check_depth(parent).await?;
        let workers = self.workers(&parent.spec.id).await?;
        if workers.len() >= limits::WORKERS_TOTAL_MAX {
            return Err(limit(format!("this session has had {} workers already", workers.len())));
        }
        let mut busy = 0;
        for worker in workers {
            busy += usize::from(!self.snapshot(&worker).await?.state.status.is_terminal());
        }
        if busy >= limits::WORKERS_MAX {
            return Err(limit(format!("{busy} workers are at work already; wait for one to end")));
        }
        Ok(())
    }
}

fn unknown_provider(named: &str) -> Error {
    let known: Vec<&str> = ProviderKind::ALL.iter().map(|kind| kind.name()).collect();
    let known = known.join(", ");
    Error::new(
        ErrorCode::ProviderUnsupported,
        format!("provider: {named:?} is no provider; use one of {known}, or acp/AGENT"),
    )
}

/// Returns the budget of a worker: what its parent has left.
pub(crate) fn budget_left(spec: &SessionSpec, state: &State) -> Result<Budget, Error> {
    let (budget, spent) = (state.budget_of(spec), state.spending(clock::now()));
    budget.left_after(&spent).ok_or_else(|| {
        Error::new(ErrorCode::BudgetExceeded, "the session has nothing left of its budget for a worker")
    })
}

/// Returns the first line of a text, cut to what lists show.
pub(crate) fn preview(text: &str) -> String {
    let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    line.chars().take(domain::limits::PREVIEW_MAX_CHARS).collect()
}

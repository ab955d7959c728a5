//! Creates a session once for a client's key, under a name that no living session has.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use agent_port::conversations::EntryKind;
use domain::{Budget, Command, Error, EventKind, LaunchPolicy, SessionId, SessionSpec, Status, Timestamp};

use super::create::check_started;
use super::names::WhenTaken;
use super::{NewSession, Supervisor};
use crate::client_keys::{self, ClientKey};
use crate::limits;
use crate::session::Snapshot;
use storage::client_keys::KeptKey;
use storage::{Durability, SessionRow};

impl Supervisor {
    /// Creates a session for a person: a name that is taken is refused, and a client's key (empty: none) creates one
    /// session however often it comes.
    pub async fn create_once(&self, new: NewSession, client_key: &str) -> Result<Arc<Snapshot>, Error> {
        let mut unsigned = new.clone();
        unsigned.by.clear();
        let key = client_keys::key_of_request(client_key, &unsigned)?;
        if let Some(key) = &key
            && let Some(created) = self.created_before(key).await?
        {
            return Ok(created);
        }
        self.create_as(new, Vec::new(), Vec::new(), key, WhenTaken::Refuse).await
    }

    /// The same for a session whose agent finds these commands done and continues an earlier conversation, which becomes
    /// the beginning of the journal. A session that exists is given the commands again.
    pub async fn create_prepared_once(
        &self,
        new: NewSession,
        first_of_all: Vec<Command>,
        history: Vec<EntryKind>,
        client_key: &str,
    ) -> Result<Arc<Snapshot>, Error> {
        let mut unsigned = new.clone();
        unsigned.by.clear();
        let Some(key) = client_keys::key_of_request(client_key, &unsigned)? else {
            return self.create_as(new, first_of_all, history, None, WhenTaken::Number).await;
        };
        let Some(created) = self.created_before(&key).await? else {
            return self.create_as(new, first_of_all, history, Some(key), WhenTaken::Number).await;
        };
        for command in first_of_all {
            self.command(&created.spec.id, command).await?;
        }
        self.snapshot(&created.spec.id).await
    }

    /// Returns the session that a key has created; none if it is new, or its session never started.
    pub(super) async fn created_before(&self, key: &ClientKey) -> Result<Option<Arc<Snapshot>>, Error> {
        let wanted = key.key.clone();
        let found =
            self.store().read(move |connection| storage::client_keys::find(connection, "", &wanted)).await?;
        let Some((fingerprint, answer)) = found else { return Ok(None) };
        if fingerprint != key.fingerprint {
            return Err(client_keys::used_otherwise(&key.key));
        }
        let id = SessionId::new(answer);
        let handle = self.session(&id).await?;
        let snapshot = handle.snapshot();
        if snapshot.state.status == Status::Created && snapshot.spec.launch == LaunchPolicy::OnPrompt {
            return Ok(Some(snapshot));
        }
        let started = handle.started().await?;
        if started.state.started_at.is_none() {
            // The daemon died before the agent was started, and no client knows of the session.
            self.delete(&id).await?;
            return Ok(None);
        }
        check_started(&started)?;
        Ok(Some(started))
    }

    async fn has_key(&self, key: &ClientKey) -> Result<bool, Error> {
        let wanted = key.key.clone();
        let found =
            self.store().read(move |connection| storage::client_keys::find(connection, "", &wanted)).await?;
        Ok(found.is_some())
    }

    /// Stores the record under a free name; none if the key has created a session meanwhile.
    pub(super) async fn insert_named(
        &self,
        mut spec: SessionSpec,
        history: Vec<(Timestamp, EventKind)>,
        key: Option<&ClientKey>,
        when_taken: WhenTaken,
        durability: Durability,
    ) -> Result<Option<SessionRow>, Error> {
        let _naming = self.inner.naming.lock().await;
        if let Some(key) = key
            && self.has_key(key).await?
        {
            return Ok(None);
        }
        spec.name = self.free_name("agent_name", &spec.name, &spec.id, when_taken).await?;
        let (answer, at) = (spec.id.to_string(), spec.created_at);
        let key = key.map(|key| KeptKey { scope: String::new(), key: key.clone(), answer, at });
        self.insert(spec, history, key, durability).await.map(Some)
    }
}

/// Removes the number of workers that the agent may have from the provider's settings; it is not the provider's.
pub(super) fn take_workers(config: &mut BTreeMap<String, String>) -> Result<Option<u32>, Error> {
    let Some(text) = config.remove("workers") else { return Ok(None) };
    let most = limits::WORKERS_AT_ONCE;
    match text.trim().parse::<u32>().ok().filter(|workers| *workers as usize <= most) {
        Some(workers) => Ok(Some(workers)),
        None => Err(Error::invalid(
            "provider_config.workers",
            format_args!("{text:?} is no number from 0 to {most}: workers that the agent may have at a time"),
        )),
    }
}

/// Removes the budget from the provider's settings; it is not the provider's.
pub(super) fn take_budget(config: &mut BTreeMap<String, String>) -> Result<Budget, Error> {
    let mut take = |key: &str, unit: f64| -> Result<Option<u64>, Error> {
        let Some(text) = config.remove(key) else { return Ok(None) };
        let amount = text.trim().parse::<f64>().ok().filter(|amount| amount.is_finite() && *amount > 0.0);
        let field = format!("provider_config.{key}");
        let amount =
            amount.ok_or_else(|| Error::invalid(&field, format_args!("{text:?} is no number above 0")))?;
        Ok(Some((amount * unit).ceil() as u64))
    };
    Ok(Budget {
        cost_micro_usd: take("budget_usd", 1_000_000.0)?,
        work_ms: take("budget_minutes", 60_000.0)?,
        tokens: take("budget_tokens", 1.0)?,
        calls: take("budget_calls", 1.0)?,
    })
}

/// Returns the working folder of a session: the campaign's root, or a folder below it.
pub(super) fn working_dir(root: &Path, below: Option<String>) -> Result<PathBuf, Error> {
    let Some(below) = below else { return Ok(root.to_owned()) };
    let wanted = root.join(&below).canonicalize().map_err(|error| {
        Error::invalid("provider_config.workdir", format_args!("{below:?} cannot be used: {error}"))
    })?;
    if !wanted.starts_with(root) || !wanted.is_dir() {
        return Err(Error::invalid(
            "provider_config.workdir",
            format_args!("{below:?} is not a folder inside the campaign {}", root.display()),
        ));
    }
    Ok(wanted)
}

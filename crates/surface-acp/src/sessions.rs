//! Opens, lists, closes and deletes sessions for a client.

use std::sync::Arc;

use domain::{Command, Error, ErrorCode, LaunchPolicy, SessionId, StopMode, Timeouts};
use runtime::{NewSession, Snapshot};
use serde_json::{Value, json};
use storage::sessions::SessionPage;
use tokio::sync::OwnedSemaphorePermit;

use super::connection::ConnectionContext;
use super::feed::{FeedStart, SentPast};
use super::from_wire::{self, SessionParams};
use super::modes;
use super::resume_state::{NoteWriter as _, NotedLoad, NotedSession, Notes};
use super::rpc::{INTERNAL_ERROR, INVALID_REQUEST, RpcError, RpcId};
use super::session_stream::{ResumedStream, SessionStream};
use super::state::SessionStatus;
use crate::limits;

impl ConnectionContext {
    /// Executes a session request and answers it.
    pub(super) async fn serve(self: &Arc<Self>, id: RpcId, method: &str, params: Value) {
        let done = match method {
            "session/new" => match self.new_session(params).await {
                Ok((result, opened)) => {
                    // A client that is gone needs no answer.
                    let _gone = self.out.answer(&id, Ok(result), opened).await;
                    return;
                }
                Err(fault) => Err(fault),
            },
            "session/load" => self.open_again(&id, params, true).await.map(|()| None),
            "session/resume" => self.open_again(&id, params, false).await.map(|()| None),
            "session/list" => self.list(params).await.map(Some),
            _ => {
                let (core, is_close) = (Arc::clone(self), method == "session/close");
                // In a separate task: an agent that is being stopped is stopped even if the client leaves
                // meanwhile.
                let ending = tokio::spawn(async move {
                    if is_close {
                        core.close_session(params).await
                    } else {
                        core.delete_session(params).await
                    }
                });
                let broken = |_| Err(RpcError::new(INTERNAL_ERROR, "the session could not be ended"));
                ending.await.unwrap_or_else(broken).map(Some)
            }
        };
        match done {
            Ok(Some(result)) => self.answer(&id, Ok(result)).await,
            // The feed answers, once it has sent the history or the settings.
            Ok(None) => {}
            Err(fault) => self.answer(&id, Err(fault)).await,
        }
    }

    /// Creates a session; returns the answer and the notes to save with it.
    async fn new_session(
        self: &Arc<Self>,
        params: Value,
    ) -> Result<(Value, impl FnOnce(&mut Notes) + use<>), RpcError> {
        let place: SessionParams = from_wire::params(params)?;
        if !place.session_id.is_empty() {
            return Err(RpcError::params(
                "sessionId: is chosen by the daemon; use session/load for an earlier session",
            ));
        }
        let folder = place.folder()?.to_owned();
        let room = self.take_room()?;
        let provider = self.defaults.provider;
        let mode = place.permission_mode.as_deref().unwrap_or(&self.defaults.mode);
        let choice = match mode {
            "" => {
                let mode = self.supervisor.default_mode_in(&folder).await;
                modes::choose(provider, mode.map_err(|error| self.fault(&in_our_words(error)))?.name())?
            }
            mode => modes::choose(provider, mode)?,
        };
        let mut provider_config = choice.provider_config;
        provider_config.retain(|_, value| !value.is_empty());
        provider_config.extend(self.defaults.provider_config.clone());
        provider_config.extend(place.provider_config(provider)?);
        let new = NewSession {
            directory: folder,
            model: self.defaults.model.clone(),
            mode: Some(choice.mode),
            provider_config,
            caller_environment: self.defaults.caller_environment.clone(),
            environment: self.defaults.environment.clone(),
            launch: LaunchPolicy::OnPrompt,
            timeouts: Timeouts { idle_wait: Some(limits::ACP_IDLE_WAIT), ..Timeouts::default() },
            ..NewSession::new(provider, self.by())
        };
        let key = from_wire::client_key(&place.meta);
        let created = self.supervisor.create_once(new, &key).await;
        let snapshot = created.map_err(|error| self.fault(&in_our_words(error)))?;
        let details = json!({"cwd": snapshot.spec.working_dir.to_string_lossy(), "mode": choice.mode.name()});
        self.evidence.report("session_created", snapshot.spec.id.as_str(), &details);
        let until = snapshot.last_seq;
        let told = SentPast { until, told: until, ..SentPast::default() };
        self.open(&snapshot, room, FeedStart::Live, ResumedStream { told, ..ResumedStream::default() });
        let mut result = self.settings(&snapshot);
        result["sessionId"] = snapshot.spec.id.as_str().into();
        let id = snapshot.spec.id.clone();
        Ok((result, move |notes: &mut Notes| {
            notes.opened(&id, &NotedSession { until, asked: None });
            notes.set_sent(&id, until);
        }))
    }

    /// `session/load` and `session/resume`: sends the history as updates, or only the current settings.
    async fn open_again(self: &Arc<Self>, rpc: &RpcId, params: Value, told: bool) -> Result<(), RpcError> {
        let place: SessionParams = from_wire::params(params)?;
        if place.permission_mode.is_some() {
            let problem = "permissionMode: an earlier session has its mode; change it with session/set_mode";
            return Err(RpcError::params(problem));
        }
        place.folder()?;
        let id = from_wire::session_id(&place.session_id)?;
        let snapshot = self.supervisor.snapshot(&id).await.map_err(|error| self.fault(&error))?;
        self.check_folder(&place, &snapshot)?;
        let room = match self.leave_open(&id)? {
            Some(room) => room,
            None => self.take_room()?,
        };
        let config = place.provider_config(snapshot.spec.provider)?;
        if !config.is_empty() && !snapshot.state.status.has_agent() {
            let command = Command::Configure { provider_config: config };
            self.supervisor.command(&id, command).await.map_err(|error| self.fault(&error))?;
        }
        let snapshot = self.supervisor.snapshot(&id).await.map_err(|error| self.fault(&error))?;
        let until = snapshot.last_seq;
        let past = SentPast { until, told: if told { 0 } else { until }, ..SentPast::default() };
        // From here on the notes cover the request; its line need not be replayed.
        self.out.note_taken(rpc, |notes| {
            let asked = Some(NotedLoad { rpc: rpc.to_json(), told });
            notes.opened(&id, &NotedSession { until, asked });
            notes.set_sent(&id, past.told);
        });
        let beginning = self.beginning(&snapshot, rpc.clone(), told);
        self.open(&snapshot, room, beginning, ResumedStream { told: past, ..ResumedStream::default() });
        Ok(())
    }

    /// How the answer to `session/load` or `session/resume` begins.
    pub(super) fn beginning(&self, snapshot: &Snapshot, rpc: RpcId, told: bool) -> FeedStart {
        let result = self.settings(snapshot);
        if told { FeedStart::Told { rpc, result } } else { FeedStart::Quiet { rpc, result } }
    }

    /// The working directory of a session never changes.
    fn check_folder(&self, place: &SessionParams, snapshot: &Snapshot) -> Result<(), RpcError> {
        let wanted = std::path::Path::new(&place.cwd);
        let wanted = wanted.canonicalize().unwrap_or_else(|_| wanted.to_owned());
        if wanted == snapshot.spec.working_dir {
            return Ok(());
        }
        let own = snapshot.spec.working_dir.display();
        Err(RpcError::params(format!("cwd: session {} works in {own}", snapshot.spec.id)))
    }

    /// Removes a session that is already open here from the table, unless it is busy, and returns its permit.
    fn leave_open(&self, id: &SessionId) -> Result<Option<OwnedSemaphorePermit>, RpcError> {
        let mut talks = self.talks();
        match talks.get(id) {
            None => return Ok(None),
            Some(talk) if talk.is_busy() => {
                return Err(RpcError::new(INVALID_REQUEST, format!("session {id} is busy with a prompt")));
            }
            Some(_) => {}
        }
        Ok(talks.remove(id).and_then(SessionStream::leave))
    }

    /// Reserves one of the client's session slots.
    pub(super) fn take_room(&self) -> Result<OwnedSemaphorePermit, RpcError> {
        Arc::clone(&self.room).try_acquire_owned().map_err(|_| {
            let most = self.defaults.max_sessions;
            let error = Error::new(
                ErrorCode::LimitReached,
                format!("{most} sessions are open already; close one or raise acp.max_sessions"),
            );
            RpcError::from(&error)
        })
    }

    fn open(
        self: &Arc<Self>,
        snapshot: &Snapshot,
        room: OwnedSemaphorePermit,
        beginning: FeedStart,
        past: ResumedStream,
    ) {
        let talk = SessionStream::open(self, snapshot, room, beginning, past);
        self.talks().insert(snapshot.spec.id.clone(), talk);
    }

    /// Modes and options in the format of answers.
    pub(super) fn settings(&self, snapshot: &Snapshot) -> Value {
        json!({
            "modes": modes::to_wire(&snapshot.spec, &snapshot.state),
            "configOptions": modes::options(&snapshot.spec, &snapshot.state, &self.models(snapshot)),
        })
    }

    /// The known models of a session's provider.
    pub(super) fn models(&self, snapshot: &Snapshot) -> Vec<String> {
        let provider = self.supervisor.providers().get(snapshot.spec.provider);
        provider.map(|provider| provider.models()).unwrap_or_default()
    }

    /// Lists sessions page by page, optionally those of one folder.
    async fn list(&self, params: Value) -> Result<Value, RpcError> {
        let list: from_wire::ListParams = from_wire::params(params)?;
        if list.cwd.as_deref().is_some_and(|cwd| !std::path::Path::new(cwd).is_absolute()) {
            return Err(RpcError::params("cwd must be an absolute path"));
        }
        let offset = match list.cursor.as_deref() {
            None | Some("") => 0,
            Some(cursor) => cursor.parse().map_err(|_| RpcError::params("cursor: is not one of ours"))?,
        };
        let folder = |cwd: String| {
            let real = std::path::Path::new(&cwd).canonicalize();
            real.map_or(cwd, |real| real.to_string_lossy().into_owned())
        };
        let limit = limits::ACP_LIST_PAGE;
        let page = SessionPage { working_dir: list.cwd.map(folder), below: None, limit, offset };
        let (found, total) = self.supervisor.page(page).await.map_err(|error| self.fault(&error))?;
        let sessions: Vec<Value> = found.iter().map(listed).collect();
        let mut result = json!({"sessions": sessions});
        let next = offset + limit;
        if (next as u64) < total && !found.is_empty() {
            result["nextCursor"] = next.to_string().into();
        }
        Ok(result)
    }

    /// Stops the agent and closes the session here; its journal stays.
    async fn close_session(&self, params: Value) -> Result<Value, RpcError> {
        let of: from_wire::SessionOnlyParams = from_wire::params(params)?;
        let id = from_wire::session_id(&of.session_id)?;
        let talk = self.talks().remove(&id);
        let Some(mut talk) = talk else {
            return Err(RpcError::params(format!("sessionId: {id} is not open here")));
        };
        talk.conclude("cancelled").await;
        match self.supervisor.stop(&id, StopMode::Now).await {
            Err(error) if error.code != ErrorCode::AlreadyStopped => Err(self.fault(&error)),
            _ => {
                talk.settle().await;
                self.out.note(|notes| notes.closed(&id));
                Ok(json!({}))
            }
        }
    }

    /// Deletes a session; an open prompt is answered as cancelled.
    async fn delete_session(&self, params: Value) -> Result<Value, RpcError> {
        let of: from_wire::SessionOnlyParams = from_wire::params(params)?;
        let id = from_wire::session_id(&of.session_id)?;
        let mut talk = self.talks().remove(&id);
        if let Some(talk) = &mut talk {
            talk.conclude("cancelled").await;
        }
        self.supervisor.delete(&id).await.map_err(|error| self.fault(&error))?;
        self.out.note(|notes| notes.closed(&id));
        Ok(json!({}))
    }

    /// Converts an error for the client; the detail goes to the log.
    pub(super) fn fault(&self, error: &Error) -> RpcError {
        let fault = RpcError::from(error);
        if let Some(detail) = &error.detail {
            tracing::warn!(code = %error.code, message = error.message, detail, "answering with an error");
            self.out.log("error", format!("{error}: {detail}"));
        } else if fault.code == INTERNAL_ERROR {
            self.out.log("error", error.to_string());
        }
        fault
    }
}

/// Errors about roots name `path`; this protocol calls the folder `cwd`.
fn in_our_words(error: Error) -> Error {
    match (error.code, error.message.strip_prefix("path: ")) {
        (ErrorCode::SandboxFailed, Some(what)) => Error::invalid("cwd", what),
        _ => error,
    }
}

/// Describes a session for the list.
fn listed(snapshot: &Snapshot) -> Value {
    let (spec, state) = (&snapshot.spec, &snapshot.state);
    let at = state.last_activity_at.unwrap_or(spec.created_at);
    let (seconds, nanos) = at.seconds_and_nanos();
    let at = jiff::Timestamp::new(seconds, nanos).map(|at| at.to_string()).unwrap_or_default();
    json!({
        "sessionId": spec.id.as_str(),
        "cwd": spec.working_dir.to_string_lossy(),
        "title": state.shown_title(),
        "updatedAt": at,
        "_meta": {"obey": {
            "provider": spec.provider.name(),
            "status": state.status.name(),
            "state": SessionStatus::of(state).name(),
        }},
    })
}

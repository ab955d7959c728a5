//! Session calls: list, replay, compact, cancel, lock, grants, rename, delete.

use std::path::Path;

use domain::permission::{Grant, GrantAction};
use domain::turn::EndReason;
use domain::{Command, Error, ErrorCode, EventKind, SessionId, TurnId, any_event};
use storage::sessions::SessionPage;
use wire::betcode::v1 as pb;

use super::presence::BetcodeClient;
use super::to_wire::{self, BetcodeProjector, BetcodeReplay};
use super::{Betcode, from_wire};
use crate::limits;
use surface::pump::{Messages, ReadUntil, pump};

impl Betcode {
    /// Lists sessions page by page, optionally those of one folder or worktree.
    pub(super) async fn list(
        &self,
        request: pb::ListSessionsRequest,
    ) -> Result<pb::ListSessionsResponse, Error> {
        let (limit, offset) = from_wire::page(request.limit, request.offset);
        let mut page = SessionPage { limit, offset, ..SessionPage::default() };
        if !request.working_directory.is_empty() {
            page.working_dir = Some(resolved(&request.working_directory));
        }
        if !request.worktree_id.is_empty() {
            let path = self.supervisor.worktrees().path(&request.worktree_id).await?;
            page.below = Some(path.display().to_string());
        }
        let (found, total) = self.supervisor.page(page).await?;
        let worktrees = self.worktrees_of(&found).await?;
        let sessions =
            found.iter().zip(&worktrees).map(|(found, tree)| to_wire::summary(found, tree)).collect();
        Ok(pb::ListSessionsResponse { sessions, total: u32::try_from(total).unwrap_or(u32::MAX) })
    }

    /// Replays the events after `from_sequence` up to the newest one.
    pub(super) async fn resume(
        &self,
        request: pb::ResumeSessionRequest,
    ) -> Result<Messages<pb::AgentEvent>, Error> {
        let id = from_wire::session_id(&request.session_id)?;
        let snapshot = self.supervisor.snapshot(&id).await?;
        let worktree = self.worktree_of(&snapshot).await?;
        // From the beginning: the message for an event depends on the events before it.
        let mut cursor = self.supervisor.events_after(&id, 0).await?;
        let newest = cursor.newest();
        if request.from_sequence >= newest {
            cursor = self.supervisor.events_after(&id, newest).await?;
        }
        let replay = BetcodeReplay {
            conversation: BetcodeProjector::new(&snapshot, worktree),
            after: request.from_sequence,
        };
        Ok(pump(cursor, replay, ReadUntil::Event(newest)))
    }

    /// Compacts the session's context and waits for the result, at most `COMPACT_WAIT`.
    pub(super) async fn compact(
        &self,
        request: pb::CompactSessionRequest,
    ) -> Result<pb::CompactSessionResponse, Error> {
        let id = from_wire::session_id(&request.session_id)?;
        self.require_feature("context_compaction")?;
        let before = self.supervisor.snapshot(&id).await?.state.context_messages;
        if before == 0 {
            return Err(Error::new(ErrorCode::WrongState, format!("session {id} has nothing to compact")));
        }
        let applied = self.supervisor.command(&id, Command::Compact).await?;
        let Some((turn, seq)) = applied.turn_started() else {
            return Err(Error::new(ErrorCode::SessionError, "the compaction did not begin"));
        };
        let wait = tokio::time::timeout(limits::COMPACT_WAIT, self.compaction(&id, turn, seq)).await;
        let tokens_saved = wait.unwrap_or_else(|_| {
            let seconds = limits::COMPACT_WAIT.as_secs();
            Err(Error::new(
                ErrorCode::CommandTimedOut,
                format!("the compaction takes longer than {seconds} s"),
            ))
        })?;
        let after = self.supervisor.snapshot(&id).await?.state.context_messages;
        Ok(pb::CompactSessionResponse {
            messages_before: u32::try_from(before).unwrap_or(u32::MAX),
            messages_after: u32::try_from(after).unwrap_or(u32::MAX),
            tokens_saved: u32::try_from(tokens_saved).unwrap_or(u32::MAX),
        })
    }

    /// Waits for the end of a compaction; returns how many tokens it saved, as far as the agent reports it.
    async fn compaction(&self, id: &SessionId, turn: TurnId, seq: u64) -> Result<u64, Error> {
        let mut cursor = self.supervisor.events_after(id, seq).await?;
        let mut saved = None;
        loop {
            for event in cursor.next().await? {
                match &event.kind {
                    EventKind::Compacted { tokens_before, tokens_after, .. } => {
                        let before = tokens_before.unwrap_or_default();
                        saved = Some(before.saturating_sub(tokens_after.unwrap_or(before)));
                    }
                    EventKind::TurnEnded { turn: ended, reason, text, error } if *ended == turn => {
                        return saved.ok_or_else(|| not_compacted(*reason, text, error));
                    }
                    any_event!(
                        life TurnStarted InterruptRequested MessageAdded TurnEnded output request settings
                        plan UsageReported worker report
                    ) => {}
                }
            }
        }
    }

    /// Cancels the current turn.
    pub(super) async fn cancel(
        &self,
        request: pb::CancelTurnRequest,
        client_key: &str,
    ) -> Result<pb::CancelTurnResponse, Error> {
        let id = from_wire::session_id(&request.session_id)?;
        let open = self.supervisor.snapshot(&id).await?.state.turn.is_some();
        let applied = self.supervisor.command_once(&id, Command::CancelTurn, client_key).await?;
        Ok(pb::CancelTurnResponse { was_active: open || !applied.events.is_empty() })
    }

    /// Takes the input lock for a client.
    pub(super) async fn request_lock(
        &self,
        request: pb::InputLockRequest,
        client: &BetcodeClient,
    ) -> Result<pb::InputLockResponse, Error> {
        let id = from_wire::session_id(&request.session_id)?;
        let (granted, previous) = self.take_lock(&id, client).await?;
        Ok(pb::InputLockResponse { granted, previous_holder: previous.unwrap_or_default() })
    }

    /// Lists the session's grants.
    pub(super) async fn grants(
        &self,
        request: pb::ListSessionGrantsRequest,
    ) -> Result<pb::ListSessionGrantsResponse, Error> {
        let id = from_wire::session_id(&request.session_id)?;
        let snapshot = self.supervisor.snapshot(&id).await?;
        let entry = |grant: &Grant| pb::SessionGrantEntry {
            tool_name: grant.label(),
            granted: grant.action == GrantAction::Allow,
        };
        Ok(pb::ListSessionGrantsResponse { grants: snapshot.state.grants.iter().map(entry).collect() })
    }

    /// Removes the session's grants, of one tool if given.
    pub(super) async fn clear_grants(
        &self,
        request: pb::ClearSessionGrantsRequest,
        client: &BetcodeClient,
    ) -> Result<pb::ClearSessionGrantsResponse, Error> {
        let id = from_wire::session_id(&request.session_id)?;
        let command = Command::ClearGrants { tool: request.tool_name, by: client.signature() };
        self.supervisor.command(&id, command).await?;
        Ok(pb::ClearSessionGrantsResponse {})
    }

    /// Allows or denies a tool for the rest of the session.
    pub(super) async fn set_grant(
        &self,
        request: pb::SetSessionGrantRequest,
        client: &BetcodeClient,
    ) -> Result<pb::SetSessionGrantResponse, Error> {
        let id = from_wire::session_id(&request.session_id)?;
        let grant = Grant::by_pattern("tool_name", &request.tool_name, !request.granted)?;
        self.supervisor
            .command(&id, Command::SetGrant { grant: Box::new(grant), by: client.answer_signature()? })
            .await?;
        Ok(pb::SetSessionGrantResponse {})
    }

    /// Renames a session.
    pub(super) async fn rename(
        &self,
        request: pb::RenameSessionRequest,
    ) -> Result<pb::RenameSessionResponse, Error> {
        let id = from_wire::session_id(&request.session_id)?;
        let name = from_wire::name(request.name)?;
        self.supervisor.command(&id, Command::Rename { name }).await?;
        Ok(pb::RenameSessionResponse {})
    }

    /// Changes the mode of a session.
    pub(super) async fn set_mode(
        &self,
        request: pb::SetSessionModeRequest,
    ) -> Result<pb::SetSessionModeResponse, Error> {
        let id = from_wire::session_id(&request.session_id)?;
        let mode = from_wire::mode("mode", &request.mode)?;
        self.supervisor.set_mode(&id, mode).await?;
        Ok(pb::SetSessionModeResponse { mode: mode.name().to_owned() })
    }

    /// Changes the model of a session.
    pub(super) async fn set_model(
        &self,
        request: pb::SetSessionModelRequest,
    ) -> Result<pb::SetSessionModelResponse, Error> {
        let id = from_wire::session_id(&request.session_id)?;
        let model = from_wire::model(request.model)?;
        self.check_model(&id, &model).await?;
        self.supervisor.command(&id, Command::SetModel { model: model.clone() }).await?;
        Ok(pb::SetSessionModelResponse { model })
    }

    /// Refuses a model that the session's provider does not know.
    pub(super) async fn check_model(&self, id: &SessionId, model: &str) -> Result<(), Error> {
        let snapshot = self.supervisor.snapshot(id).await?;
        let spec = domain::SessionSpec { model: model.to_owned(), ..snapshot.spec.clone() };
        self.supervisor.providers().get(spec.provider)?.check(&spec)
    }

    /// Deletes a session and ends its conversations.
    pub(super) async fn delete(
        &self,
        request: pb::DeleteSessionRequest,
    ) -> Result<pb::DeleteSessionResponse, Error> {
        let id = from_wire::session_id(&request.session_id)?;
        self.supervisor.delete(&id).await?;
        let message = format!("session_id: {id} was deleted");
        self.presence.dismiss(&id, &Error::new(ErrorCode::SessionNotFound, message));
        Ok(pb::DeleteSessionResponse { deleted: true })
    }
}

fn not_compacted(reason: EndReason, text: &str, error: &str) -> Error {
    let said = if error.is_empty() { text } else { error };
    let said = if said.is_empty() { to_wire::stop_reason(reason) } else { said };
    Error::new(ErrorCode::SessionError, format!("the agent did not compact its conversation: {said}"))
}

/// Resolves a path; a path that does not exist is used as written.
fn resolved(path: &str) -> String {
    let real = Path::new(path).canonicalize();
    real.map_or_else(|_| path.trim_end_matches('/').to_owned(), |path| path.display().to_string())
}

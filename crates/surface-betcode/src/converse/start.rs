//! Starts a conversation: with a new session, or with an existing one.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::event::METADATA_ACTIVITY;
use domain::{Command, Error, ErrorCode, EventKind, LaunchPolicy, Mode, SessionId};
use runtime::{NewSession, Snapshot};

use super::OpenedConversation;
use crate::Betcode;
use crate::from_wire::ConversationStart;
use crate::presence::BetcodeClient;

impl Betcode {
    /// Opens the conversation's session: an existing one from `from_sequence` on, or a new one.
    pub(super) async fn open(
        &self,
        start: ConversationStart,
        client: &BetcodeClient,
        client_key: &str,
    ) -> Result<OpenedConversation, Error> {
        let after = start.from_sequence;
        let (snapshot, is_resumed) = match &start.session {
            Some(session) => {
                let newest = self.supervisor.events_after(session, 0).await?.newest();
                if after > newest {
                    return Err(Error::invalid(
                        "metadata.from_sequence",
                        format_args!("{after} is after the newest event, {newest}"),
                    ));
                }
                self.change(session, &start).await?;
                (self.supervisor.snapshot(session).await?, true)
            }
            None => (self.create(start, client, client_key).await?, false),
        };
        let worktree_id = self.worktree_of(&snapshot).await?;
        Ok(OpenedConversation {
            snapshot,
            worktree_id,
            after: if is_resumed { after } else { 0 },
            is_resumed,
        })
    }

    /// Changes mode and model of an existing session, where the start names others.
    async fn change(&self, session: &SessionId, start: &ConversationStart) -> Result<(), Error> {
        let snapshot = self.supervisor.snapshot(session).await?;
        if start.plan_mode && snapshot.state.mode != Mode::Plan {
            self.supervisor.set_mode(session, Mode::Plan).await?;
        }
        let known = [&snapshot.state.model, &snapshot.state.resolved_model];
        if !start.model.is_empty() && !known.contains(&&start.model) {
            self.check_model(session, &start.model).await?;
            let command = Command::SetModel { model: start.model.clone() };
            self.supervisor.command(session, command).await?;
        }
        Ok(())
    }

    /// Creates a session; its agent starts with the first message.
    async fn create(
        &self,
        start: ConversationStart,
        client: &BetcodeClient,
        client_key: &str,
    ) -> Result<Arc<Snapshot>, Error> {
        let directory = self.directory(&start).await?;
        let defaults = self.defaults(&directory, start.provider)?;
        let new = NewSession {
            directory,
            model: if start.model.is_empty() { defaults.default_model } else { start.model },
            name: start.name,
            mode: start.plan_mode.then_some(Mode::Plan),
            launch: LaunchPolicy::OnPrompt,
            timeouts: defaults.timeouts,
            ..NewSession::new(start.provider, client.signature())
        };
        let created = match client_key {
            "" => self.supervisor.create(new).await,
            key => self.supervisor.create_once(new, key).await,
        };
        let created = created.map_err(in_our_words)?;
        let id = &created.spec.id;
        for grant in start.grants {
            self.supervisor
                .command(id, Command::SetGrant { grant: Box::new(grant), by: client.answer_signature()? })
                .await?;
        }
        if !start.metadata.is_empty() && created.state.metadata != start.metadata {
            let report = metadata_report(start.metadata, client);
            self.supervisor.command(id, Command::Report(report)).await?;
        }
        self.supervisor.snapshot(id).await
    }

    /// Returns the folder of a new session: its worktree, the given folder, or the default.
    async fn directory(&self, start: &ConversationStart) -> Result<String, Error> {
        if !start.worktree.is_empty() {
            return self.worktree_folder(&start.worktree).await;
        }
        if !start.directory.is_empty() {
            return Ok(start.directory.clone());
        }
        self.default_folder().await
    }
}

/// Errors about roots name `path`; this protocol calls the folder `working_directory`.
fn in_our_words(error: Error) -> Error {
    match (error.code, error.message.strip_prefix("path: ")) {
        (ErrorCode::SandboxFailed, Some(what)) => {
            Error { message: format!("working_directory: {what}"), ..error }
        }
        _ => error,
    }
}

/// Returns the event that keeps a client's metadata with the session.
fn metadata_report(metadata: BTreeMap<String, String>, client: &BetcodeClient) -> EventKind {
    EventKind::ActivityReported {
        activity: METADATA_ACTIVITY.to_owned(),
        agent_name: client.id.clone(),
        content: String::new(),
        tool: String::new(),
        call: String::new(),
        ok: true,
        tokens_input: 0,
        tokens_output: 0,
        extra: metadata,
    }
}

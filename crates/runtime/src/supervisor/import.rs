//! Makes sessions of conversations that agents had without this daemon: their history becomes the beginning of a
//! journal, and the next prompt resumes them under the agent's own id. A conversation becomes one session, however often it is
//! imported.

use std::sync::Arc;

use agent_port::conversations::{ConversationSummary, PastConversation};
use domain::event::Level;
use domain::turn::EndReason;
use domain::{Error, ErrorCode, EventKind, LaunchPolicy, ProviderKind, SessionId, Timestamp};
use host::clock;
use storage::{Durability, sessions};

use super::history_writer::{HistoryWriter, redact_entries, redact_events};
use super::{NewSession, Supervisor};
use crate::session::{ActorStart, Snapshot, redactor};

/// A conversation that can be imported, or was.
#[derive(Clone, Debug)]
pub struct ListedConversation {
    pub provider: ProviderKind,
    pub summary: ConversationSummary,
    /// The session it belongs to already.
    pub session: Option<SessionId>,
}

/// A session that holds a conversation.
#[derive(Clone, Debug)]
pub struct ImportedSession {
    pub snapshot: Arc<Snapshot>,
    /// The session existed before.
    pub is_known: bool,
    /// The conversation had more than was read.
    pub truncated: bool,
}

impl Supervisor {
    /// Returns the conversations of agents on this machine, the last used first.
    pub async fn conversations(&self, only: Option<ProviderKind>) -> Result<Vec<ListedConversation>, Error> {
        let mut listed = Vec::new();
        for provider in self.providers().iter() {
            let kind = provider.kind();
            if only.is_some_and(|only| only != kind) || provider.conversations().is_none() {
                continue;
            }
            let reader = Arc::clone(provider);
            let found =
                off_thread(move || reader.conversations().map_or(Ok(Vec::new()), |files| files.list()))
                    .await?;
            let known = self
                .store()
                .read(move |connection| sessions::native_sessions(connection, kind.name()))
                .await?;
            for summary in found {
                let session = known.get(&summary.id).map(|id| SessionId::new(id.as_str()));
                let summary = ConversationSummary { title: self.without_secrets(&summary.title), ..summary };
                listed.push(ListedConversation { provider: kind, summary, session });
            }
        }
        listed.sort_by_key(|one| std::cmp::Reverse(one.summary.last_at));
        Ok(listed)
    }

    /// Makes a session of a conversation, or returns the one it belongs to already.
    pub async fn import(
        &self,
        only: Option<ProviderKind>,
        id: &str,
        by: &str,
    ) -> Result<ImportedSession, Error> {
        if id.is_empty() {
            return Err(Error::invalid("conversation_id", "is required"));
        }
        // Two imports of one conversation at the same time must not make two sessions.
        let _alone = self.inner.imports.lock().await;
        let (kind, past) = self.find_conversation(only, id).await?;
        let wanted = id.to_owned();
        let known = self
            .store()
            .read(move |connection| {
                Ok(sessions::native_sessions(connection, kind.name())?
                    .get(&wanted)
                    .map(|id| SessionId::new(id.as_str())))
            })
            .await?;
        if let Some(known) = known {
            return Ok(ImportedSession {
                snapshot: self.snapshot(&known).await?,
                is_known: true,
                truncated: false,
            });
        }
        let truncated = past.truncated;
        let snapshot = self.adopt(kind, past, by).await?;
        Ok(ImportedSession { snapshot, is_known: false, truncated })
    }

    /// Returns the agent's own id of a session's conversation and the command that continues it without this daemon;
    /// `None` if the agent has no such command, or the conversation has not begun.
    pub async fn way_back(&self, id: &SessionId) -> Result<Option<(String, String)>, Error> {
        let snapshot = self.snapshot(id).await?;
        let native = snapshot.state.native_session.clone();
        let provider = self.providers().get(snapshot.spec.provider)?;
        let files = provider.conversations().filter(|_| !native.is_empty());
        Ok(files.map(|files| {
            let command = files.way_back(&native);
            (native, command)
        }))
    }

    async fn find_conversation(
        &self,
        only: Option<ProviderKind>,
        id: &str,
    ) -> Result<(ProviderKind, PastConversation), Error> {
        for provider in self.providers().iter() {
            let kind = provider.kind();
            if only.is_some_and(|only| only != kind) {
                continue;
            }
            let (reader, wanted) = (Arc::clone(provider), id.to_owned());
            let found =
                off_thread(move || reader.conversations().map_or(Ok(None), |files| files.read(&wanted)))
                    .await?;
            if let Some(found) = found {
                return Ok((kind, found));
            }
        }
        Err(Error::new(
            ErrorCode::ItemNotFound,
            format!("conversation_id: no agent here has a conversation {id}; `obey import` lists them"),
        ))
    }

    /// Creates the session of a conversation.
    async fn adopt(
        &self,
        kind: ProviderKind,
        mut past: PastConversation,
        by: &str,
    ) -> Result<Arc<Snapshot>, Error> {
        let title = self.without_secrets(&past.summary.title);
        let new = NewSession {
            directory: past.summary.folder.display().to_string(),
            model: past.model.clone(),
            name: title.chars().filter(|letter| !letter.is_control()).take(60).collect(),
            launch: LaunchPolicy::OnPrompt,
            ..NewSession::new(kind, by.to_owned())
        };
        let mut spec = self.resolve(new).await.map_err(|error| {
            let folder = past.summary.folder.display();
            Error::new(error.code, format!("the conversation was held in {folder}: {}", error.message))
        })?;
        if self.providers().get(kind)?.check(&spec).is_err() {
            // A model that is no longer known; the agent chooses one.
            spec.model.clear();
        }
        spec.created_at = past.summary.started_at.max(Timestamp(1));
        let redact = redactor(self.inner.services.scrubber_of(&spec).cloned());
        redact_entries(past.entries.iter_mut().map(|entry| &mut entry.kind), redact.as_ref());
        let mut history = history(&past, by);
        redact_events(&mut history, redact.as_ref());
        let row = self.insert(spec, history, None, Durability::Synced).await?;
        Ok(self.spawn_actor(row, ActorStart::Idle).snapshot())
    }
}

/// Returns the events of a conversation. Every turn is closed, and so is every call.
fn history(past: &PastConversation, by: &str) -> Vec<(Timestamp, EventKind)> {
    let mut writer = HistoryWriter::default();
    let ready = EventKind::AgentReady {
        native_session: past.summary.id.clone(),
        model: past.model.clone(),
        version: String::new(),
        resolved_model: String::new(),
    };
    writer.events.push((past.summary.started_at, ready));
    let mut at = past.summary.started_at;
    for entry in &past.entries {
        // Agents write some lines late; a journal's times do not go back.
        at = at.max(entry.at);
        writer.take(at, &entry.kind, by);
    }
    writer.end_turn(at, EndReason::Completed);
    let cut = if past.truncated { "; a part of it was too long and is left out" } else { "" };
    let message = format!("imported conversation {}{cut}", past.summary.id);
    writer.events.push((clock::now(), EventKind::Notice { level: Level::Info, code: None, message }));
    writer.events
}

/// Runs something that reads many files.
async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| {
        Err(Error::new(ErrorCode::SessionError, "an internal error").with_detail(error.to_string()))
    })
}

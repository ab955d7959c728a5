//! Checkpoint operations: the saved state of a session in contextd's messages. An agent's checkpoint includes
//! its conversation.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use domain::{Error, EventKind, SessionId, any_event};
use host::clock;
use runtime::Supervisor;
use wire::contextd::v1 as pb;
use workbench::checkpoint::{CheckpointDetail, NewCheckpoint, describe_calls};
use workbench::limits as most;

use super::ContextdHandler;
use super::call::OperationCall;
use super::memories::limit;
use super::sessions::shortened;
use crate::limits;
use surface::peer::Caller;

impl ContextdHandler {
    /// Saves the session's calls and, for an agent's session, its conversation.
    pub(super) async fn save_checkpoint(
        &self,
        call: &mut OperationCall,
        request: pb::CheckpointSaveRequest,
    ) -> Result<pb::CheckpointSaveResponse, Error> {
        let session = Arc::clone(call.session()?);
        let summary = call.clean(&request.summary)?;
        let tags = call.clean_all(&request.tags)?;
        let rows = self.calls_of(&session.id).await?;
        let (mut context, mut everything) =
            describe_calls(&session.place.project, &session.task, &summary, &rows);
        if session.adopted {
            let said = call.clean(&conversation(&self.supervisor, &session.id, u64::MAX).await?.0)?;
            context.push_str(&conversation_end(&said));
            everything.push_str(&format!("\nConversation:\n{said}"));
        }
        let new = NewCheckpoint {
            session: session.id.to_string(),
            project: session.place.project.clone(),
            summary,
            tags,
            context,
            everything,
        };
        let checkpoint_id = self.workbench.checkpoints().save(new, clock::now()).await?;
        let saved = self.workbench.save_tree(&session.id, &session.project, &checkpoint_id).await;
        // The summary and the conversation are worth keeping without the files.
        call.summary = match saved {
            Ok(Some(commit)) => format!("Saved: {checkpoint_id} with the tree {commit}"),
            Ok(None) => format!("Saved: {checkpoint_id} (no repository, no tree)"),
            Err(error) => format!("Saved: {checkpoint_id} without its tree: {}", error.message),
        };
        Ok(pb::CheckpointSaveResponse { tokens_used: 0, checkpoint_id })
    }

    /// Lists the project's checkpoints, each with a shortened summary.
    pub(super) async fn list_checkpoints(
        &self,
        call: &mut OperationCall,
        request: pb::CheckpointListRequest,
    ) -> Result<pb::CheckpointListResponse, Error> {
        let session = Arc::clone(call.session()?);
        let most = limit(request.limit, most::SEARCH_DEFAULT);
        let found =
            self.workbench.checkpoints().list(&session.place.project, only(call).as_deref(), most).await?;
        let mut checkpoints = Vec::with_capacity(found.len());
        for checkpoint in found {
            checkpoints.push(pb::CheckpointRef {
                id: checkpoint.id,
                summary: shortened(&call.clean(&checkpoint.summary)?, limits::CHECKPOINT_SUMMARY_CHARS),
                created_at: time(checkpoint.created_at),
                tags: call.clean_all(&checkpoint.tags)?,
            });
        }
        call.summary = format!("Listed: {} checkpoints", checkpoints.len());
        Ok(pb::CheckpointListResponse { checkpoints, tokens_used: 0 })
    }

    /// Returns a checkpoint at the requested level of detail. The full text is stored and returned as a ref.
    pub(super) async fn resume_checkpoint(
        &self,
        call: &mut OperationCall,
        request: pb::CheckpointResumeRequest,
    ) -> Result<pb::CheckpointResumeResponse, Error> {
        let session = Arc::clone(call.session()?);
        let level = CheckpointDetail::parse(&request.level)?;
        let (project, only) = (&session.place.project, only(call));
        let found =
            self.workbench.checkpoints().get(project, only.as_deref(), &request.checkpoint_id).await?;
        let (checkpoint, context, everything) = found;
        if checkpoint.automatic && only.is_none() {
            self.bring_back_files(session.project.root(), &checkpoint.id, level).await?;
        }
        let summary = call.clean(&checkpoint.summary)?;
        let context = if level == CheckpointDetail::Summary { String::new() } else { call.clean(&context)? };
        let context_ref = match level {
            CheckpointDetail::Full => {
                self.workbench.store_text(&session.id, call.clean(&everything)?).await?.unwrap_or_default()
            }
            CheckpointDetail::Summary | CheckpointDetail::Context => String::new(),
        };
        call.summary = format!("Resumed: {}", checkpoint.id);
        Ok(pb::CheckpointResumeResponse { summary, context, context_ref, tokens_used: 0 })
    }

    /// Puts the files that the daemon kept for a checkpoint into the repository, where a restore finds them. A restore asks
    /// for the summary first; to everybody else the text is worth having without the files.
    async fn bring_back_files(&self, root: &Path, id: &str, level: CheckpointDetail) -> Result<(), Error> {
        let bundle = bundle_of(&self.about.checkpoints_folder, id);
        match self.supervisor.worktrees().unbundle_checkpoint(root, id, &bundle).await {
            Err(error) if level == CheckpointDetail::Summary => Err(error),
            Err(error) => {
                tracing::warn!(%error, id, "the files of a checkpoint cannot be brought back");
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }
}

/// Returns the file that holds the files of a checkpoint which the daemon made by itself.
pub fn bundle_of(folder: &Path, id: &str) -> PathBuf {
    folder.join(format!("{id}.bundle"))
}

/// Returns the conversation of an agent's session before a turn as text: prompts, answers, tools; and the turn's prompt.
pub async fn conversation(
    supervisor: &Supervisor,
    id: &SessionId,
    before_turn: u64,
) -> Result<(String, String), Error> {
    let mut cursor = supervisor.events_after(id, 0).await?;
    // The oldest events may have been removed; the rest is still worth saving.
    cursor.skip_removed().await?;
    let mut text = String::new();
    loop {
        let events = cursor.available().await?;
        if events.is_empty() || text.len() > limits::CHECKPOINT_RECORD_BYTES {
            return Ok((text, String::new()));
        }
        for event in events {
            if let EventKind::TurnStarted { turn, prompt, .. } = &event.kind
                && turn.0 >= before_turn
            {
                return Ok((text, prompt.clone()));
            }
            append_event(&mut text, &event.kind);
        }
    }
}

/// Returns the end of a conversation for a checkpoint's context.
pub fn conversation_end(said: &str) -> String {
    format!("Conversation:\n{}", last(said, limits::CHECKPOINT_CONVERSATION_CHARS))
}

/// Appends an event of the conversation as text.
fn append_event(text: &mut String, kind: &EventKind) {
    match kind {
        EventKind::TurnStarted { prompt, .. } => text.push_str(&format!("\nUser: {prompt}\n")),
        EventKind::MessageAdded { text: said, .. } => text.push_str(&format!("\nUser: {said}\n")),
        EventKind::TextDelta { text: said, parent: None } => text.push_str(said),
        EventKind::ToolStarted { tool, title, parent: None, .. } => {
            text.push_str(&format!("\n[{tool}: {}]\n", shortened(title, limits::CHECKPOINT_SUMMARY_CHARS)));
        }
        EventKind::ToolFinished { tool, ok: false, .. } => text.push_str(&format!("[{tool} failed]\n")),
        // All other events describe how the work was done, not the conversation.
        any_event!(
            life InterruptRequested TurnEnded TextDelta ThinkingDelta ToolStarted ToolProgress ToolFinished
            request settings plan usage worker report
        ) => {}
    }
}

/// Agents see only their own checkpoints, users those of the whole project.
fn only(call: &OperationCall) -> Option<String> {
    match &call.caller {
        Caller::User | Caller::Device(_) | Caller::Page => None,
        Caller::Agent(session) => Some(session.to_string()),
        Caller::Unknown | Caller::Token | Caller::ApiKey(_) => Some(String::from("-")),
    }
}

/// Returns the last characters of a text.
fn last(text: &str, chars: usize) -> &str {
    let skipped = text.chars().count().saturating_sub(chars);
    text.char_indices().nth(skipped).map_or("", |(at, _)| &text[at..])
}

/// Returns a time in RFC 3339.
fn time(at: domain::Timestamp) -> String {
    jiff::Timestamp::from_microsecond(at.0).map(|at| at.to_string()).unwrap_or_default()
}

//! Checkpoint operations: the saved state of a session in contextd's messages. An agent's checkpoint includes
//! its conversation.

use std::sync::Arc;

use domain::{Error, EventKind, SessionId};
use host::clock;
use wire::contextd::v1 as pb;
use workbench::checkpoint::{CheckpointDetail, NewCheckpoint, describe_calls};
use workbench::limits as most;

use super::ContextdHandler;
use super::call::{OperationCall, tokens};
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
            let said = call.clean(&self.conversation(&session.id).await?)?;
            context
                .push_str(&format!("Conversation:\n{}", last(&said, limits::CHECKPOINT_CONVERSATION_CHARS)));
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
        call.summary = format!("Saved: {checkpoint_id}");
        Ok(pb::CheckpointSaveResponse { tokens_used: tokens([checkpoint_id.as_str()]), checkpoint_id })
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
        let texts = checkpoints.iter().flat_map(|it| [it.id.as_str(), &it.summary, &it.created_at]);
        let tokens_used = tokens(texts);
        Ok(pb::CheckpointListResponse { checkpoints, tokens_used })
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
        let summary = call.clean(&checkpoint.summary)?;
        let context = if level == CheckpointDetail::Summary { String::new() } else { call.clean(&context)? };
        let context_ref = match level {
            CheckpointDetail::Full => {
                self.workbench.store_text(&session.id, call.clean(&everything)?).await?.unwrap_or_default()
            }
            CheckpointDetail::Summary | CheckpointDetail::Context => String::new(),
        };
        call.summary = format!("Resumed: {}", checkpoint.id);
        let tokens_used = tokens([summary.as_str(), &context]);
        Ok(pb::CheckpointResumeResponse { summary, context, context_ref, tokens_used })
    }

    /// Returns the conversation of an agent's session as text: prompts, answers, tools.
    async fn conversation(&self, id: &SessionId) -> Result<String, Error> {
        let mut cursor = self.supervisor.events_after(id, 0).await?;
        // The oldest events may have been removed; the rest is still worth saving.
        cursor.skip_removed().await?;
        let mut text = String::new();
        loop {
            let events = cursor.available().await?;
            if events.is_empty() || text.len() > limits::CHECKPOINT_RECORD_BYTES {
                return Ok(text);
            }
            events.iter().for_each(|event| append_event(&mut text, &event.kind));
        }
    }
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
        _ => {}
    }
}

/// Agents see only their own checkpoints, users those of the whole project.
fn only(call: &OperationCall) -> Option<String> {
    match &call.caller {
        Caller::User | Caller::Device(_) => None,
        Caller::Agent(session) => Some(session.to_string()),
        Caller::Unknown | Caller::Token => Some(String::from("-")),
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

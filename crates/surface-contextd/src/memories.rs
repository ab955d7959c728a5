//! Memory operations in contextd's messages.

use std::sync::Arc;

use domain::Error;
use host::clock;
use wire::contextd::v1 as pb;
use workbench::limits as most;
use workbench::memory::{MemoryOutcome, MemorySearch, NewMemory};
use workbench::place::Scope;

use super::ContextdHandler;
use super::call::OperationCall;
use super::sessions::shortened;

/// The default minimum confidence of a search, from contextd's schema.
const MIN_CONFIDENCE: f64 = 0.7;

/// Reads an outcome; the field rules have already refused what is none.
fn memory_outcome(text: &str) -> Result<MemoryOutcome, Error> {
    MemoryOutcome::parse(text)
        .ok_or_else(|| Error::invalid("outcome", "must be success, failure, mixed or neutral"))
}

impl ContextdHandler {
    /// Searches the memories of the requested scope.
    pub(super) async fn search_memories(
        &self,
        call: &mut OperationCall,
        request: pb::MemorySearchRequest,
    ) -> Result<pb::MemorySearchResponse, Error> {
        let session = Arc::clone(call.session()?);
        let outcome = match request.outcome.as_str() {
            "" | "all" => None,
            named => Some(memory_outcome(named)?),
        };
        let search = MemorySearch {
            query: request.query,
            place: session.place.clone(),
            scope: Scope::parse(&request.scope, Scope::Project)?,
            outcome,
            limit: limit(request.limit, most::SEARCH_DEFAULT),
            min_confidence: request.min_confidence.map_or(MIN_CONFIDENCE, f64::from),
            now: clock::now(),
        };
        let (found, total) = self.workbench.memories().search(search).await?;
        let mut memories = Vec::with_capacity(found.len());
        for memory in found {
            memories.push(pb::MemoryRef {
                id: memory.id,
                title: call.clean(&memory.title)?,
                description_preview: shortened(
                    &call.clean(&memory.description)?,
                    most::DESCRIPTION_PREVIEW_CHARS,
                ),
                confidence: confidence(memory.confidence),
                outcome: memory.outcome.name().to_owned(),
            });
        }
        call.summary = format!("Found: {} of {total} memories", memories.len());
        Ok(pb::MemorySearchResponse {
            memories,
            total_count: i32::try_from(total).unwrap_or(i32::MAX),
            tokens_used: 0,
        })
    }

    /// Stores a memory; without an outcome it is neutral.
    pub(super) async fn store_memory(
        &self,
        call: &mut OperationCall,
        request: pb::MemoryStoreRequest,
    ) -> Result<pb::MemoryStoreResponse, Error> {
        let session = Arc::clone(call.session()?);
        let outcome = match request.outcome.as_str() {
            "" => MemoryOutcome::default(),
            named => memory_outcome(named)?,
        };
        let new = NewMemory {
            title: call.clean(&request.title)?,
            description: call.clean(&request.description)?,
            content: call.clean(&request.content)?,
            outcome,
            tags: call.clean_all(&request.tags)?,
            session: session.id.to_string(),
            distilled: false,
        };
        let title = new.title.clone();
        let id = self.workbench.memories().keep(&session.place, new, clock::now()).await?;
        call.summary = format!("Remembered: {title} ({id})");
        Ok(pb::MemoryStoreResponse { tokens_used: 0, id })
    }

    /// Records whether a memory was helpful, and returns its new confidence.
    pub(super) async fn judge_memory(
        &self,
        call: &mut OperationCall,
        request: pb::MemoryFeedbackRequest,
    ) -> Result<pb::MemoryFeedbackResponse, Error> {
        let session = Arc::clone(call.session()?);
        let comment = call.clean(&request.comment)?;
        let (id, helpful) = (request.memory_id, request.helpful);
        let place = &session.place;
        let memories = self.workbench.memories();
        let new = memories.judge(place, &id, helpful, &comment, session.id.as_str(), clock::now()).await?;
        call.summary =
            format!("Judged: {id} ({}, now {new:.2})", if helpful { "helpful" } else { "not helpful" });
        Ok(pb::MemoryFeedbackResponse { new_confidence: confidence(new), tokens_used: 0 })
    }

    /// Returns a whole memory.
    pub(super) async fn get_memory(
        &self,
        call: &mut OperationCall,
        request: pb::MemoryGetRequest,
    ) -> Result<pb::MemoryGetResponse, Error> {
        let session = Arc::clone(call.session()?);
        let memory = self.workbench.memories().get(&session.place, &request.id, clock::now()).await?;
        call.summary = format!("Recalled: {}", memory.id);
        let (title, description) = (call.clean(&memory.title)?, call.clean(&memory.description)?);
        let (content, tags) = (call.clean(&memory.content)?, call.clean_all(&memory.tags)?);
        Ok(pb::MemoryGetResponse {
            id: memory.id,
            title,
            description,
            content,
            outcome: memory.outcome.name().to_owned(),
            confidence: confidence(memory.confidence),
            tags,
            tokens_used: 0,
        })
    }
}

/// Returns the maximum number of results.
pub(super) fn limit(asked: i32, otherwise: usize) -> usize {
    match usize::try_from(asked) {
        Ok(0) | Err(_) => otherwise,
        Ok(asked) => asked.min(most::SEARCH_MAX),
    }
}

#[allow(clippy::cast_possible_truncation, reason = "between 0 and 1")]
fn confidence(value: f64) -> f32 {
    value as f32
}

//! `SearchService`: finds what was said and done.

use domain::{Error, Timestamp};
use runtime::history::SearchRequest;
use storage::history::PassageKind;
use tonic::{Request, Response, Status};
use wire::obey::v1 as pb;
use wire::obey::v1::search_service_server::SearchService;

use super::Obey;
use super::local::answer;
use super::to_wire::timestamp;

#[tonic::async_trait]
impl SearchService for Obey {
    async fn search(
        &self,
        request: Request<pb::SearchRequest>,
    ) -> Result<Response<pb::SearchResponse>, Status> {
        answer(self.search_history(request.into_inner()).await)
    }
}

impl Obey {
    async fn search_history(&self, request: pb::SearchRequest) -> Result<pb::SearchResponse, Error> {
        let kinds: Result<Vec<PassageKind>, Error> = request.kinds().map(passage_kind).collect();
        let wanted = SearchRequest {
            kinds: kinds?,
            text: request.text.clone(),
            session_id: Some(request.session_id.clone()).filter(|id| !id.is_empty()),
            since: request.since.as_ref().map(time).transpose()?,
            limit: request.limit as usize,
        };
        let found = self.supervisor.history().search(wanted).await?;
        let hits = found.hits.into_iter().map(|(session, hit)| pb::SearchHit {
            session_id: session.id,
            session_name: session.name,
            seq: hit.seq,
            kind: wire_kind(hit.kind).into(),
            snippet: hit.snippet,
            at: Some(timestamp(hit.at)),
        });
        Ok(pb::SearchResponse { hits: hits.collect(), more: found.has_more, complete: found.is_complete })
    }
}

/// Converts a time; one that cannot be stored is refused.
pub(super) fn time(at: &prost_types::Timestamp) -> Result<Timestamp, Error> {
    at.seconds
        .checked_mul(1_000_000)
        .and_then(|micros| micros.checked_add(i64::from(at.nanos / 1_000)))
        .map(Timestamp)
        .ok_or_else(|| Error::invalid("time", "lies too far away; give one in this millennium"))
}

fn passage_kind(kind: pb::SearchKind) -> Result<PassageKind, Error> {
    Ok(match kind {
        pb::SearchKind::Unspecified => {
            return Err(Error::invalid("kinds", "has an unknown kind; leave it out for all"));
        }
        pb::SearchKind::Prompt => PassageKind::Prompt,
        pb::SearchKind::Answer => PassageKind::Answer,
        pb::SearchKind::Command => PassageKind::Command,
        pb::SearchKind::Output => PassageKind::Output,
    })
}

fn wire_kind(kind: PassageKind) -> pb::SearchKind {
    match kind {
        PassageKind::Prompt => pb::SearchKind::Prompt,
        PassageKind::Answer => pb::SearchKind::Answer,
        PassageKind::Command => pb::SearchKind::Command,
        PassageKind::Output => pb::SearchKind::Output,
    }
}

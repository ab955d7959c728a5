//! The overview of the small daemon: its sessions by their status, and nothing derived.

use std::pin::Pin;

use tokio::sync::mpsc;
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};
use wire::obey::local::v1::SessionStatus;
use wire::obey::v1 as pb;
use wire::obey::v1::overview_service_server::OverviewService;

use super::fake::Fake;

type Answer<T> = Result<Response<T>, Status>;

impl Fake {
    fn overview(&self, filter: &pb::OverviewFilter) -> Vec<pb::SessionOverview> {
        let name = |status: i32| {
            let name = SessionStatus::try_from(status).map_or("", |status| status.as_str_name());
            name.trim_start_matches("SESSION_STATUS_").to_owned()
        };
        let wanted = |id: &String| filter.session_ids.is_empty() || filter.session_ids.contains(id);
        let state = self.state();
        let sessions = state.sessions.iter().filter(|session| wanted(&session.id));
        sessions
            .map(|session| pb::SessionOverview {
                session_id: session.id.clone(),
                name: session.agent_name.clone(),
                status: name(session.status),
                ..Default::default()
            })
            .collect()
    }
}

#[tonic::async_trait]
impl OverviewService for Fake {
    type WatchStream = Pin<Box<dyn Stream<Item = Result<pb::OverviewUpdate, Status>> + Send>>;

    async fn watch(&self, request: Request<pb::WatchOverviewRequest>) -> Answer<Self::WatchStream> {
        let filter = request.into_inner().filter.unwrap_or_default();
        let (tx, rx) = mpsc::channel(16);
        let fake = self.clone();
        tokio::spawn(async move {
            let mut changes = fake.changes.subscribe();
            let mut snapshot = true;
            loop {
                let sessions = fake.overview(&filter);
                let update = pb::OverviewUpdate { snapshot, sessions, ..Default::default() };
                if tx.send(Ok(update)).await.is_err() || changes.changed().await.is_err() {
                    return;
                }
                snapshot = false;
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(rx))))
    }

    async fn list(&self, request: Request<pb::ListOverviewRequest>) -> Answer<pb::ListOverviewResponse> {
        let sessions = self.overview(&request.into_inner().filter.unwrap_or_default());
        Ok(Response::new(pb::ListOverviewResponse { revision: 1, sessions }))
    }

    async fn mark_seen(&self, _: Request<pb::MarkSeenRequest>) -> Answer<pb::MarkSeenResponse> {
        Ok(Response::new(pb::MarkSeenResponse::default()))
    }
}

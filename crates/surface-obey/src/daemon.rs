//! `DaemonService`: maintenance of the daemon itself.

use domain::Error;
use tonic::{Request, Response, Status};
use wire::obey::v1 as pb;
use wire::obey::v1::daemon_service_server::DaemonService;

use super::Obey;
use super::local::answer;

#[tonic::async_trait]
impl DaemonService for Obey {
    async fn collect_garbage(
        &self,
        _request: Request<pb::CollectGarbageRequest>,
    ) -> Result<Response<pb::CollectGarbageResponse>, Status> {
        answer(self.clear_away().await)
    }
}

impl Obey {
    /// Removes data that the retention settings no longer keep, and returns how much was removed.
    async fn clear_away(&self) -> Result<pb::CollectGarbageResponse, Error> {
        let removed = self.supervisor.collect_garbage(self.about.retention).await?;
        Ok(pb::CollectGarbageResponse {
            sessions: removed.sessions,
            activities: removed.activities,
            events: removed.events,
            folders: removed.folders,
        })
    }
}

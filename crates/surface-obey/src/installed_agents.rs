//! `InstalledAgentService`: the agents that sessions can run. What is installed is found by the daemon's assembly, which
//! knows the providers.

use domain::Error;
use tonic::{Request, Response, Status};
use wire::obey::v1 as pb;
use wire::obey::v1::installed_agent_service_server::InstalledAgentService;

use super::Obey;
use super::local::answer;

/// Finds the agents with a `PATH`; empty: the daemon's own.
pub type FindAgents = dyn Fn(&str) -> pb::ListInstalledAgentsResponse + Send + Sync;

#[tonic::async_trait]
impl InstalledAgentService for Obey {
    async fn list_installed_agents(
        &self,
        request: Request<pb::ListInstalledAgentsRequest>,
    ) -> Result<Response<pb::ListInstalledAgentsResponse>, Status> {
        answer(self.installed_agents(request.into_inner()).await)
    }
}

impl Obey {
    async fn installed_agents(
        &self,
        request: pb::ListInstalledAgentsRequest,
    ) -> Result<pb::ListInstalledAgentsResponse, Error> {
        if request.path.len() > domain::limits::CONFIG_VALUE_MAX_BYTES || request.path.contains('\0') {
            return Err(Error::invalid("path", "must be a list of folders as PATH is"));
        }
        let find = std::sync::Arc::clone(&self.about.find_agents);
        // Folders may be on a slow disk.
        let found = tokio::task::spawn_blocking(move || find(&request.path)).await;
        found.map_err(|error| {
            Error::new(
                domain::ErrorCode::CommandFailed,
                "the agents could not be listed; see the daemon's log",
            )
            .with_detail(error.to_string())
        })
    }
}

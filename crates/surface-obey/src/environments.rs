//! `EnvironmentService`: named folders that sessions run in.

use domain::Error;
use runtime::environments::NewEnvironment;
use storage::environments::EnvironmentRow;
use tonic::{Request, Response, Status};
use wire::obey::v1 as pb;
use wire::obey::v1::environment_service_server::EnvironmentService;

use super::local::answer;
use super::{Obey, to_wire};

#[tonic::async_trait]
impl EnvironmentService for Obey {
    async fn create_environment(
        &self,
        request: Request<pb::CreateEnvironmentRequest>,
    ) -> Result<Response<pb::Environment>, Status> {
        answer(self.make_environment(request.into_inner()).await)
    }

    async fn list_environments(
        &self,
        _request: Request<pb::ListEnvironmentsRequest>,
    ) -> Result<Response<pb::ListEnvironmentsResponse>, Status> {
        let rows = self.supervisor.environments().list().await;
        let list = |rows: Vec<EnvironmentRow>| rows.into_iter().map(environment).collect();
        answer(rows.map(|rows| pb::ListEnvironmentsResponse { environments: list(rows) }))
    }

    async fn remove_environment(
        &self,
        request: Request<pb::RemoveEnvironmentRequest>,
    ) -> Result<Response<pb::RemoveEnvironmentResponse>, Status> {
        let row = self.supervisor.environments().remove(&request.get_ref().environment).await;
        answer(row.map(|row| pb::RemoveEnvironmentResponse { environment: Some(environment(row)) }))
    }
}

impl Obey {
    /// Creates an environment; its directory is required.
    async fn make_environment(
        &self,
        request: pb::CreateEnvironmentRequest,
    ) -> Result<pb::Environment, Error> {
        if request.directory.is_empty() {
            return Err(Error::invalid("directory", "is required"));
        }
        let new = NewEnvironment {
            name: request.name,
            directory: request.directory,
            provider: request.provider,
            model: request.model,
            mode: request.mode,
            answer_wait_secs: request.answer_wait_secs,
            provider_config: request.provider_config.into_iter().collect(),
            kind: String::new(),
        };
        self.supervisor.environments().create(new).await.map(environment)
    }
}

fn environment(row: EnvironmentRow) -> pb::Environment {
    pb::Environment {
        id: row.id,
        name: row.name,
        directory: row.directory,
        provider: row.provider,
        model: row.model,
        mode: row.mode,
        answer_wait_secs: row.answer_wait_secs,
        created_at: Some(to_wire::timestamp(row.created_at)),
        provider_config: row.provider_config.into_iter().collect(),
    }
}

//! The surface of `roz.v1`: sessions for programs that bring their own tools, tasks, hosts, emergency stops and teams, over
//! gRPC and REST. Must not know other surfaces.

mod agent;
mod from_wire;
mod history;
mod hosts;
pub mod limits;
mod permissions;
mod rest;
mod safety;
mod starting;
mod stream;
mod tasks;
mod team;
mod to_wire;
#[cfg(test)]
mod transcript;
#[cfg(test)]
#[path = "../../surface/transcript/session.rs"]
mod transcript_session;
mod triggers;

use std::sync::Arc;

use agent_port::Availability;
use domain::{Error, ErrorCode, ProviderKind, Timestamp};
use runtime::Supervisor;
use storage::environments::EnvironmentRow;
use tonic::service::Routes;
use tonic::{Response, Status};
use wire::roz::v1::agent_service_server::AgentServiceServer;
use wire::roz::v1::host_service_server::HostServiceServer;
use wire::roz::v1::safety_service_server::SafetyServiceServer;
use wire::roz::v1::task_service_server::TaskServiceServer;

use starting::StartingTasks;
use surface::peer::Devices;
use surface::status;

/// What the surface needs to know about the daemon.
#[derive(Clone)]
pub struct RozConfig {
    /// The provider of sessions that name none; `None`: the first one that is installed.
    pub default_provider: Option<ProviderKind>,
    pub started_at: Timestamp,
    /// Keeps the keys with which programs call.
    pub devices: Arc<Devices>,
}

/// The services of this surface.
#[derive(Clone)]
pub(crate) struct Roz {
    supervisor: Supervisor,
    about: Arc<RozConfig>,
    starting: StartingTasks,
    streams: stream::SessionStreams,
    triggers: triggers::Triggers,
}

/// Adds the services of this surface to a router.
pub fn routes(routes: Routes, supervisor: Supervisor, about: RozConfig) -> Routes {
    let roz = Roz {
        supervisor,
        about: Arc::new(about),
        starting: StartingTasks::default(),
        streams: Default::default(),
        triggers: triggers::Triggers::default(),
    };
    tokio::spawn(triggers::run(roz.clone()));
    let most = limits::STREAM_MESSAGE_MAX_BYTES;
    let rest = rest::router(roz.clone());
    let routes = routes
        .add_service(AgentServiceServer::new(roz.clone()).max_decoding_message_size(most))
        .add_service(TaskServiceServer::new(roz.clone()).max_decoding_message_size(most))
        .add_service(HostServiceServer::new(roz.clone()))
        .add_service(SafetyServiceServer::new(roz));
    Routes::from(routes.into_axum_router().merge(rest))
}

type RpcResult<T> = Result<Response<T>, Status>;

/// Converts a result to a gRPC response.
fn answer<T>(result: Result<T, Error>) -> RpcResult<T> {
    result.map(Response::new).map_err(|error| status::grpc(&error))
}

/// The providers tried when none is named, in this order.
const PREFERRED: [ProviderKind; 2] = [ProviderKind::ClaudeCode, ProviderKind::Codex];

impl Roz {
    /// Returns the environment with this id.
    async fn environment(&self, id: &str) -> Result<EnvironmentRow, Error> {
        from_wire::uuid("environment_id", id)?;
        self.supervisor.environments().find(id).await
    }

    /// Checks the id of a host, if one is given.
    async fn check_host(&self, id: Option<&String>) -> Result<(), Error> {
        let Some(id) = id.filter(|id| !id.is_empty()) else { return Ok(()) };
        from_wire::uuid("host_id", id)?;
        self.supervisor.environments().host(id).await.map(drop)
    }

    /// Returns the provider of a session: the one its model or environment names, else the configured one,
    /// else the first that is installed.
    fn provider(
        &self,
        environment: &EnvironmentRow,
        model: &from_wire::ModelName,
    ) -> Result<ProviderKind, Error> {
        let named = model.provider.or_else(|| ProviderKind::parse(&environment.provider));
        if let Some(kind) = named.or(self.about.default_provider) {
            return Ok(kind);
        }
        let path = std::env::var_os("PATH");
        let installed = |kind: &ProviderKind| {
            let provider = self.supervisor.providers().get(*kind);
            provider.is_ok_and(|provider| {
                !matches!(provider.availability(path.as_deref()), Availability::Missing { .. })
            })
        };
        PREFERRED.into_iter().find(installed).ok_or_else(|| {
            Error::new(
                ErrorCode::ProviderNotReady,
                "no agent is installed; install Claude Code, or name a provider with \
                 `obey environment create --provider` or the key sessions.default_provider",
            )
        })
    }
}

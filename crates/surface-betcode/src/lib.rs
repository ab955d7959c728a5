//! The surface of `betcode.v1`: conversations, worktrees, settings, machines, workers, GitLab. Owns its six services and
//! must not know other surfaces.

mod agent;
mod config;
mod converse;
mod from_wire;
mod gitlab;
pub mod limits;
mod machines;
mod presence;
mod questions;
mod sessions;
mod subagents;
mod to_wire;
#[cfg(test)]
mod transcript;
#[cfg(test)]
#[path = "../../surface/transcript/session.rs"]
mod transcript_session;
mod worktrees;

use std::path::PathBuf;
use std::sync::Arc;

use domain::Error;
use runtime::Supervisor;
use tonic::service::Routes;
use tonic::{Response, Status};
use wire::betcode::v1::agent_service_server::AgentServiceServer;
use wire::betcode::v1::config_service_server::ConfigServiceServer;
use wire::betcode::v1::git_lab_service_server::GitLabServiceServer;
use wire::betcode::v1::machine_service_server::MachineServiceServer;
use wire::betcode::v1::subagent_service_server::SubagentServiceServer;
use wire::betcode::v1::worktree_service_server::WorktreeServiceServer;

use presence::BetcodeClients;
use surface::{status, structs};

/// What the surface needs to know about the daemon.
pub struct BetcodeConfig {
    /// The folder of conversations that name none; `None`: they must name one.
    pub default_folder: Option<PathBuf>,
    pub daemon: DaemonInfo,
    /// The servers of merge requests, pipelines and issues.
    pub forges: forge::Forges,
    /// Becomes true when the daemon ends.
    pub leaving: tokio::sync::watch::Receiver<bool>,
}

/// The daemon's settings as clients may query them.
#[derive(Clone, Debug, Default)]
pub struct DaemonInfo {
    pub max_subprocesses: u32,
    pub socket: PathBuf,
    /// The first TCP port; `None`: only the socket is served.
    pub port: Option<u16>,
    pub database: PathBuf,
    pub log_level: String,
}

/// The services of this surface.
#[derive(Clone)]
pub(crate) struct Betcode {
    supervisor: Supervisor,
    presence: BetcodeClients,
    about: Arc<BetcodeConfig>,
}

/// Adds the services of this surface to a router.
pub fn routes(routes: Routes, supervisor: Supervisor, about: BetcodeConfig) -> Routes {
    let betcode = Betcode { supervisor, presence: BetcodeClients::default(), about: Arc::new(about) };
    let most = limits::CONVERSE_MESSAGE_MAX_BYTES;
    routes
        .add_service(AgentServiceServer::new(betcode.clone()).max_decoding_message_size(most))
        .add_service(ConfigServiceServer::new(betcode.clone()))
        .add_service(GitLabServiceServer::new(betcode.clone()))
        .add_service(MachineServiceServer::new(betcode.clone()))
        .add_service(SubagentServiceServer::new(betcode.clone()))
        .add_service(WorktreeServiceServer::new(betcode))
}

type RpcResult<T> = Result<Response<T>, Status>;

/// Converts a result to a gRPC response.
fn answer<T>(result: Result<T, Error>) -> RpcResult<T> {
    result.map(Response::new).map_err(|error| status::grpc(&error))
}

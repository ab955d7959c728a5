//! The surface of `obey.local.v1` and of our own `obey.v1`: sessions, events, requests, campaigns, commands.
//! Must not know other surfaces.

mod api_keys;
mod campaigns;
mod daemon;
mod devices;
mod diff_wire;
mod environments;
mod event_log;
mod events;
mod execute;
mod export;
mod external;
mod files;
mod forge;
mod from_wire;
mod grants;
mod imports;
mod installed_agents;
pub mod limits;
mod local;
mod metrics;
mod overview;
mod plans;
mod queue;
mod reports;
mod requests;
mod search;
mod session_operations;
mod session_plans;
mod sessions;
mod shared_budgets;
mod to_wire;
#[cfg(test)]
mod transcript;
#[cfg(test)]
#[path = "../../surface/transcript/session.rs"]
mod transcript_session;
mod turns;
mod usage;
mod worktrees;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use domain::Timestamp;
use runtime::Supervisor;
use runtime::retention::Retention;
use tonic::service::Routes;
use wire::obey::local::v1::local_daemon_service_server::LocalDaemonServiceServer;
use wire::obey::v1::api_key_service_server::ApiKeyServiceServer;
use wire::obey::v1::budget_service_server::BudgetServiceServer;
use wire::obey::v1::campaign_service_server::CampaignServiceServer;
use wire::obey::v1::daemon_service_server::DaemonServiceServer;
use wire::obey::v1::device_service_server::DeviceServiceServer;
use wire::obey::v1::environment_service_server::EnvironmentServiceServer;
use wire::obey::v1::event_service_server::EventServiceServer;
use wire::obey::v1::export_service_server::ExportServiceServer;
use wire::obey::v1::file_service_server::FileServiceServer;
use wire::obey::v1::forge_service_server::ForgeServiceServer;
use wire::obey::v1::grant_service_server::GrantServiceServer;
use wire::obey::v1::import_service_server::ImportServiceServer;
use wire::obey::v1::installed_agent_service_server::InstalledAgentServiceServer;
use wire::obey::v1::overview_service_server::OverviewServiceServer;
use wire::obey::v1::plan_service_server::PlanServiceServer;
use wire::obey::v1::queue_service_server::QueueServiceServer;
use wire::obey::v1::request_service_server::RequestServiceServer;
use wire::obey::v1::search_service_server::SearchServiceServer;
use wire::obey::v1::session_service_server::SessionServiceServer;
use wire::obey::v1::turn_service_server::TurnServiceServer;
use wire::obey::v1::usage_service_server::UsageServiceServer;
use wire::obey::v1::worktree_service_server::WorktreeServiceServer;

pub use daemon::{PrepareUpgrade, UpgradePreparation};
pub use installed_agents::FindAgents;
pub use metrics::RenderMetrics;
use surface::peer::Devices;

/// What the surface needs to know about the daemon.
pub struct ObeyConfig {
    pub version: String,
    pub started_at: Timestamp,
    /// The programs `Execute` may run if the campaign has no list of its own.
    pub execute_allow: Vec<String>,
    pub execute_timeout: Duration,
    pub retention: Retention,
    /// Receives a message when a client asks the daemon to shut down.
    pub shutdown: tokio::sync::mpsc::Sender<Shutdown>,
    pub socket: PathBuf,
    /// The devices on other machines that may call.
    pub devices: Arc<Devices>,
    /// Finds the agents that sessions can run.
    pub find_agents: Arc<FindAgents>,
    /// The servers of merge requests, pipelines and issues.
    pub forges: ::forge::Forges,
    /// Writes what the daemon counts, for `/metrics`.
    pub render_metrics: Arc<RenderMetrics>,
    /// Says how the next daemon is started like this one.
    pub prepare_upgrade: Arc<PrepareUpgrade>,
}

/// A client's request to shut the daemon down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shutdown;

/// The services of this surface.
#[derive(Clone)]
pub struct Obey {
    supervisor: Supervisor,
    about: Arc<ObeyConfig>,
}

/// Adds the services of this surface to a router.
pub fn routes(routes: Routes, supervisor: Supervisor, about: ObeyConfig) -> Routes {
    let obey = Obey { supervisor, about: Arc::new(about) };
    let most = surface::limits::MESSAGE_MAX_BYTES;
    let metrics =
        axum::Router::new().route("/metrics", axum::routing::get(metrics::serve)).with_state(obey.clone());
    let routes = routes
        .add_service(LocalDaemonServiceServer::new(obey.clone()).max_decoding_message_size(most))
        .add_service(EventServiceServer::new(obey.clone()))
        .add_service(TurnServiceServer::new(obey.clone()).max_decoding_message_size(most))
        .add_service(RequestServiceServer::new(obey.clone()).max_decoding_message_size(most))
        .add_service(QueueServiceServer::new(obey.clone()).max_decoding_message_size(most))
        .add_service(SessionServiceServer::new(obey.clone()))
        .add_service(CampaignServiceServer::new(obey.clone()))
        .add_service(BudgetServiceServer::new(obey.clone()))
        .add_service(EnvironmentServiceServer::new(obey.clone()))
        .add_service(GrantServiceServer::new(obey.clone()))
        .add_service(DeviceServiceServer::new(obey.clone()))
        .add_service(ApiKeyServiceServer::new(obey.clone()))
        .add_service(WorktreeServiceServer::new(obey.clone()))
        .add_service(OverviewServiceServer::new(obey.clone()))
        .add_service(PlanServiceServer::new(obey.clone()).max_decoding_message_size(most))
        .add_service(ImportServiceServer::new(obey.clone()))
        .add_service(InstalledAgentServiceServer::new(obey.clone()))
        .add_service(SearchServiceServer::new(obey.clone()))
        .add_service(UsageServiceServer::new(obey.clone()))
        .add_service(ExportServiceServer::new(obey.clone()))
        .add_service(FileServiceServer::new(obey.clone()))
        .add_service(ForgeServiceServer::new(obey.clone()))
        .add_service(DaemonServiceServer::new(obey));
    Routes::from(routes.into_axum_router().merge(metrics))
}

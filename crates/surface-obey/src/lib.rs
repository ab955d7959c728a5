//! The surface of `obey.local.v1` and of our own `obey.v1`: sessions, events, requests, campaigns, commands.
//! Must not know other surfaces.

mod campaigns;
mod daemon;
mod devices;
mod environments;
mod events;
mod execute;
mod from_wire;
mod grants;
pub mod limits;
mod local;
mod reports;
mod requests;
mod sessions;
mod to_wire;
#[cfg(test)]
mod transcript;
#[cfg(test)]
#[path = "../../surface/transcript/session.rs"]
mod transcript_session;
mod turns;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use domain::Timestamp;
use runtime::Supervisor;
use runtime::retention::Retention;
use tonic::service::Routes;
use wire::obey::local::v1::local_daemon_service_server::LocalDaemonServiceServer;
use wire::obey::v1::campaign_service_server::CampaignServiceServer;
use wire::obey::v1::daemon_service_server::DaemonServiceServer;
use wire::obey::v1::device_service_server::DeviceServiceServer;
use wire::obey::v1::environment_service_server::EnvironmentServiceServer;
use wire::obey::v1::event_service_server::EventServiceServer;
use wire::obey::v1::grant_service_server::GrantServiceServer;
use wire::obey::v1::request_service_server::RequestServiceServer;
use wire::obey::v1::turn_service_server::TurnServiceServer;

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
    routes
        .add_service(LocalDaemonServiceServer::new(obey.clone()).max_decoding_message_size(most))
        .add_service(EventServiceServer::new(obey.clone()))
        .add_service(TurnServiceServer::new(obey.clone()).max_decoding_message_size(most))
        .add_service(RequestServiceServer::new(obey.clone()).max_decoding_message_size(most))
        .add_service(CampaignServiceServer::new(obey.clone()))
        .add_service(EnvironmentServiceServer::new(obey.clone()))
        .add_service(GrantServiceServer::new(obey.clone()))
        .add_service(DeviceServiceServer::new(obey.clone()))
        .add_service(DaemonServiceServer::new(obey))
}

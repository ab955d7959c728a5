//! The daemon's end of a relay: dials it, keeps the tunnel open, and serves what comes through it. Calls that the relay can
//! read are served as far as this machine allows; sealed connections are those of devices. Owns `RelayLinkService` and
//! `PipeService`; knows no other surface.

mod deliveries;
mod dialling;
mod identity;
mod invitations;
pub mod limits;
mod pipe_service;
mod renewal;
mod service;
mod serving;
mod wake;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use domain::{Error, ErrorCode, Timestamp};
use identity::RelayIdentity;
use invitations::Invitations;
use surface::peer::Devices;
use surface::server::TunnelEntry;
use tokio::sync::watch;
use tonic::service::Routes;
use tonic::transport::Channel;
use wire::obey::v1::relay_link_service_server::RelayLinkServiceServer;

/// What this machine serves of calls that a relay can read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PlainCalls {
    #[default]
    Off,
    /// What changes nothing.
    Read,
    Full,
}

impl PlainCalls {
    pub fn parse(text: &str) -> Option<Self> {
        [PlainCalls::Off, PlainCalls::Read, PlainCalls::Full].into_iter().find(|level| level.name() == text)
    }

    pub fn name(self) -> &'static str {
        match self {
            PlainCalls::Off => "off",
            PlainCalls::Read => "read",
            PlainCalls::Full => "full",
        }
    }
}

/// The relay that a machine has joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinedRelay {
    pub url: String,
    /// When the machine's certificate for it ends.
    pub expires_at: Timestamp,
}

/// Reads which relay the machine of a data folder has joined, without a daemon.
pub fn joined(data_dir: &Path) -> Result<Option<JoinedRelay>, Error> {
    let identity = RelayIdentity::load(data_dir)?;
    Ok(identity.map(|identity| JoinedRelay { url: identity.url, expires_at: identity.expires_at }))
}

/// What the daemon's end of a relay needs to know about the daemon.
pub struct RelayOptions {
    pub data_dir: PathBuf,
    pub plain: PlainCalls,
    pub version: String,
    pub devices: Arc<Devices>,
    /// Returns how many sessions have an agent.
    pub active_sessions: Arc<dyn Fn() -> u32 + Send + Sync>,
}

/// The daemon's end of a relay.
#[derive(Clone)]
pub struct RelayLinks(Arc<Shared>);

struct Shared {
    options: RelayOptions,
    /// Told apart by it: this daemon that connects again, and another one with the same certificate.
    instance: String,
    /// The relay that was joined, and every change of it.
    identity: watch::Sender<Option<Arc<RelayIdentity>>>,
    status: Mutex<LinkStatus>,
    invitations: Invitations,
    deliveries: Arc<deliveries::Deliveries>,
    entry: OnceLock<TunnelEntry>,
}

/// How the connection to the relay is.
#[derive(Clone, Debug, Default)]
struct LinkStatus {
    state: LinkState,
    problem: String,
    connected_at: Option<Timestamp>,
    heartbeat: Duration,
    channel: Option<Channel>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum LinkState {
    #[default]
    Offline,
    Connecting,
    Online,
}

impl RelayLinks {
    /// Reads which relay was joined. A file that cannot be used ends the start (OBEY-1014).
    pub fn load(options: RelayOptions) -> Result<Self, Error> {
        let identity = RelayIdentity::load(&options.data_dir)?.map(Arc::new);
        let deliveries = Arc::new(deliveries::Deliveries::in_folder(&options.data_dir));
        Ok(Self(Arc::new(Shared {
            deliveries,
            options,
            instance: host::ids::unique(),
            identity: watch::Sender::new(identity),
            status: Mutex::default(),
            invitations: Invitations::default(),
            entry: OnceLock::new(),
        })))
    }

    /// Adds the services of this surface to a router.
    pub fn routes(&self, routes: Routes) -> Routes {
        routes.add_service(RelayLinkServiceServer::new(self.clone()))
    }

    /// Dials the relay that was joined, and every one that is joined later, until the daemon ends.
    pub fn start(&self, entry: TunnelEntry) {
        if self.0.entry.set(entry).is_ok() {
            tokio::spawn(dialling::run(self.clone()));
        }
    }

    fn status(&self) -> MutexGuard<'_, LinkStatus> {
        self.0.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn joined(&self) -> Result<Arc<RelayIdentity>, Error> {
        self.0.identity.borrow().clone().ok_or_else(|| {
            Error::new(
                ErrorCode::RelayUnreachable,
                "this machine has joined no relay; obey machine join CODE",
            )
        })
    }
}

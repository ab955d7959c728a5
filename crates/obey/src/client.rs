//! The connection to the daemon: one channel over its Unix socket, and a client for each service on it.
//! Detects that no daemon is listening; starting one is the work of `autostart`.

use std::io;
use std::path::Path;

use domain::ErrorCode;
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tokio::time::Instant;
use tonic::transport::{Channel, Endpoint, Uri};
use wire::betcode::v1::worktree_service_client::WorktreeServiceClient;
use wire::contextd::v1::agent_service_client::AgentServiceClient;
use wire::contextd::v1::checkpoint_service_client::CheckpointServiceClient;
use wire::contextd::v1::memory_service_client::MemoryServiceClient;
use wire::contextd::v1::policy_service_client::PolicyServiceClient;
use wire::contextd::v1::ref_service_client::RefServiceClient;
use wire::contextd::v1::remediation_service_client::RemediationServiceClient;
use wire::contextd::v1::safe_exec_service_client::SafeExecServiceClient;
use wire::contextd::v1::session_service_client::SessionServiceClient;
use wire::contextd::v1::skill_service_client::SkillServiceClient;
use wire::obey::local::v1::local_daemon_service_client::LocalDaemonServiceClient;
use wire::obey::v1::acp_service_client::AcpServiceClient;
use wire::obey::v1::audit_service_client::AuditServiceClient;
use wire::obey::v1::bridge_service_client::BridgeServiceClient;
use wire::obey::v1::campaign_service_client::CampaignServiceClient;
use wire::obey::v1::daemon_service_client::DaemonServiceClient;
use wire::obey::v1::device_service_client::DeviceServiceClient;
use wire::obey::v1::environment_service_client::EnvironmentServiceClient;
use wire::obey::v1::event_service_client::EventServiceClient;
use wire::obey::v1::grant_service_client::GrantServiceClient;
use wire::obey::v1::request_service_client::RequestServiceClient;
use wire::obey::v1::turn_service_client::TurnServiceClient;

use crate::failure::{Failure, Result};
use crate::holder;
use crate::limits::{self, MESSAGE_MAX_BYTES};
use crate::paths;

/// A connection to the daemon. It reconnects automatically.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    channel: Channel,
}

macro_rules! services {
    ($($(#[$doc:meta])* $name:ident: $client:ident;)*) => {
        $($(#[$doc])*
        pub(crate) fn $name(&self) -> $client<Channel> {
            $client::new(self.channel.clone())
                .max_decoding_message_size(MESSAGE_MAX_BYTES)
                .max_encoding_message_size(MESSAGE_MAX_BYTES)
        })*
    };
}

impl Client {
    /// Connects to a socket on which a daemon is listening, as `probe` found.
    pub(crate) fn on(socket: &Path) -> Self {
        let socket = socket.to_owned();
        let connector = tower::service_fn(move |_: Uri| {
            let socket = socket.clone();
            async move { connect_patiently(&socket).await.map(TokioIo::new) }
        });
        // The address is never resolved; it only fills the host header.
        let channel = Endpoint::from_static("http://localhost").connect_with_connector_lazy(connector);
        Self { channel }
    }

    services! {
        /// Sessions, campaigns' state and the daemon itself.
        daemon: LocalDaemonServiceClient;
        events: EventServiceClient;
        turns: TurnServiceClient;
        requests: RequestServiceClient;
        campaigns: CampaignServiceClient;
        upkeep: DaemonServiceClient;
        acp: AcpServiceClient;
        worktrees: WorktreeServiceClient;
        environments: EnvironmentServiceClient;
        devices: DeviceServiceClient;
        grants: GrantServiceClient;
        /// The tools that the daemon and clients execute for an agent.
        bridge: BridgeServiceClient;
        audit: AuditServiceClient;
        /// The workbench.
        safe_exec: SafeExecServiceClient;
        bench_sessions: SessionServiceClient;
        refs: RefServiceClient;
        memories: MemoryServiceClient;
        checkpoints: CheckpointServiceClient;
        policies: PolicyServiceClient;
        skills: SkillServiceClient;
        agents: AgentServiceClient;
        remediations: RemediationServiceClient;
    }
}

/// Checks whether a daemon listens on a socket. False: none does, and one may be started.
pub(crate) async fn probe(socket: &Path) -> Result<bool> {
    match connect(socket).await {
        Ok(_) => Ok(true),
        Err(error) if is_nobody(&error) => Ok(false),
        Err(error) => Err(unreachable_daemon(socket, &error.to_string())),
    }
}

/// Returns the process that listens on a socket.
pub(crate) async fn listener(socket: &Path) -> Option<i32> {
    connect(socket).await.ok()?.peer_cred().ok()?.pid()
}

/// Returns the error for an unreachable daemon.
pub(crate) fn unreachable_daemon(socket: &Path, why: &str) -> Failure {
    let message = format!("the daemon is not reachable at {}: {why}", socket.display());
    Failure::coded(ErrorCode::DaemonUnreachable, message)
}

/// Connects to a daemon that was running a moment ago. While a daemon is being replaced, none is listening;
/// unsent requests can safely wait: as long as a daemon holds the socket's lock, one is exiting or starting.
async fn connect_patiently(socket: &Path) -> io::Result<UnixStream> {
    let lock = socket.with_extension("lock");
    let last = Instant::now() + limits::UPGRADE_START_WAIT;
    let mut until = Instant::now() + limits::EXCHANGE_WAIT;
    loop {
        match connect(socket).await {
            Err(error) if is_nobody(&error) && Instant::now() < until => {
                tokio::time::sleep(limits::EXCHANGE_PAUSE).await;
                if holder::is_held(&lock) {
                    until = last.min(Instant::now() + limits::EXCHANGE_WAIT);
                }
            }
            result => return result,
        }
    }
}

/// Whether an error means that no process is listening.
fn is_nobody(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
}

/// Connects to the socket and checks who owns the process behind it.
async fn connect(socket: &Path) -> io::Result<UnixStream> {
    let stream = UnixStream::connect(socket).await?;
    // Prompts and approvals go through this socket, so another user must not have created it first.
    let owner = stream.peer_cred()?.uid();
    let own = paths::uid();
    if owner != own && owner != 0 && own != 0 {
        let message = format!("the process behind it belongs to another user (uid {owner})");
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
    }
    Ok(stream)
}

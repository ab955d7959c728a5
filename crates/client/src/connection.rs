//! The connection to the daemon: one channel over its Unix socket, and a client for each service on it.
//! Detects that no daemon is listening; starting one is the work of `autostart`.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use domain::ErrorCode;
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tokio::time::Instant;
use tonic::transport::{Channel, Endpoint, Uri};
use wire::betcode::v1::subagent_service_client::SubagentServiceClient;
use wire::contextd::v1::agent_service_client::AgentServiceClient;
use wire::contextd::v1::checkpoint_service_client::CheckpointServiceClient;
use wire::contextd::v1::memory_service_client::MemoryServiceClient;
use wire::contextd::v1::policy_service_client::PolicyServiceClient;
use wire::contextd::v1::ref_service_client::RefServiceClient;
use wire::contextd::v1::remediation_service_client::RemediationServiceClient;
use wire::contextd::v1::safe_exec_service_client::SafeExecServiceClient;
use wire::contextd::v1::session_service_client::SessionServiceClient;
use wire::contextd::v1::skill_service_client::SkillServiceClient;
use wire::obey::local::v1::PingRequest;
use wire::obey::local::v1::local_daemon_service_client::LocalDaemonServiceClient;
use wire::obey::v1::acp_service_client::AcpServiceClient;
use wire::obey::v1::api_key_service_client::ApiKeyServiceClient;
use wire::obey::v1::audit_service_client::AuditServiceClient;
use wire::obey::v1::bridge_service_client::BridgeServiceClient;
use wire::obey::v1::budget_service_client::BudgetServiceClient;
use wire::obey::v1::campaign_service_client::CampaignServiceClient;
use wire::obey::v1::daemon_service_client::DaemonServiceClient;
use wire::obey::v1::device_service_client::DeviceServiceClient;
use wire::obey::v1::environment_service_client::EnvironmentServiceClient;
use wire::obey::v1::event_service_client::EventServiceClient;
use wire::obey::v1::export_service_client::ExportServiceClient;
use wire::obey::v1::forge_service_client::ForgeServiceClient;
use wire::obey::v1::grant_service_client::GrantServiceClient;
use wire::obey::v1::import_service_client::ImportServiceClient;
use wire::obey::v1::installed_agent_service_client::InstalledAgentServiceClient;
use wire::obey::v1::overview_service_client::OverviewServiceClient;
use wire::obey::v1::page_service_client::PageServiceClient;
use wire::obey::v1::plan_service_client::PlanServiceClient;
use wire::obey::v1::queue_service_client::QueueServiceClient;
use wire::obey::v1::relay_link_service_client::RelayLinkServiceClient;
use wire::obey::v1::request_service_client::RequestServiceClient;
use wire::obey::v1::search_service_client::SearchServiceClient;
use wire::obey::v1::session_service_client::SessionServiceClient as SessionOperationsClient;
use wire::obey::v1::turn_service_client::TurnServiceClient;
use wire::obey::v1::usage_service_client::UsageServiceClient;
use wire::obey::v1::worktree_service_client::WorktreeServiceClient;

use crate::autostart::{self, Launch};
use crate::limits::{self, MESSAGE_MAX_BYTES};
use crate::machines::KnownMachine;
use crate::once;
use config::failure::{Failure, Result};
use config::holder;
use config::paths;

/// A connection to the daemon. It reconnects automatically.
#[derive(Clone, Debug)]
pub struct Client {
    channel: Channel,
}

/// How a client finds the daemon again.
#[derive(Clone, Debug)]
struct Dial {
    socket: PathBuf,
    /// Starts the daemon again after a crash.
    launch: Option<Arc<Launch>>,
}

macro_rules! services {
    ($($(#[$doc:meta])* $name:ident: $client:ident;)*) => {
        $($(#[$doc])*
        pub fn $name(&self) -> $client<Channel> {
            $client::new(self.channel.clone())
                .max_decoding_message_size(MESSAGE_MAX_BYTES)
                .max_encoding_message_size(MESSAGE_MAX_BYTES)
        })*
    };
}

impl Client {
    /// Connects to a socket on which a daemon is listening, as `probe` found.
    pub fn on(socket: &Path) -> Self {
        Self::dialling(Dial { socket: socket.to_owned(), launch: None })
    }

    /// Like `on`; whoever waits for an answer starts the daemon again if it has crashed. One that was told to end is
    /// not started again.
    pub fn reviving(launch: Launch) -> Self {
        Self::dialling(Dial { socket: launch.socket.clone(), launch: Some(Arc::new(launch)) })
    }

    fn dialling(dial: Dial) -> Self {
        let connector = tower::service_fn(move |_: Uri| {
            let dial = dial.clone();
            async move { connect_patiently(&dial).await.map(TokioIo::new) }
        });
        // The address is never resolved; it only fills the host header.
        let channel = Endpoint::from_static("http://localhost").connect_with_connector_lazy(connector);
        Self { channel }
    }

    /// Connects to a daemon at `HOST:PORT`, in the clear. Nothing is sent before the first call.
    pub fn at(address: &str) -> Result<Self> {
        let endpoint = Endpoint::from_shared(format!("http://{address}"))
            .map_err(|error| Failure::usage(format!("{address}: is no address: {error}")))?;
        Ok(Self { channel: endpoint.connect_timeout(limits::EXCHANGE_WAIT).connect_lazy() })
    }

    /// Returns the channel, for a service that only one client uses.
    pub fn channel(&self) -> Channel {
        self.channel.clone()
    }

    /// Asks the daemon for a sign of life. False: it ended before it answered; the kernel accepts connections for a
    /// process that is being killed. One that is too busy to answer counts as alive.
    pub async fn is_alive(&self) -> bool {
        let mut daemon = self.daemon();
        let asked = tokio::time::timeout(limits::EXCHANGE_WAIT, daemon.ping(PingRequest {})).await;
        let lost = asked.ok().and_then(std::result::Result::err).map(Failure::from);
        !lost.is_some_and(|failure| once::is_lost(&failure))
    }

    /// Connects to the daemon of another machine, sealed, through its relay. It connects again by itself.
    pub fn through(machine: &Arc<KnownMachine>) -> Result<Self> {
        let relay = machine.relay()?;
        let machine = Arc::clone(machine);
        let failed = Arc::new(Mutex::new(None::<(Instant, String)>));
        let connector = tower::service_fn(move |_: Uri| {
            let (machine, relay, failed) = (Arc::clone(&machine), relay.clone(), Arc::clone(&failed));
            async move {
                // Calls that are made together wait for a machine that is away together, and not one after the other.
                if let Some((at, why)) = &*failed.lock().unwrap_or_else(PoisonError::into_inner)
                    && at.elapsed() < limits::FAILURE_KEPT
                {
                    return Err(io::Error::other(why.clone()));
                }
                let connected = machine.connect(&relay, &[b"h2"]).await;
                let failure = connected.as_ref().err().map(|error| (Instant::now(), error.to_string()));
                *failed.lock().unwrap_or_else(PoisonError::into_inner) = failure;
                connected.map(TokioIo::new)
            }
        });
        let channel = Endpoint::from_static("http://localhost").connect_with_connector_lazy(connector);
        Ok(Self { channel })
    }

    services! {
        /// The relay that the daemon is connected to.
        relay_link: RelayLinkServiceClient;
        /// Sessions, campaigns' state and the daemon itself.
        daemon: LocalDaemonServiceClient;
        events: EventServiceClient;
        overview: OverviewServiceClient;
        search: SearchServiceClient;
        usage: UsageServiceClient;
        export: ExportServiceClient;
        turns: TurnServiceClient;
        requests: RequestServiceClient;
        queue: QueueServiceClient;
        plans: PlanServiceClient;
        /// Workers of sessions.
        subagents: SubagentServiceClient;
        /// Fork, rename, archive, remove, budget.
        session_operations: SessionOperationsClient;
        campaigns: CampaignServiceClient;
        /// Budgets that sessions share.
        budgets: BudgetServiceClient;
        /// Upgrades and the removal of what is not needed any more.
        daemon_operations: DaemonServiceClient;
        acp: AcpServiceClient;
        worktrees: WorktreeServiceClient;
        imports: ImportServiceClient;
        /// GitLab and GitHub.
        forges: ForgeServiceClient;
        environments: EnvironmentServiceClient;
        devices: DeviceServiceClient;
        api_keys: ApiKeyServiceClient;
        pages: PageServiceClient;
        grants: GrantServiceClient;
        installed_agents: InstalledAgentServiceClient;
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
pub async fn probe(socket: &Path) -> Result<bool> {
    match connect(socket).await {
        Ok(_) => Ok(true),
        Err(error) if is_nobody(&error) => Ok(false),
        Err(error) => Err(unreachable_daemon(socket, &error.to_string())),
    }
}

/// Returns the process that listens on a socket.
pub async fn listener(socket: &Path) -> Option<i32> {
    connect(socket).await.ok()?.peer_cred().ok()?.pid()
}

/// Returns the error for an unreachable daemon.
pub fn unreachable_daemon(socket: &Path, why: &str) -> Failure {
    let message = format!("the daemon is not reachable at {}: {why}", socket.display());
    Failure::coded(ErrorCode::DaemonUnreachable, message)
}

/// Connects to a daemon that was running a moment ago. While a daemon is being replaced, none is listening;
/// unsent requests can safely wait: as long as a daemon holds the socket's lock, one is exiting or starting.
async fn connect_patiently(dial: &Dial) -> io::Result<UnixStream> {
    let Dial { socket, launch } = dial;
    let lock = socket.with_extension("lock");
    let last = Instant::now() + limits::UPGRADE_START_WAIT;
    let mut until = Instant::now() + limits::EXCHANGE_WAIT;
    let mut crashed_since = None;
    loop {
        match connect(socket).await {
            Err(error) if is_nobody(&error) && Instant::now() < until => {
                tokio::time::sleep(limits::EXCHANGE_PAUSE).await;
                if holder::is_held(&lock) {
                    until = last.min(Instant::now() + limits::EXCHANGE_WAIT);
                    crashed_since = None;
                    continue;
                }
                // A daemon that was told to end has removed its socket.
                let Some(launch) = launch.as_ref().filter(|_| has_crashed(&error)) else { continue };
                let since = *crashed_since.get_or_insert_with(Instant::now);
                if since.elapsed() > limits::REVIVE_WAIT {
                    autostart::start(launch).await.map_err(|failure| io::Error::other(failure.message))?;
                    crashed_since = None;
                }
            }
            result => return result,
        }
    }
}

/// Whether an error means that no process is listening.
fn is_nobody(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || has_crashed(error)
}

/// Whether an error means that a daemon ended without removing its socket. The connection is reset if the daemon was
/// killed before it accepted it.
fn has_crashed(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_killed_before_it_accepts_a_connection_counts_as_crashed() {
        for kind in [io::ErrorKind::ConnectionRefused, io::ErrorKind::ConnectionReset] {
            assert!(has_crashed(&kind.into()) && is_nobody(&kind.into()), "{kind}");
        }
        let removed = io::Error::from(io::ErrorKind::NotFound);
        assert!(is_nobody(&removed) && !has_crashed(&removed));
        assert!(!is_nobody(&io::ErrorKind::PermissionDenied.into()));
    }
}

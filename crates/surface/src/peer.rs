//! Identifies the caller: the user behind a connection, and whether the calling process belongs to an agent
//! of one of our sessions. Decides who may call at all; what a caller may do is decided by `access`. Knows no
//! service.

mod api_keys;
mod device_authority;
mod devices;
mod gate;
pub mod limits;
mod net_table;
mod pages;
mod processes;
mod role;
mod signer;
mod sock_diag;
mod token;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use axum::body::Body;
use domain::SessionId;
use host::clock;
use http::header::AUTHORIZATION;
use http::{Extensions, HeaderMap, Request};
use runtime::process::ancestry::Peer as Process;
use storage::audit::Audit;
use tokio::net::UnixStream;
use tokio::sync::{Semaphore, watch};

pub use api_keys::ApiKey;
pub use device_authority::DeviceAuthority;
pub use device_authority::ServerIdentity;
pub use devices::hash;
pub use devices::keys::{ApiKeyRecord, scopes};
use devices::{Credential, NoDevice};
pub use devices::{DeviceRecord, Devices, KeyPlace, Proof, ProofKind};
pub use gate::Refusal;
pub use pages::{PageKey, is_json_call};
pub use role::Role;
pub(crate) use signer::KEPT_HERE;
pub use signer::Signer;
pub use token::Token;

use crate::access::Tunnelled;
use crate::server::Tls;

/// How a client is connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    Unix,
    Tcp,
    /// From another machine, over TLS.
    Tls,
    /// Through a relay.
    Tunnel,
}

/// The process at the other end of the connection; an extension of every request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The user it runs as; `None` where the system does not report it.
    pub uid: Option<u32>,
    /// Its process id in our namespace; known on Unix sockets only.
    pub pid: Option<i32>,
    pub via: Via,
    /// Its address, where it is on another machine.
    pub from: Option<SocketAddr>,
}

/// Identifies a connection; an extension of every request. Calls with the same number come from the same
/// client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConnectionNumber(pub u64);

/// Who made a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Caller {
    User,
    /// A process that an agent of this session started.
    Agent(SessionId),
    /// It cannot be determined whether this is an agent: the calling process has ended or hides, or the
    /// daemon itself started it. Has no more rights than an agent without a session.
    Unknown,
    /// Another user of this machine who presented the daemon's token. Does not count as the user.
    Token,
    /// A device on another machine, or a page of a browser, authenticated by its certificate or token.
    Device(Device),
    /// A page of a browser on this machine, or a program that calls methods as JSON over TCP, without a key: it may read
    /// what the user may. An agent can drive the browser of its user, so a process alone does not tell who acts there.
    Page,
    /// A program with a key of roz.v1: what its scopes say, and nothing else.
    ApiKey(ApiKey),
}

/// An authenticated device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    pub name: String,
    pub role: Role,
    pub kind: DeviceKind,
    pub answers: MayAnswer,
}

/// Whether a device may answer requests. One whose key is kept on this machine may not, unless its user said so: agents run
/// as that user, may find the key, and would come back through a relay to answer their own requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MayAnswer {
    Yes,
    KeyIsKeptHere,
}

/// What a device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceKind {
    /// A program on another machine.
    Machine,
    /// A page of a browser, on this machine or another.
    Page,
}

/// The processes that hold agents.
pub trait Agents: Send + Sync {
    /// Returns the session whose shim or agent has this process id. Must know a shim before its agent runs.
    fn session_of(&self, pid: i32) -> Option<SessionId>;

    /// Returns the session whose agent a control group of this name is for; none if it is not ours.
    fn session_of_group(&self, _name: &str) -> Option<SessionId> {
        None
    }

    /// Returns the kernel's start time of the oldest agent whose shim was killed; none if none was.
    fn lost_since(&self) -> Option<u64> {
        None
    }
}

/// No agents: for programs that run none, and for tests.
pub struct NoAgents;

impl Agents for NoAgents {
    fn session_of(&self, _pid: i32) -> Option<SessionId> {
        None
    }
}

/// The rules about who may call.
pub struct Access {
    /// Lets other users of this machine call over TCP; without a token they are rejected.
    pub token: Option<Token>,
    /// Other users who count as the user when they present the token.
    pub token_users: BTreeSet<u32>,
    pub agents: Arc<dyn Agents>,
    /// Where acting calls and refusals are recorded; `None` records nothing.
    pub audit: Option<Audit>,
    /// Who may call from other machines; without them nobody may.
    pub devices: Option<Arc<Devices>>,
    /// What listeners that other machines can reach need; without it there are none.
    pub tls: Option<Tls>,
}

impl Default for Access {
    fn default() -> Self {
        Self {
            token: None,
            token_users: BTreeSet::new(),
            agents: Arc::new(NoAgents),
            audit: None,
            devices: None,
            tls: None,
        }
    }
}

/// The caller behind a connection, identified when it was accepted; an extension of every request.
#[derive(Clone)]
pub struct Calling {
    caller: Caller,
}

impl Calling {
    /// Returns the value for calls that are made inside the daemon itself.
    pub fn user() -> Self {
        Self { caller: Caller::User }
    }

    /// Returns the value for a call that came through a relay which can read it. By the relay's word somebody called; what
    /// they may do is what this machine allows at most.
    pub fn relayed(user: &str, role: Role) -> Self {
        // No device's name has a slash.
        Self {
            caller: Caller::Device(Device {
                name: format!("relay/{user}"),
                role,
                kind: DeviceKind::Machine,
                answers: MayAnswer::Yes,
            }),
        }
    }

    /// Returns the caller behind the connection.
    pub fn caller(&self) -> Caller {
        self.caller.clone()
    }
}

/// The user of a TCP socket on this machine, and the socket's inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    pub uid: u32,
    pub inode: u64,
}

/// What is known of a TCP client before any work is done for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    Of(Owner),
    /// Its process has already closed the connection.
    Gone,
    /// The kernel does not answer queries for a single connection; its table must be read.
    Unlisted,
}

impl Client {
    /// Asks the kernel. Takes microseconds, whatever others do.
    pub fn find(from: SocketAddr, to: SocketAddr) -> Self {
        static IS_SAID: AtomicBool = AtomicBool::new(false);
        match sock_diag::owner_of(from, to) {
            Ok(Some(owner)) => Client::Of(owner),
            Ok(None) => Client::Gone,
            Err(error) => {
                if !IS_SAID.swap(true, Ordering::Relaxed) {
                    tracing::warn!(%error, "the kernel cannot be asked for the user of a connection; its table is read");
                }
                Client::Unlisted
            }
        }
    }

    /// Returns the user, where it is known already.
    pub fn uid(self) -> Option<u32> {
        match self {
            Client::Of(owner) => Some(owner.uid),
            Client::Gone | Client::Unlisted => None,
        }
    }

    /// Returns the owner, read from the kernel's table where necessary. Reading it takes long when there are
    /// many connections, so few tasks do that at a time.
    async fn owner(self, from: SocketAddr, to: SocketAddr) -> Option<Owner> {
        static READERS: Semaphore = Semaphore::const_new(limits::TABLE_READERS_MAX);
        match self {
            Client::Of(owner) => Some(owner),
            Client::Gone => None,
            Client::Unlisted => {
                let _permit = READERS.acquire().await.ok()?;
                tokio::task::spawn_blocking(move || net_table::owner_of(from, to)).await.ok().flatten()
            }
        }
    }
}

/// Names a caller, for the audit.
pub fn named(caller: &Caller) -> String {
    match caller {
        Caller::User => "user".to_owned(),
        Caller::Agent(session) => format!("agent {session}"),
        Caller::Unknown => "unknown".to_owned(),
        Caller::Token => "token".to_owned(),
        Caller::Device(Device { name, kind: DeviceKind::Machine, .. }) => format!("device {name}"),
        Caller::Device(Device { name, kind: DeviceKind::Page, .. }) => format!("web/{name}"),
        Caller::Page => "page".to_owned(),
        Caller::ApiKey(key) => format!("key {}", key.name),
    }
}

/// Returns who sent a request; unknown when it did not come through a listener and nobody said who it is.
pub fn caller(extensions: &Extensions) -> Caller {
    extensions.get::<Calling>().map_or(Caller::Unknown, Calling::caller)
}

/// One connection and what is known of its other end.
pub struct Connection {
    number: ConnectionNumber,
    peer: Peer,
    calling: Calling,
    /// The address a TCP client of this machine connected to.
    at: Option<SocketAddr>,
    /// Where the other end is on another machine, what it has shown.
    remote: Option<Remote>,
    /// The ids of the devices and keys that called on this connection.
    used: watch::Sender<BTreeSet<String>>,
}

/// What a client on another machine has shown of itself.
struct Remote {
    from: SocketAddr,
    /// The fingerprint of its certificate, which our authority signed.
    certificate: Option<String>,
    /// Who it is if it is on this machine.
    local: Option<Caller>,
}

impl Connection {
    /// Identifies whoever connected to the socket. Returns nothing for a client that may not use it.
    pub fn unix(stream: &UnixStream, access: &Access) -> Option<Self> {
        let credentials = stream.peer_cred().ok()?;
        let uid = credentials.uid();
        if !is_trusted(uid) {
            tracing::warn!(uid, "refused a connection of another user");
            return None;
        }
        let caller = match (credentials.pid(), Process::of(stream.as_fd())) {
            // A process id of 0 means that the process is outside of our namespace. None of our processes can
            // get there: the kernel lets a process move only into namespaces inside its current one.
            (Some(0), _) => Caller::User,
            (Some(pid), Ok(process)) if process.pid == pid => processes::identify(&process, &*access.agents),
            _ => Caller::Unknown,
        };
        let pid = credentials.pid().filter(|pid| *pid > 0);
        let peer = Peer { uid: Some(uid), pid, via: Via::Unix, from: None };
        Some(Self::of(peer, caller, None, None))
    }

    /// Identifies a TCP client, which must be on this machine.
    pub async fn tcp(client: Client, from: SocketAddr, to: SocketAddr, access: &Access) -> Self {
        let owner = client.owner(from, to).await;
        let caller = match owner {
            Some(owner) if is_trusted(owner.uid) => identify_own(owner, access).await,
            // A caller with the token is admitted, but the token alone does not make it the user.
            Some(owner) if access.token_users.contains(&owner.uid) => Caller::User,
            Some(_) | None => Caller::Token,
        };
        let peer = Peer { uid: owner.map(|owner| owner.uid), pid: None, via: Via::Tcp, from: None };
        Self::of(peer, caller, Some(to), None)
    }

    /// A client on another machine. Each of its requests says which device sent it, or its certificate does.
    /// `local` says who it is if it is on this machine after all.
    pub fn tls(from: SocketAddr, certificate: Option<String>, local: Option<Caller>) -> Self {
        let peer = Peer { uid: None, pid: None, via: Via::Tls, from: Some(from) };
        Self::of(peer, Caller::Unknown, None, Some(Remote { from, certificate, local }))
    }

    /// A client at the other end of a sealed connection through a relay: a device, by its certificate.
    pub fn sealed(certificate: String) -> Self {
        let from = SocketAddr::from(([0, 0, 0, 0], 0));
        let peer = Peer { uid: None, pid: None, via: Via::Tunnel, from: None };
        let remote = Remote { from, certificate: Some(certificate), local: None };
        Self::of(peer, Caller::Unknown, None, Some(remote))
    }

    fn of(peer: Peer, caller: Caller, at: Option<SocketAddr>, remote: Option<Remote>) -> Self {
        let (number, used) = (next_number(), watch::Sender::default());
        Self { number, peer, calling: Calling { caller }, at, remote, used }
    }

    /// Returns what is known of the other end.
    pub fn peer(&self) -> Peer {
        self.peer
    }

    /// Returns the ids of the devices and keys that called on this connection, as they come.
    pub fn used(&self) -> watch::Receiver<BTreeSet<String>> {
        self.used.subscribe()
    }

    /// Marks a request with who sent it, or refuses it.
    pub fn admit(&self, request: &mut Request<Body>, access: &Access) -> Result<(), Refusal> {
        let mut calling = self.calling.clone();
        if let Some(remote) = &self.remote {
            if self.peer.via == Via::Tunnel {
                // The client's own machine forwards to us: what calls there by a name of its own is a web page.
                gate::check_remote(request, b"http://", &gate::is_loopback_name)?;
                request.extensions_mut().insert(Tunnelled);
            } else {
                let tls = access.tls.as_ref().ok_or(Refusal::Device)?;
                gate::check_remote(request, b"https://", &|host| tls.is_named(host))?;
            }
            // Without a device only what everybody may have: a page that is to become one loads and logs in.
            if !request.headers().contains_key(AUTHORIZATION) && pages::is_open(request) {
                calling = Calling { caller: Caller::Unknown };
            } else {
                let (caller, id) = self.noted(|| remote.identify(request.headers(), access))?;
                // Never upward: an agent that has found a key stays an agent.
                calling = match &remote.local {
                    Some(caller @ (Caller::Agent(_) | Caller::Unknown)) => Calling { caller: caller.clone() },
                    _ => Calling { caller },
                };
                request.extensions_mut().insert(PageKey(id));
            }
        }
        if let Some(at) = self.at {
            gate::check(request, at)?;
            if !self.peer.uid.is_some_and(is_trusted) {
                gate::check_token(request.headers(), access.token.as_ref())?;
            }
            // Never upward: an agent that has found a key stays an agent.
            if calling.caller == Caller::User && pages::is_page(request) && !api_keys::is_presented(request) {
                let (caller, key) = pages::identify(request.headers(), at.ip(), access)?;
                calling = Calling { caller };
                if let Some(key) = key {
                    request.extensions_mut().insert(key);
                }
            }
        }
        if calling.caller == Caller::User && api_keys::is_presented(request) {
            let (caller, _) = self.noted(|| api_keys::presented(request.headers(), None, access))?;
            calling = Calling { caller };
        }
        request.extensions_mut().insert(self.number);
        request.extensions_mut().insert(self.peer);
        request.extensions_mut().insert(calling);
        Ok(())
    }

    /// Identifies whoever has a credential, and notes it, so that this connection ends when it is revoked.
    fn noted<C>(&self, find: impl Fn() -> Result<(C, String), Refusal>) -> Result<(C, String), Refusal> {
        let (caller, id) = find()?;
        if self.used.send_if_modified(|used| used.insert(id.clone())) {
            // Again: one that was revoked before it was noted here would be overlooked when its connections are ended.
            find()?;
        }
        Ok((caller, id))
    }
}

impl Remote {
    /// Returns the device behind a request: the one whose token it has, else the one whose certificate the connection
    /// has. A wrong token is wrong whatever else there is.
    fn identify(&self, headers: &HeaderMap, access: &Access) -> Result<(Caller, String), Refusal> {
        let from = self.from.ip().to_canonical();
        if matches!(gate::authorization(headers), Ok(Some(claimed)) if api_keys::is_api_key(claimed)) {
            return api_keys::presented(headers, Some(from), access);
        }
        let devices = access.devices.as_ref().ok_or(Refusal::Device)?;
        let credential = match (gate::authorization(headers), &self.certificate) {
            (Ok(Some(token)), _) => Credential::Token(token),
            (Ok(None), Some(fingerprint)) => Credential::Certificate(fingerprint),
            (Ok(None), None) | (Err(_), _) => return Err(Refusal::Device),
        };
        let found = devices.identify(credential, from, clock::now());
        found.map(|(device, id)| (Caller::Device(device), id)).map_err(|none| match none {
            NoDevice::Unknown => Refusal::Device,
            NoDevice::Expired => Refusal::Expired,
        })
    }
}

/// Tells the user from an agent by the processes that have the socket. All processes of the machine are looked at, so
/// few do that at a time.
async fn identify_own(owner: Owner, access: &Access) -> Caller {
    static SEARCHES: Semaphore = Semaphore::const_new(limits::SOCKET_SEARCHES_MAX);
    let Ok(_permit) = SEARCHES.acquire().await else { return Caller::Unknown };
    let agents = Arc::clone(&access.agents);
    tokio::task::spawn_blocking(move || processes::identify_socket(owner.inode, owner.uid, &*agents))
        .await
        .unwrap_or(Caller::Unknown)
}

/// Returns who a client is that connects to an address of this machine from this machine; none for another machine's.
pub(crate) async fn local_caller(from: SocketAddr, to: SocketAddr, access: &Access) -> Option<Caller> {
    match Client::find(from, to).owner(from, to).await {
        Some(owner) if is_trusted(owner.uid) => Some(identify_own(owner, access).await),
        // Another user of this machine is no agent of ours.
        Some(_) => None,
        // It has closed the connection already, so that nobody can tell who it is.
        None if from.ip().is_loopback() || from.ip() == to.ip() => Some(Caller::Unknown),
        None => None,
    }
}

pub(crate) fn next_number() -> ConnectionNumber {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    ConnectionNumber(NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Whether a user may call without the token: our own and root. Agents may run as either, so each caller is
/// identified.
fn is_trusted(uid: u32) -> bool {
    uid == host::own_uid() || uid == 0
}

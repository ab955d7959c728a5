//! Identifies the caller: the user behind a connection, and whether the calling process belongs to an agent
//! of one of our sessions. Decides who may call at all; what a caller may do is decided by `access`. Knows no
//! service.

mod device_authority;
mod devices;
mod gate;
pub mod limits;
mod net_table;
mod processes;
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
use http::{Extensions, HeaderMap, Request};
use runtime::process::ancestry::Peer as Process;
use serde::{Deserialize, Serialize};
use storage::audit::Audit;
use tokio::net::UnixStream;
use tokio::sync::{Semaphore, watch};

pub use device_authority::DeviceAuthority;
pub use devices::hash;
use devices::{Credential, NoDevice};
pub use devices::{DeviceRecord, Devices, Proof, ProofKind};
pub use gate::Refusal;
pub use token::Token;

use crate::server::Tls;

/// How a client is connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    Unix,
    Tcp,
    /// From another machine, over TLS.
    Tls,
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
    /// A device on another machine, authenticated by its certificate or token.
    Device(Device),
}

/// An authenticated device on another machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    pub name: String,
    pub role: Role,
}

/// What a device may do. Each role includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Reads.
    Viewer,
    /// Reads, prompts and answers requests.
    Operator,
    /// Does everything the user may do.
    Owner,
}

impl Role {
    /// Reads a role by its name.
    pub fn parse(name: &str) -> Option<Self> {
        [Role::Viewer, Role::Operator, Role::Owner].into_iter().find(|role| role.name() == name)
    }

    /// Returns the role as people write it.
    pub fn name(self) -> &'static str {
        match self {
            Role::Viewer => "viewer",
            Role::Operator => "operator",
            Role::Owner => "owner",
        }
    }
}

/// The processes that hold agents.
pub trait Agents: Send + Sync {
    /// Returns the session whose shim or agent has this process id. Must know a shim before its agent runs.
    fn session_of(&self, pid: i32) -> Option<SessionId>;

    /// Returns the session whose agent a control group of this name is for; none if it is not ours.
    fn session_of_group(&self, _name: &str) -> Option<SessionId> {
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
        Caller::Device(device) => format!("device {}", device.name),
    }
}

/// Signs what a device does, for the journal: who it is and from where come first, what the client says of itself after.
/// What others sign stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Signer(Option<String>);

impl Signer {
    /// Returns how whoever sent a request signs.
    pub fn of(extensions: &Extensions) -> Self {
        let Caller::Device(device) = caller(extensions) else { return Self(None) };
        let from = extensions.get::<Peer>().and_then(|peer| peer.from);
        let from = from.map_or_else(String::new, |from| format!(" from {}", from.ip().to_canonical()));
        Self(Some(format!("device {}{from}", device.name)))
    }

    pub fn sign(&self, claimed: String) -> String {
        match &self.0 {
            None => claimed,
            Some(device) if claimed.is_empty() => device.clone(),
            Some(device) => format!("{device} ({claimed})"),
        }
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
}

/// What a client on another machine has shown of itself.
struct Remote {
    from: SocketAddr,
    /// The fingerprint of its certificate, which our authority signed.
    certificate: Option<String>,
    /// The ids of the devices that called on this connection.
    used: watch::Sender<BTreeSet<String>>,
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
        Some(Self { number: next_number(), peer, calling: Calling { caller }, at: None, remote: None })
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
        Self { number: next_number(), peer, calling: Calling { caller }, at: Some(to), remote: None }
    }

    /// A client on another machine. Each of its requests says which device sent it, or its certificate does.
    pub fn tls(from: SocketAddr, certificate: Option<String>) -> Self {
        let peer = Peer { uid: None, pid: None, via: Via::Tls, from: Some(from) };
        let remote = Some(Remote { from, certificate, used: watch::Sender::default() });
        Self { number: next_number(), peer, calling: Calling { caller: Caller::Unknown }, at: None, remote }
    }

    /// Returns what is known of the other end.
    pub fn peer(&self) -> Peer {
        self.peer
    }

    /// Returns the ids of the devices that called on this connection, as they come; none where it is of this machine.
    pub fn used(&self) -> Option<watch::Receiver<BTreeSet<String>>> {
        self.remote.as_ref().map(|remote| remote.used.subscribe())
    }

    /// Marks a request with who sent it, or refuses it.
    pub fn admit(&self, request: &mut Request<Body>, access: &Access) -> Result<(), Refusal> {
        let mut calling = self.calling.clone();
        if let Some(remote) = &self.remote {
            let tls = access.tls.as_ref().ok_or(Refusal::Device)?;
            gate::check_remote(request, &|host| tls.is_named(host))?;
            calling = Calling { caller: Caller::Device(remote.identify(request.headers(), access)?) };
        }
        if let Some(at) = self.at {
            gate::check(request, at)?;
            if !self.peer.uid.is_some_and(is_trusted) {
                gate::check_token(request.headers(), access.token.as_ref())?;
            }
        }
        request.extensions_mut().insert(self.number);
        request.extensions_mut().insert(self.peer);
        request.extensions_mut().insert(calling);
        Ok(())
    }
}

impl Remote {
    /// Returns the device behind a request: the one whose token it has, else the one whose certificate the connection
    /// has. A wrong token is wrong whatever else there is.
    fn identify(&self, headers: &HeaderMap, access: &Access) -> Result<Device, Refusal> {
        let devices = access.devices.as_ref().ok_or(Refusal::Device)?;
        let credential = match (gate::authorization(headers), &self.certificate) {
            (Ok(Some(token)), _) => Credential::Token(token),
            (Ok(None), Some(fingerprint)) => Credential::Certificate(fingerprint),
            (Ok(None), None) | (Err(_), _) => return Err(Refusal::Device),
        };
        let find = || {
            devices.identify(credential, self.from.ip().to_canonical(), clock::now()).map_err(|none| {
                match none {
                    NoDevice::Unknown => Refusal::Device,
                    NoDevice::Expired => Refusal::Expired,
                }
            })
        };
        let (device, id) = find()?;
        if self.used.send_if_modified(|used| used.insert(id)) {
            // Again: one that was revoked before it was noted here would be overlooked when its connections are ended.
            find()?;
        }
        Ok(device)
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

fn next_number() -> ConnectionNumber {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    ConnectionNumber(NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Whether a user may call without the token: our own and root. Agents may run as either, so each caller is
/// identified.
fn is_trusted(uid: u32) -> bool {
    uid == host::own_uid() || uid == 0
}

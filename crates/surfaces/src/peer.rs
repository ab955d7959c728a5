//! Who is calling: the user behind a connection, and whether the calling process belongs to an agent of one of our
//! sessions. Decides who may call at all; which calls an agent may make is for the services to ask with
//! [`require_user`]. Knows no service.

mod gate;
pub mod limits;
mod net_table;
mod processes;
mod token;

#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use axum::body::Body;
use domain::{Error, ErrorCode, SessionId};
use http::{Extensions, Request};
use tokio::net::UnixStream;

pub(crate) use gate::Refusal;
pub use token::Token;

/// How a client is connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    Unix,
    Tcp,
}

/// The process at the other end; an extension of every request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The user it runs as; none where the system does not tell.
    pub uid: Option<u32>,
    /// Its number in our namespace; known on Unix sockets only.
    pub pid: Option<i32>,
    pub via: Via,
}

/// Tells connections apart; an extension of every request. Calls with the same number come from the same client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConnectionNumber(pub u64);

/// Who is behind a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Caller {
    User,
    /// A process that an agent of this session started.
    Agent(SessionId),
    /// Agents run, and it cannot be told whether this is one: the calling process is gone or hides. Has no more rights
    /// than an agent without a session.
    Unknown,
    /// Another user of this machine who presented the daemon's token. Not the user.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Reads.
    Viewer,
    /// Reads, prompts and answers requests.
    Operator,
    /// Does what the user may do.
    Owner,
}

/// The processes that hold agents.
pub trait Agents: Send + Sync {
    /// Returns the session whose shim or agent has this number. Must know a shim before its agent runs.
    fn session_of(&self, pid: i32) -> Option<SessionId>;

    /// Whether there is no agent at all; then nobody needs to be examined.
    fn is_empty(&self) -> bool;
}

/// No agents: for programs that run none, and for tests.
pub struct NoAgents;

impl Agents for NoAgents {
    fn session_of(&self, _pid: i32) -> Option<SessionId> {
        None
    }

    fn is_empty(&self) -> bool {
        true
    }
}

/// The rules about who may call.
pub struct Access {
    /// Lets other users of this machine call over TCP; without one they are refused.
    pub token: Option<Token>,
    pub agents: Arc<dyn Agents>,
}

impl Default for Access {
    fn default() -> Self {
        Self { token: None, agents: Arc::new(NoAgents) }
    }
}

/// Tells whether an agent is behind a connection; an extension of every request. Examined when first asked, then
/// remembered for the connection.
#[derive(Clone)]
pub struct Calling {
    shared: Arc<Examination>,
}

struct Examination {
    agents: Arc<dyn Agents>,
    clue: Clue,
    found: OnceLock<Caller>,
}

/// What leads to the calling process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Clue {
    Process(i32),
    /// The number of its TCP socket.
    Socket(u64),
    /// Somebody no agent of ours can be.
    Outsider,
    Nothing,
}

impl Calling {
    /// Returns what calls made inside the daemon itself carry.
    pub fn user() -> Self {
        Self::new(Arc::new(NoAgents), Clue::Outsider)
    }

    fn new(agents: Arc<dyn Agents>, clue: Clue) -> Self {
        Self { shared: Arc::new(Examination { agents, clue, found: OnceLock::new() }) }
    }

    /// Returns who is behind the connection.
    pub fn caller(&self) -> Caller {
        let Examination { agents, clue, found } = &*self.shared;
        if let Some(caller) = found.get() {
            return caller.clone();
        }
        if agents.is_empty() {
            return Caller::User;
        }
        let caller = match clue {
            Clue::Process(pid) => classify(*pid, agents.as_ref()),
            Clue::Socket(inode) => classify_socket(*inode, agents.as_ref()),
            Clue::Outsider => Caller::User,
            Clue::Nothing => Caller::Unknown,
        };
        // Not knowing may pass: the process tree can change while it is read.
        if caller != Caller::Unknown {
            let _ = found.set(caller.clone());
        }
        caller
    }

    /// Whether asking now would search every process of the machine.
    fn is_costly(&self) -> bool {
        matches!(self.shared.clue, Clue::Socket(_))
            && self.shared.found.get().is_none()
            && !self.shared.agents.is_empty()
    }
}

/// Returns who is behind a process: an agent's if the process or one of its ancestors holds or is an agent.
pub fn classify(pid: i32, agents: &dyn Agents) -> Caller {
    processes::find_ancestor(pid, |pid| agents.session_of(pid))
        .map_or(Caller::Unknown, |session| session.map_or(Caller::User, Caller::Agent))
}

/// Like `classify`, for every process that has the socket open: a shared one speaks for all of them.
fn classify_socket(inode: u64, agents: &dyn Agents) -> Caller {
    let mut caller = Caller::Unknown;
    for pid in processes::holders_of(inode) {
        match classify(pid, agents) {
            Caller::Agent(session) => return Caller::Agent(session),
            Caller::User => caller = Caller::User,
            Caller::Unknown | Caller::Token | Caller::Device(_) => return Caller::Unknown,
        }
    }
    caller
}

/// Returns who sent a request; unknown when it did not come through a listener and nobody said who it is.
pub fn caller(extensions: &Extensions) -> Caller {
    extensions.get::<Calling>().map_or(Caller::Unknown, Calling::caller)
}

/// Refuses agents (OBEY-1002). `action` completes the sentence "agents may not …".
pub fn require_user<T>(request: &tonic::Request<T>, action: &str) -> Result<(), Error> {
    require_user_of(request.extensions(), action)
}

/// Like [`require_user`], for requests that are not gRPC's.
pub fn require_user_of(extensions: &Extensions, action: &str) -> Result<(), Error> {
    let message = match caller(extensions) {
        Caller::User => return Ok(()),
        Caller::Agent(session) => {
            format!("agents may not {action}; this call comes from an agent of {session}")
        }
        Caller::Unknown => format!(
            "agents may not {action}, and it cannot be told whether this call comes from one, because the process \
             that connected is gone or hides; connect again"
        ),
        Caller::Token => format!(
            "only the daemon's own user may {action}; the token lets other users read documents and health"
        ),
        Caller::Device(device) => format!("the device {} may not {action}", device.name),
    };
    Err(Error::new(ErrorCode::NotAllowed, message))
}

/// One connection and what is known of its other end.
pub(crate) struct Connection {
    number: ConnectionNumber,
    peer: Peer,
    calling: Calling,
    /// The address a TCP client connected to.
    at: Option<SocketAddr>,
}

impl Connection {
    /// Returns nothing for a client that may not use the socket.
    pub(crate) fn unix(stream: &UnixStream, access: &Access) -> Option<Self> {
        let credentials = stream.peer_cred().ok()?;
        let uid = credentials.uid();
        if !is_trusted(uid) {
            tracing::warn!(uid, "refused a connection of another user");
            return None;
        }
        let clue = match credentials.pid() {
            // A process that our namespace cannot name is above us, where no agent of ours gets to.
            Some(0) => Clue::Outsider,
            Some(pid) => Clue::Process(pid),
            None => Clue::Nothing,
        };
        let pid = credentials.pid().filter(|pid| *pid > 0);
        let peer = Peer { uid: Some(uid), pid, via: Via::Unix };
        let calling = Calling::new(Arc::clone(&access.agents), clue);
        Some(Self { number: next_number(), peer, calling, at: None })
    }

    /// Finds the user of a TCP client, which must be on this machine.
    pub(crate) async fn tcp(from: SocketAddr, to: SocketAddr, access: &Access) -> Self {
        let found = tokio::task::spawn_blocking(move || net_table::owner_of(from, to)).await.ok().flatten();
        let clue = match found {
            Some(owner) if owner.uid == runtime::own_uid() => Clue::Socket(owner.inode),
            // Agents run as us; whoever can become somebody else needs no trick.
            Some(_) => Clue::Outsider,
            None => Clue::Nothing,
        };
        let peer = Peer { uid: found.map(|owner| owner.uid), pid: None, via: Via::Tcp };
        let calling = Calling::new(Arc::clone(&access.agents), clue);
        Self { number: next_number(), peer, calling, at: Some(to) }
    }

    /// Marks a request with who sent it, or refuses it.
    pub(crate) async fn admit(&self, request: &mut Request<Body>, access: &Access) -> Result<(), Refusal> {
        if let Some(at) = self.at {
            gate::check(request, at)?;
            if !self.peer.uid.is_some_and(is_trusted) {
                gate::check_token(request.headers(), access.token.as_ref())?;
            }
            if self.calling.is_costly() {
                let calling = self.calling.clone();
                // Asked again by the service; if this failed it is examined there.
                let _ = tokio::task::spawn_blocking(move || calling.caller()).await;
            }
        }
        request.extensions_mut().insert(self.number);
        request.extensions_mut().insert(self.peer);
        request.extensions_mut().insert(self.calling.clone());
        Ok(())
    }
}

fn next_number() -> ConnectionNumber {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    ConnectionNumber(NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Whether a user may call without more: ours, and root, who could do everything anyway.
fn is_trusted(uid: u32) -> bool {
    uid == runtime::own_uid() || uid == 0
}

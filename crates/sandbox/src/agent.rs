//! An agent in the sandbox: the walls of a command around a program that lives long, talks over its own streams and
//! needs its model. Three processes: the *outer* one stays on the machine's side, passes signals and the exit on and
//! relays the few connections that are allowed; the init of the namespaces; and the agent. Knows no session and no
//! provider: what may be seen is said by [`Walls`].

mod outer;
mod relay;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::order::{AgentRoot, Plan};
use crate::stage::landlock::SYSTEM;
use crate::{Limits, Network, Tier, limits, protect, sockets};

/// The first word of the command line that leads to [`enter`].
pub const WORD: &str = "sandbox-agent";

/// Where the agent finds the daemon: a socket on which it is always taken for itself.
pub const SOCKET_INSIDE: &str = "/run/obey/daemon.sock";

/// What an agent reaches by network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reach {
    /// What the machine reaches.
    Full,
    /// The named endpoints and nothing else.
    Endpoints,
    /// Nothing but its own loopback.
    Nothing,
}

/// A file or folder of the machine that the agent sees.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mount {
    /// Without links.
    pub from: PathBuf,
    pub at: PathBuf,
    pub writable: bool,
}

impl Mount {
    /// Shows a path where it is.
    pub fn same(path: impl Into<PathBuf>, writable: bool) -> Self {
        let path = path.into();
        Self { from: path.clone(), at: path, writable }
    }
}

/// A file whose content the agent gets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopiedFile {
    pub path: PathBuf,
    /// A JSON file with an object of this name, of which it gets only these entries. One that cannot be read is not copied.
    #[serde(default)]
    pub only: Option<(String, Vec<String>)>,
    /// Where the content is, if not at the path itself.
    #[serde(default)]
    pub from: Option<PathBuf>,
}

/// Names directly in a folder that stay as they are, or stay away. While the agent lives, an empty folder that nobody can
/// write to stands where a name is absent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProtectedNames {
    /// Without links.
    pub folder: PathBuf,
    pub names: Vec<String>,
}

/// A place in the network that can be reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    pub host: String,
    pub port: u16,
}

/// Everything an agent can see and reach. Written to a file by the daemon, read by [`enter`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Walls {
    /// Where it starts.
    pub working_dir: PathBuf,
    /// Its home: an empty folder, but for what the mounts put there.
    pub home: PathBuf,
    /// More folders that are empty but for what the mounts put there.
    pub private: Vec<PathBuf>,
    pub mounts: Vec<Mount>,
    /// Files whose content it gets; what it changes stays inside and is gone with it.
    pub copies: Vec<CopiedFile>,
    /// What it must not change in writable folders, nor make where it is absent.
    #[serde(default)]
    pub protected: Vec<ProtectedNames>,
    pub reach: Reach,
    pub endpoints: Vec<Endpoint>,
    /// The daemon's socket, to which its connections are passed on.
    pub daemon: Option<PathBuf>,
}

/// Names in the folder that holds the file with the walls: the socket on which the outer process says how it went, and the
/// one that becomes [`SOCKET_INSIDE`].
pub const READY_NAME: &str = "walls.ready";
const BRIDGE_NAME: &str = "daemon.sock";

/// The name of a file in that folder: why an agent was ended by its own walls, if it was.
pub const UNPROTECTED_NAME: &str = "walls.unprotected";

/// What the outer process says on the ready socket when the agent runs; anything else is why it does not.
pub const READY: &str = "ready";

/// Becomes an agent in the sandbox: `sandbox-agent FILE -- PROGRAM ARGUMENTS…`. Must be called before there is any
/// thread. Ends as the agent ends.
pub fn enter(arguments: &[OsString]) -> i32 {
    outer::run(arguments)
}

/// Takes away the placeholders of an agent whose outer process could not do it itself, because it was killed. Those that
/// somebody else needs stay.
pub fn clear_placeholders(file: &Path) {
    let walls = std::fs::read(file).ok().and_then(|text| serde_json::from_slice::<Walls>(&text).ok());
    for place in walls.into_iter().flat_map(|walls| walls.protected) {
        protect::clear(&place.folder, &place.names());
    }
}

impl ProtectedNames {
    fn names(&self) -> Vec<OsString> {
        self.names.iter().map(OsString::from).collect()
    }
}

impl Walls {
    /// Returns what the stage builds: parents before what lies in them, and nothing twice.
    pub(crate) fn plan(&self, bridge: Option<&Path>, protected: Vec<(OsString, Vec<OsString>)>) -> Plan {
        let mut mounts: Vec<Mount> = self.mounts.iter().filter(|mount| !is_system(mount)).cloned().collect();
        mounts.extend(bridge.map(|socket| Mount {
            from: socket.to_owned(),
            at: SOCKET_INSIDE.into(),
            writable: true,
        }));
        mounts.sort_by_key(|mount| mount.at.components().count());
        mounts.dedup_by(|later, earlier| later.at == earlier.at);
        let os = |paths: &[PathBuf]| paths.iter().map(|path| path.clone().into_os_string()).collect();
        let mut private = vec![self.home.clone()];
        private.extend(self.private.iter().filter(|folder| **folder != self.home).cloned());
        private.sort_by_key(|folder| folder.components().count());
        let writable = mounts.iter().filter(|mount| mount.writable).map(|mount| mount.at.clone());
        let writable = writable.chain(private.iter().cloned()).map(PathBuf::into_os_string).collect();
        Plan {
            tier: Tier::Namespaces,
            network: Network::Loopback,
            limits: Limits { temporary_bytes: limits::AGENT_TEMPORARY_BYTES_MAX, ..Limits::default() },
            root: None,
            read_only: Vec::new(),
            writable: Vec::new(),
            git_config: String::new(),
            cgroups: Vec::new(),
            agent: Some(AgentRoot {
                home: self.home.clone().into_os_string(),
                private: os(&private),
                mounts: mounts
                    .into_iter()
                    .map(|mount| (mount.from.into(), mount.at.into(), mount.writable))
                    .collect(),
                writable,
                copies: self.copies.clone(),
                protected,
                sockets: self.sockets(),
                hosts: (self.reach == Reach::Endpoints).then(|| self.hosts_file()),
                shares_network: self.reach == Reach::Full,
            }),
        }
    }

    /// Returns the sockets in writable folders on which somebody listens, where the agent would see them.
    fn sockets(&self) -> Vec<OsString> {
        let folders = self.mounts.iter().filter(|mount| mount.writable && mount.from.is_dir());
        let found = folders.flat_map(|mount| {
            sockets::below(&mount.from).into_iter().map(|path| mount.at.join(path).into_os_string())
        });
        found.collect()
    }

    /// The addresses of the endpoints inside: each host has one of its own, a numeric one has itself.
    pub(crate) fn addresses(&self) -> Vec<(Endpoint, std::net::IpAddr)> {
        let mut next = 1u8;
        let mut known: Vec<(String, std::net::IpAddr)> = Vec::new();
        let mut all = Vec::new();
        for endpoint in self.endpoints.iter().take(limits::AGENT_ENDPOINTS_MAX) {
            let numeric =
                endpoint.host.parse::<std::net::IpAddr>().ok().filter(std::net::IpAddr::is_loopback);
            let found = numeric.or_else(|| {
                if endpoint.host == "localhost" {
                    return Some(std::net::Ipv4Addr::LOCALHOST.into());
                }
                known.iter().find(|(host, _)| *host == endpoint.host).map(|(_, address)| *address)
            });
            let address = found.unwrap_or_else(|| {
                next = next.saturating_add(1);
                let address = std::net::Ipv4Addr::new(127, 77, 0, next).into();
                known.push((endpoint.host.clone(), address));
                address
            });
            all.push((endpoint.clone(), address));
        }
        all
    }

    fn hosts_file(&self) -> String {
        let mut text = "127.0.0.1 localhost\n::1 localhost\n".to_owned();
        for (endpoint, address) in self.addresses() {
            if endpoint.host.parse::<std::net::IpAddr>().is_err() && endpoint.host != "localhost" {
                text.push_str(&format!("{address} {}\n", endpoint.host));
            }
        }
        text
    }
}

/// What every root has already, with the links that lead there.
fn is_system(mount: &Mount) -> bool {
    !mount.writable && SYSTEM.iter().any(|part| mount.at.starts_with(part))
}

//! Listening: sockets, the accept loop, one router for every listener. HTTP/1.1 and HTTP/2 share each address, in plain
//! text on this machine and with TLS for others. A listener is only an address plus a rule about who may call (`peer`); knows no single service.

mod accept;
mod authority;
mod body;
mod connection;
mod ending;
pub mod folder;
pub mod json_calls;
pub mod limits;
mod lock;
mod places;
mod router;
mod sniff;
mod tcp;
mod tls;
mod traced;
mod tunnelled;
mod unix;
mod unix_io;

#[cfg(test)]
pub mod tests;

use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use domain::{Error, ErrorCode};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tonic::service::Routes;
use tonic_web::GrpcWebLayer;
use tower::Layer as _;

use crate::access::Recorder;
use crate::peer::Access;
use accept::Listener;
use connection::Serving;
pub use ending::LastWords;
pub use lock::DaemonLock;
pub use router::is_grpc;
pub use tls::{Tls, fingerprint, sealed_config};
pub use tunnelled::TunnelEntry;

/// An address to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// A socket file.
    Unix(PathBuf),
    /// A loopback address. Port 0 picks a free port.
    Tcp(SocketAddr),
    /// A loopback address that is only preferred: if its port is taken, the next free one is used.
    TcpOrNext(SocketAddr),
    /// An address that other machines may reach, with TLS. Callers are devices.
    Tls(SocketAddr),
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Listen::Unix(path) => write!(f, "unix:{}", path.display()),
            Listen::Tls(address) => write!(f, "tls://{address}"),
            Listen::Tcp(address) | Listen::TcpOrNext(address) => write!(f, "{address}"),
        }
    }
}

/// The daemon's listeners.
pub struct Server;

impl Server {
    /// Binds every address, or none: when one fails (OBEY-1013), those already bound are released. Clients
    /// can connect from this point on and are answered once [`Bound::serve`] runs. The lock proves that a
    /// socket file without a listener is stale.
    pub fn bind(listens: &[Listen], lock: &DaemonLock, access: Access) -> Result<Bound, Error> {
        Self::bind_given(listens, None, lock, access)
    }

    /// Like [`Server::bind`], but uses a Unix socket that another process, such as a service manager, already
    /// listens on and passed to us. It must be the socket of the configured path. Its file stays when the
    /// daemon ends, and so do the clients that wait in its queue.
    pub fn bind_given(
        listens: &[Listen],
        mut given: Option<OwnedFd>,
        lock: &DaemonLock,
        access: Access,
    ) -> Result<Bound, Error> {
        let mut sockets = Vec::with_capacity(listens.len());
        for listen in listens {
            sockets.push(match listen {
                Listen::Unix(path) => {
                    let (listener, file) = match given.take() {
                        Some(given) => unix::adopt(given, path)?,
                        None => unix::bind(path, lock)?,
                    };
                    Socket::Unix(listener, file)
                }
                Listen::Tls(address) if access.tls.is_none() => return Err(tcp::needs_tls(*address)),
                Listen::Tls(address) => {
                    let listener = tcp::bind_for_tls(*address)?;
                    let bound = listener.local_addr().map_err(|error| unusable(&error))?;
                    Socket::Tls(listener, bound)
                }
                Listen::Tcp(address) | Listen::TcpOrNext(address) => {
                    let listener = match listen {
                        Listen::TcpOrNext(_) => tcp::bind_or_next(*address)?,
                        _ => tcp::bind(*address)?,
                    };
                    let bound = listener.local_addr().map_err(|error| unusable(&error))?;
                    Socket::Tcp(listener, bound)
                }
            });
        }
        Ok(Bound { sockets, access })
    }
}

/// Listeners that are bound but not yet served.
pub struct Bound {
    sockets: Vec<Socket>,
    access: Access,
}

/// A bound socket.
enum Socket {
    Unix(std::os::unix::net::UnixListener, unix::SocketFile),
    Tcp(std::net::TcpListener, SocketAddr),
    Tls(std::net::TcpListener, SocketAddr),
}

impl Bound {
    /// Returns the addresses as they were bound; port 0 is replaced by the actual port.
    pub fn addresses(&self) -> Vec<Listen> {
        let address = |socket: &Socket| match socket {
            Socket::Unix(_, file) => Listen::Unix(file.path().to_owned()),
            Socket::Tcp(_, address) => Listen::Tcp(*address),
            Socket::Tls(_, address) => Listen::Tls(*address),
        };
        self.sockets.iter().map(address).collect()
    }

    /// Serves the given services on every listener until `shutdown` completes. Then it ends idle streams at
    /// once and the others within [`limits::SHUTDOWN_GRACE`], and removes the socket file. Must run on a
    /// tokio runtime.
    pub async fn serve(self, routes: Routes, shutdown: impl Future<Output = ()>) -> Result<(), Error> {
        self.serve_with_tunnel(routes, shutdown, |_| {}).await
    }

    /// The same, for a daemon that also takes calls from a relay: `tunnel` gets what serves them.
    pub async fn serve_with_tunnel(
        self,
        routes: Routes,
        shutdown: impl Future<Output = ()>,
        tunnel: impl FnOnce(TunnelEntry),
    ) -> Result<(), Error> {
        let recorder = Recorder::new(self.access.audit.clone());
        let (router, health) = router::build(routes, recorder.clone()).await?;
        let web = GrpcWebLayer::new().layer(router.clone());
        let serving = Arc::new(Serving { router, web, access: Arc::new(self.access), recorder });
        let (going, is_going) = watch::channel(false);
        tunnel(TunnelEntry { serving: Arc::clone(&serving), going: is_going.clone() });
        let mut loops = JoinSet::new();
        for socket in self.sockets {
            let listener = socket.into_async().map_err(|error| unusable(&error))?;
            loops.spawn(accept::run(listener, Arc::clone(&serving), is_going.clone()));
        }
        shutdown.await;
        health.not_serving().await;
        going.send_replace(true);
        // Each loop limits how long its own shutdown takes.
        while loops.join_next().await.is_some() {}
        Ok(())
    }
}

impl Socket {
    /// Registers the socket with the tokio runtime.
    fn into_async(self) -> std::io::Result<Listener> {
        Ok(match self {
            Socket::Unix(listener, file) => {
                Listener::Unix(tokio::net::UnixListener::from_std(listener)?, file)
            }
            Socket::Tcp(listener, address) => {
                Listener::Tcp(tokio::net::TcpListener::from_std(listener)?, address)
            }
            Socket::Tls(listener, _) => Listener::Tls(tokio::net::TcpListener::from_std(listener)?),
        })
    }
}

fn unusable(error: &std::io::Error) -> Error {
    Error::new(ErrorCode::ListenFailed, format!("a listener cannot be used: {}", folder::plain(error)))
}

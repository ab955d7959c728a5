//! The accept loop of one listener. It never ends on an error, limits the number of connections, and closes
//! them within a bounded time when the daemon shuts down.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time;

use super::connection::{self, Serving};
use super::limits;
use super::places::{Place, Places, StrangerId, TooMany};
use super::unix::SocketFile;
use crate::peer::Client;

/// A listener that is ready to accept.
pub(super) enum Listener {
    Unix(UnixListener, SocketFile),
    Tcp(TcpListener, SocketAddr),
    Tls(TcpListener),
}

/// An accepted connection of which nothing has been read yet.
pub(super) enum AcceptedSocket {
    Unix(UnixStream),
    Tcp { stream: TcpStream, from: SocketAddr, to: SocketAddr, client: Client, place: Option<Place> },
    Tls { stream: TcpStream, from: SocketAddr, place: Option<Place> },
}

impl Listener {
    /// Accepts one connection. For TCP, its user is looked up at once.
    async fn accept(&self) -> io::Result<AcceptedSocket> {
        match self {
            Listener::Unix(listener, _) => {
                let (stream, _) = listener.accept().await?;
                Ok(AcceptedSocket::Unix(stream))
            }
            Listener::Tcp(listener, to) => {
                let (stream, from) = listener.accept().await?;
                // Disables Nagle's algorithm: small answers must not wait for the client's acknowledgements
                // (40 ms each).
                stream.set_nodelay(true)?;
                Ok(AcceptedSocket::Tcp {
                    client: Client::find(from, *to),
                    stream,
                    from,
                    to: *to,
                    place: None,
                })
            }
            Listener::Tls(listener) => {
                let (stream, from) = listener.accept().await?;
                stream.set_nodelay(true)?;
                Ok(AcceptedSocket::Tls { stream, from, place: None })
            }
        }
    }

    /// Stops new clients from connecting, where that is possible without rejecting those already in the
    /// queue. Returns whether the queued clients are ours to serve: a socket that was passed to us keeps its
    /// queue for the next daemon.
    fn hide(&mut self) -> bool {
        match self {
            Listener::Unix(_, file) => file.remove(),
            Listener::Tcp(..) | Listener::Tls(_) => true,
        }
    }
}

/// Serves connections until the daemon shuts down, then gives the open ones a short grace period and closes
/// them.
pub(super) async fn run(mut listener: Listener, serving: Arc<Serving>, mut going: watch::Receiver<bool>) {
    let most = connections_max();
    let places = Places::new(most / limits::STRANGERS_SHARE);
    let mut connections = JoinSet::new();
    let mut is_pausing = false;
    loop {
        tokio::select! {
            // Shutdown is checked first: a flood of connections must not keep the daemon alive. Ended
            // connections come second, to free their places.
            biased;
            () = gone(&mut going) => break,
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            accepted = listener.accept(), if connections.len() < most => match accepted {
                Ok(incoming) => {
                    is_pausing = false;
                    match placed(incoming, &places) {
                        Some(incoming) => {
                            connections.spawn(connection::serve(incoming, Arc::clone(&serving), going.clone()));
                        }
                        // A flood from other users must not block this thread.
                        None => tokio::task::yield_now().await,
                    }
                }
                Err(error) if is_of_one_connection(&error) => {}
                Err(error) => {
                    // Logged once, not ten times a second.
                    if !std::mem::replace(&mut is_pausing, true) {
                        tracing::warn!(%error, "cannot accept connections; trying on");
                    }
                    time::sleep(limits::ACCEPT_PAUSE).await;
                }
            },
        }
    }
    // The socket's file is removed before the last streams end, so that new clients notice at once and wait
    // for the next daemon. A client in the queue cannot know that it would never be accepted, so it is still
    // served.
    if listener.hide() {
        let late = async {
            while connections.len() < most
                && let Ok(incoming) = listener.accept().await
            {
                let Some(incoming) = placed(incoming, &places) else { continue };
                connections.spawn(connection::serve(incoming, Arc::clone(&serving), going.clone()));
            }
        };
        // No later client is expected: every client that found the file has connected within this time.
        let _over = time::timeout(limits::LATE_ACCEPT_WAIT, late).await;
    }
    drop(listener);
    let drained =
        time::timeout(limits::SHUTDOWN_GRACE, async { while connections.join_next().await.is_some() {} });
    if drained.await.is_err() {
        tracing::debug!(open = connections.len(), "cutting connections that did not end in time");
    }
    connections.shutdown().await;
}

/// Assigns a place to a connection. Returns `None` if its user already has too many; the connection is then
/// dropped.
fn placed(incoming: AcceptedSocket, places: &Places) -> Option<AcceptedSocket> {
    let stranger = match &incoming {
        AcceptedSocket::Unix(_) => return Some(incoming),
        AcceptedSocket::Tcp { client, .. } => client.uid().map_or(StrangerId::Untold, StrangerId::User),
        AcceptedSocket::Tls { from, .. } => StrangerId::of_address(from.ip()),
    };
    let given = places.take(stranger, Instant::now());
    match (incoming, given) {
        (AcceptedSocket::Tcp { stream, from, to, client, .. }, Ok(place)) => {
            Some(AcceptedSocket::Tcp { stream, from, to, client, place })
        }
        (AcceptedSocket::Tls { stream, from, .. }, Ok(place)) => {
            Some(AcceptedSocket::Tls { stream, from, place })
        }
        (AcceptedSocket::Tcp { stream, .. } | AcceptedSocket::Tls { stream, .. }, Err(TooMany)) => {
            // Without ceremony, so that nothing of it stays in the kernel's tables.
            let _ = rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO));
            None
        }
        (unix @ AcceptedSocket::Unix(_), _) => Some(unix),
    }
}

/// Waits until the daemon shuts down.
pub(super) async fn gone(going: &mut watch::Receiver<bool>) {
    // An error means that the server itself has been dropped.
    let _ = going.wait_for(|going| *going).await;
}

/// Whether an error concerns only the connection that was about to be accepted.
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::Interrupted
            | io::ErrorKind::InvalidInput
            | io::ErrorKind::NotConnected
    )
}

/// Returns how many connections this listener may have, so that enough file descriptors remain for agents and
/// the store.
pub(super) fn connections_max() -> usize {
    let descriptors = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let share = descriptors.map_or(u64::MAX, |limit| limit / limits::CONNECTIONS_FD_SHARE);
    usize::try_from(share).unwrap_or(usize::MAX).clamp(1, limits::CONNECTIONS_MAX)
}

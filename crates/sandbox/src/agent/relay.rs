//! What passes an agent's walls: connections to the daemon, and to the endpoints of its model. Each listener leads to one
//! place, which was fixed before the agent began; nothing the agent sends chooses another.

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::Semaphore;

use super::{Endpoint, Walls};
use crate::limits;

/// Starts passing connections on; must be called inside a runtime.
pub(super) fn start(
    walls: &Walls,
    bridge: Option<std::os::unix::net::UnixListener>,
    listeners: Vec<OwnedFd>,
) -> io::Result<()> {
    let most = Arc::new(Semaphore::new(limits::AGENT_CONNECTIONS_MAX));
    if let (Some(listener), Some(daemon)) = (bridge, &walls.daemon) {
        let listener = UnixListener::from_std(listener)?;
        tokio::spawn(to_daemon(listener, daemon.clone(), Arc::clone(&most)));
    }
    for (listener, (endpoint, _)) in listeners.into_iter().zip(walls.addresses()) {
        let listener = std::net::TcpListener::from(listener);
        listener.set_nonblocking(true)?;
        tokio::spawn(to_endpoint(TcpListener::from_std(listener)?, endpoint, Arc::clone(&most)));
    }
    Ok(())
}

async fn to_daemon(listener: UnixListener, daemon: PathBuf, most: Arc<Semaphore>) {
    loop {
        let Ok(room) = Arc::clone(&most).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((client, _)) => {
                let daemon = daemon.clone();
                tokio::spawn(async move {
                    // A daemon that is away is tried again by the client, as it would outside.
                    if let Ok(server) = UnixStream::connect(daemon).await {
                        pass(client, server).await;
                    }
                    drop(room);
                });
            }
            Err(_) => tokio::time::sleep(limits::CLEAR_STEP).await,
        }
    }
}

async fn to_endpoint(listener: TcpListener, endpoint: Endpoint, most: Arc<Semaphore>) {
    let endpoint = Arc::new(endpoint);
    loop {
        let Ok(room) = Arc::clone(&most).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((client, _)) => {
                let endpoint = Arc::clone(&endpoint);
                tokio::spawn(async move {
                    if let Ok(server) = TcpStream::connect((endpoint.host.as_str(), endpoint.port)).await {
                        // Chunks of an answer must not wait for each other.
                        let _ = (client.set_nodelay(true), server.set_nodelay(true));
                        pass(client, server).await;
                    }
                    drop(room);
                });
            }
            Err(_) => tokio::time::sleep(limits::CLEAR_STEP).await,
        }
    }
}

/// Passes bytes both ways until both sides have ended.
async fn pass(
    mut client: impl AsyncRead + AsyncWrite + Unpin,
    mut server: impl AsyncRead + AsyncWrite + Unpin,
) {
    // A connection that breaks is the affair of its two ends.
    let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
}

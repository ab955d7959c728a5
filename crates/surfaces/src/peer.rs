//! Who is calling: the user behind a connection, and whether it is an agent of one of our sessions.

use std::net::SocketAddr;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, Request, StatusCode};
use tokio::net::UnixStream;

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
    pub pid: Option<i32>,
    pub via: Via,
}

/// The rules about who may call.
#[derive(Default)]
pub struct Access {}

/// One connection and what is known of its other end.
pub(crate) struct Connection {
    peer: Peer,
}

impl Connection {
    /// Returns nothing for a client that may not use the socket.
    pub(crate) fn unix(stream: &UnixStream, _access: &Access) -> Option<Self> {
        let credentials = stream.peer_cred().ok()?;
        let uid = credentials.uid();
        if uid != runtime::own_uid() && uid != 0 {
            tracing::warn!(uid, "refused a connection of another user");
            return None;
        }
        let pid = credentials.pid().filter(|pid| *pid > 0);
        Some(Self { peer: Peer { uid: Some(uid), pid, via: Via::Unix } })
    }

    pub(crate) async fn tcp(_from: SocketAddr, _to: SocketAddr, _access: &Access) -> Self {
        Self { peer: Peer { uid: None, pid: None, via: Via::Tcp } }
    }

    /// Marks a request with who sent it, or refuses it.
    pub(crate) async fn admit(&self, request: &mut Request<Body>, _access: &Access) -> Result<(), Refusal> {
        request.extensions_mut().insert(self.peer);
        Ok(())
    }
}

/// Why a request is refused.
#[derive(Debug)]
pub(crate) struct Refusal;

impl Refusal {
    pub(crate) fn into_response(self, _headers: &HeaderMap) -> Response {
        StatusCode::FORBIDDEN.into_response()
    }
}

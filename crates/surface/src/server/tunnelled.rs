//! The way into the router for calls that come through a relay: in the clear, or as a sealed connection. Knows no frames and no
//! relay.

use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use http::Request;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use wire::access::Row;

use super::connection::{self, Serving};
use crate::peer::{Calling, Peer, Via};

/// Serves what comes through a relay with the routes of every listener.
#[derive(Clone)]
pub struct TunnelEntry {
    pub(super) serving: Arc<Serving>,
    pub(super) going: watch::Receiver<bool>,
}

impl TunnelEntry {
    /// Answers a call that the relay can read.
    pub async fn call(&self, request: Request<Body>, calling: Calling) -> Response {
        connection::call_relayed(&self.serving, request, calling, self.going.clone()).await
    }

    /// Writes down a call that was refused because the relay could have read it.
    pub async fn record_refusal(&self, row: Option<&'static Row>, calling: &Calling) {
        if let Some(row) = row {
            let peer = Peer { uid: None, pid: None, via: Via::Tunnel, from: None };
            self.serving.recorder.refused(row, &calling.caller(), "", Some(peer)).await;
        }
    }

    /// Serves a connection that the relay cannot read, of the device with this certificate.
    pub async fn serve_sealed<T>(&self, io: T, certificate: String)
    where
        T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        connection::serve_sealed(io, certificate, Arc::clone(&self.serving), self.going.clone()).await;
    }

    /// Waits until the daemon shuts down.
    pub async fn ended(&self) {
        super::accept::gone(&mut self.going.clone()).await;
    }
}

//! Connects to a relay that is recognized by its pin.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use domain::{Error, ErrorCode};
use http::Uri;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time;
use tokio_rustls::TlsConnector;
use tonic::transport::{Channel, Endpoint};

use crate::limits;
use crate::pinned::{self, NextPin, TlsIdentity};

/// The port of a relay whose address has none.
const DEFAULT_PORT: u16 = 443;

/// Connects to a relay once. What breaks is not connected again: whoever dials decides when to.
pub async fn connect(url: &str, pin: &str, identity: Option<&TlsIdentity>) -> Result<Channel, Error> {
    connect_following(url, pin, identity, &NextPin::default()).await.map_err(|failure| failure.error)
}

/// Why a relay could not be connected.
#[derive(Debug)]
pub struct DialFailure {
    pub error: Error,
    /// Whether the relay had proved who it is. In TLS 1.3 a relay that refuses this side's certificate does so only after that,
    /// and the alert that says so can be lost with the connection.
    pub is_after_handshake: bool,
}

/// The same; `next` receives the authority that succeeds the one with this pin.
pub async fn connect_following(
    url: &str,
    pin: &str,
    identity: Option<&TlsIdentity>,
    next: &NextPin,
) -> Result<Channel, DialFailure> {
    let shaken = Arc::new(AtomicBool::new(false));
    let failure = |error| DialFailure { error, is_after_handshake: shaken.load(Ordering::Acquire) };
    let (endpoint, connector) = prepare(url, pin, identity, next, &shaken).map_err(failure)?;
    let connecting = endpoint.connect_with_connector(connector);
    match time::timeout(limits::DIAL_WAIT, connecting).await {
        Ok(Ok(channel)) => Ok(channel),
        Ok(Err(error)) => Err(failure(unreachable_relay(url, &innermost(&error)))),
        Err(_) => Err(failure(unreachable_relay(url, "it does not answer in time"))),
    }
}

/// Returns a channel that connects when it is used, and again when the connection broke. `next` as above.
pub fn connect_lazily(url: &str, pin: &str, next: &NextPin) -> Result<Channel, Error> {
    let (endpoint, connector) = prepare(url, pin, None, next, &Arc::default())?;
    Ok(endpoint.connect_with_connector_lazy(connector))
}

type Dialled = TokioIo<tokio_rustls::client::TlsStream<TcpStream>>;

/// Returns how to connect; `shaken` is set when a handshake with the relay has ended well on this side.
fn prepare(
    url: &str,
    pin: &str,
    identity: Option<&TlsIdentity>,
    next: &NextPin,
    shaken: &Arc<AtomicBool>,
) -> Result<
    (
        Endpoint,
        impl tower::Service<
            Uri,
            Response = Dialled,
            Error = io::Error,
            Future = impl Future<Output = io::Result<Dialled>> + Send + 'static,
        >
        + Send
        + 'static
        + Clone,
    ),
    Error,
> {
    let wrong = || Error::invalid("relay", "must be an address such as https://relay.example:7443");
    let uri: Uri = url.parse().map_err(|_| wrong())?;
    let authority = uri.authority().filter(|_| uri.scheme_str() == Some("https")).ok_or_else(wrong)?;
    let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
    let port = authority.port_u16().unwrap_or(DEFAULT_PORT);
    let name = ServerName::try_from(host.clone()).map_err(|_| wrong())?;
    let config = Arc::new(pinned::client_config_following(pin, identity, &[b"h2"], next)?);
    let shaken = Arc::clone(shaken);
    let connector = tower::service_fn(move |_: Uri| {
        let dialling = dial(host.clone(), port, name.clone(), Arc::clone(&config));
        let shaken = Arc::clone(&shaken);
        async move { dialling.await.inspect(|_| shaken.store(true, Ordering::Release)) }
    });
    let endpoint = Endpoint::from_shared(format!("http://{authority}"))
        .map_err(|_| wrong())?
        .initial_stream_window_size(limits::STREAM_WINDOW_BYTES)
        .initial_connection_window_size(limits::CONNECTION_WINDOW_BYTES)
        .http2_keep_alive_interval(limits::PING_INTERVAL)
        .keep_alive_timeout(limits::PING_WAIT)
        .keep_alive_while_idle(true);
    Ok((endpoint, connector))
}

async fn dial(
    host: String,
    port: u16,
    name: ServerName<'static>,
    config: Arc<ClientConfig>,
) -> io::Result<Dialled> {
    let connecting = async {
        let stream = TcpStream::connect((host.as_str(), port)).await?;
        // Small frames must not wait for the other end's acknowledgements.
        stream.set_nodelay(true)?;
        TlsConnector::from(config).connect(name, stream).await
    };
    let wait: Duration = limits::DIAL_WAIT;
    let stream =
        time::timeout(wait, connecting).await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    Ok(TokioIo::new(stream))
}

/// Returns the error for a relay that cannot be reached, or is another one.
pub fn unreachable_relay(url: &str, why: &str) -> Error {
    Error::new(ErrorCode::RelayUnreachable, format!("the relay {url} is not reachable: {why}"))
}

/// Returns the cause of an error that others wrap.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}

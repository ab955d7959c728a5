//! The relay's listener: TLS 1.3, one router for what the relay serves itself, and everything else to machines.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use domain::{Error, ErrorCode};
use host::clock;
use http::Request;
use http_server::{DrainedBody, LingeringIo};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::pki_types::UnixTime;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::time_provider::TimeProvider;
use rustls::{RootCertStore, ServerConfig};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time;
use tokio_rustls::TlsAcceptor;
use tonic::service::Routes;
use tower::ServiceExt as _;
use wire::betcode::v1::machine_service_server::MachineServiceServer;
use wire::betcode::v1::tunnel_service_server::TunnelServiceServer;
use wire::obey::v1::relay_service_server::RelayServiceServer;

use crate::addresses::ClientAddress;
use crate::authority::Authority;
use crate::forward::{forward, principal_of};
use crate::hub::Hub;
use crate::machine_service::MachineHandler;
use crate::metrics::Totals;
use crate::relay_service::RelayHandler;
use crate::store::Principal;
use crate::tunnel_service::TunnelHandler;
use crate::{limits, status};

/// The certificate of the connection that a request came on; an extension of every request.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClientCertificate {
    /// SHA-256 in hexadecimal; the handshake has verified that our authority signed it.
    pub(crate) fingerprint: Option<String>,
}

/// Where Prometheus reads, with the owner's token.
const METRICS: &str = "/metrics";

/// The services that the relay answers itself.
const OWN: [&str; 6] = [
    "/betcode.v1.TunnelService/",
    "/betcode.v1.MachineService/",
    "/obey.v1.RelayService/",
    "/grpc.health.v1.Health/",
    "/grpc.reflection.v1.ServerReflection/",
    "/grpc.reflection.v1alpha.ServerReflection/",
];

/// The time by which certificates are judged.
#[derive(Debug)]
struct RelayClock;

impl TimeProvider for RelayClock {
    fn current_time(&self) -> Option<UnixTime> {
        let seconds = u64::try_from(clock::now().seconds_and_nanos().0).ok()?;
        Some(UnixTime::since_unix_epoch(Duration::from_secs(seconds)))
    }
}

struct Serving {
    hub: Arc<Hub>,
    router: axum::Router,
    names: Vec<String>,
    /// Changes with the authority, for the connections that come after.
    acceptor: RwLock<TlsAcceptor>,
}

impl Serving {
    fn acceptor(&self) -> TlsAcceptor {
        self.acceptor.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Uses the authority that is in the relay's folder, if it is another one. One whose time is over is completed.
    fn look_at_authority(&self) -> Result<(), Error> {
        let current = self.hub.authority();
        let found = Authority::load(current.folder())?;
        let found = match found.former_until() {
            Some(end) if end <= clock::now() => found.complete()?,
            _ => found,
        };
        if found.is_same(&current) {
            return Ok(());
        }
        let acceptor = TlsAcceptor::from(Arc::new(config(&found, &self.names)?));
        tracing::info!(
            authority = found.pin(),
            former = found.former_pin(),
            "the relay's authority has changed"
        );
        self.hub.use_authority(found);
        *self.acceptor.write().unwrap_or_else(PoisonError::into_inner) = acceptor;
        Ok(())
    }
}

/// A listener that is bound but not served yet.
pub(crate) struct Bound {
    listener: TcpListener,
    serving: Arc<Serving>,
}

impl Bound {
    pub(crate) async fn bind(hub: Arc<Hub>, address: SocketAddr, names: &[String]) -> Result<Self, Error> {
        let listener = TcpListener::bind(address).await.map_err(|error| {
            Error::new(ErrorCode::ListenFailed, format!("cannot listen on {address}: {error}"))
        })?;
        let acceptor = RwLock::new(TlsAcceptor::from(Arc::new(config(&hub.authority(), names)?)));
        let router = router(&hub)?;
        let serving = Serving { hub, router, names: names.to_vec(), acceptor };
        // An exchange may have come to its end while nobody served.
        serving.look_at_authority()?;
        Ok(Self { listener, serving: Arc::new(serving) })
    }

    pub(crate) fn address(&self) -> Result<SocketAddr, Error> {
        self.listener.local_addr().map_err(|error| Error::new(ErrorCode::ListenFailed, error.to_string()))
    }

    /// Serves until `shutdown` completes; then tunnels are told, and calls end in bounded time.
    pub(crate) async fn serve(self, shutdown: impl Future<Output = ()>) {
        let Self { listener, serving } = self;
        let (going, is_going) = watch::channel(false);
        let places = Arc::new(Semaphore::new(limits::CONNECTIONS_MAX));
        let mut connections = JoinSet::new();
        let watching = tokio::spawn(watch_changes(Arc::clone(&serving)));
        tokio::pin!(shutdown);
        loop {
            tokio::select! {
                biased;
                () = &mut shutdown => break,
                Some(_) = connections.join_next(), if !connections.is_empty() => {}
                accepted = listener.accept() => match accepted {
                    Ok((stream, peer)) => {
                        let address = ClientAddress(peer.ip());
                        // Nothing is read of one that comes too often.
                        let Some(of_address) = serving.hub.addresses.connect(address) else { continue };
                        let Ok(place) = Arc::clone(&places).try_acquire_owned() else { continue };
                        let (serving, is_going) = (Arc::clone(&serving), is_going.clone());
                        connections.spawn(async move {
                            serve(stream, address, serving, is_going).await;
                            drop((place, of_address));
                        });
                    }
                    Err(error) => {
                        tracing::debug!(%error, "cannot accept a connection");
                        time::sleep(limits::ACCEPT_PAUSE).await;
                    }
                },
            }
        }
        // Who dials now must not wait for an answer that never comes.
        drop(listener);
        serving.hub.drain_all();
        going.send_replace(true);
        let mut ended = async || while connections.join_next().await.is_some() {};
        if time::timeout(limits::SHUTDOWN_GRACE, ended()).await.is_err() {
            serving.hub.cut_all("the relay ends; try again");
            // Whoever does not read what it is told is cut off.
            let _ = time::timeout(limits::SHUTDOWN_FLUSH, ended()).await;
        }
        connections.shutdown().await;
        watching.abort();
    }
}

/// Looks now and then whether another process has changed what the relay knows.
async fn watch_changes(serving: Arc<Serving>) {
    let hub = &serving.hub;
    let mut look = time::interval(limits::CHANGES_INTERVAL);
    loop {
        look.tick().await;
        let changed = hub.store.refresh();
        if changed.as_ref().is_ok_and(|changed| *changed) {
            hub.cut_removed();
            if let Ok(limit) = hub.store.bytes_per_day() {
                hub.traffic.set_limit(limit);
            }
        }
        let is_over = hub.authority().former_until().is_some_and(|end| end <= clock::now());
        let looked = match changed {
            Ok(true) => serving.look_at_authority(),
            Ok(false) if is_over => serving.look_at_authority(),
            Ok(false) => Ok(()),
            Err(error) => Err(error),
        };
        if let Err(error) = looked.and_then(|()| hub.count_traffic()) {
            tracing::warn!(%error, detail = error.detail, "the relay's file cannot be read or written");
        }
    }
}

pub(crate) fn config(authority: &Authority, names: &[String]) -> Result<ServerConfig, Error> {
    let broken = |error: &dyn std::fmt::Display| {
        Error::new(ErrorCode::ConfigInvalid, "the relay's certificates cannot be used")
            .with_detail(error.to_string())
    };
    let (chain, key) = authority.server(names)?;
    let mut roots = RootCertStore::empty();
    for root in authority.roots()? {
        roots.add(root).map_err(|error| broken(&error))?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
        // Clients have tokens; only machines have certificates.
        .allow_unauthenticated()
        .build()
        .map_err(|error| broken(&error))?;
    let mut config = ServerConfig::builder_with_details(provider, Arc::new(RelayClock))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| broken(&error))?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key)
        .map_err(|error| broken(&error))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    // A resumed session would outlive the certificate that it was opened with.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}

fn router(hub: &Arc<Hub>) -> Result<axum::Router, Error> {
    let sets = [wire::DESCRIPTORS, tonic_health::pb::FILE_DESCRIPTOR_SET];
    let (v1, v1alpha) = http_server::Reflection::new(&sets).services();
    let (_reporter, health) = tonic_health::server::health_reporter();
    let most = tunnel::limits::FRAME_MAX_BYTES;
    let tunnels = TunnelServiceServer::new(TunnelHandler(Arc::clone(hub)))
        .max_decoding_message_size(most)
        .max_encoding_message_size(most);
    let routes = Routes::default()
        .add_service(tunnels)
        .add_service(MachineServiceServer::new(MachineHandler(Arc::clone(hub))))
        .add_service(RelayServiceServer::new(RelayHandler::new(Arc::clone(hub))))
        .add_service(health)
        .add_service(v1)
        .add_service(v1alpha);
    Ok(routes.into_axum_router())
}

async fn serve(
    stream: TcpStream,
    address: ClientAddress,
    serving: Arc<Serving>,
    mut going: watch::Receiver<bool>,
) {
    // Small frames must not wait for the other end's acknowledgements; without it, it only takes longer.
    let _ = stream.set_nodelay(true);
    let Ok(Ok(stream)) = time::timeout(limits::HANDSHAKE_WAIT, serving.acceptor().accept(stream)).await
    else {
        return;
    };
    let session = stream.get_ref().1;
    let certificate = ClientCertificate {
        fingerprint: session
            .peer_certificates()
            .and_then(|chain| chain.first())
            .map(|own| tunnel::keys::hash(own)),
    };
    let is_http2 = session.alpn_protocol() == Some(b"h2");
    let ending = going.clone();
    let service = service_fn(move |request: Request<Incoming>| {
        let (serving, certificate, ending) = (Arc::clone(&serving), certificate.clone(), ending.clone());
        async move {
            // A refusal without reading the message would reset the stream, and some clients would not see why.
            let (parts, body) = request.into_parts();
            let (body, unread) = DrainedBody::new(body, is_http2, ending);
            let mut request = Request::from_parts(parts, Body::new(body));
            request.extensions_mut().insert(address);
            let response = answer(serving, request, certificate).await;
            unread.read().await;
            Ok::<_, Infallible>(response)
        }
    });
    // Broken connections are their clients' concern.
    match is_http2 {
        true => {
            let (stream, closing) = LingeringIo::new(stream);
            let connection = http2::Builder::new(TokioExecutor::new())
                .timer(TokioTimer::new())
                .max_header_list_size(limits::HEADERS_MAX_BYTES)
                .max_concurrent_streams(limits::STREAMS_MAX)
                .initial_connection_window_size(tunnel::limits::CONNECTION_WINDOW_BYTES)
                .initial_stream_window_size(tunnel::limits::STREAM_WINDOW_BYTES)
                .max_send_buf_size(limits::SEND_BUFFER_BYTES)
                .keep_alive_interval(tunnel::limits::PING_INTERVAL)
                .keep_alive_timeout(tunnel::limits::PING_WAIT)
                .serve_connection(TokioIo::new(stream), service);
            let mut connection = Box::pin(connection);
            tokio::select! {
                _ = connection.as_mut() => return,
                () = gone(&mut going) => connection.as_mut().graceful_shutdown(),
            }
            let _ = connection.as_mut().await;
            drop(connection);
            closing.close().await;
        }
        false => {
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(limits::HANDSHAKE_WAIT)
                .serve_connection(TokioIo::new(stream), service);
            tokio::pin!(connection);
            tokio::select! {
                _ = connection.as_mut() => {}
                () = gone(&mut going) => {
                    connection.as_mut().graceful_shutdown();
                    let _ = connection.await;
                }
            }
        }
    }
}

async fn answer(
    serving: Arc<Serving>,
    mut request: Request<Body>,
    certificate: ClientCertificate,
) -> Response {
    let path = request.uri().path();
    if path == METRICS {
        let address = ClientAddress::of(request.extensions());
        return match principal_of(&serving.hub, request.headers(), address) {
            Ok(Principal::User(user)) if user.is_owner => Totals::of(&serving.hub).text().into_response(),
            Ok(_) => status::answer(&status::unauthenticated(), false),
            Err(status) => status::answer(&status, false),
        };
    }
    if !OWN.iter().any(|own| path.starts_with(own)) {
        return forward(Arc::clone(&serving.hub), request).await;
    }
    request.extensions_mut().insert(certificate);
    match serving.router.clone().oneshot(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

/// Waits until the relay ends.
async fn gone(going: &mut watch::Receiver<bool>) {
    // An error means that the relay is gone already.
    let _ = going.wait_for(|going| *going).await;
}

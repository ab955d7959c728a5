//! One connection: identifies the caller, detects the HTTP version, and passes its requests to the router.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use http::{Request, Version};
use http_server::{DrainedBody, LingeringIo};
use hyper::body::Incoming as HttpBody;
use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time;
use tonic_web::GrpcWebService;
use tower::ServiceExt;

use super::accept::{AcceptedSocket, gone};
use super::authority::AuthorityFix;
use super::body::TimedBody;
use super::ending::ClosingBody;
use super::json_calls::{self, Methods};
use super::limits;
use super::router::{is_grpc, is_grpc_web};
use super::sniff::{Protocol, sniff};
use super::tls;
use super::unix_io::UnixIo;
use crate::access::{self, Recorder};
use crate::peer::{self, Access, Calling, Connection, Peer, Via, is_json_call};

/// State that every connection needs.
pub(super) struct Serving {
    pub(super) router: axum::Router,
    /// The same router for gRPC-Web, whose messages are translated to gRPC.
    pub(super) web: GrpcWebService<axum::Router>,
    pub(super) access: Arc<Access>,
    pub(super) recorder: Recorder,
}

/// Serves one connection until it ends.
pub(super) async fn serve(incoming: AcceptedSocket, serving: Arc<Serving>, going: watch::Receiver<bool>) {
    match incoming {
        AcceptedSocket::Unix(stream) => {
            // Another user is rejected before a byte is read.
            let Some(connection) = Connection::unix(&stream, &serving.access) else { return };
            let Ok(stream) = UnixIo::new(stream) else { return };
            let Some((protocol, io)) = first_bytes(stream).await else { return };
            let revoked = revoked(connection.used(), &serving.access);
            let calls = ConnectionService::new(serving, connection, going.clone());
            let served = async {
                match protocol {
                    Protocol::Http1 => speak_http1(io, calls, going).await,
                    Protocol::Http2 => speak_http2(AuthorityFix::new(io), calls, going).await,
                }
            };
            tokio::select! { () = served => {}, () = revoked => {} }
        }
        AcceptedSocket::Tcp { stream, from, to, client, place: _kept } => {
            let connection = Connection::tcp(client, from, to, &serving.access).await;
            let Some((protocol, io)) = first_bytes(stream).await else { return };
            let revoked = revoked(connection.used(), &serving.access);
            let calls = ConnectionService::new(serving, connection, going.clone());
            let served = async {
                match protocol {
                    Protocol::Http1 => speak_http1(io, calls, going).await,
                    Protocol::Http2 => speak_http2(io, calls, going).await,
                }
            };
            tokio::select! { () = served => {}, () = revoked => {} }
        }
        AcceptedSocket::Tls { stream, from, place: _kept } => serve_tls(stream, from, serving, going).await,
    }
}

/// Waits until a key with which a client of this machine called is revoked or has expired. Most call without one.
fn revoked(mut used: watch::Receiver<BTreeSet<String>>, access: &Access) -> impl Future<Output = ()> + use<> {
    let devices = access.devices.clone();
    async move {
        let is_used = used.wait_for(|used| !used.is_empty()).await.is_ok();
        match devices.filter(|_| is_used) {
            Some(devices) => devices.ended(used).await,
            None => std::future::pending().await,
        }
        tracing::info!("a key was revoked or has expired; its connection ends");
    }
}

/// Serves a client on another machine, until it goes, a device that called is revoked or expires, or no device called.
async fn serve_tls(stream: TcpStream, from: SocketAddr, serving: Arc<Serving>, going: watch::Receiver<bool>) {
    let access = Arc::clone(&serving.access);
    let (Some(tls), Some(devices)) = (&access.tls, &access.devices) else { return };
    let Ok(to) = stream.local_addr() else { return };
    // Before the handshake, so that a client of this machine is still there to be looked at.
    let local = peer::local_caller(from, to, &access).await;
    let Some(stream) = tls.accept(stream).await else { return };
    let connection = Connection::tls(from, tls::fingerprint(&stream), local);
    let mut used = connection.used();
    let Some((protocol, io)) = first_bytes(stream).await else { return };
    let calls = ConnectionService::new(serving, connection, going.clone());
    let served = async {
        match protocol {
            Protocol::Http1 => speak_http1(io, calls, going).await,
            Protocol::Http2 => speak_http2(io, calls, going).await,
        }
    };
    let ended = devices.ended(used.clone());
    let idle = async {
        let called = used.wait_for(|used| !used.is_empty());
        if time::timeout(limits::DEVICE_CALL_WAIT, called).await.is_ok() {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        () = served => {}
        () = ended => tracing::info!(%from, "a device was revoked or has expired; its connection ends"),
        () = idle => tracing::debug!(%from, "a connection ends on which no device has called"),
    }
}

/// Serves a device at the other end of a sealed connection, as long as it is known.
pub(super) async fn serve_sealed<T>(
    io: T,
    certificate: String,
    serving: Arc<Serving>,
    going: watch::Receiver<bool>,
) where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let access = Arc::clone(&serving.access);
    let Some(devices) = &access.devices else { return };
    let connection = Connection::sealed(certificate);
    let used = connection.used();
    let Some((protocol, io)) = first_bytes(io).await else { return };
    let calls = ConnectionService::new(serving, connection, going.clone());
    let served = async {
        match protocol {
            Protocol::Http1 => speak_http1(io, calls, going).await,
            Protocol::Http2 => speak_http2(AuthorityFix::new(io), calls, going).await,
        }
    };
    tokio::select! {
        () = served => {}
        () = devices.ended(used) => tracing::info!("a device was revoked or has expired; its connection ends"),
    }
}

/// Answers a request that came through a relay which can read it.
pub(super) async fn call_relayed(
    serving: &Serving,
    mut request: Request<Body>,
    calling: Calling,
    going: watch::Receiver<bool>,
) -> Response {
    let peer = Peer { uid: None, pid: None, via: Via::Tunnel, from: None };
    request.extensions_mut().insert(peer::next_number());
    request.extensions_mut().insert(peer);
    request.extensions_mut().insert(calling);
    request.extensions_mut().insert(access::Tunnelled);
    let answered = dispatch(serving, request).await;
    match answered {
        Ok(response) => ClosingBody::wrap(response, going),
        Err(never) => match never {},
    }
}

/// Answers a request whose caller is known, in the protocol it speaks.
async fn dispatch(serving: &Serving, mut request: Request<Body>) -> Result<Response, Infallible> {
    if request.uri().path().starts_with("/api/") {
        request.extensions_mut().insert(Methods(serving.router.clone()));
    }
    Ok(if is_grpc_web(request.headers()) {
        serving.web.clone().oneshot(request).await?.map(Body::new)
    } else if is_json_call(&request) {
        json_calls::call(serving.router.clone(), request).await
    } else {
        serving.router.clone().oneshot(request).await?
    })
}

/// Detects the protocol from the first bytes. Returns `None` if the client sends none in time.
async fn first_bytes<T: AsyncRead + Unpin>(io: T) -> Option<(Protocol, super::sniff::Prefixed<T>)> {
    time::timeout(limits::FIRST_BYTES_WAIT, sniff(io)).await.ok()?.ok()?
}

/// Serves HTTP/1 until the connection ends or may be closed.
async fn speak_http1<T>(io: T, calls: ConnectionService, going: watch::Receiver<bool>)
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let over = may_close(going, calls.first.subscribe());
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits::FIRST_BYTES_WAIT)
        .max_header_size(limits::HEADERS_MAX_BYTES as usize)
        .max_buf_size(limits::HTTP1_BUFFER_BYTES)
        .serve_connection(TokioIo::new(io), calls);
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = over => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    log(ended);
}

/// Serves HTTP/2 until the connection ends or may be closed.
async fn speak_http2<T>(io: T, calls: ConnectionService, going: watch::Receiver<bool>)
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let over = may_close(going, calls.first.subscribe());
    let (io, closing) = LingeringIo::new(io);
    let connection = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .max_header_list_size(limits::HEADERS_MAX_BYTES)
        .max_concurrent_streams(limits::STREAMS_MAX)
        .initial_connection_window_size(limits::CONNECTION_WINDOW_BYTES)
        .initial_stream_window_size(limits::STREAM_WINDOW_BYTES)
        .max_send_buf_size(limits::SEND_BUFFER_BYTES)
        .keep_alive_interval(limits::KEEPALIVE_INTERVAL)
        .keep_alive_timeout(limits::KEEPALIVE_WAIT)
        .serve_connection(TokioIo::new(io), calls);
    let mut connection = Box::pin(connection);
    let is_closed_here = tokio::select! {
        ended = connection.as_mut() => {
            log(ended);
            false
        }
        () = over => true,
    };
    if is_closed_here {
        connection.as_mut().graceful_shutdown();
        log(connection.as_mut().await);
        drop(connection);
        closing.close().await;
    }
}

/// Waits until a connection may be closed: the daemon shuts down, and a client that connected just before has
/// made its first call. hyper closes a connection silently when the shutdown comes before the first call; the
/// client could not distinguish that from a call that was lost halfway.
async fn may_close(mut going: watch::Receiver<bool>, mut called: watch::Receiver<bool>) {
    gone(&mut going).await;
    // Both a call and a timeout end the wait.
    let _ = time::timeout(limits::FIRST_CALL_GRACE, called.wait_for(|called| *called)).await;
}

/// Logs at debug level only: a broken connection is the client's concern.
fn log(ended: hyper::Result<()>) {
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
}

/// The service that answers the requests of one connection.
#[derive(Clone)]
struct ConnectionService {
    serving: Arc<Serving>,
    connection: Arc<Connection>,
    going: watch::Receiver<bool>,
    /// Whether a call has arrived.
    first: watch::Sender<bool>,
}

impl ConnectionService {
    fn new(serving: Arc<Serving>, connection: Connection, going: watch::Receiver<bool>) -> Self {
        Self { serving, connection: Arc::new(connection), going, first: watch::Sender::new(false) }
    }

    async fn answer(self, mut request: Request<Body>) -> Result<Response, Infallible> {
        if let Err(refusal) = self.connection.admit(&mut request, &self.serving.access) {
            let response = refusal.into_response(request.headers());
            if let Some(row) = access::row_of(&request) {
                drop(request);
                self.serving.recorder.turned_away(row, self.connection.peer()).await;
            }
            return Ok(response);
        }
        let response = dispatch(&self.serving, request).await?;
        Ok(ClosingBody::wrap(response, self.going))
    }
}

impl hyper::service::Service<Request<HttpBody>> for ConnectionService {
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    fn call(&self, request: Request<HttpBody>) -> Self::Future {
        self.first.send_if_modified(|called| !std::mem::replace(called, true));
        let calls = self.clone();
        Box::pin(async move {
            let is_http2 = request.version() == Version::HTTP_2;
            let is_stream = is_http2 && is_grpc(request.headers());
            let (parts, body) = request.into_parts();
            let (body, unread) = DrainedBody::new(body, is_http2, calls.going.clone());
            let body = match is_stream {
                true => Body::new(body),
                false => Body::new(TimedBody::new(body)),
            };
            let response = calls.answer(Request::from_parts(parts, body)).await;
            unread.read().await;
            response
        })
    }
}

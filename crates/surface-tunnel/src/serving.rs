//! One call that came through the tunnel: a sealed connection, or a call that the relay can read, which is served as far as
//! this machine allows.

use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use domain::{Error, ErrorCode};
use http::Request;
use surface::peer::{Calling, Role};
use surface::server::{TunnelEntry, is_grpc};
use surface::{access, status};
use tower::ServiceExt as _;
use tunnel::{IncomingCall, Link};
use wire::obey::v1::pipe_service_server::PipeServiceServer;

use crate::deliveries::Deliveries;
use crate::pipe_service::PipeHandler;
use crate::{PlainCalls, RelayLinks};

/// Sealed connections. Everything else can be read by the relay.
const SEALED: &str = "/obey.v1.PipeService/Open";

/// Serves calls of one tunnel.
pub(crate) struct Server {
    plain: PlainCalls,
    deliveries: Arc<Deliveries>,
    entry: TunnelEntry,
    pipes: PipeServiceServer<PipeHandler>,
}

impl Server {
    pub(crate) fn new(links: &RelayLinks, entry: TunnelEntry) -> Result<Self, Error> {
        let pipes = PipeServiceServer::new(PipeHandler::new(links.clone(), entry.clone())?);
        Ok(Self { plain: links.0.options.plain, deliveries: Arc::clone(&links.0.deliveries), entry, pipes })
    }

    /// Serves a call in a task of its own, which ends with the call.
    pub(crate) fn spawn(self: &Arc<Self>, link: &Arc<Link>, call: IncomingCall) {
        let id = call.responder.id().to_owned();
        let server = Arc::clone(self);
        let task = tokio::spawn(async move { server.serve(call).await });
        link.attach(&id, task.abort_handle());
    }

    async fn serve(&self, call: IncomingCall) {
        let IncomingCall { request, origin, responder } = call;
        if request.uri().path() == SEALED {
            match self.pipes.clone().oneshot(request).await {
                Ok(response) => responder.send(response).await,
                Err(never) => match never {},
            }
            return;
        }
        let response = match self.is_delivered(&origin.delivery_id).await {
            Ok(false) => self.plain(request.map(Body::new), &origin.user).await,
            Ok(true) => {
                let message = "this call was delivered before and is not executed again";
                let error = Error::new(ErrorCode::AlreadyDelivered, message);
                respond(&error, is_grpc(request.headers()))
            }
            Err(error) => respond(&error, is_grpc(request.headers())),
        };
        responder.send(response).await;
    }

    /// Whether a call that waited at the relay has come before. One that has not is noted on disk first, so that it is not
    /// executed twice, whenever the tunnel or this daemon ends.
    async fn is_delivered(&self, delivery_id: &str) -> Result<bool, Error> {
        if delivery_id.is_empty() || self.plain == PlainCalls::Off {
            return Ok(false);
        }
        let (deliveries, id) = (Arc::clone(&self.deliveries), delivery_id.to_owned());
        let noting = tokio::task::spawn_blocking(move || deliveries.note(&id));
        let noted = noting.await.map_err(|error| {
            Error::new(ErrorCode::StorageFailed, "the call cannot be noted").with_detail(error.to_string())
        })?;
        noted.map(|is_new| !is_new)
    }

    async fn plain(&self, request: Request<Body>, user: &str) -> Response {
        let role = match self.plain {
            PlainCalls::Read | PlainCalls::Off => Role::Viewer,
            PlainCalls::Full => Role::Owner,
        };
        let calling = Calling::relayed(user, role);
        if self.plain != PlainCalls::Off {
            return self.entry.call(request, calling).await;
        }
        let (row, is_grpc) = (access::row_of(&request), is_grpc(request.headers()));
        drop(request);
        self.entry.record_refusal(row, &calling).await;
        let message = "this machine takes sealed connections only, which the relay cannot read; use obey --machine NAME, or \
                       obey connect NAME for other clients, or allow it there: plain = \"full\" in [relay]";
        respond(&Error::new(ErrorCode::SealedOnly, message), is_grpc)
    }
}

fn respond(error: &Error, is_grpc: bool) -> Response {
    match is_grpc {
        true => status::grpc(error).into_http(),
        false => status::rest(error),
    }
}

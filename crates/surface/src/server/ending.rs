//! The body of an answer, which ends when the daemon goes: a stream that rests has nothing to lose, and its client
//! comes back to the next daemon the sooner. What is ready to be sent is sent first; answers that are still being
//! worked on are left alone.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::BoxError;
use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::HeaderMap;
use hyper::body::{Frame, SizeHint};
use tokio::sync::watch;
use tonic::Status;

use super::accept::gone;
use super::router::{is_grpc, is_grpc_web};

/// A body that ends with the daemon.
pub(super) struct ClosingBody {
    body: Body,
    /// A client of gRPC learns from trailers that the daemon goes; others from a cut.
    has_trailers: bool,
    going: watch::Receiver<bool>,
    /// Made when there is something to wait for: most bodies are there at once.
    end: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    has_ended: bool,
}

impl ClosingBody {
    /// Puts the body of an answer into one that ends with the daemon.
    pub(super) fn wrap(response: Response, going: watch::Receiver<bool>) -> Response {
        // gRPC-Web has its trailers inside of the body; a cut must do.
        let has_trailers = is_grpc(response.headers()) && !is_grpc_web(response.headers());
        response.map(|body| Body::new(Self { body, has_trailers, going, end: None, has_ended: false }))
    }
}

impl hyper::body::Body for ClosingBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        if this.has_ended {
            return Poll::Ready(None);
        }
        if let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(cx) {
            return Poll::Ready(frame.map(|frame| frame.map_err(BoxError::from)));
        }
        let end = this.end.get_or_insert_with(|| {
            let mut going = this.going.clone();
            Box::pin(async move { gone(&mut going).await })
        });
        ready!(end.as_mut().poll(cx));
        this.has_ended = true;
        Poll::Ready(Some(if this.has_trailers { Ok(Frame::trailers(going_away())) } else { Err(cut()) }))
    }

    fn is_end_stream(&self) -> bool {
        self.has_ended || self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

fn going_away() -> HeaderMap {
    let mut trailers = HeaderMap::new();
    let status = Status::unavailable("the daemon ends; connect again to go on");
    // Only a message that is no header value can fail, and this one is.
    let _infallible = status.add_header(&mut trailers);
    trailers
}

fn cut() -> BoxError {
    io::Error::from(io::ErrorKind::ConnectionAborted).into()
}

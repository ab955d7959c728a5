//! The body of an answer, which ends when the daemon shuts down. An idle stream loses nothing by that, and
//! its client reconnects to the next daemon sooner. Data that is ready is sent first; answers that are still
//! being computed are not cut short.

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
use super::limits;
use super::router::{is_grpc, is_grpc_web};

/// Marks the answer of a stream that ends by itself when the daemon shuts down, because it says why.
#[derive(Clone, Copy, Debug)]
pub struct LastWords;

/// A body that ends when the daemon shuts down.
pub(super) struct ClosingBody {
    body: Body,
    /// A gRPC client learns of the shutdown from trailers; other clients see the body cut off.
    has_trailers: bool,
    has_last_words: bool,
    going: watch::Receiver<bool>,
    /// Created only when there is something to wait for: most bodies are complete at once.
    end: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    has_ended: bool,
}

impl ClosingBody {
    /// Wraps the body of an answer in one that ends when the daemon shuts down.
    pub(super) fn wrap(response: Response, going: watch::Receiver<bool>) -> Response {
        // gRPC-Web carries its trailers inside the body, so its body is cut off instead.
        let has_trailers = is_grpc(response.headers()) && !is_grpc_web(response.headers());
        let has_last_words = response.extensions().get::<LastWords>().is_some();
        response.map(|body| {
            Body::new(Self { body, has_trailers, has_last_words, going, end: None, has_ended: false })
        })
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
            let has_last_words = this.has_last_words;
            Box::pin(async move {
                gone(&mut going).await;
                if has_last_words {
                    tokio::time::sleep(limits::LAST_WORDS_WAIT).await;
                }
            })
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

/// Returns the trailers for a stream that the shutdown ends.
fn going_away() -> HeaderMap {
    let mut trailers = HeaderMap::new();
    let status = Status::unavailable("the daemon ends; connect again to go on");
    // This fails only for a message that is not a valid header value, and this message is one.
    let _infallible = status.add_header(&mut trailers);
    trailers
}

fn cut() -> BoxError {
    io::Error::from(io::ErrorKind::ConnectionAborted).into()
}

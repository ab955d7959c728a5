//! The body of a request that is not a gRPC stream, with limits on how long its client may pause and how long
//! the whole body may take. A gRPC stream may be idle for hours; it runs on HTTP/2, where pings detect dead
//! clients. Any other body that stalls or trickles comes from a client that hangs, or from one that tries to
//! exhaust us.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::BoxError;
use bytes::Bytes;
use http_server::DrainedBody;
use hyper::body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep};

use super::limits;

/// A body that fails when no data has arrived for [`limits::BODY_WAIT`], or when it is not complete within
/// [`limits::BODY_TOTAL_WAIT`].
pub(super) struct TimedBody {
    body: DrainedBody,
    /// Made when there is something to wait for: most bodies are there at once.
    pause: Option<Pin<Box<Sleep>>>,
    /// The deadline for the whole body; set with the first pause.
    last: Option<Instant>,
}

impl TimedBody {
    pub(super) fn new(body: DrainedBody) -> Self {
        Self { body, pause: None, last: None }
    }
}

impl Body for TimedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        if let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(cx) {
            if let (Some(pause), Some(last)) = (&mut this.pause, this.last) {
                pause.as_mut().reset(last.min(Instant::now() + limits::BODY_WAIT));
            }
            return Poll::Ready(frame.map(|frame| frame.map_err(BoxError::from)));
        }
        this.last.get_or_insert_with(|| Instant::now() + limits::BODY_TOTAL_WAIT);
        let pause = this.pause.get_or_insert_with(|| Box::pin(sleep(limits::BODY_WAIT)));
        ready!(pause.as_mut().poll(cx));
        Poll::Ready(Some(Err(io::Error::from(io::ErrorKind::TimedOut).into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

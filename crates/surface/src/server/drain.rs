//! The body of a request over HTTP/2 that is answered before it was read, such as one that is refused. Where it is let go
//! of, HTTP/2 resets the stream, and clients take that for a failure (curl does) and never see the answer. So the rest
//! is read first, for a moment.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::time;

use super::limits;

/// A body that is read to its end, within limits, when nobody wants it any more.
pub(super) struct DrainedBody {
    body: Option<Incoming>,
    is_http2: bool,
}

impl DrainedBody {
    pub(super) fn new(body: Incoming, is_http2: bool) -> Self {
        Self { body: Some(body), is_http2 }
    }
}

impl Drop for DrainedBody {
    fn drop(&mut self) {
        let Some(body) = self.body.take().filter(|body| self.is_http2 && !body.is_end_stream()) else {
            return;
        };
        // Outside of the runtime there is no connection either.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(time::timeout(limits::DRAIN_WAIT, drain(body)));
        }
    }
}

async fn drain(mut body: Incoming) {
    let mut left = limits::DRAIN_MAX_BYTES;
    while let Some(Ok(frame)) = std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await
    {
        left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len));
        if left == 0 {
            return;
        }
    }
}

impl Body for DrainedBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let polled = Pin::new(body).poll_frame(context);
        if let Poll::Ready(None | Some(Err(_))) = &polled {
            // There is nothing more to read.
            self.body = None;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map(Body::size_hint).unwrap_or_default()
    }
}

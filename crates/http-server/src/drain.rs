//! The body of a request over HTTP/2 that is answered before it was read, such as one that is refused. Where it is let go
//! of, HTTP/2 resets the stream, and clients take that for a failure (curl does) and never see the answer; where the answer is
//! complete before the request is, curl 7.88 waits for the connection's next frame. So the rest is read first, for a moment.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::sync::oneshot;
use tokio::time;

use crate::limits;

/// A body that is read to its end, within limits, when nobody wants it any more.
pub struct DrainedBody {
    body: Option<Incoming>,
    is_http2: bool,
    unread: Option<oneshot::Sender<Incoming>>,
}

/// What its handler left of a body.
pub struct UnreadBody(oneshot::Receiver<Incoming>);

impl DrainedBody {
    pub fn new(body: Incoming, is_http2: bool) -> (Self, UnreadBody) {
        let (unread, rest) = oneshot::channel();
        (Self { body: Some(body), is_http2, unread: Some(unread) }, UnreadBody(rest))
    }
}

impl UnreadBody {
    /// Reads what the handler left, before its answer is sent. A handler that still reads keeps its body.
    pub async fn read(mut self) {
        let Ok(mut body) = self.0.try_recv() else { return };
        if time::timeout(limits::DRAIN_BEFORE_ANSWER_WAIT, drain(&mut body)).await.is_err() {
            // A client that keeps its side open is answered meanwhile.
            drop(DrainedBody { body: Some(body), is_http2: true, unread: None });
        }
    }
}

impl Drop for DrainedBody {
    fn drop(&mut self) {
        let Some(body) = self.body.take().filter(|body| self.is_http2 && !body.is_end_stream()) else {
            return;
        };
        let body = match self.unread.take() {
            Some(unread) => match unread.send(body) {
                Ok(()) => return,
                Err(body) => body,
            },
            None => body,
        };
        // Outside of the runtime there is no connection either.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let mut body = body;
                // Whether it ended or took too long: it is let go of.
                let _ = time::timeout(limits::DRAIN_WAIT, drain(&mut body)).await;
            });
        }
    }
}

async fn drain(body: &mut Incoming) {
    let mut left = limits::DRAIN_MAX_BYTES;
    while let Some(Ok(frame)) = std::future::poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await
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

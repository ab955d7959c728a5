//! Reads the rest of a request body over HTTP/2 when the request was answered early, for example refused. If the body were
//! dropped, HTTP/2 would reset the stream, and clients such as curl would report a failure instead of the answer; if the answer were
//! complete before the request, curl 7.88 would wait for the connection's next frame. The time for reading is bounded.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::sync::{oneshot, watch};
use tokio::time;

use crate::limits;

/// A body that is read to its end, within limits, when nobody wants it any more.
pub struct DrainedBody {
    body: Option<Incoming>,
    is_http2: bool,
    unread: Option<oneshot::Sender<Incoming>>,
    /// Whether the server ends.
    ending: watch::Receiver<bool>,
}

/// What its handler left of a body.
pub struct UnreadBody {
    rest: oneshot::Receiver<Incoming>,
    ending: watch::Receiver<bool>,
}

impl DrainedBody {
    /// `ending` becomes true when the server ends: a client that keeps its side open delays that no longer than it delays an answer.
    pub fn new(body: Incoming, is_http2: bool, ending: watch::Receiver<bool>) -> (Self, UnreadBody) {
        let (unread, rest) = oneshot::channel();
        let unread_body = UnreadBody { rest, ending: ending.clone() };
        (Self { body: Some(body), is_http2, unread: Some(unread), ending }, unread_body)
    }
}

impl UnreadBody {
    /// Reads what the handler left, before its answer is sent. A handler that still reads keeps its body.
    pub async fn read(mut self) {
        let Ok(mut body) = self.rest.try_recv() else { return };
        if time::timeout(limits::DRAIN_BEFORE_ANSWER_WAIT, drain(&mut body)).await.is_err() {
            // A client that keeps its side open is answered meanwhile.
            drop(DrainedBody { body: Some(body), is_http2: true, unread: None, ending: self.ending });
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
            runtime.spawn(drain_for_a_moment(body, self.ending.clone()));
        }
    }
}

/// Reads and discards a body until it ends or the time is up.
async fn drain_for_a_moment(mut body: Incoming, mut ending: watch::Receiver<bool>) {
    let draining = drain(&mut body);
    tokio::pin!(draining);
    tokio::select! {
        () = &mut draining => return,
        () = time::sleep(limits::DRAIN_WAIT) => return,
        // Also where the server is gone.
        _ = ending.wait_for(|ending| *ending) => {}
    }
    let _ = time::timeout(limits::DRAIN_BEFORE_ANSWER_WAIT, draining).await;
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

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::{Request, Response};
    use hyper::service::service_fn;
    use hyper_util::rt::{TokioExecutor, TokioIo};
    use tokio::time::Instant;

    use super::*;

    /// A body that never ends.
    struct OpenBody;

    impl Body for OpenBody {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            self: Pin<&mut Self>,
            _context: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            Poll::Pending
        }
    }

    /// A body without bytes.
    struct NoBody;

    impl Body for NoBody {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            self: Pin<&mut Self>,
            _context: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            Poll::Ready(None)
        }
    }

    /// Returns how long the server's end waits for a client that keeps its side of an answered call open, in the clock's own time.
    async fn end_with_an_open_call(is_told: bool) -> std::time::Duration {
        let (near, far) = tokio::io::duplex(64 * 1024);
        let (end, ending) = watch::channel(false);
        let service = service_fn(move |request: Request<Incoming>| {
            let (body, unread) = DrainedBody::new(request.into_body(), true, ending.clone());
            async move {
                drop(body);
                unread.read().await;
                Ok::<_, Infallible>(Response::new(NoBody))
            }
        });
        let serving = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
            .serve_connection(TokioIo::new(far), service);
        let mut serving = Box::pin(serving);
        let connecting = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(near));
        let (mut client, connection) = tokio::select! {
            connected = connecting => connected.unwrap(),
            ended = serving.as_mut() => panic!("the connection ended early: {ended:?}"),
        };
        tokio::spawn(connection);
        let calling = client.send_request(Request::new(OpenBody));
        let _answer = tokio::select! {
            answer = calling => answer.unwrap(),
            ended = serving.as_mut() => panic!("the connection ended early: {ended:?}"),
        };
        let began = Instant::now();
        end.send_replace(is_told);
        serving.as_mut().graceful_shutdown();
        // Whether the client sees a reset is not the point here.
        let _ = serving.await;
        began.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_its_client_keeps_open_does_not_delay_the_end_of_the_server() {
        let unannounced = end_with_an_open_call(false).await;
        let announced = end_with_an_open_call(true).await;
        assert!(unannounced >= limits::DRAIN_WAIT / 2, "{unannounced:?}");
        assert!(announced < limits::DRAIN_WAIT / 2, "{announced:?}");
    }
}

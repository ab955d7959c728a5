//! The body of a request or of an answer that comes through a tunnel. Taking from it is what gives the other end credit;
//! letting go of an answer cancels its call.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use crate::parts::{Part, PartReceiver};
use crate::{Link, grpc};
use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

/// A body at the end of a tunnel.
pub struct CallBody {
    link: Arc<Link>,
    id: String,
    received: Option<PartReceiver>,
    /// Whether this is an answer, whose call ends with it.
    is_answer: bool,
    /// Whether a failure can be told in trailers.
    is_grpc: bool,
    is_over: bool,
}

impl CallBody {
    /// The body of an answer that has not begun.
    pub(crate) fn of_answer(link: Arc<Link>, id: String, is_grpc: bool) -> Self {
        Self { link, id, received: None, is_answer: true, is_grpc, is_over: false }
    }

    pub(crate) fn of_request(link: Arc<Link>, id: String, received: PartReceiver) -> Self {
        Self { link, id, received: Some(received), is_answer: false, is_grpc: false, is_over: false }
    }

    pub(crate) fn begin(&mut self, received: PartReceiver) {
        self.received = Some(received);
    }

    /// Notes that there is nothing to cancel.
    pub(crate) fn finish(&mut self) {
        self.is_over = true;
    }
}

impl Body for CallBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let this = &mut *self;
        loop {
            let Some(received) = this.received.as_mut().filter(|_| !this.is_over) else {
                return Poll::Ready(None);
            };
            let part = ready!(received.poll_recv(context));
            if let Some(Part::Data(data)) = part {
                let keeps_up = received.is_empty();
                this.link.consumed(&this.id, data.len(), keeps_up);
                return Poll::Ready(Some(Ok(Frame::data(Bytes::from(data)))));
            }
            if matches!(part, Some(Part::Head(_))) {
                continue;
            }
            this.is_over = true;
            return Poll::Ready(match part {
                Some(Part::Tail(trailers)) if !trailers.is_empty() => Some(Ok(Frame::trailers(trailers))),
                Some(Part::Failed(failure)) if this.is_answer && this.is_grpc => {
                    Some(Ok(Frame::trailers(grpc::trailers(failure.code, &failure.message))))
                }
                Some(Part::Failed(_)) | None => Some(Err(io::ErrorKind::ConnectionAborted.into())),
                Some(_) => None,
            });
        }
    }

    fn is_end_stream(&self) -> bool {
        self.is_over
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

impl Drop for CallBody {
    fn drop(&mut self) {
        if self.is_answer && !self.is_over {
            self.link.cancel(&self.id);
        }
    }
}

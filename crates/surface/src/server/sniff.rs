//! Distinguishes HTTP/2 from HTTP/1 by a connection's first bytes, and replays those bytes to the server. The
//! caller sets the time limit. Holds no more than these bytes.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

/// The first bytes an HTTP/2 client sends (RFC 9113 §3.4).
pub(super) const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The preface and the header of the SETTINGS frame that must follow it: a client that stops in between is
/// not an HTTP/2 client.
const HEAD_BYTES: usize = PREFACE.len() + 9;

/// The HTTP version of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Http1,
    Http2,
}

/// Reads until the protocol is clear. Returns `None` if the client disconnects before that.
pub(super) async fn sniff<T: AsyncRead + Unpin>(mut io: T) -> io::Result<Option<(Protocol, Prefixed<T>)>> {
    let mut head = [0; HEAD_BYTES];
    let mut filled = 0;
    loop {
        let read = io.read(&mut head[filled..]).await?;
        filled += read;
        let seen = filled.min(PREFACE.len());
        let protocol = if head[..seen] != PREFACE[..seen] {
            Protocol::Http1
        } else if filled == HEAD_BYTES {
            Protocol::Http2
        } else if read == 0 {
            return Ok(None);
        } else {
            continue;
        };
        return Ok(Some((protocol, Prefixed { head, filled, given: 0, io })));
    }
}

/// A connection whose first bytes have already been read; it returns them first.
pub(super) struct Prefixed<T> {
    head: [u8; HEAD_BYTES],
    filled: usize,
    given: usize,
    io: T,
}

impl<T: AsyncRead + Unpin> AsyncRead for Prefixed<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.given < self.filled {
            let count = buffer.remaining().min(self.filled - self.given);
            buffer.put_slice(&self.head[self.given..self.given + count]);
            self.given += count;
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.io).poll_read(cx, buffer)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Prefixed<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

//! Closes an HTTP/2 connection without taking the last answer back. A client that is just writing when the socket is closed
//! gets a broken pipe, and C-core clients then discard the answer that is still unread. So the sending half is closed first,
//! and what the client still sends is read until it has closed its own half, for a moment.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::sync::oneshot;
use tokio::time;

use crate::limits;

/// A connection that hands its socket back when HTTP has done with it.
pub struct LingeringIo<T> {
    io: Option<T>,
    done: Option<oneshot::Sender<T>>,
}

/// Waits for the socket of a [`LingeringIo`].
pub struct LingeringClose<T>(oneshot::Receiver<T>);

impl<T> LingeringIo<T> {
    pub fn new(io: T) -> (Self, LingeringClose<T>) {
        let (done, closing) = oneshot::channel();
        (Self { io: Some(io), done: Some(done) }, LingeringClose(closing))
    }

    fn socket(self: Pin<&mut Self>) -> io::Result<Pin<&mut T>>
    where
        T: Unpin,
    {
        // Only dropping takes the socket away.
        self.get_mut().io.as_mut().map(Pin::new).ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

impl<T> Drop for LingeringIo<T> {
    fn drop(&mut self) {
        if let (Some(io), Some(done)) = (self.io.take(), self.done.take()) {
            // Nobody waits where the connection itself was dropped.
            let _ = done.send(io);
        }
    }
}

impl<T: AsyncRead + Unpin> LingeringClose<T> {
    /// Reads and discards what the client still sends, until it closes the connection or the time is over.
    pub async fn close(self) {
        let Ok(mut io) = self.0.await else { return };
        let read = async {
            let mut unread = [0; 4096];
            while io.read(&mut unread).await.is_ok_and(|bytes| bytes > 0) {}
        };
        // Both ends are fine: whoever has not closed by then is not waiting for an answer.
        let _ = time::timeout(limits::LINGER_WAIT, read).await;
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for LingeringIo<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.socket()?.poll_read(cx, buffer)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for LingeringIo<T> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.socket()?.poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.socket()?.poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.as_ref().is_some_and(AsyncWrite::is_write_vectored)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket()?.poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket()?.poll_shutdown(cx)
    }
}

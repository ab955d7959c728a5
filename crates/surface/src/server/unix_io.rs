//! A Unix socket that wakes its task for input, and for room to write only while a write waits for room. A socket that is
//! registered for both wakes the daemon whenever its client has read something: once for every piece of output. Knows no protocol.

use std::io::{self, IoSlice, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream as Socket;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::UnixStream;

/// A connected Unix socket.
pub(super) struct UnixIo {
    socket: AsyncFd<Socket>,
    /// A second descriptor of the socket, while a write waits for room.
    room: Option<AsyncFd<Socket>>,
}

impl UnixIo {
    /// Takes an accepted socket over.
    pub(super) fn new(stream: UnixStream) -> io::Result<Self> {
        Ok(Self { socket: registered(stream.into_std()?, Interest::READABLE)?, room: None })
    }

    /// Sends as much as there is room for; waits if there is none.
    fn poll_send(
        &mut self,
        context: &mut Context<'_>,
        send: impl Fn(&Socket) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            let mut guard = match &self.room {
                Some(room) => Some(ready!(room.poll_write_ready(context))?),
                None => None,
            };
            match send(self.socket.get_ref()) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => match &mut guard {
                    Some(guard) => guard.clear_ready(),
                    None => {
                        let again = self.socket.get_ref().try_clone()?;
                        self.room = Some(registered(again, Interest::WRITABLE)?);
                    }
                },
                done => {
                    self.room = None;
                    return Poll::Ready(done);
                }
            }
        }
    }
}

#[expect(
    deprecated,
    reason = "its successor is unsafe, for types that may change their descriptor; a socket does not"
)]
fn registered(socket: Socket, interest: Interest) -> io::Result<AsyncFd<Socket>> {
    AsyncFd::with_interest(socket, interest)
}

impl AsyncRead for UnixIo {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            let mut guard = ready!(self.socket.poll_read_ready(context))?;
            let room = buffer.initialize_unfilled();
            let most = room.len();
            match self.socket.get_ref().read(room) {
                Ok(count) => {
                    // A short read has emptied the socket: a second one that fails would tell no more.
                    if count > 0 && count < most {
                        guard.clear_ready();
                    }
                    buffer.advance(count);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => guard.clear_ready(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for UnixIo {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_send(context, |mut socket| socket.write(bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_send(context, |mut socket| socket.write_vectored(parts))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.socket.get_ref().shutdown(Shutdown::Write))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn everything_arrives_in_both_directions_although_the_socket_is_full_at_times() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let ours = UnixIo::new(ours).unwrap();
        let sent: Vec<u8> = (0..4_000_000_u32).map(|number| (number % 251) as u8).collect();
        let (mut our_read, mut our_write) = tokio::io::split(ours);
        let (mut their_read, mut their_write) = theirs.into_split();
        let there = async {
            our_write.write_all(&sent).await.unwrap();
            our_write.shutdown().await.unwrap();
        };
        let back = async {
            let mut buffer = vec![0; 10_000];
            // It begins to read when the socket is full, and returns every byte.
            loop {
                let count = their_read.read(&mut buffer).await.unwrap();
                if count == 0 {
                    break;
                }
                their_write.write_all(&buffer[..count]).await.unwrap();
            }
            drop(their_write);
        };
        let mut received = Vec::new();
        let (_, _, read) = tokio::join!(there, back, our_read.read_to_end(&mut received));
        assert_eq!(read.unwrap(), sent.len());
        assert!(received == sent);
    }

    #[tokio::test]
    async fn a_client_that_is_gone_is_an_end_to_the_reader_and_an_error_to_the_writer() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut ours = UnixIo::new(ours).unwrap();
        drop(theirs);
        assert_eq!(ours.read(&mut [0; 10]).await.unwrap(), 0);
        assert_eq!(ours.write(b"x").await.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
}

//! Connections to whoever listens: the daemon, a shim, the user's own servers. Addresses are `unix:PATH`,
//! `abstract:NAME` and `tcp:HOST:PORT`. Connections can be made by one process and used by another.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use tokio::io::{AsyncRead, AsyncWrite};

use super::{POSSIBLE, own_program, say};

/// How long a connection may be silent.
const SILENCE: Duration = Duration::from_secs(5);

/// A connection of either kind.
pub(super) enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

/// A connection that can be awaited.
pub(super) trait AsyncStream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> AsyncStream for T {}

impl Stream {
    pub(super) fn into_async(self) -> io::Result<Box<dyn AsyncStream>> {
        match self {
            Stream::Unix(stream) => {
                stream.set_nonblocking(true)?;
                Ok(Box::new(tokio::net::UnixStream::from_std(stream)?))
            }
            Stream::Tcp(stream) => {
                stream.set_nonblocking(true)?;
                Ok(Box::new(tokio::net::TcpStream::from_std(stream)?))
            }
        }
    }

    fn into_fd(self) -> OwnedFd {
        match self {
            Stream::Unix(stream) => stream.into(),
            Stream::Tcp(stream) => stream.into(),
        }
    }

    fn finish_writing(&self) -> io::Result<()> {
        match self {
            Stream::Unix(stream) => stream.shutdown(Shutdown::Write),
            Stream::Tcp(stream) => stream.shutdown(Shutdown::Write),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => stream.read(buffer),
            Stream::Tcp(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => stream.write(bytes),
            Stream::Tcp(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub(super) fn connect(address: &str) -> Result<Stream> {
    let (kind, place) = address.split_once(':').with_context(|| format!("{address} is no address"))?;
    let stream = match kind {
        "unix" => Stream::Unix(connect_path(Path::new(place))?),
        "abstract" => Stream::Unix(UnixStream::connect_addr(&SocketAddr::from_abstract_name(place)?)?),
        _ => Stream::Tcp(TcpStream::connect(place).with_context(|| format!("connecting to {place}"))?),
    };
    match &stream {
        Stream::Unix(stream) => {
            stream.set_read_timeout(Some(SILENCE))?;
            stream.set_write_timeout(Some(SILENCE))?;
        }
        Stream::Tcp(stream) => {
            stream.set_read_timeout(Some(SILENCE))?;
            stream.set_write_timeout(Some(SILENCE))?;
        }
    }
    Ok(stream)
}

/// The host that a request to this address names.
pub(super) fn host(address: &str) -> &str {
    address.strip_prefix("tcp:").unwrap_or("localhost")
}

/// A long path is reached from its own folder, since a socket's address has 107 bytes.
fn connect_path(path: &Path) -> Result<UnixStream> {
    let connect = |path: &Path| UnixStream::connect(path);
    let found = connect(path).or_else(|first| match (path.parent(), path.file_name()) {
        (Some(folder), Some(name)) if first.kind() == io::ErrorKind::InvalidInput => {
            std::env::set_current_dir(folder)?;
            connect(Path::new(name))
        }
        _ => Err(first),
    });
    found.with_context(|| format!("connecting to {}", path.display()))
}

/// Connects, hands the connection to whoever is behind standard input, and ends.
pub(super) fn connect_and_pass(address: &str) -> Result<()> {
    let connection = connect(address)?.into_fd();
    let passed = [connection.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    ensure!(control.push(SendAncillaryMessage::ScmRights(&passed)), "no room");
    sendmsg(std::io::stdin(), &[IoSlice::new(b"!")], &mut control, SendFlags::empty())?;
    Ok(())
}

/// A connection made by a child that is dead and reaped.
pub(super) fn take_from_dead(address: &str) -> Result<Stream> {
    let (ours, theirs) = UnixStream::pair()?;
    let status = Command::new(own_program()?)
        .args(["pass-connection", address])
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .status()?;
    ensure!(status.success(), "the child could not connect");
    let mut byte = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    recvmsg(&ours, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::empty())?;
    let mut passed = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut all) => all.next(),
        _ => None,
    });
    let connection = passed.next().context("no connection came")?;
    Ok(if address.starts_with("tcp:") {
        Stream::Tcp(connection.into())
    } else {
        Stream::Unix(connection.into())
    })
}

/// Greets a shim as a daemon of a later epoch would, and has its agent write a line where it is welcome.
pub(super) fn speak_to_shim(socket: &str) -> Result<()> {
    const HELLO: u8 = 0x01;
    const WELCOME: u8 = 0x81;
    let mut stream = connect(&format!("unix:{socket}"))?;
    let mut hello = vec![9, 0, 0, 0, HELLO, 1];
    hello.extend_from_slice(&0x7000_0000_0000_0000u64.to_le_bytes());
    stream.write_all(&hello)?;
    let mut head = [0; 5];
    stream.read_exact(&mut head).context("no answer")?;
    say(if head[4] == WELCOME { POSSIBLE } else { "refused by the shim" });
    Ok(())
}

/// Prints what is said to whoever connects.
pub(super) fn listen_to(address: &str) -> Result<()> {
    let mut said = String::new();
    let _ = connect(address)?.read_to_string(&mut said);
    say(&said);
    Ok(())
}

/// Sends a line and prints the answer.
pub(super) fn ask(address: &str, line: &str) -> Result<()> {
    let mut stream = connect(address)?;
    stream.write_all(line.as_bytes())?;
    stream.finish_writing()?;
    let mut said = Vec::new();
    let _ = stream.read_to_end(&mut said);
    say(&String::from_utf8_lossy(&said));
    Ok(())
}

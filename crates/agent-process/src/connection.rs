//! The connection to one shim: greeting, frames in both directions, and reconnecting when it breaks. A shim
//! has exited when its lock is free; as long as the lock is held, the connection is retried. Must not read
//! the spool.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use shim::frame::{Assembler, Refusal, ToDaemon, ToShim, Welcome};
use shim::limits::PROTOCOL;
use shim::{Position, SOCKET_NAME, proc_table};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::watch;
use tokio::time;

use super::limits::{ATTACH_TIMEOUT, CONNECT_RETRY, CONNECT_RETRY_MAX, FINISH_TIMEOUT};
use super::outbox::Outbox;
use super::scan;
use host::failpoint;

/// What is known about the shim from its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ShimState {
    /// How far the spool reaches, as last announced.
    pub(super) head: Position,
    pub(super) reach: ShimReachability,
}

/// Whether the shim can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ShimReachability {
    /// Connected, or reconnecting.
    Alive,
    /// It obeys another daemon.
    Refused(Refusal),
    /// Its lock is free: it has exited.
    Gone,
}

/// The result of greeting a shim.
pub(super) enum Greeting {
    Welcomed(Box<Connection>, Welcome),
    Refused(Refusal),
    /// The lock is free: there is no shim.
    Gone,
}

/// A greeted socket and its partly received frames.
pub(super) struct Connection {
    stream: UnixStream,
    frames: Assembler,
}

/// Why a connection ended.
enum ConnectionEnd {
    Refused(Refusal),
    Broken,
    /// The link is closed and there is nothing left to send.
    Finished,
}

/// Greets the shim of `dir`. Retries while its lock is held, until the timeout.
pub(super) async fn greet(dir: &Path, epoch: u64) -> io::Result<Greeting> {
    time::timeout(ATTACH_TIMEOUT, greet_patiently(dir, epoch))
        .await
        .map_err(|_| io::ErrorKind::TimedOut.into())
}

/// Keeps the connection while the shim lives, obeys this daemon and the link needs it.
pub(super) async fn keep(
    dir: PathBuf,
    epoch: u64,
    connection: Box<Connection>,
    outbox: Arc<Outbox>,
    state: watch::Sender<ShimState>,
) {
    let overdue = async {
        outbox.finishing().await;
        time::sleep(FINISH_TIMEOUT).await;
    };
    let reach = tokio::select! {
        reach = stay(&dir, epoch, connection, &outbox, &state) => reach,
        () = overdue => None,
    };
    outbox.close();
    if let Some(reach) = reach {
        state.send_modify(|state| state.reach = reach);
    }
}

/// Returns why there is no connection any more; `None` if none is needed.
async fn stay(
    dir: &Path,
    epoch: u64,
    mut connection: Box<Connection>,
    outbox: &Outbox,
    state: &watch::Sender<ShimState>,
) -> Option<ShimReachability> {
    loop {
        match connection.serve(outbox, state).await {
            ConnectionEnd::Refused(refusal) => return Some(ShimReachability::Refused(refusal)),
            ConnectionEnd::Finished => return None,
            ConnectionEnd::Broken => {}
        }
        match greet_patiently(dir, epoch).await {
            Greeting::Welcomed(again, welcome) => {
                connection = again;
                outbox.rewind(welcome.last_write_id);
                state.send_modify(|state| state.head = state.head.max(welcome.head));
            }
            Greeting::Refused(refusal) => return Some(ShimReachability::Refused(refusal)),
            Greeting::Gone => return Some(ShimReachability::Gone),
        }
    }
}

/// Greets the shim of `dir`, retrying without a timeout until it answers or has exited.
async fn greet_patiently(dir: &Path, epoch: u64) -> Greeting {
    let mut pause = CONNECT_RETRY;
    let mut asked = false;
    loop {
        let greeted = match connect(dir).await {
            Ok(stream) => Connection::open(stream, epoch).await,
            Err(error) => Err(error),
        };
        match greeted {
            Ok(greeting) => return greeting,
            Err(error) => tracing::debug!(dir = %dir.display(), %error, "the shim did not answer"),
        }
        match scan::lock_holder(dir) {
            Ok(None) => return Greeting::Gone,
            Ok(Some(holder)) if pause > CONNECT_RETRY && !asked => {
                // The socket's name may have been deleted while the shim lives. It binds a new one on this
                // signal.
                asked = true;
                if let Some(shim) = holder.pid.and_then(proc_table::find) {
                    proc_table::signal(&shim, libc::SIGUSR1);
                }
            }
            Ok(Some(_)) => {}
            // A failed check (out of descriptors) does not mean that the shim has exited.
            Err(error) => tracing::warn!(dir = %dir.display(), %error, "the shim's lock cannot be looked at"),
        }
        time::sleep(pause).await;
        pause = (pause * 2).min(CONNECT_RETRY_MAX);
    }
}

/// Connects through the directory's descriptor, because a socket path may not be longer than 107 bytes.
async fn connect(dir: &Path) -> io::Result<UnixStream> {
    let handle = File::open(dir)?;
    UnixStream::connect(format!("/proc/self/fd/{}/{SOCKET_NAME}", handle.as_raw_fd())).await
}

impl Connection {
    /// Sends the greeting and waits for the answer.
    async fn open(stream: UnixStream, epoch: u64) -> io::Result<Greeting> {
        let mut connection = Box::new(Connection { stream, frames: Assembler::default() });
        let mut hello = Vec::new();
        ToShim::Hello { protocol: PROTOCOL, epoch }.encode(&mut hello);
        let said = connection.stream.write_all(&hello).await;
        loop {
            match receive(&mut connection.stream, &mut connection.frames).await? {
                Some(ToDaemon::Welcome(welcome)) => return Ok(Greeting::Welcomed(connection, welcome)),
                // Too many other connections. The shim drops those that send no greeting.
                Some(ToDaemon::Refused(Refusal::Busy)) => return Err(io::ErrorKind::ConnectionRefused.into()),
                Some(ToDaemon::Refused(refusal)) => return Ok(Greeting::Refused(refusal)),
                Some(ToDaemon::Wake(_) | ToDaemon::Pong(_)) => {}
                // A refusal may arrive before our greeting was sent, so a failed send counts only now.
                None => return Err(said.err().unwrap_or_else(|| io::ErrorKind::UnexpectedEof.into())),
            }
        }
    }

    /// Sends and receives until the connection ends.
    async fn serve(&mut self, outbox: &Outbox, state: &watch::Sender<ShimState>) -> ConnectionEnd {
        let Connection { stream, frames } = self;
        let (mut reader, mut writer) = stream.split();
        let receiving = async {
            loop {
                match receive(&mut reader, frames).await {
                    Ok(Some(ToDaemon::Wake(head))) => {
                        state.send_modify(|state| state.head = state.head.max(head));
                    }
                    Ok(Some(ToDaemon::Refused(refusal))) => return ConnectionEnd::Refused(refusal),
                    Ok(Some(ToDaemon::Welcome(_) | ToDaemon::Pong(_))) => {}
                    Ok(None) | Err(_) => return ConnectionEnd::Broken,
                }
            }
        };
        let sending = async {
            while let Some(frame) = outbox.next_frame().await {
                failpoint!("input.sending");
                writer.write_all(&frame).await?;
                failpoint!("input.sent");
            }
            Ok::<(), io::Error>(())
        };
        tokio::pin!(receiving);
        tokio::select! {
            // Receiving first: the reason for the end is among the received frames.
            biased;
            over = &mut receiving => over,
            sent = sending => match sent {
                Ok(()) => ConnectionEnd::Finished,
                // The shim has closed the connection; the reason is still to be read.
                Err(_) => receiving.await,
            },
        }
    }
}

/// Returns the next frame this build knows; `None` at the end of the connection.
async fn receive<R>(reader: &mut R, frames: &mut Assembler) -> io::Result<Option<ToDaemon>>
where
    R: tokio::io::AsyncRead + Unpin,
{
    let mut buffer = [0; 4096];
    loop {
        match frames.next_frame() {
            Ok(Some((kind, payload))) => match ToDaemon::decode(kind, payload) {
                Ok(Some(frame)) => return Ok(Some(frame)),
                Ok(None) => continue,
                Err(_) => return Err(io::ErrorKind::InvalidData.into()),
            },
            Ok(None) => {}
            Err(_) => return Err(io::ErrorKind::InvalidData.into()),
        }
        match reader.read(&mut buffer).await? {
            0 => return Ok(None),
            n => frames.push(&buffer[..n]),
        }
    }
}

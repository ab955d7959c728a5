//! The control socket: who may connect, who is obeyed, frames in and out, without ever blocking the loop.
//! Only the newest connection with the highest epoch is obeyed. Wake-ups may be dropped, nothing else. Must
//! not carry out a command: it passes them to the loop.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::os::unix::net::{UnixListener, UnixStream};

use crate::ancestry::{self, Ancestor, Name, Peer};
use crate::frame::{Assembler, Refusal, Target, ToDaemon, ToShim, Welcome};
use crate::limits::{CONNECTIONS_MAX, CONTROL_OUT_BYTES_MAX, GREETING_TIMEOUT, STALL_RETRY};
use crate::spool::Position;
use crate::{group_name, launch, sys};

/// A command of the daemon.
pub(crate) enum Command {
    Input { write_id: u64, bytes: Vec<u8> },
    CloseStdin { write_id: u64 },
    Signal { signo: i32, target: Target },
    AckExit,
}

/// The listener and all its connections.
pub(crate) struct Control {
    listener: UnixListener,
    connections: Vec<Connection>,
    epoch: u64,
    /// Accepting failed (out of descriptors); do not retry before this time.
    accept_not_before_ns: u64,
}

struct Connection {
    stream: UnixStream,
    frames: Assembler,
    out: Vec<u8>,
    /// The newest head that is not yet in `out`.
    wake: Option<Position>,
    is_obeyed: bool,
    is_closed: bool,
    greet_before_ns: u64,
}

impl Control {
    pub(crate) fn new(listener: UnixListener) -> Control {
        Control { listener, connections: Vec::new(), epoch: 0, accept_not_before_ns: 0 }
    }

    /// Listens on a new socket; existing connections stay.
    pub(crate) fn rebind(&mut self, listener: UnixListener) {
        self.listener = listener;
    }

    pub(crate) fn has_daemon(&self) -> bool {
        self.connections.iter().any(|connection| connection.is_obeyed)
    }

    /// Returns the listener if new connections may be accepted.
    pub(crate) fn listener_fd(&self, now_ns: u64) -> Option<RawFd> {
        (now_ns >= self.accept_not_before_ns).then(|| self.listener.as_raw_fd())
    }

    /// Returns each connection's descriptor and the events it waits for, in the order of the indices of the
    /// other methods.
    pub(crate) fn interests(&self, read_allowed: bool) -> impl Iterator<Item = (RawFd, i16)> {
        self.connections.iter().map(move |connection| {
            let mut events = 0;
            if read_allowed && connection.out.len() < CONTROL_OUT_BYTES_MAX {
                events |= libc::POLLIN;
            }
            if connection.wants_to_send() {
                events |= libc::POLLOUT;
            }
            (connection.stream.as_raw_fd(), events)
        })
    }

    /// Returns when something is due without any event.
    pub(crate) fn deadline_ns(&self, now_ns: u64) -> Option<u64> {
        let greetings = self.connections.iter().filter(|c| !c.is_obeyed).map(|c| c.greet_before_ns);
        let accepting = Some(self.accept_not_before_ns).filter(|&at| at > now_ns);
        greetings.chain(accepting).min()
    }

    /// Accepts new connections. A caller that is not allowed is refused and closed before a byte is read.
    pub(crate) fn accept(&mut self, now_ns: u64) {
        loop {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => {
                    self.accept_not_before_ns = now_ns + STALL_RETRY.as_nanos() as u64;
                    return;
                }
            };
            if stream.set_nonblocking(true).is_err() {
                continue;
            }
            let mut connection = Connection {
                stream,
                frames: Assembler::default(),
                out: Vec::new(),
                wake: None,
                is_obeyed: false,
                is_closed: false,
                greet_before_ns: now_ns + GREETING_TIMEOUT.as_nanos() as u64,
            };
            if !is_allowed(&connection.stream) {
                connection.refuse(Refusal::NotAllowed);
            } else if self.connections.len() >= CONNECTIONS_MAX {
                connection.refuse(Refusal::Busy);
            } else {
                self.connections.push(connection);
            }
        }
    }

    /// Reads what connection `index` has sent.
    pub(crate) fn receive(&mut self, index: usize) {
        let Some(connection) = self.connections.get_mut(index) else { return };
        let mut buffer = [0; 16 << 10];
        match connection.stream.read(&mut buffer) {
            Ok(0) => connection.is_closed = true,
            Ok(n) => connection.frames.push(&buffer[..n]),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(_) => connection.is_closed = true,
        }
    }

    /// Returns the next command among the received frames; greetings and pings are answered here.
    pub(crate) fn next_command(&mut self, index: usize, welcome: &Welcome) -> Option<Command> {
        loop {
            let connection = self.connections.get_mut(index).filter(|connection| !connection.is_closed)?;
            let frame = match connection.frames.next_frame() {
                Ok(Some((kind, payload))) => ToShim::decode(kind, payload),
                Ok(None) => return None,
                Err(_) => {
                    connection.is_closed = true;
                    return None;
                }
            };
            let is_obeyed = connection.is_obeyed;
            match frame {
                Ok(Some(ToShim::Hello { epoch, .. })) => self.greet(index, epoch, welcome),
                // Only a daemon that has sent a greeting may send commands.
                Ok(Some(_)) | Err(_) if !is_obeyed => connection.is_closed = true,
                Ok(Some(ToShim::Ping(token))) => ToDaemon::Pong(token).encode(&mut connection.out),
                Ok(Some(ToShim::Input { write_id, bytes })) => {
                    return Some(Command::Input { write_id, bytes: bytes.to_vec() });
                }
                Ok(Some(ToShim::CloseStdin { write_id })) => return Some(Command::CloseStdin { write_id }),
                Ok(Some(ToShim::Signal { signo, target })) => return Some(Command::Signal { signo, target }),
                Ok(Some(ToShim::AckExit)) => return Some(Command::AckExit),
                Ok(None) => {}
                Err(_) => connection.is_closed = true,
            }
        }
    }

    /// Announces to the daemon how far the spool reaches.
    pub(crate) fn wake(&mut self, head: Position) {
        for connection in self.connections.iter_mut().filter(|connection| connection.is_obeyed) {
            connection.wake = Some(head);
        }
    }

    /// Sends what can be sent, and drops connections that are closed or never sent a greeting.
    pub(crate) fn flush(&mut self, now_ns: u64) {
        for connection in &mut self.connections {
            connection.flush();
            connection.is_closed |= !connection.is_obeyed && now_ns >= connection.greet_before_ns;
        }
        self.connections.retain(|connection| !connection.is_closed);
    }

    /// Obeys a connection unless its epoch is too low; an earlier connection is replaced.
    fn greet(&mut self, index: usize, epoch: u64, welcome: &Welcome) {
        if epoch < self.epoch {
            self.connections[index].refuse(Refusal::OldEpoch);
            return;
        }
        self.epoch = epoch;
        for (other, connection) in self.connections.iter_mut().enumerate() {
            if other == index {
                connection.is_obeyed = true;
                ToDaemon::Welcome(*welcome).encode(&mut connection.out);
            } else if connection.is_obeyed {
                connection.refuse(Refusal::Replaced);
            }
        }
    }
}

impl Connection {
    fn wants_to_send(&self) -> bool {
        !self.out.is_empty() || self.wake.is_some()
    }

    /// Writes as much as the socket accepts.
    fn flush(&mut self) {
        while !self.is_closed && self.wants_to_send() {
            // Only between whole frames: a wake-up that finds the socket full waits and is replaced by newer
            // ones.
            if let Some(head) = self.wake.take_if(|_| self.out.is_empty()) {
                ToDaemon::Wake(head).encode(&mut self.out);
            }
            match self.stream.write(&self.out) {
                Ok(n) => drop(self.out.drain(..n)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The peer no longer reads, but its last frames (an acknowledgement) may still be unread.
                Err(_) => {
                    self.out.clear();
                    self.wake = None;
                }
            }
        }
    }

    /// Sends the reason, as far as the socket accepts it, and closes.
    fn refuse(&mut self, refusal: Refusal) {
        self.wake = None;
        ToDaemon::Refused(refusal).encode(&mut self.out);
        self.flush();
        self.is_obeyed = false;
        self.is_closed = true;
    }
}

/// Returns whether a caller may connect: only this user (or root), and no agent. A process below a shim that
/// this shim is not below as well belongs to an agent, ours or another. The uid alone does not distinguish
/// agents from the daemon. A caller that cannot be classified is refused.
fn is_allowed(stream: &UnixStream) -> bool {
    let Ok(peer) = Peer::of(stream.as_fd()) else { return false };
    if peer.uid != sys::euid() && peer.uid != 0 {
        return false;
    }
    let (Some(own), Some(theirs)) = (ancestry::of(std::process::id() as i32), peer.ancestry()) else {
        return false;
    };
    let is_beside_us = match (nearest_holder(&own[1..]), nearest_holder(&theirs)) {
        (Ok(own), Ok(theirs)) => own == theirs,
        _ => false,
    };
    // An agent that got rid of its shim is still in its group. The handle says that the number was its own all the time.
    is_beside_us && group_name::is_with_us(peer.pid) && peer.is_alive()
}

/// A process that may be a shim and cannot be inspected.
struct Hidden;

/// Returns the lowest shim of a chain, by pid and start time.
fn nearest_holder(chain: &[Ancestor]) -> Result<Option<(i32, u64)>, Hidden> {
    for at in chain {
        match &at.name {
            Name::Known(name) if name == launch::PROCESS_NAME => return Ok(Some((at.pid, at.start_ticks))),
            // Shims hide their memory, so they are hidden wherever `/proc` hides anything.
            Name::HiddenOwn => return Err(Hidden),
            Name::Known(_) | Name::HiddenOther => {}
        }
    }
    Ok(None)
}

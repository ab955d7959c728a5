//! The control frames between daemon and shim: `len u32 | type u8 | payload`, little endian. Pure. Only ever
//! extended: both sides ignore unknown types and appended fields. Must not know sockets or what is done with
//! a frame.

use crate::limits::FRAME_BYTES_MAX;
use crate::record::{u32_at, u64_at};
use crate::spool::Position;

/// Bytes before a frame's payload; `len` counts the payload alone.
pub const FRAME_HEADER_LEN: usize = 5;

const HELLO: u8 = 0x01;
const INPUT: u8 = 0x02;
const CLOSE_STDIN: u8 = 0x03;
const SIGNAL: u8 = 0x04;
const ACK_EXIT: u8 = 0x05;
const PING: u8 = 0x06;
const WELCOME: u8 = 0x81;
const WAKE: u8 = 0x82;
const REFUSED: u8 = 0x83;
const PONG: u8 = 0x84;

/// The target of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The agent's process alone.
    Agent,
    /// The agent's process group.
    Group,
    /// Every descendant, whatever session or group it moved to.
    Tree,
}

/// Why the shim does not obey a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A daemon with a higher epoch was connected.
    OldEpoch,
    /// A connection with the same or a higher epoch took over.
    Replaced,
    /// The caller belongs to another user or to an agent.
    NotAllowed,
    /// Too many connections.
    Busy,
    /// From a newer shim.
    Other(u8),
}

impl Refusal {
    fn byte(self) -> u8 {
        match self {
            Refusal::OldEpoch => 1,
            Refusal::Replaced => 2,
            Refusal::NotAllowed => 3,
            Refusal::Busy => 4,
            Refusal::Other(byte) => byte,
        }
    }

    fn from_byte(byte: u8) -> Refusal {
        match byte {
            1 => Refusal::OldEpoch,
            2 => Refusal::Replaced,
            3 => Refusal::NotAllowed,
            4 => Refusal::Busy,
            other => Refusal::Other(other),
        }
    }
}

/// What the daemon sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToShim<'a> {
    Hello { protocol: u8, epoch: u64 },
    Input { write_id: u64, bytes: &'a [u8] },
    CloseStdin { write_id: u64 },
    Signal { signo: i32, target: Target },
    AckExit,
    Ping(u64),
}

/// The answer to HELLO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Welcome {
    pub protocol: u8,
    pub shim_pid: u32,
    pub agent_pid: u32,
    /// The highest input id that was accepted, whether or not the agent has read it.
    pub last_write_id: u64,
    pub head: Position,
    /// Whether the exit record is in the spool.
    pub exited: bool,
}

/// What the shim sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToDaemon {
    Welcome(Welcome),
    /// The spool reaches to here. May be skipped when a later one follows.
    Wake(Position),
    Refused(Refusal),
    Pong(u64),
}

/// A frame of a known type that is too short for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub u8);

impl<'a> ToShim<'a> {
    /// Appends the frame's bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match *self {
            ToShim::Hello { protocol, epoch } => {
                begin(out, HELLO, 9);
                out.push(protocol);
                out.extend_from_slice(&epoch.to_le_bytes());
            }
            ToShim::Input { write_id, bytes } => {
                begin(out, INPUT, 8 + bytes.len());
                out.extend_from_slice(&write_id.to_le_bytes());
                out.extend_from_slice(bytes);
            }
            ToShim::CloseStdin { write_id } => {
                begin(out, CLOSE_STDIN, 8);
                out.extend_from_slice(&write_id.to_le_bytes());
            }
            ToShim::Signal { signo, target } => {
                begin(out, SIGNAL, 5);
                out.extend_from_slice(&signo.to_le_bytes());
                out.push(match target {
                    Target::Agent => 1,
                    Target::Group => 2,
                    Target::Tree => 3,
                });
            }
            ToShim::AckExit => begin(out, ACK_EXIT, 0),
            ToShim::Ping(token) => {
                begin(out, PING, 8);
                out.extend_from_slice(&token.to_le_bytes());
            }
        }
    }

    /// Decodes a frame; `None` if this build does not know its type.
    pub fn decode(kind: u8, payload: &'a [u8]) -> Result<Option<ToShim<'a>>, Malformed> {
        let needs = |len: usize| if payload.len() < len { Err(Malformed(kind)) } else { Ok(()) };
        Ok(Some(match kind {
            HELLO => {
                needs(9)?;
                ToShim::Hello { protocol: payload[0], epoch: u64_at(payload, 1) }
            }
            INPUT => {
                needs(8)?;
                ToShim::Input { write_id: u64_at(payload, 0), bytes: &payload[8..] }
            }
            CLOSE_STDIN => {
                needs(8)?;
                ToShim::CloseStdin { write_id: u64_at(payload, 0) }
            }
            SIGNAL => {
                needs(5)?;
                let target = match payload[4] {
                    1 => Target::Agent,
                    2 => Target::Group,
                    3 => Target::Tree,
                    _ => return Ok(None),
                };
                ToShim::Signal { signo: u32_at(payload, 0) as i32, target }
            }
            ACK_EXIT => ToShim::AckExit,
            PING => {
                needs(8)?;
                ToShim::Ping(u64_at(payload, 0))
            }
            _ => return Ok(None),
        }))
    }
}

impl ToDaemon {
    /// Appends the frame's bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match *self {
            ToDaemon::Welcome(welcome) => {
                begin(out, WELCOME, 30);
                out.push(welcome.protocol);
                out.extend_from_slice(&welcome.shim_pid.to_le_bytes());
                out.extend_from_slice(&welcome.agent_pid.to_le_bytes());
                out.extend_from_slice(&welcome.last_write_id.to_le_bytes());
                put_position(out, welcome.head);
                out.push(u8::from(welcome.exited));
            }
            ToDaemon::Wake(head) => {
                begin(out, WAKE, 12);
                put_position(out, head);
            }
            ToDaemon::Refused(refusal) => {
                begin(out, REFUSED, 1);
                out.push(refusal.byte());
            }
            ToDaemon::Pong(token) => {
                begin(out, PONG, 8);
                out.extend_from_slice(&token.to_le_bytes());
            }
        }
    }

    /// Decodes a frame; `None` if this build does not know its type.
    pub fn decode(kind: u8, payload: &[u8]) -> Result<Option<ToDaemon>, Malformed> {
        let needs = |len: usize| if payload.len() < len { Err(Malformed(kind)) } else { Ok(()) };
        Ok(Some(match kind {
            WELCOME => {
                needs(30)?;
                ToDaemon::Welcome(Welcome {
                    protocol: payload[0],
                    shim_pid: u32_at(payload, 1),
                    agent_pid: u32_at(payload, 5),
                    last_write_id: u64_at(payload, 9),
                    head: position_at(payload, 17),
                    exited: payload[29] != 0,
                })
            }
            WAKE => {
                needs(12)?;
                ToDaemon::Wake(position_at(payload, 0))
            }
            REFUSED => {
                needs(1)?;
                ToDaemon::Refused(Refusal::from_byte(payload[0]))
            }
            PONG => {
                needs(8)?;
                ToDaemon::Pong(u64_at(payload, 0))
            }
            _ => return Ok(None),
        }))
    }
}

/// Assembles bytes from a socket into whole frames.
#[derive(Debug, Default)]
pub struct Assembler {
    bytes: Vec<u8>,
    used: usize,
}

/// A frame's length exceeds [`FRAME_BYTES_MAX`]; the stream cannot be followed further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong(pub usize);

impl Assembler {
    /// Adds received bytes.
    pub fn push(&mut self, received: &[u8]) {
        if self.used == self.bytes.len() {
            self.bytes.clear();
            self.used = 0;
        } else if self.used > 0 {
            self.bytes.drain(..self.used);
            self.used = 0;
        }
        self.bytes.extend_from_slice(received);
    }

    /// Returns the next whole frame: its type and payload.
    pub fn next_frame(&mut self) -> Result<Option<(u8, &[u8])>, TooLong> {
        let rest = &self.bytes[self.used..];
        if rest.len() < FRAME_HEADER_LEN {
            self.shrink();
            return Ok(None);
        }
        let len = u32_at(rest, 0) as usize;
        if len > FRAME_BYTES_MAX {
            return Err(TooLong(len));
        }
        let kind = rest[4];
        let start = self.used + FRAME_HEADER_LEN;
        if self.bytes.len() < start + len {
            return Ok(None);
        }
        self.used = start + len;
        Ok(Some((kind, &self.bytes[start..start + len])))
    }

    /// Frees a large frame's memory once it is consumed; a shim must stay small.
    fn shrink(&mut self) {
        if self.used == self.bytes.len() && self.bytes.capacity() > SMALL_CAPACITY {
            self.bytes = Vec::new();
            self.used = 0;
        }
    }
}

const SMALL_CAPACITY: usize = 64 << 10;

fn begin(out: &mut Vec<u8>, kind: u8, len: usize) {
    out.reserve(FRAME_HEADER_LEN + len);
    out.extend_from_slice(&(len as u32).to_le_bytes());
    out.push(kind);
}

fn put_position(out: &mut Vec<u8>, position: Position) {
    out.extend_from_slice(&position.segment.to_le_bytes());
    out.extend_from_slice(&position.offset.to_le_bytes());
}

fn position_at(bytes: &[u8], at: usize) -> Position {
    Position { segment: u32_at(bytes, at), offset: u64_at(bytes, at + 4) }
}

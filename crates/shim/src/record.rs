//! One record of the spool: its bytes, its checksum, and the payloads the shim itself writes. Pure; shared by
//! the shim (which writes) and the daemon (which reads). Must not know files, and never looks into what an
//! agent printed.

use crate::limits::RECORD_BYTES_MAX;

/// First two bytes of every record.
pub const MAGIC: u16 = 0x0be1;
/// Version of the header layout; raised only if the header itself changes.
pub const VERSION: u8 = 1;
/// Bytes before the payload.
pub const HEADER_LEN: usize = 28;
const CRC_AT: usize = 24;

/// Where a record came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stream {
    /// Bytes the agent wrote to stdout.
    Out,
    /// Bytes the agent wrote to stderr.
    Err,
    /// The identity of the agent ([`Meta`]); first in every segment.
    Meta,
    /// How the agent ended ([`Exit`]); last in the spool.
    Exit,
    /// An input passed to the agent ([`Input`]).
    Input,
    /// Written by a newer shim; readers skip it.
    Other(u8),
}

impl Stream {
    pub(crate) fn byte(self) -> u8 {
        match self {
            Stream::Out => 1,
            Stream::Err => 2,
            Stream::Meta => 3,
            Stream::Exit => 4,
            Stream::Input => 5,
            Stream::Other(byte) => byte,
        }
    }

    fn from_byte(byte: u8) -> Stream {
        match byte {
            1 => Stream::Out,
            2 => Stream::Err,
            3 => Stream::Meta,
            4 => Stream::Exit,
            5 => Stream::Input,
            other => Stream::Other(other),
        }
    }
}

/// The part of a record before its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub stream: Stream,
    /// Bytes of payload.
    pub len: u32,
    /// Counts all records of a spool from 1, without gaps, across segments.
    pub seq: u64,
    /// The monotonic clock when the bytes were read.
    pub t_mono_ns: u64,
}

impl Header {
    /// Returns the header's bytes, with the checksum over them and `payload`.
    pub fn encode(&self, payload: &[u8]) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        bytes[0..2].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[2] = VERSION;
        bytes[3] = self.stream.byte();
        bytes[4..8].copy_from_slice(&self.len.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.seq.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.t_mono_ns.to_le_bytes());
        let crc = crc32c::crc32c_append(crc32c::crc32c(&bytes[..CRC_AT]), payload);
        bytes[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }
}

/// Why bytes are not a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The first bytes are not a record's.
    Magic,
    /// A header layout this build does not know.
    Version(u8),
    /// Longer than any shim writes.
    Length(u32),
    /// The bytes are not those that were written.
    Checksum,
    /// The record is whole but does not follow the one before it.
    Sequence { expected: u64, found: u64 },
    /// A segment ends inside a record although a later segment exists.
    CutShort,
    /// A segment is missing although a later one exists.
    MissingSegment,
}

/// What was found at the start of some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// A whole, valid record; its payload is the `len` bytes after the header.
    Whole(Header),
    /// Valid so far, but the end is missing.
    Partial,
    /// Not a record.
    Bad(Fault),
}

/// Parses the first record in `bytes`.
pub fn parse(bytes: &[u8]) -> Parsed {
    let known = bytes.len().min(2);
    if bytes[..known] != MAGIC.to_le_bytes()[..known] {
        return Parsed::Bad(Fault::Magic);
    }
    let Some(head) = bytes.first_chunk::<HEADER_LEN>() else { return Parsed::Partial };
    if head[2] != VERSION {
        return Parsed::Bad(Fault::Version(head[2]));
    }
    let len = u32_at(head, 4);
    if len as usize > RECORD_BYTES_MAX {
        return Parsed::Bad(Fault::Length(len));
    }
    let Some(payload) = bytes.get(HEADER_LEN..HEADER_LEN + len as usize) else { return Parsed::Partial };
    if crc32c::crc32c_append(crc32c::crc32c(&head[..CRC_AT]), payload) != u32_at(head, CRC_AT) {
        return Parsed::Bad(Fault::Checksum);
    }
    Parsed::Whole(Header {
        stream: Stream::from_byte(head[3]),
        len,
        seq: u64_at(head, 8),
        t_mono_ns: u64_at(head, 16),
    })
}

/// The identity of the agent. Enough to find its process tree, and never another one, after the shim has
/// exited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meta {
    pub protocol: u8,
    pub agent_pid: u32,
    /// Wall clock at the agent's start.
    pub started_ns: u64,
    /// The kernel's start time of the agent; with `boot_id` it distinguishes the agent from a reused pid.
    pub start_ticks: u64,
    pub boot_id: [u8; 16],
}

impl Meta {
    const LEN: usize = 37;

    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(Self::LEN);
        out.push(self.protocol);
        out.extend_from_slice(&self.agent_pid.to_le_bytes());
        out.extend_from_slice(&self.started_ns.to_le_bytes());
        out.extend_from_slice(&self.start_ticks.to_le_bytes());
        out.extend_from_slice(&self.boot_id);
        out
    }

    /// Decodes a payload; fields appended by a newer shim are ignored.
    pub fn decode(payload: &[u8]) -> Option<Meta> {
        let bytes = payload.first_chunk::<{ Self::LEN }>()?;
        let mut boot_id = [0; 16];
        boot_id.copy_from_slice(&bytes[21..37]);
        Some(Meta {
            protocol: bytes[0],
            agent_pid: u32_at(bytes, 1),
            started_ns: u64_at(bytes, 5),
            start_ticks: u64_at(bytes, 13),
            boot_id,
        })
    }
}

/// How the agent ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    /// The exit code; -1 if a signal ended it.
    pub code: i32,
    /// The signal that ended it, or 0.
    pub signal: i32,
    /// Output bytes that could not be stored: the disk stayed full past the end of the agent.
    pub lost_bytes: u64,
}

impl Exit {
    pub const LEN: usize = 16;

    pub fn encode(&self) -> [u8; Self::LEN] {
        let mut out = [0; Self::LEN];
        out[0..4].copy_from_slice(&self.code.to_le_bytes());
        out[4..8].copy_from_slice(&self.signal.to_le_bytes());
        out[8..16].copy_from_slice(&self.lost_bytes.to_le_bytes());
        out
    }

    /// Decodes a payload; the lost count was added later, so it may be missing.
    pub fn decode(payload: &[u8]) -> Option<Exit> {
        let bytes = payload.first_chunk::<8>()?;
        let lost_bytes = if payload.len() >= Self::LEN { u64_at(payload, 8) } else { 0 };
        Some(Exit { code: u32_at(bytes, 0) as i32, signal: u32_at(bytes, 4) as i32, lost_bytes })
    }
}

/// An input that left the shim's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Input {
    pub write_id: u64,
    pub delivery: Delivery,
}

/// Whether an input reached the agent's stdin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// All its bytes are in the pipe.
    Delivered,
    /// The agent has closed its stdin or has ended.
    Undeliverable,
}

impl Input {
    pub const LEN: usize = 9;

    pub fn encode(&self) -> [u8; Self::LEN] {
        let mut out = [0; Self::LEN];
        out[0..8].copy_from_slice(&self.write_id.to_le_bytes());
        out[8] = u8::from(self.delivery == Delivery::Undeliverable);
        out
    }

    pub fn decode(payload: &[u8]) -> Option<Input> {
        let bytes = payload.first_chunk::<{ Self::LEN }>()?;
        let delivery = if bytes[8] == 0 { Delivery::Delivered } else { Delivery::Undeliverable };
        Some(Input { write_id: u64_at(bytes, 0), delivery })
    }
}

/// Callers have checked the length.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

/// Callers have checked the length.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

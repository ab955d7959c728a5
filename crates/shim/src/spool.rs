//! The spool: numbered segment files of records in the session's directory. Defines names and positions;
//! `writer` is the shim's side, `reader` the daemon's. Must not know the control socket or the agent.

mod reader;
mod writer;

pub use reader::{Batch, Entry, Reader, Record, Step, read_meta};
pub(crate) use writer::Writer;

/// A position between two records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// Number of the segment, from 1.
    pub segment: u32,
    /// Byte in that segment; always a record boundary.
    pub offset: u64,
}

impl Position {
    /// Before the first record.
    pub const START: Position = Position { segment: 1, offset: 0 };
}

/// Returns the file name of a segment.
pub fn segment_name(segment: u32) -> String {
    format!("out.{segment:06}")
}

/// Returns the number in a segment's file name, if it is one.
pub fn segment_number(name: &std::ffi::OsStr) -> Option<u32> {
    let digits = name.to_str()?.strip_prefix("out.")?;
    let number: u32 = digits.parse().ok()?;
    (segment_name(number) == name.to_str()?).then_some(number)
}

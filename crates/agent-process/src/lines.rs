//! Splits a byte stream into lines, regardless of its chunks. Pure; its state can be saved and restored. A
//! line longer than `LINE_MAX` is reported with its head and length, and never held in memory. Must not know
//! what a line means.

use super::limits::{LINE_MAX, OVERSIZE_HEAD_BYTES};

/// One line, without its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputLine<'a> {
    /// The whole line.
    Whole(&'a [u8]),
    /// Its first bytes and its full length; the rest was dropped.
    Oversize { head: &'a [u8], length: u64 },
}

/// Assembles bytes into lines. A line ends at LF; one CR before it is stripped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineAssembler {
    carry: PartialLine,
    line_max: usize,
    head_max: usize,
}

/// The state of a [`LineAssembler`] between two chunks; to be stored with the position after the last one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartialLine {
    /// The unfinished line, or only its head once it is oversize.
    pub partial: Vec<u8>,
    /// Set once the unfinished line is oversize.
    pub oversize: Option<OversizeLine>,
}

/// An unfinished line that is too long to keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OversizeLine {
    /// The bytes seen so far.
    pub length: u64,
    /// Whether the last byte was a CR, which does not count if the line ends there.
    pub ends_with_cr: bool,
}

impl Default for LineAssembler {
    fn default() -> Self {
        LineAssembler::restore(PartialLine::default())
    }
}

impl LineAssembler {
    /// Resumes from a saved state.
    pub fn restore(carry: PartialLine) -> LineAssembler {
        LineAssembler::with_limits(carry, LINE_MAX, OVERSIZE_HEAD_BYTES)
    }

    pub(super) fn with_limits(carry: PartialLine, line_max: usize, head_max: usize) -> LineAssembler {
        LineAssembler { carry, line_max, head_max }
    }

    /// Returns the state to save.
    pub fn carry(&self) -> &PartialLine {
        &self.carry
    }

    /// Adds bytes and calls `each` for every line that ends in them.
    pub fn push(&mut self, bytes: &[u8], each: &mut impl FnMut(OutputLine<'_>)) {
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|&byte| byte == b'\n') {
            let (line, behind) = (&rest[..end], &rest[end + 1..]);
            rest = behind;
            // The usual case, without a copy: the chunk contains the whole line.
            if self.carry.partial.is_empty() && self.carry.oversize.is_none() && line.len() <= self.line_max {
                each(OutputLine::Whole(without_cr(line)));
                continue;
            }
            self.extend(line);
            self.emit(each);
        }
        self.extend(rest);
    }

    /// Ends the stream: the remainder is a line although no LF ended it.
    pub fn finish(&mut self, each: &mut impl FnMut(OutputLine<'_>)) {
        if !self.carry.partial.is_empty() || self.carry.oversize.is_some() {
            self.emit(each);
        }
    }

    /// Appends bytes to the unfinished line; keeps only its head once it is oversize.
    fn extend(&mut self, bytes: &[u8]) {
        let Some(&last) = bytes.last() else { return };
        let PartialLine { partial, oversize } = &mut self.carry;
        if let Some(oversize) = oversize {
            oversize.length += bytes.len() as u64;
            oversize.ends_with_cr = last == b'\r';
        } else if partial.len() + bytes.len() <= self.line_max {
            partial.extend_from_slice(bytes);
        } else {
            let length = (partial.len() + bytes.len()) as u64;
            *oversize = Some(OversizeLine { length, ends_with_cr: last == b'\r' });
            let missing = self.head_max.saturating_sub(partial.len()).min(bytes.len());
            partial.extend_from_slice(&bytes[..missing]);
            partial.truncate(self.head_max);
            partial.shrink_to_fit();
        }
    }

    fn emit(&mut self, each: &mut impl FnMut(OutputLine<'_>)) {
        let PartialLine { partial, oversize } = &mut self.carry;
        match oversize.take() {
            None => each(OutputLine::Whole(without_cr(partial))),
            Some(OversizeLine { length, ends_with_cr }) => {
                each(OutputLine::Oversize { head: partial, length: length - u64::from(ends_with_cr) });
            }
        }
        partial.clear();
        // Memory of one long line must not stay allocated.
        partial.shrink_to(self.head_max);
    }
}

fn without_cr(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

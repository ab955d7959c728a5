//! The daemon's end of the spool: batches of valid records from a position onwards, straight from the files.
//! Distinguishes: nothing yet, a torn end, and damage in the middle. Never panics on any bytes. Must not
//! wait, and must not know whether the shim lives: the caller passes that where it matters.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::{Position, segment_name, segment_number};
use crate::limits::{BATCH_BYTES_MAX, BATCH_RECORDS_MAX, SEGMENT_BYTES_MAX};
use crate::record::{Fault, HEADER_LEN, Meta, Parsed, Stream, parse};

/// Some records, their bytes, and the position after them.
#[derive(Debug)]
pub struct Batch {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
    /// Commit this together with the events made of the records.
    pub after: Position,
}

/// The location of one record in a [`Batch`].
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    pub stream: Stream,
    pub seq: u64,
    pub t_mono_ns: u64,
    start: u32,
    len: u32,
}

/// One record of a [`Batch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    pub stream: Stream,
    pub seq: u64,
    pub t_mono_ns: u64,
    pub payload: &'a [u8],
}

impl Batch {
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the records in order.
    pub fn records(&self) -> impl Iterator<Item = Record<'_>> {
        self.entries.iter().map(|entry| Record {
            stream: entry.stream,
            seq: entry.seq,
            t_mono_ns: entry.t_mono_ns,
            payload: &self.bytes[entry.start as usize..(entry.start + entry.len) as usize],
        })
    }
}

/// The result of a reading step.
#[derive(Debug)]
pub enum Step {
    /// At least one record; the reader's position is after them.
    Records(Batch),
    /// No more bytes yet.
    Dry,
    /// No whole record at the end of the last segment. While the shim lives, the rest may still come;
    /// afterwards [`Reader::verdict`] distinguishes a torn end from damage.
    Torn(Fault),
    /// Damage followed by more data. The reader stays before it.
    Corrupt { at: Position, fault: Fault },
}

/// Reads a spool from a position onwards.
pub struct Reader {
    dir: PathBuf,
    at: Position,
    file: Option<File>,
    /// Unknown until the first record was read.
    next_seq: Option<u64>,
}

impl Reader {
    /// Returns a reader of the spool in `dir`. Opens nothing yet.
    pub fn new(dir: &Path, from: Position) -> Reader {
        Reader { dir: dir.to_owned(), at: from, file: None, next_seq: None }
    }

    /// Returns the position before the next record.
    pub fn position(&self) -> Position {
        self.at
    }

    /// Reads what is available, at most one batch.
    pub fn step(&mut self) -> io::Result<Step> {
        loop {
            if !self.open()? {
                return match self.later_segment_exists()? {
                    true => Ok(Step::Corrupt { at: self.at, fault: Fault::MissingSegment }),
                    false => Ok(Step::Dry),
                };
            }
            let found = self.read_batch()?;
            if matches!(found, Step::Records(_)) || !self.next_segment_exists()? {
                return Ok(found);
            }
            // The writer has left this segment. Its last records may have been written between the read and
            // the check for the next segment, so only a second read is final.
            match self.read_batch()? {
                Step::Dry => self.advance(),
                Step::Torn(fault) => return Ok(Step::Corrupt { at: self.at, fault }),
                found => return Ok(found),
            }
        }
    }

    /// Classifies an unreadable end once nothing more will be written: [`Step::Torn`] if no valid record
    /// follows it, otherwise [`Step::Corrupt`]. Searches the rest of the file, since a damaged length can
    /// hide the records behind it.
    pub fn verdict(&mut self, fault: Fault) -> io::Result<Step> {
        let Some(file) = &self.file else { return Ok(Step::Torn(fault)) };
        let rest = file.metadata()?.len().saturating_sub(self.at.offset);
        // At most one segment: bounded by the largest segment a shim writes.
        let mut bytes = vec![0; usize::try_from(rest.min(SEGMENT_BYTES_MAX)).unwrap_or(0)];
        let got = read_at_most(file, &mut bytes, self.at.offset)?;
        let seq_min = self.next_seq.unwrap_or(0);
        for start in 1..got {
            // A torn payload may contain a copy of earlier records of this spool; their sequence numbers give
            // them away.
            if matches!(parse(&bytes[start..got]), Parsed::Whole(header) if header.seq > seq_min) {
                return Ok(Step::Corrupt { at: self.at, fault });
            }
        }
        Ok(Step::Torn(fault))
    }

    fn open(&mut self) -> io::Result<bool> {
        if self.file.is_some() {
            return Ok(true);
        }
        match File::open(self.dir.join(segment_name(self.at.segment))) {
            Ok(file) => {
                self.file = Some(file);
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn advance(&mut self) {
        self.at = Position { segment: self.at.segment + 1, offset: 0 };
        self.file = None;
    }

    fn next_segment_exists(&self) -> io::Result<bool> {
        self.dir.join(segment_name(self.at.segment + 1)).try_exists()
    }

    fn later_segment_exists(&self) -> io::Result<bool> {
        for entry in std::fs::read_dir(&self.dir)? {
            if segment_number(&entry?.file_name()).is_some_and(|number| number > self.at.segment) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Reads one batch at the current position and advances behind it.
    fn read_batch(&mut self) -> io::Result<Step> {
        let Some(file) = &self.file else { return Ok(Step::Dry) };
        let bytes = read_some(file, self.at.offset)?;
        if bytes.is_empty() {
            return Ok(Step::Dry);
        }
        let (entries, used, stop) = self.collect(&bytes);
        if entries.is_empty() {
            return Ok(match stop {
                // The record is whole, so later bytes cannot repair it.
                Parsed::Bad(fault @ Fault::Sequence { .. }) => Step::Corrupt { at: self.at, fault },
                Parsed::Bad(fault) => Step::Torn(fault),
                Parsed::Whole(_) | Parsed::Partial => Step::Torn(Fault::CutShort),
            });
        }
        self.next_seq = entries.last().map(|entry| entry.seq + 1);
        self.at.offset += used as u64;
        Ok(Step::Records(Batch { bytes, entries, after: self.at }))
    }

    /// Parses records until the bytes or the batch end.
    fn collect(&self, bytes: &[u8]) -> (Vec<Entry>, usize, Parsed) {
        let mut entries = Vec::new();
        let mut used = 0;
        let mut next_seq = self.next_seq;
        while entries.len() < BATCH_RECORDS_MAX && used < bytes.len() {
            let header = match parse(&bytes[used..]) {
                Parsed::Whole(header) => header,
                stop => return (entries, used, stop),
            };
            if let Some(expected) = next_seq.filter(|expected| *expected != header.seq) {
                let fault = Fault::Sequence { expected, found: header.seq };
                return (entries, used, Parsed::Bad(fault));
            }
            next_seq = Some(header.seq.wrapping_add(1));
            entries.push(Entry {
                stream: header.stream,
                seq: header.seq,
                t_mono_ns: header.t_mono_ns,
                start: (used + HEADER_LEN) as u32,
                len: header.len,
            });
            used += HEADER_LEN + header.len as usize;
        }
        (entries, used, Parsed::Partial)
    }
}

/// Returns the agent of a segment from its first record, without reading more. `None` if that cannot be read.
pub fn read_meta(dir: &Path, segment: u32) -> io::Result<Option<Meta>> {
    let mut bytes = [0; META_READ_BYTES];
    let got = read_at_most(&File::open(dir.join(segment_name(segment)))?, &mut bytes, 0)?;
    Ok(match parse(&bytes[..got]) {
        Parsed::Whole(header) if header.stream == Stream::Meta => {
            Meta::decode(&bytes[HEADER_LEN..HEADER_LEN + header.len as usize])
        }
        _ => None,
    })
}

/// Room for a meta record with many appended fields.
const META_READ_BYTES: usize = 512;

/// Reads the file from `offset` on, at most one batch. A reader that keeps up finds a line or two, and needs
/// one system call for them.
fn read_some(file: &File, offset: u64) -> io::Result<Vec<u8>> {
    let mut few = [0; FEW_BYTES];
    let got = file.read_at(&mut few, offset);
    if let Ok(got) = got
        && got < few.len()
    {
        return Ok(few[..got].to_vec());
    }
    let available = file.metadata()?.len().saturating_sub(offset);
    let mut bytes =
        vec![0; usize::try_from(available).unwrap_or(usize::MAX).min(BATCH_BYTES_MAX + HEADER_LEN)];
    let got = read_at_most(file, &mut bytes, offset)?;
    bytes.truncate(got);
    Ok(bytes)
}

/// Size of the first read.
const FEW_BYTES: usize = 4 << 10;

/// Fills `bytes` as far as the file goes.
fn read_at_most(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut got = 0;
    while got < bytes.len() {
        match file.read_at(&mut bytes[got..], offset + got as u64) {
            Ok(0) => break,
            Ok(n) => got += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(got)
}

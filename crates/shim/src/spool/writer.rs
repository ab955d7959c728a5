//! The shim's end of the spool: appends records, rolls segments, flushes in time, counts what is on disk. A
//! failed append leaves no trace, so that the caller can retry the same record. Must not decide what to do
//! about a full disk: the loop does.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::thread::{self, JoinHandle};

use super::{Position, segment_name};
use crate::limits::{
    FLUSH_LOOK, FLUSH_STACK_BYTES, SEGMENT_BYTES_MAX, SEGMENTS_PER_SPOOL_MIN, SPOOL_BYTES_MIN, SYNC_INTERVAL,
};
use crate::record::{HEADER_LEN, Header, Stream};
use crate::sys;

/// Writes the spool in the current directory.
pub(crate) struct Writer {
    file: File,
    head: Position,
    next_seq: u64,
    /// Repeated at the start of every segment, so that it survives the deletion of the first.
    meta: Vec<u8>,
    segment_max: u64,
    spool_max: u64,
    /// Full segments that were on disk when last checked, oldest first, with their sizes.
    full: VecDeque<(u32, u64)>,
    full_bytes: u64,
    dirty_since_ns: Option<u64>,
    /// A flush in progress on its own thread.
    flush: Option<JoinHandle<io::Result<()>>>,
    /// A finished flush has failed, and the segment is not closed yet.
    has_failed: bool,
    /// The current segment's name is not yet on stable storage.
    is_name_dirty: bool,
}

impl Writer {
    /// Creates the first segment.
    pub(crate) fn create(spool_max: u64) -> io::Result<Writer> {
        let spool_max = spool_max.max(SPOOL_BYTES_MIN);
        Ok(Writer {
            file: create_segment(Position::START.segment)?,
            head: Position::START,
            next_seq: 1,
            meta: Vec::new(),
            segment_max: SEGMENT_BYTES_MAX.min(spool_max / SEGMENTS_PER_SPOOL_MIN),
            spool_max,
            full: VecDeque::new(),
            full_bytes: 0,
            dirty_since_ns: None,
            flush: None,
            has_failed: false,
            is_name_dirty: true,
        })
    }

    /// Writes the meta record that opens the first segment, and every later one.
    pub(crate) fn open_with(&mut self, meta: Vec<u8>, now_ns: u64) -> io::Result<()> {
        self.meta = meta;
        self.begin_segment(now_ns)
    }

    /// Appends one record with one system call. On error nothing was appended.
    pub(crate) fn append(&mut self, stream: Stream, payload: &[u8], now_ns: u64) -> io::Result<()> {
        let size = (HEADER_LEN + payload.len()) as u64;
        self.judge_flush()?;
        if self.head.offset > 0 && self.head.offset + size > self.segment_max {
            self.roll()?;
        }
        if self.head.offset == 0 {
            self.begin_segment(now_ns)?;
        }
        self.put(stream, payload, now_ns)
    }

    /// Returns the position after the last record.
    pub(crate) fn head(&self) -> Position {
        self.head
    }

    /// Returns when the next flush is due, if there is something to flush.
    pub(crate) fn flush_due_ns(&self, now_ns: u64) -> Option<u64> {
        let due = self.dirty_since_ns? + SYNC_INTERVAL.as_nanos() as u64;
        // One at a time; a disk that takes longer than the interval gets no second flush.
        let busy = self.flush.as_ref().is_some_and(|flush| !flush.is_finished());
        Some(if busy { due.max(now_ns + FLUSH_LOOK.as_nanos() as u64) } else { due })
    }

    /// Flushes like [`Writer::sync`], on a thread that exists only for that, so that output does not wait for
    /// the disk. The result is checked before the next record.
    pub(crate) fn sync_aside(&mut self) -> io::Result<()> {
        self.judge_flush()?;
        let Ok(file) = self.file.try_clone() else { return self.sync() };
        let is_name_dirty = self.is_name_dirty;
        let flush =
            thread::Builder::new().stack_size(FLUSH_STACK_BYTES).spawn(move || flush(&file, is_name_dirty));
        let Ok(flush) = flush else { return self.sync() };
        self.flush = Some(flush);
        self.is_name_dirty = false;
        self.dirty_since_ns = None;
        Ok(())
    }

    /// Checks the result of a flush; one that failed closes its segment.
    fn judge_flush(&mut self) -> io::Result<()> {
        if let Some(flush) = self.flush.take_if(|flush| flush.is_finished()) {
            // The thread does not panic; if it did, the flush failed as well.
            self.has_failed |= !matches!(flush.join(), Ok(Ok(())));
        }
        if self.has_failed && self.head.offset > 0 {
            self.switch_segment()?;
        }
        self.has_failed = false;
        Ok(())
    }

    /// Flushes the current segment, and its name the first time.
    ///
    /// After a failed flush the kernel may have dropped the pages and will report success next time, so the
    /// segment is closed and gets no more records.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        self.dirty_since_ns = None;
        let flushed = flush(&self.file, std::mem::take(&mut self.is_name_dirty));
        if flushed.is_err() && self.head.offset > 0 {
            self.switch_segment()?;
        }
        flushed
    }

    /// Returns whether unconsumed output has reached the cap. Checks the disk only if it seems so.
    pub(crate) fn is_over_cap(&mut self) -> bool {
        if self.full_bytes + self.head.offset <= self.spool_max {
            return false;
        }
        while let Some(&(segment, size)) = self.full.front() {
            if fs::symlink_metadata(segment_name(segment)).is_ok() {
                break;
            }
            self.full.pop_front();
            self.full_bytes -= size;
        }
        self.full_bytes + self.head.offset > self.spool_max
    }

    fn roll(&mut self) -> io::Result<()> {
        // Flushed before the next one exists: after a power cut only the last segment can be torn. A segment
        // that cannot be flushed is closed as well: a repeated flush would report success.
        let flushed = self.file.sync_data();
        self.switch_segment()?;
        flushed
    }

    fn switch_segment(&mut self) -> io::Result<()> {
        let next = self.head.segment + 1;
        self.file = create_segment(next)?;
        self.is_name_dirty = true;
        self.full.push_back((self.head.segment, self.head.offset));
        self.full_bytes += self.head.offset;
        self.head = Position { segment: next, offset: 0 };
        Ok(())
    }

    fn begin_segment(&mut self, now_ns: u64) -> io::Result<()> {
        let meta = std::mem::take(&mut self.meta);
        let written = self.put(Stream::Meta, &meta, now_ns);
        self.meta = meta;
        written
    }

    /// Writes one record at the head of the current segment.
    fn put(&mut self, stream: Stream, payload: &[u8], now_ns: u64) -> io::Result<()> {
        let header = Header { stream, len: payload.len() as u32, seq: self.next_seq, t_mono_ns: now_ns };
        let bytes = header.encode(payload);
        let size = HEADER_LEN + payload.len();
        let written = sys::write_two_at(&self.file, &bytes, payload, self.head.offset);
        if !matches!(written, Ok(n) if n == size) {
            // Remove the partial record: readers must never see two versions of it. If this fails too, the
            // next attempt overwrites the same bytes.
            let _ = self.file.set_len(self.head.offset);
            // A short write without an error means that the disk filled up meanwhile.
            return Err(written.err().unwrap_or_else(|| io::Error::from_raw_os_error(libc::ENOSPC)));
        }
        self.head.offset += size as u64;
        self.next_seq += 1;
        self.dirty_since_ns.get_or_insert(now_ns);
        Ok(())
    }
}

fn flush(file: &File, is_name_dirty: bool) -> io::Result<()> {
    if is_name_dirty && let Ok(dir) = File::open(".") {
        // Not every file system can flush a directory; most flush a new name with its file.
        let _ = dir.sync_all();
    }
    file.sync_data()
}

/// Creates a segment; `AlreadyExists` means that an earlier agent's spool is still here.
fn create_segment(segment: u32) -> io::Result<File> {
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW)
        .open(segment_name(segment))
}

//! Captures one output for an answer: scrubs it, keeps its beginning for the preview and all of it for the
//! ref, and counts lines and bytes. Memory use is bounded, whatever the output.

use std::io;

use super::preview;
use crate::limits;
use crate::refs::{ContentKind, Writer};
use crate::scrub::{Findings, Stream};

/// Accepts raw output and keeps scrubbed output.
pub struct Capture {
    stream: Stream,
    writer: Writer,
    head: Vec<u8>,
    lines: u64,
    bytes: u64,
    last: u8,
    range: Range,
    /// Is shown what is kept, while it comes.
    watcher: Option<OutputWatcher>,
}

/// Is called with each scrubbed piece of an output.
pub type OutputWatcher = std::sync::Arc<dyn Fn(&[u8]) + Send + Sync>;

/// A captured output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Captured {
    pub preview: String,
    /// The ref of the whole output; `None` if there was none.
    pub ref_id: Option<String>,
    /// Lines of the whole output, whether kept or not.
    pub lines: u64,
    /// The number of scrubbed bytes that were kept.
    pub bytes: u64,
    pub findings: Findings,
}

/// The lines to keep: `from` inclusive, `to` exclusive, counted from 0.
#[derive(Clone, Copy, Debug)]
struct Range {
    from: u64,
    to: u64,
}

/// Bytes that always hold a preview, whatever its characters, plus the name of a redaction after it.
const HEAD_MAX: usize = limits::PREVIEW_CHARS * 4 + 64;

impl Capture {
    /// Captures everything.
    pub fn new(stream: Stream, writer: Writer) -> Self {
        let range = Range { from: 0, to: u64::MAX };
        Self { stream, writer, head: Vec::new(), lines: 0, bytes: 0, last: b'\n', range, watcher: None }
    }

    /// Shows what is kept while it comes.
    pub fn watched_by(mut self, watcher: Option<OutputWatcher>) -> Self {
        self.watcher = watcher;
        self
    }

    /// Keeps only some lines. All are scrubbed and counted, because a secret may begin above them.
    pub fn only_lines(mut self, from: u64, count: Option<u64>) -> Self {
        let to = count.map_or(u64::MAX, |count| from.saturating_add(count));
        self.range = Range { from, to };
        self
    }

    /// Adds a chunk of raw output.
    pub fn push(&mut self, raw: &[u8]) -> io::Result<()> {
        let scrubbed = self.stream.push(raw);
        self.take(&scrubbed)
    }

    /// Ends the output and stores what was kept.
    pub fn finish(mut self, kind: ContentKind) -> io::Result<Captured> {
        let (rest, findings) = self.stream.end();
        self.take(&rest)?;
        if self.last != b'\n' {
            self.lines += 1;
        }
        let ref_id = self.writer.finish(kind)?;
        let preview = preview(&String::from_utf8_lossy(&self.head));
        Ok(Captured { preview, ref_id, lines: self.lines, bytes: self.bytes, findings })
    }

    /// Takes scrubbed bytes and keeps the lines that are in the range.
    fn take(&mut self, scrubbed: &[u8]) -> io::Result<()> {
        let mut rest = scrubbed;
        while !rest.is_empty() {
            let kept = self.lines >= self.range.from && self.lines < self.range.to;
            // Inside the range chunks are taken whole; at its edges, line by line.
            let whole = kept && self.range.to == u64::MAX;
            let len =
                if whole { rest.len() } else { memchr::memchr(b'\n', rest).map_or(rest.len(), |at| at + 1) };
            let (piece, after) = rest.split_at(len);
            if kept {
                self.keep(piece)?;
            }
            self.lines += memchr::memchr_iter(b'\n', piece).count() as u64;
            rest = after;
        }
        self.last = scrubbed.last().copied().unwrap_or(self.last);
        Ok(())
    }

    /// Keeps bytes: in the head as far as there is room, and all of them in the stored output.
    fn keep(&mut self, piece: &[u8]) -> io::Result<()> {
        let room = HEAD_MAX.saturating_sub(self.head.len()).min(piece.len());
        self.head.extend_from_slice(&piece[..room]);
        self.bytes += piece.len() as u64;
        if let Some(watcher) = &self.watcher {
            watcher(piece);
        }
        self.writer.write(piece)
    }
}

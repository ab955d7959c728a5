//! Content being stored: in memory while it is small, in a file when it grows, and only its beginning and end
//! when it is too long. Memory use is bounded, whatever the content.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::Arc;

use domain::SessionId;

use super::{Body, ContentKind, REF_PREFIX, Refs};
use crate::limits;

/// Receives content in chunks; [`Writer::finish`] stores it, dropping discards it.
#[derive(Debug)]
pub struct Writer {
    refs: Arc<Refs>,
    session: SessionId,
    id: String,
    head: Vec<u8>,
    file: Option<(File, PathBuf)>,
    /// Bytes in `head` or the file.
    kept: u64,
    /// The newest bytes once the beginning is full, and how many bytes came since.
    tail: VecDeque<u8>,
    beyond: u64,
}

impl Writer {
    pub(super) fn new(refs: Arc<Refs>, session: SessionId) -> io::Result<Self> {
        let id = format!("{REF_PREFIX}{}", crate::random::name()?);
        Ok(Self {
            refs,
            session,
            id,
            head: Vec::new(),
            file: None,
            kept: 0,
            tail: VecDeque::new(),
            beyond: 0,
        })
    }

    /// Adds a chunk.
    pub fn write(&mut self, mut piece: &[u8]) -> io::Result<()> {
        let room = self.head_max().saturating_sub(self.kept);
        let fits = piece.len().min(usize::try_from(room).unwrap_or(usize::MAX));
        self.keep(&piece[..fits])?;
        piece = &piece[fits..];
        self.beyond += piece.len() as u64;
        // Only the end of a long chunk can be part of the overall end.
        self.tail.extend(&piece[piece.len().saturating_sub(limits::REF_TAIL)..]);
        let excess = self.tail.len().saturating_sub(limits::REF_TAIL);
        self.tail.drain(..excess);
        Ok(())
    }

    /// Stores the content and returns its id; `None` if it is empty.
    pub fn finish(mut self, kind: ContentKind) -> io::Result<Option<String>> {
        let left_out = self.beyond - self.tail.len() as u64;
        if left_out > 0 {
            self.keep(format!("\n[… {left_out} bytes left out …]\n").as_bytes())?;
        }
        let tail: Vec<u8> = std::mem::take(&mut self.tail).into();
        self.keep(whole_characters(&tail, left_out))?;
        if self.kept == 0 {
            return Ok(None);
        }
        let body = match self.file.take() {
            Some((_, path)) => Body::File(path),
            None => Body::Memory(std::mem::take(&mut self.head).into()),
        };
        let id = std::mem::take(&mut self.id);
        self.refs.add(id.clone(), self.session.clone(), body, self.kept, kind);
        Ok(Some(id))
    }

    /// Returns how many bytes of memory the content uses.
    pub fn memory(&self) -> usize {
        self.head.capacity() + self.tail.capacity()
    }

    fn head_max(&self) -> u64 {
        self.refs.limits.content_bytes.saturating_sub(limits::REF_TAIL as u64)
    }

    /// Keeps bytes: in memory up to the limit, then in a file.
    fn keep(&mut self, piece: &[u8]) -> io::Result<()> {
        if piece.is_empty() {
            return Ok(());
        }
        self.kept += piece.len() as u64;
        if self.file.is_none() && self.head.len() + piece.len() <= self.refs.limits.memory_bytes {
            self.head.extend_from_slice(piece);
            return Ok(());
        }
        let (file, _) = match &mut self.file {
            Some(open) => open,
            none => {
                let path = self.refs.folder.join(&self.id);
                let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
                file.write_all(&std::mem::take(&mut self.head))?;
                none.insert((file, path))
            }
        };
        file.write_all(piece)
    }
}

/// Removes a partial character at the beginning of the tail.
fn whole_characters(tail: &[u8], left_out: u64) -> &[u8] {
    if left_out == 0 {
        return tail;
    }
    let half = tail.iter().take(3).take_while(|byte| **byte & 0xc0 == 0x80).count();
    &tail[half..]
}

impl Drop for Writer {
    fn drop(&mut self) {
        if let Some((_, path)) = &self.file {
            super::remove(path);
        }
    }
}

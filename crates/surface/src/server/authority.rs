//! Lets gRPC clients built on C-core (Python, C++, Ruby, PHP) use the Unix socket without changes. They send
//! the percent-encoded socket path as `:authority`, which `h2` rejects. This wrapper follows the client's
//! HTTP/2 frames and overwrites the offending bytes in place, at equal length. It buffers nothing and changes
//! nothing else. For Unix sockets only: on TCP the authority is part of the checks against hostile web pages.

mod block;

#[cfg(test)]
mod tests;

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::sniff::PREFACE;
use block::Block;

/// A connection whose reads pass through [`Rewriter`].
pub(super) struct AuthorityFix<T> {
    io: T,
    rewriter: Rewriter,
}

impl<T> AuthorityFix<T> {
    pub(super) fn new(io: T) -> Self {
        Self { io, rewriter: Rewriter::default() }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for AuthorityFix<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.io).poll_read(cx, buffer);
        if matches!(polled, Poll::Ready(Ok(()))) {
            self.rewriter.pass(&mut buffer.filled_mut()[before..]);
        }
        polled
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for AuthorityFix<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

// HTTP/2's frame layout (RFC 9113 §4.1, §6.2).
const FRAME_HEAD_BYTES: usize = 9;
const TYPE_HEADERS: u8 = 1;
const TYPE_CONTINUATION: u8 = 9;
const FLAG_PADDED: u8 = 0x8;
const FLAG_PRIORITY: u8 = 0x20;
const FLAG_END_HEADERS: u8 = 0x4;
const PRIORITY_BYTES: u32 = 5;

/// The position of the client's bytes in HTTP/2's framing.
#[derive(Debug)]
enum Stage {
    /// This many bytes of the preface have passed.
    Preface(usize),
    /// This many bytes of a frame's header have passed; they are kept in `Rewriter::head`.
    Head(usize),
    /// The pad length of a HEADERS frame comes next; `left` bytes of payload follow it.
    PadLength { left: u32 },
    /// Payload bytes that are not relevant here, followed by a part of a header block.
    Prelude { skip: u32, fields: u32, padding: u32 },
    /// A part of a header block, followed by padding.
    Fields { left: u32, padding: u32 },
    /// Payload bytes that are not relevant here.
    Skip { left: u32 },
    /// Not HTTP/2, or malformed: everything passes unchanged, and `h2` reports the error.
    Blind,
}

/// Follows one direction of one HTTP/2 connection, in chunks of any size.
#[derive(Debug)]
struct Rewriter {
    stage: Stage,
    head: [u8; FRAME_HEAD_BYTES],
    /// The current header block; `None` between blocks.
    block: Option<Block>,
}

impl Default for Rewriter {
    fn default() -> Self {
        Self { stage: Stage::Preface(0), head: [0; FRAME_HEAD_BYTES], block: None }
    }
}

impl Rewriter {
    /// Takes the next bytes and overwrites in them what `h2` would reject.
    fn pass(&mut self, mut bytes: &mut [u8]) {
        while !bytes.is_empty() {
            if matches!(self.stage, Stage::Blind) {
                return;
            }
            let taken = self.step(bytes);
            bytes = &mut bytes[taken..];
        }
    }

    /// Consumes at least one byte and returns how many.
    fn step(&mut self, bytes: &mut [u8]) -> usize {
        match self.stage {
            Stage::Preface(passed) => {
                let count = bytes.len().min(PREFACE.len() - passed);
                let expected = &PREFACE[passed..passed + count];
                self.stage = match passed + count {
                    _ if bytes[..count] != *expected => Stage::Blind,
                    all if all == PREFACE.len() => Stage::Head(0),
                    some => Stage::Preface(some),
                };
                count
            }
            Stage::Head(passed) => {
                let count = bytes.len().min(FRAME_HEAD_BYTES - passed);
                self.head[passed..passed + count].copy_from_slice(&bytes[..count]);
                self.stage = Stage::Head(passed + count);
                if passed + count == FRAME_HEAD_BYTES {
                    self.stage = self.begin_frame();
                }
                count
            }
            Stage::PadLength { left } => {
                self.stage = self.fields(left, u32::from(bytes[0]));
                1
            }
            Stage::Prelude { skip, fields, padding } => {
                let count = at_most(bytes.len(), skip);
                self.stage = self.after_prelude(skip - count, fields, padding);
                count as usize
            }
            Stage::Fields { left, padding } => {
                let count = at_most(bytes.len(), left);
                if let Some(block) = &mut self.block {
                    block.pass(&mut bytes[..count as usize]);
                }
                self.stage = self.after_fields(left - count, padding);
                count as usize
            }
            Stage::Skip { left } => {
                let count = at_most(bytes.len(), left);
                self.stage = skip(left - count);
                count as usize
            }
            Stage::Blind => bytes.len(),
        }
    }

    /// Returns the stage that follows the frame header that has just been completed.
    fn begin_frame(&mut self) -> Stage {
        let [a, b, c, kind, flags, ..] = self.head;
        let length = u32::from_be_bytes([0, a, b, c]);
        match kind {
            TYPE_HEADERS => {
                self.block = Some(Block::default());
                if flags & FLAG_PADDED == 0 {
                    return self.fields(length, 0);
                }
                match length.checked_sub(1) {
                    Some(left) => Stage::PadLength { left },
                    None => Stage::Blind,
                }
            }
            TYPE_CONTINUATION => self.after_prelude(0, length, 0),
            _ => skip(length),
        }
    }

    /// Returns the stage that follows in a HEADERS frame with `left` bytes of payload, the last `padding` of
    /// which are padding.
    fn fields(&mut self, left: u32, padding: u32) -> Stage {
        let priority = if self.head[4] & FLAG_PRIORITY == 0 { 0 } else { PRIORITY_BYTES };
        match left.checked_sub(priority + padding) {
            Some(fields) => self.after_prelude(priority, fields, padding),
            None => Stage::Blind,
        }
    }

    fn after_prelude(&mut self, left: u32, fields: u32, padding: u32) -> Stage {
        if left > 0 {
            return Stage::Prelude { skip: left, fields, padding };
        }
        self.after_fields(fields, padding)
    }

    fn after_fields(&mut self, left: u32, padding: u32) -> Stage {
        if left > 0 {
            return Stage::Fields { left, padding };
        }
        if self.head[4] & FLAG_END_HEADERS != 0 {
            self.block = None;
        }
        skip(padding)
    }
}

fn skip(left: u32) -> Stage {
    if left > 0 { Stage::Skip { left } } else { Stage::Head(0) }
}

/// Returns how many of `available` bytes belong to a run of `left`.
fn at_most(available: usize, left: u32) -> u32 {
    u32::try_from(available).map_or(left, |available| available.min(left))
}

//! The editor's lines that a daemon has not acknowledged, in order and bounded. Counts lines; does not parse
//! them.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::limits;

/// Lines that would have to be resent.
#[derive(Default)]
pub(super) struct Kept {
    lines: Mutex<Lines>,
    /// Signals that there may be room again.
    freed: Notify,
}

#[derive(Default)]
struct Lines {
    lines: VecDeque<Line>,
    /// The bytes of all lines.
    bytes: usize,
    /// The number of the next line on this connection.
    next: u64,
    /// The last line is incomplete.
    is_open: bool,
}

struct Line {
    number: u64,
    bytes: Vec<u8>,
}

impl Kept {
    /// Adds input.
    pub(super) fn add(&self, mut piece: &[u8]) {
        let mut lines = self.locked();
        while let Some(end) = piece.iter().position(|byte| *byte == b'\n') {
            lines.add(&piece[..end]);
            lines.end();
            piece = &piece[end + 1..];
        }
        if !piece.is_empty() {
            lines.add(piece);
        }
    }

    /// Removes acknowledged lines by their numbers.
    pub(super) fn done(&self, numbers: &[u64]) {
        if numbers.is_empty() {
            return;
        }
        let mut lines = self.locked();
        for number in numbers {
            if let Ok(at) = lines.lines.binary_search_by_key(number, |line| line.number)
                && let Some(line) = lines.lines.remove(at)
            {
                lines.bytes -= line.bytes.len();
            }
        }
        drop(lines);
        self.freed.notify_one();
    }

    /// Returns everything for another connection, on which numbering starts again.
    pub(super) fn again(&self) -> Vec<Vec<u8>> {
        let mut lines = self.locked();
        let mut number = 0;
        for line in &mut lines.lines {
            line.number = number;
            number += 1;
        }
        lines.next = number;
        lines
            .lines
            .iter()
            .flat_map(|line| line.bytes.chunks(limits::ACP_READ_BYTES).map(<[u8]>::to_vec))
            .collect()
    }

    /// Waits until there is room for more. A single line always has room, however long it is.
    pub(super) async fn room(&self) {
        loop {
            let freed = self.freed.notified();
            {
                let lines = self.locked();
                let waiting = lines.lines.len() - usize::from(lines.is_open);
                if waiting == 0
                    || (waiting < limits::ACP_LINES_KEPT_MAX && lines.bytes < limits::ACP_BYTES_KEPT_MAX)
                {
                    return;
                }
            }
            freed.await;
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.locked().lines.is_empty()
    }

    fn locked(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lines {
    /// Adds bytes to the open line, or begins a new one.
    fn add(&mut self, bytes: &[u8]) {
        if !self.is_open {
            self.lines.push_back(Line { number: self.next, bytes: Vec::new() });
            self.next += 1;
            self.is_open = true;
        }
        let Some(line) = self.lines.back_mut() else { return };
        // An oversized line is rejected whatever its end, so keeping its beginning is enough.
        let room = limits::ACP_LINE_KEPT_MAX_BYTES.saturating_sub(line.bytes.len());
        let taken = &bytes[..bytes.len().min(room)];
        line.bytes.extend_from_slice(taken);
        self.bytes += taken.len();
    }

    fn end(&mut self) {
        // An empty line counts as a line.
        if let Some(line) = self.lines.back_mut() {
            line.bytes.push(b'\n');
            self.bytes += 1;
        }
        self.is_open = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn again(kept: &Kept) -> String {
        String::from_utf8(kept.again().concat()).unwrap()
    }

    #[test]
    fn what_is_not_done_is_sent_again_and_counted_anew() {
        let kept = Kept::default();
        kept.add(b"zero\none\n\nthr");
        kept.add(b"ee\nfo");
        kept.done(&[1, 3, 77]);
        assert_eq!(again(&kept), "zero\n\nfo");
        kept.add(b"ur\nfive\n");
        kept.done(&[0]);
        assert_eq!(again(&kept), "\nfour\nfive\n");
        kept.done(&[0, 1, 2]);
        assert!(kept.is_empty() && kept.locked().bytes == 0);
        kept.add(b"six\n");
        kept.done(&[3]);
        assert!(kept.is_empty());
    }

    #[test]
    fn a_line_that_is_too_long_is_kept_only_to_be_refused_again() {
        let kept = Kept::default();
        let piece = vec![b'x'; 1 << 20];
        for _ in 0..64 {
            kept.add(&piece);
        }
        kept.add(b"\nshort\n");
        let lines = kept.again().concat();
        assert_eq!(lines.len(), limits::ACP_LINE_KEPT_MAX_BYTES + "\nshort\n".len());
    }

    #[tokio::test]
    async fn an_editor_that_is_too_far_ahead_waits() {
        let kept = Kept::default();
        kept.room().await;
        for _ in 0..limits::ACP_LINES_KEPT_MAX {
            kept.add(b"x\n");
        }
        let room = kept.room();
        tokio::pin!(room);
        tokio::select! {
            biased;
            () = &mut room => panic!("there is no room"),
            () = std::future::ready(()) => {}
        }
        kept.done(&[0]);
        room.await;
    }
}

//! What is stored beside a position in a spool, because it was read before that position and is not yet an event: unfinished lines,
//! and the ends of texts that the scrubber watches. It changes with every piece of output, so it is kept apart from the rest of a
//! session's state and small. Must not know how it is sealed.

use super::scrubbing::SavedText;
use crate::process::Position;
use crate::process::lines::{OversizeLine, PartialLine};
use storage::SpoolMark;

/// The newest mark of a spool that was stored, without its unfinished lines.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct StoredMark {
    pub(super) segment: u32,
    pub(super) offset: u64,
    pub(super) texts: Vec<SavedText>,
}

impl StoredMark {
    pub(super) fn of(mark: &SpoolMark, texts: Vec<SavedText>) -> Self {
        Self { segment: mark.segment, offset: mark.offset, texts }
    }

    /// Returns a mark of the same position, for a session without a process: it has no unfinished lines.
    pub(super) fn again(&self) -> SpoolMark {
        SpoolMark { segment: self.segment, offset: self.offset, carry: Vec::new() }
    }
}

/// Returns the mark of a position with the unfinished lines before it.
pub(super) fn mark(
    Position { segment, offset }: Position,
    out: &PartialLine,
    err: &PartialLine,
) -> SpoolMark {
    let mut carry = Vec::new();
    if *out != PartialLine::default() || *err != PartialLine::default() {
        put_line(out, &mut carry);
        put_line(err, &mut carry);
    }
    SpoolMark { segment, offset, carry }
}

/// Returns the unfinished lines of a stored carry, of stdout and of stderr.
pub(super) fn lines(carry: &[u8]) -> (PartialLine, PartialLine) {
    let mut rest = carry;
    (take_line(&mut rest), take_line(&mut rest))
}

/// Returns a carry with texts behind its lines.
pub(super) fn with_texts(carry: &[u8], texts: &[SavedText]) -> Vec<u8> {
    let mut carry = carry.to_vec();
    if texts.is_empty() {
        return carry;
    }
    if carry.is_empty() {
        put_line(&PartialLine::default(), &mut carry);
        put_line(&PartialLine::default(), &mut carry);
    }
    carry.extend_from_slice(storage::sessions::json(&texts).as_bytes());
    carry
}

/// Returns the texts of a stored carry; none if an earlier version stored it.
pub(super) fn texts(carry: &[u8]) -> Vec<SavedText> {
    let mut rest = carry;
    take_line(&mut rest);
    take_line(&mut rest);
    serde_json::from_slice(rest).unwrap_or_default()
}

/// Encodes a partial line for storage: length, bytes, and for an oversize line its length so far and whether
/// it ends in CR.
fn put_line(line: &PartialLine, out: &mut Vec<u8>) {
    out.extend_from_slice(&(line.partial.len() as u64).to_le_bytes());
    out.extend_from_slice(&line.partial);
    match line.oversize {
        None => out.push(0),
        Some(OversizeLine { length, ends_with_cr }) => {
            out.push(1 + u8::from(ends_with_cr));
            out.extend_from_slice(&length.to_le_bytes());
        }
    }
}

/// Decodes a partial line from the front; truncated data decodes as an empty one.
fn take_line(rest: &mut &[u8]) -> PartialLine {
    take_line_checked(rest).unwrap_or_default()
}

fn take_line_checked(rest: &mut &[u8]) -> Option<PartialLine> {
    let (length, behind) = rest.split_first_chunk::<8>()?;
    let (partial, behind) = behind.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
    let (&mark, behind) = behind.split_first()?;
    *rest = behind;
    let oversize = if mark == 0 {
        None
    } else {
        let (length, behind) = rest.split_first_chunk::<8>()?;
        *rest = behind;
        Some(OversizeLine { length: u64::from_le_bytes(*length), ends_with_cr: mark == 2 })
    };
    Some(PartialLine { partial: partial.to_vec(), oversize })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stored_carry_reads_back() {
        let plain = PartialLine { partial: b"half a li".to_vec(), oversize: None };
        let huge = PartialLine {
            partial: b"head".to_vec(),
            oversize: Some(OversizeLine { length: 1 << 40, ends_with_cr: true }),
        };
        let at = Position { segment: 3, offset: 7 };
        let stored = mark(at, &plain, &huge);
        assert_eq!((stored.segment, stored.offset), (3, 7));
        assert_eq!(lines(&stored.carry), (plain, huge));
        let none = PartialLine::default();
        assert!(mark(at, &none, &none).carry.is_empty());
        assert_eq!(lines(&[]), (none.clone(), none));
    }

    #[test]
    fn texts_are_read_back_with_and_without_lines() {
        let text = r#"[{"source":{"text":null},"view":"to","shown":2,"redacted":false,"line":""}]"#;
        let saved: Vec<SavedText> = serde_json::from_str(text).unwrap();
        let half = PartialLine { partial: b"half".to_vec(), oversize: None };
        for out in [PartialLine::default(), half] {
            let bare = mark(Position::START, &out, &PartialLine::default()).carry;
            let carry = with_texts(&bare, &saved);
            assert_eq!(texts(&carry), saved);
            assert_eq!(lines(&carry), (out, PartialLine::default()));
            assert_eq!(with_texts(&bare, &[]), bare);
            assert!(texts(&bare).is_empty(), "as an earlier version stored it");
        }
    }
}

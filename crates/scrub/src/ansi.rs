//! Takes colour codes out of a text before it is searched and remembers where they were, so that a secret with a
//! highlighted piece in it is still one. Must not touch anything else: titles and links stay text.

use std::collections::VecDeque;

const ESCAPE: u8 = 0x1b;

/// Longest code taken out. Real ones have up to 20 bytes ("\x1b[38;2;255;255;255m").
const CODE_MAX: usize = 24;

/// Codes taken out at one place; more of them are text, so that what is remembered stays in proportion to the text.
const CODES_PER_PLACE_MAX: usize = 4;

/// A code that stood before the byte `at` of the text without codes.
#[derive(Debug)]
pub(crate) struct Cut {
    pub(crate) at: u64,
    len: u8,
    bytes: [u8; CODE_MAX],
}

impl Cut {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// What stands behind `ESC [` or `ESC (`: text, if the code was cut off there.
    pub(crate) fn end(&self) -> &[u8] {
        self.bytes().get(2..).unwrap_or_default()
    }
}

/// What is known between chunks: the start of a code that has not ended, and how many stood at this place.
#[derive(Debug, Default)]
pub(crate) struct Stripper {
    partial: Vec<u8>,
    here: usize,
}

enum Code {
    Whole(usize),
    NotOne,
    Unfinished,
}

impl Stripper {
    /// Adds a chunk to `view`, whose first byte is number `base`, and the codes in it to `cuts`.
    pub(crate) fn take(&mut self, chunk: &[u8], base: u64, view: &mut Vec<u8>, cuts: &mut VecDeque<Cut>) {
        if self.partial.is_empty() {
            self.strip(chunk, base, view, cuts);
        } else {
            let mut whole = std::mem::take(&mut self.partial);
            whole.extend_from_slice(chunk);
            self.strip(&whole, base, view, cuts);
        }
    }

    /// Gives up waiting: what looked like a code is text.
    pub(crate) fn finish(&mut self, view: &mut Vec<u8>) {
        view.append(&mut self.partial);
    }

    fn strip(&mut self, mut rest: &[u8], base: u64, view: &mut Vec<u8>, cuts: &mut VecDeque<Cut>) {
        while let Some(escape) = memchr::memchr(ESCAPE, rest) {
            if escape > 0 {
                self.here = 0;
                view.extend_from_slice(&rest[..escape]);
                rest = &rest[escape..];
            }
            match code(rest) {
                Code::Whole(len) if self.here < CODES_PER_PLACE_MAX => {
                    self.here += 1;
                    let mut bytes = [0; CODE_MAX];
                    bytes[..len].copy_from_slice(&rest[..len]);
                    cuts.push_back(Cut { at: base + view.len() as u64, len: len as u8, bytes });
                    rest = &rest[len..];
                }
                Code::Whole(_) | Code::NotOne => {
                    self.here = 0;
                    view.push(ESCAPE);
                    rest = &rest[1..];
                }
                Code::Unfinished => {
                    self.partial = rest.to_vec();
                    return;
                }
            }
        }
        if !rest.is_empty() {
            self.here = 0;
            view.extend_from_slice(rest);
        }
    }
}

/// Letters that make a code without any number, as programs write them. Others are the first letter of a text behind a
/// code that was cut off, and perhaps of a secret.
const ALONE: &[u8] = b"mKJHABCDsu";

/// Reads the code at the start of `text`: `ESC [ numbers letter` or `ESC ( letter`.
fn code(text: &[u8]) -> Code {
    match text.get(1) {
        None => return Code::Unfinished,
        Some(b'(') if text.len() < 3 => return Code::Unfinished,
        Some(b'(') if text[2].is_ascii_alphanumeric() => return Code::Whole(3),
        Some(b'[') => {}
        Some(_) => return Code::NotOne,
    }
    for (at, byte) in text.iter().enumerate().take(CODE_MAX).skip(2) {
        match byte {
            0x30..=0x3f => {}
            0x40..=0x7e if at > 2 || ALONE.contains(byte) => return Code::Whole(at + 1),
            _ => return Code::NotOne,
        }
    }
    if text.len() < CODE_MAX { Code::Unfinished } else { Code::NotOne }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strip(chunks: &[&[u8]]) -> (Vec<u8>, Vec<(u64, Vec<u8>)>) {
        let (mut view, mut cuts, mut stripper) = (Vec::new(), VecDeque::new(), Stripper::default());
        for chunk in chunks {
            stripper.take(chunk, 0, &mut view, &mut cuts);
        }
        stripper.finish(&mut view);
        (view, cuts.into_iter().map(|cut| (cut.at, cut.bytes().to_vec())).collect())
    }

    #[test]
    fn codes_are_taken_out_and_remembered() {
        let (view, cuts) = strip(&[b"ab\x1b[01;31m\x1b[Kcd\x1b[m\x1b(Be"]);
        assert_eq!(view, b"abcde");
        let places: Vec<u64> = cuts.iter().map(|cut| cut.0).collect();
        assert_eq!(places, [2, 2, 4, 4]);
        assert_eq!(cuts[0].1, b"\x1b[01;31m");
    }

    #[test]
    fn other_escapes_stay() {
        for text in [
            &b"\x1b]0;title\x07x"[..],
            b"a\x1b",
            b"\x1b[1",
            b"\x1b[\x01m",
            b"\x1b[ k",
            b"\x1b[ghp_",
            b"\x1b[3 q",
            b"\x1b[1111111111111111111111111m",
        ] {
            assert_eq!(strip(&[text]).0, text);
        }
        let many = b"\x1b[m".repeat(9);
        assert_eq!(strip(&[&many]).1.len(), 8);
    }

    #[test]
    fn chunking_changes_nothing() {
        let text = b"x\x1b[1my\x1b\x1b[2mz\x1b[";
        let whole = strip(&[text]);
        for cut in 0..=text.len() {
            assert_eq!(strip(&[&text[..cut], &text[cut..]]), whole, "cut at {cut}");
        }
        let bytes: Vec<&[u8]> = text.chunks(1).collect();
        assert_eq!(strip(&bytes), whole);
    }
}

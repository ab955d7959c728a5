//! Finds the `id` of a JSON object that is too long to be kept: reads it as it passes, with a few bytes of memory. Does not
//! check that the rest is JSON.

use serde_json::Value;

use crate::limits;

/// Reads one line.
#[derive(Debug, Default)]
pub(super) struct IdFinder {
    /// Open braces and brackets.
    depth: u64,
    in_string: bool,
    is_escaped: bool,
    place: Place,
    /// The name or the value that is being read, with its quotes.
    text: Vec<u8>,
    found: Option<Value>,
}

/// What is being read of the outermost object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    /// A name, or what is between two members.
    #[default]
    Name,
    /// The value of the member `id`.
    Id,
    /// Another value.
    Other,
}

impl IdFinder {
    /// Returns the id, if the line had one.
    pub(super) fn found(self) -> Option<Value> {
        self.found.filter(|id| id.is_string() || id.is_number())
    }

    pub(super) fn read(&mut self, piece: &[u8]) {
        if self.found.is_none() {
            piece.iter().for_each(|byte| self.take(*byte));
        }
    }

    fn take(&mut self, byte: u8) {
        if self.in_string {
            self.keep(byte);
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' => self.is_escaped = true,
                b'"' => self.in_string = false,
                _ => {}
            }
            return;
        }
        match byte {
            b'"' => {
                self.in_string = true;
                self.keep(byte);
            }
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => {
                if self.depth == 1 {
                    self.end_member();
                }
                self.depth = self.depth.saturating_sub(1);
            }
            b':' if self.depth == 1 => {
                self.place = if self.text == br#""id""# { Place::Id } else { Place::Other };
                self.text.clear();
            }
            b',' if self.depth == 1 => self.end_member(),
            byte if !byte.is_ascii_whitespace() => self.keep(byte),
            _ => {}
        }
    }

    fn end_member(&mut self) {
        if self.place == Place::Id && self.found.is_none() {
            self.found = serde_json::from_slice(&self.text).ok();
        }
        self.place = Place::Name;
        self.text.clear();
    }

    /// Keeps a byte of a name or of the id, of which no reasonable one is longer.
    fn keep(&mut self, byte: u8) {
        let is_wanted = self.depth == 1 && self.place != Place::Other;
        if is_wanted && self.text.len() < limits::ACP_ID_MAX_BYTES {
            self.text.push(byte);
        }
    }
}

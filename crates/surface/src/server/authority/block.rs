//! Walks the HPACK representations of one header block (RFC 7541 §6), in chunks of any size, and overwrites
//! what `h2` rejects in the value of a literal `:authority`. Decodes nothing else and keeps no dynamic table:
//! an entry that a client adds to its table has already been overwritten when it was sent.

const NAME: &[u8] = b":authority";
/// The index of `:authority` in HPACK's static table.
const NAME_INDEX: u8 = 1;
/// Replaces a rejected byte; allowed in every host name.
const STAND_IN: u8 = b'-';

/// The position in a header block.
#[derive(Debug, Default)]
enum At {
    /// The first byte of a representation comes next.
    #[default]
    Representation,
    /// More bytes of an integer whose value does not matter; then `After` says what follows.
    Number(After),
    /// The first byte of a string's length comes next.
    Length(TextRole),
    /// More bytes of a string's length.
    LongLength { role: TextRole, length: u32, shift: u32 },
    /// A string with this many bytes left.
    Text { role: TextRole, left: u32 },
    /// The block cannot be parsed any further; `h2` will reject it.
    Lost,
}

/// What follows an integer.
#[derive(Clone, Copy, Debug)]
enum After {
    Representation,
    Value,
}

/// The role of a string in a representation.
#[derive(Clone, Copy, Debug)]
enum TextRole {
    /// A name whose first `same` bytes equal `:authority`; `None` when it is a different name.
    Name { same: Option<usize> },
    /// A value that is not changed.
    Value,
    /// The value of `:authority`. `is_path` is set once a percent sign has passed, which shows that the value
    /// is an encoded path.
    Authority { is_path: bool },
}

/// One header block that is being read.
#[derive(Debug, Default)]
pub(super) struct Block {
    at: At,
}

impl Block {
    /// Takes the next bytes of the block.
    pub(super) fn pass(&mut self, mut bytes: &mut [u8]) {
        while !bytes.is_empty() {
            let taken = self.step(bytes);
            bytes = &mut bytes[taken..];
        }
    }

    /// Consumes at least one byte and returns how many.
    fn step(&mut self, bytes: &mut [u8]) -> usize {
        match self.at {
            At::Representation => self.at = representation(bytes[0]),
            At::Number(after) => {
                if bytes[0] & 0x80 == 0 {
                    self.at = match after {
                        After::Representation => At::Representation,
                        After::Value => At::Length(TextRole::Value),
                    };
                }
            }
            At::Length(role) => self.at = length(role, bytes[0]),
            At::LongLength { role, length, shift } => self.at = long_length(role, length, shift, bytes[0]),
            At::Text { role, left } => {
                let count = super::at_most(bytes.len(), left);
                let role = role.take(&mut bytes[..count as usize]);
                self.at = text(role, left - count);
                return count as usize;
            }
            At::Lost => return bytes.len(),
        }
        1
    }
}

/// Returns the position after the first byte of a representation.
fn representation(byte: u8) -> At {
    // An integer that fills its prefix continues in the next bytes. It is then larger than any index of
    // interest.
    let (index, most) = match byte {
        0x80.. => {
            return if byte == 0xff { At::Number(After::Representation) } else { At::Representation };
        }
        0x40.. => (byte & 0x3f, 0x3f),
        0x20.. => {
            return if byte == 0x3f { At::Number(After::Representation) } else { At::Representation };
        }
        _ => (byte & 0x0f, 0x0f),
    };
    match index {
        0 => At::Length(TextRole::Name { same: Some(0) }),
        NAME_INDEX => At::Length(TextRole::Authority { is_path: false }),
        _ if index == most => At::Number(After::Value),
        _ => At::Length(TextRole::Value),
    }
}

/// Returns the position after the first byte of a string's length.
fn length(role: TextRole, byte: u8) -> At {
    // The bytes of a Huffman-coded string cannot be overwritten one by one; C-core never sends one.
    let role = if byte & 0x80 == 0 { role } else { role.coded() };
    match byte & 0x7f {
        0x7f => At::LongLength { role, length: 0x7f, shift: 0 },
        short => text(role, u32::from(short)),
    }
}

fn long_length(role: TextRole, length: u32, shift: u32, byte: u8) -> At {
    // Frames are shorter than 2^24 bytes, and so is every string that fits into a block `h2` would accept.
    if shift > 21 {
        return At::Lost;
    }
    let length = length + (u32::from(byte & 0x7f) << shift);
    if byte & 0x80 != 0 {
        return At::LongLength { role, length, shift: shift + 7 };
    }
    text(role, length)
}

/// Returns the position for a string with this many bytes left, or what follows it when none are left.
fn text(role: TextRole, left: u32) -> At {
    if left > 0 {
        return At::Text { role, left };
    }
    match role {
        TextRole::Name { same: Some(same) } if same == NAME.len() => {
            At::Length(TextRole::Authority { is_path: false })
        }
        TextRole::Name { .. } => At::Length(TextRole::Value),
        TextRole::Value | TextRole::Authority { .. } => At::Representation,
    }
}

impl TextRole {
    /// Returns the role of a Huffman-coded string, which is never compared or changed.
    fn coded(self) -> Self {
        match self {
            TextRole::Name { .. } => TextRole::Name { same: None },
            TextRole::Value | TextRole::Authority { .. } => TextRole::Value,
        }
    }

    /// Takes bytes of the string and returns the updated role.
    fn take(self, bytes: &mut [u8]) -> Self {
        match self {
            TextRole::Name { same: Some(same) } => {
                let equal = NAME.get(same..same + bytes.len()).is_some_and(|expected| expected == &*bytes);
                TextRole::Name { same: equal.then_some(same + bytes.len()) }
            }
            TextRole::Authority { mut is_path } => {
                for byte in bytes {
                    is_path |= *byte == b'%';
                    // Characters that C-core leaves unescaped in a path but that have a meaning in an
                    // authority.
                    if is_path && matches!(byte, b'%' | b':' | b'@' | b'[' | b']') {
                        *byte = STAND_IN;
                    }
                }
                TextRole::Authority { is_path }
            }
            other => other,
        }
    }
}

//! Walks the HPACK representations of one header block (RFC 7541 §6), in whatever pieces it comes, and overwrites what
//! `h2` refuses in the value of a plainly written `:authority`. Decodes nothing else and keeps no table: an entry that
//! a client adds to its table was overwritten on its way in.

const NAME: &[u8] = b":authority";
/// The static table's entry for the name.
const NAME_INDEX: u8 = 1;
/// What takes the place of a refused byte; allowed in every host name.
const STAND_IN: u8 = b'-';

/// Where a header block is.
#[derive(Debug, Default)]
enum At {
    /// The first byte of a representation comes next.
    #[default]
    Representation,
    /// More bytes of a number whose value does not matter, then this.
    Number(After),
    /// The first byte of a text's length comes next.
    Length(TextRole),
    /// More bytes of a text's length.
    LongLength { role: TextRole, length: u32, shift: u32 },
    /// A text with this many bytes left.
    Text { role: TextRole, left: u32 },
    /// Cannot be followed any more; `h2` will refuse the block.
    Lost,
}

#[derive(Clone, Copy, Debug)]
enum After {
    Representation,
    Value,
}

/// What a text is.
#[derive(Clone, Copy, Debug)]
enum TextRole {
    /// A name, of which this much equals `:authority`; none when it is another.
    Name { same: Option<usize> },
    /// A value that stays as it is.
    Value,
    /// The value of `:authority`; whether a percent sign has passed shows that it is an encoded path.
    Authority { is_path: bool },
}

/// One header block under way.
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

/// Says what follows the first byte of a representation.
fn representation(byte: u8) -> At {
    // A number that fills its prefix goes on in the next bytes. It is then larger than any index of interest.
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

/// Says what follows the first byte of a text's length.
fn length(role: TextRole, byte: u8) -> At {
    // A Huffman-coded text has no bytes that could be overwritten one by one; C-core never writes one.
    let role = if byte & 0x80 == 0 { role } else { role.coded() };
    match byte & 0x7f {
        0x7f => At::LongLength { role, length: 0x7f, shift: 0 },
        short => text(role, u32::from(short)),
    }
}

fn long_length(role: TextRole, length: u32, shift: u32, byte: u8) -> At {
    // Frames are shorter than 2^24 bytes, and so is every text that fits into a block `h2` would take.
    if shift > 21 {
        return At::Lost;
    }
    let length = length + (u32::from(byte & 0x7f) << shift);
    if byte & 0x80 != 0 {
        return At::LongLength { role, length, shift: shift + 7 };
    }
    text(role, length)
}

/// Says what a text with this much left is, or what follows it.
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
    fn coded(self) -> Self {
        match self {
            TextRole::Name { .. } => TextRole::Name { same: None },
            TextRole::Value | TextRole::Authority { .. } => TextRole::Value,
        }
    }

    /// Takes bytes of the text and returns what is known of it then.
    fn take(self, bytes: &mut [u8]) -> Self {
        match self {
            TextRole::Name { same: Some(same) } => {
                let equal = NAME.get(same..same + bytes.len()).is_some_and(|expected| expected == &*bytes);
                TextRole::Name { same: equal.then_some(same + bytes.len()) }
            }
            TextRole::Authority { mut is_path } => {
                for byte in bytes {
                    is_path |= *byte == b'%';
                    // What C-core leaves as it is in a path, but has a meaning in an authority.
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

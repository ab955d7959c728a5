//! Decodes base64, standard alphabet. Only what attachments need; clients do the encoding.

/// Returns the bytes, or `None` if the text is not base64. White space and missing padding are accepted.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut held) = (0_u32, 0_u32);
    let letters = text.trim_end().trim_end_matches('=');
    for letter in letters.bytes().filter(|letter| !letter.is_ascii_whitespace()) {
        let value = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = (bits << 6) | u32::from(value);
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held) as u8);
            bits &= (1 << held) - 1;
        }
    }
    // A single letter cannot encode a byte.
    (held < 6).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decodes_what_encoders_write() {
        assert_eq!(decode("aGVsbG8=").unwrap(), b"hello");
        assert_eq!(decode("aGVs\nbG8").unwrap(), b"hello");
        assert_eq!(decode("/+8A").unwrap(), [0xff, 0xef, 0x00]);
        assert_eq!(decode("").unwrap(), b"");
        assert!(decode("a").is_none());
        assert!(decode("a*b=").is_none());
    }
}

//! The forms in which a program may print a secret: as it is, base64 at every alignment, hexadecimal, escaped for
//! addresses, JSON or HTML. Only forms; which of them are worth looking for is decided by the caller.

const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL_SAFE: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Returns every form; some may be equal.
pub(crate) fn all(secret: &[u8]) -> Vec<Vec<u8>> {
    let mut forms = vec![secret.to_vec()];
    for alphabet in [STANDARD, URL_SAFE] {
        forms.extend((0..3).map(|before| base64_inside(secret, before, alphabet)));
    }
    forms.push(hex(secret, b"0123456789abcdef"));
    forms.push(hex(secret, b"0123456789ABCDEF"));
    for digits in [b"0123456789ABCDEF", b"0123456789abcdef"] {
        forms.push(percent(secret, b"-_.~", digits));
        // What JavaScript's encodeURIComponent and encodeURI leave alone.
        forms.push(percent(secret, b"-_.~!'()*", digits));
        forms.push(percent(secret, b"-_.~!'()*;/?:@&=+$,#", digits));
    }
    forms.push(
        percent(secret, b"-_.~* ", b"0123456789ABCDEF")
            .iter()
            .map(|&b| if b == b' ' { b'+' } else { b })
            .collect(),
    );
    let json = json(secret, false);
    forms.push(self::json(&json, false));
    forms.push(self::json(secret, true));
    forms.push(json);
    forms.push(html(secret));
    forms
}

/// The characters of a base64 text that depend on the secret alone when `before` bytes (mod 3) stand in front of it
/// and anything behind it.
fn base64_inside(secret: &[u8], before: usize, alphabet: &[u8; 64]) -> Vec<u8> {
    let mut bits = Vec::with_capacity((before + secret.len()) * 8);
    for byte in std::iter::repeat_n(&0, before).chain(secret) {
        bits.extend((0..8).rev().map(|bit| byte >> bit & 1));
    }
    let first = (before * 8).div_ceil(6);
    let whole = bits.len() / 6;
    (first..whole)
        .map(|at| bits[at * 6..at * 6 + 6].iter().fold(0u8, |value, bit| value << 1 | bit))
        .map(|value| alphabet[usize::from(value)])
        .collect()
}

fn hex(secret: &[u8], digits: &[u8; 16]) -> Vec<u8> {
    secret.iter().flat_map(|byte| [digits[usize::from(byte >> 4)], digits[usize::from(byte & 15)]]).collect()
}

fn percent(secret: &[u8], kept: &[u8], digits: &[u8; 16]) -> Vec<u8> {
    let mut out = Vec::with_capacity(secret.len());
    for &byte in secret {
        if byte.is_ascii_alphanumeric() || kept.contains(&byte) {
            out.push(byte);
        } else {
            out.extend([b'%', digits[usize::from(byte >> 4)], digits[usize::from(byte & 15)]]);
        }
    }
    out
}

/// JSON's escapes; some writers also escape slashes and everything beyond ASCII.
fn json(secret: &[u8], all: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(secret.len());
    for part in secret.utf8_chunks() {
        for letter in part.valid().chars() {
            match letter {
                '"' => out.extend(b"\\\""),
                '\\' => out.extend(b"\\\\"),
                '\n' => out.extend(b"\\n"),
                '\r' => out.extend(b"\\r"),
                '\t' => out.extend(b"\\t"),
                '/' if all => out.extend(b"\\/"),
                letter if (letter as u32) < 0x20 || (all && !letter.is_ascii()) => {
                    let mut units = [0; 2];
                    for unit in letter.encode_utf16(&mut units) {
                        out.extend(format!("\\u{unit:04x}").bytes());
                    }
                }
                letter => out.extend(letter.encode_utf8(&mut [0; 4]).bytes()),
            }
        }
        out.extend(part.invalid());
    }
    out
}

fn html(secret: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(secret.len());
    for &byte in secret {
        match byte {
            b'&' => out.extend(b"&amp;"),
            b'<' => out.extend(b"&lt;"),
            b'>' => out.extend(b"&gt;"),
            b'"' => out.extend(b"&quot;"),
            b'\'' => out.extend(b"&#39;"),
            other => out.push(other),
        }
    }
    out
}

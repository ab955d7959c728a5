//! Ids that the agent requires as UUIDs, derived from what is already known: the same input gives the same
//! id, so nothing here needs randomness and a restarted daemon can derive them again.

use domain::id::SESSION_PREFIX;

/// Returns the conversation's id for a session: the bits of its ULID, marked as a custom UUID.
pub(super) fn of_session(session: &str) -> String {
    let text = session.strip_prefix(SESSION_PREFIX).unwrap_or(session);
    print(ulid_bits(text).unwrap_or_else(|| hash(&[session.as_bytes()])))
}

/// Returns the id of the `number`th message to one run of an agent.
pub(super) fn of_message(session: &str, run: &str, number: u64) -> String {
    print(hash(&[&number.to_be_bytes(), session.as_bytes(), run.as_bytes()]))
}

/// Returns whether a text has the form of a UUID.
pub(super) fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, letter)| match at {
            8 | 13 | 18 | 23 => letter == b'-',
            _ => letter.is_ascii_hexdigit(),
        })
}

/// Parses the 26 characters of a ULID (Crockford's base 32).
fn ulid_bits(text: &str) -> Option<u128> {
    const LETTERS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    if text.len() != 26 {
        return None;
    }
    text.bytes().try_fold(0_u128, |bits, letter| {
        let value = LETTERS.iter().position(|known| *known == letter.to_ascii_uppercase())?;
        (bits >> 123 == 0).then_some(bits << 5 | value as u128)
    })
}

/// FNV-1a of 128 bits: ids must differ, not withstand an attacker.
fn hash(parts: &[&[u8]]) -> u128 {
    let mut state = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128;
    for part in parts {
        for byte in (part.len() as u64).to_be_bytes().iter().chain(*part) {
            state = (state ^ u128::from(*byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
        }
    }
    state
}

/// Formats bits as a UUID of version 8 ("custom"), variant 1; these marks replace six of the bits.
fn print(bits: u128) -> String {
    let bits = bits & !(0xf << 76) | 0x8 << 76;
    let bits = bits & !(0x3 << 62) | 0x2 << 62;
    let text = format!("{bits:032x}");
    format!("{}-{}-{}-{}-{}", &text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_always_gets_the_same_uuid() {
        let uuid = of_session("sess_01ARZ3NDEKTSV4RRFFQ69G5FAV");
        assert_eq!(uuid, "01563e3a-b5d3-8676-8c61-efb99302bd5b");
        assert!(is_uuid(&uuid));
        assert_ne!(uuid, of_session("sess_01ARZ3NDEKTSV4RRFFQ69G5FAW"));
    }

    #[test]
    fn any_text_gives_a_uuid() {
        for text in ["", "sess_x", "sess_ZZZZZZZZZZZZZZZZZZZZZZZZZZ", "sess_01ARZ3NDEKTSV4RRFFQ69G5FAU"] {
            assert!(is_uuid(&of_session(text)), "{text}");
        }
    }

    #[test]
    fn messages_of_different_runs_differ() {
        let names = [of_message("s", "1", 0), of_message("s", "1", 1), of_message("s", "2", 0)];
        assert!(names[0] != names[1] && names[1] != names[2] && names[0] != names[2]);
        assert_eq!(names[0], of_message("s", "1", 0));
    }
}

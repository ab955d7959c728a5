//! Reads fields of a server's JSON: what is missing or of another type is empty, and every text is bounded and has no
//! control characters, which a terminal would obey. Pure.

use domain::Timestamp;
use serde_json::Value;

use crate::limits::{FIELD_MAX_BYTES, NAMES_MAX};

/// Returns a text of at most `max` bytes.
pub(crate) fn text_up_to(value: &Value, max: usize) -> String {
    cleaned(value.as_str().unwrap_or_default(), max)
}

/// Returns a short text.
pub(crate) fn text(value: &Value) -> String {
    text_up_to(value, FIELD_MAX_BYTES)
}

/// Removes control characters but line ends and tabs, and cuts.
pub(crate) fn cleaned(text: &str, max: usize) -> String {
    // Most texts are short and plain.
    if text.len() <= max && text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\n' | b'\t')) {
        return text.to_owned();
    }
    let mut clean = String::new();
    for letter in text.chars() {
        if clean.len() + letter.len_utf8() > max {
            // Room for the mark is taken from the end.
            while clean.len() + '…'.len_utf8() > max && clean.pop().is_some() {}
            if max >= '…'.len_utf8() {
                clean.push('…');
            }
            break;
        }
        if !letter.is_control() || matches!(letter, '\n' | '\t') {
            clean.push(letter);
        }
    }
    clean
}

/// Returns the texts of an array.
pub(crate) fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().take(NAMES_MAX).map(text).collect()
}

/// Returns one field of every object of an array.
pub(crate) fn fields(value: &Value, name: &str) -> Vec<String> {
    value.as_array().into_iter().flatten().take(NAMES_MAX).map(|entry| text(&entry[name])).collect()
}

/// Returns a time, if it is one.
pub(crate) fn time(value: &Value) -> Option<Timestamp> {
    let time: jiff::Timestamp = value.as_str()?.parse().ok()?;
    Some(Timestamp(time.as_microsecond()))
}

/// Returns a duration in seconds.
pub(crate) fn seconds(value: &Value) -> f64 {
    value.as_f64().filter(|seconds| seconds.is_finite() && *seconds >= 0.0).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_are_bounded_and_have_no_escapes() {
        assert_eq!(text(&json!("a\u{1b}[31mb\u{7}\r\nc\td")), "a[31mb\nc\td");
        assert_eq!(text(&json!(null)), "");
        let cut = cleaned(&"ä".repeat(300), 256);
        assert!(cut.len() <= 256 && cut.ends_with('…') && cut.starts_with('ä'), "{cut}");
        assert_eq!(texts(&json!(["a", 1, "b"])), ["a", "", "b"]);
        assert_eq!(fields(&json!([{"username": "ann"}, {}]), "username"), ["ann", ""]);
    }

    #[test]
    fn times_are_read_with_their_zone() {
        assert_eq!(time(&json!("1970-01-01T01:00:01.5+01:00")), Some(Timestamp(1_500_000)));
        assert_eq!(time(&json!("soon")), None);
        assert!(seconds(&json!(-1)) == 0.0 && seconds(&json!(2.5)) == 2.5);
    }
}

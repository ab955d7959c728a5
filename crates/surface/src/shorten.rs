//! Keeps a message below the size a client accepts: cuts the longest strings of a JSON object until the whole
//! fits. Knows nothing of the object's meaning.

use serde::Serialize;
use serde_json::Value;

/// Returns a value as JSON of at most `max` bytes. Strings that had to be cut end with a note.
pub fn json(value: &impl Serialize, max: usize) -> String {
    // Our own types always serialise.
    let whole = serde_json::to_string(value).unwrap_or_default();
    if whole.len() <= max {
        return whole;
    }
    let mut longest = max / 2;
    loop {
        // Starts from the original each time, so that the note contains the original length.
        let mut tree = serde_json::to_value(value).unwrap_or_default();
        cut_strings(&mut tree, longest);
        let shorter = tree.to_string();
        // Without its strings an event is small; at one byte per string it cannot get shorter.
        if shorter.len() <= max || longest <= 1 {
            return shorter;
        }
        longest /= 2;
    }
}

/// Returns a text of at most about `max` bytes.
pub fn text(text: &str, max: usize) -> String {
    if text.len() <= max {
        return text.to_owned();
    }
    let head = &text[..text.floor_char_boundary(max)];
    format!("{head}\n[cut: {} of {} bytes]", head.len(), text.len())
}

fn cut_strings(value: &mut Value, longest: usize) {
    match value {
        Value::String(long) if long.len() > longest => *long = text(long, longest),
        Value::Array(items) => items.iter_mut().for_each(|item| cut_strings(item, longest)),
        Value::Object(fields) => fields.values_mut().for_each(|field| cut_strings(field, longest)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_fits_is_left_alone() {
        let value = json!({"a": "x", "n": 1});
        assert_eq!(json(&value, 100), value.to_string());
    }

    #[test]
    fn the_longest_strings_are_cut_and_the_rest_stays() {
        let value = json!({"name": "image.png", "parts": [{"content": "\n".repeat(10_000)}]});
        let short = json(&value, 1_000);
        assert!(short.len() <= 1_000, "{}", short.len());
        let back: Value = serde_json::from_str(&short).unwrap();
        assert_eq!(back["name"], "image.png");
        assert!(back["parts"][0]["content"].as_str().unwrap().contains("of 10000 bytes]"));
    }
}

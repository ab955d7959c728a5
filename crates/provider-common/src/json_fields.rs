//! Reads JSON that a program of another version may have written: a field that is missing or of another type
//! reads as empty, so that a deviation costs that field and not the line. Pure.

use serde_json::Value;

/// Reads fields of a value; returns an empty result, not an error, for an unexpected type.
pub trait Look {
    /// Returns the field, or null.
    fn under(&self, key: &str) -> &Value;
    /// Returns the field's text, or an empty one.
    fn text(&self, key: &str) -> &str;
    /// Returns the field's number, if it is a count.
    fn count(&self, key: &str) -> Option<u64>;
    /// Returns the field's elements, or none.
    fn list(&self, key: &str) -> &[Value];
    /// Returns whether the field is true.
    fn is(&self, key: &str) -> bool;
}

impl Look for Value {
    fn under(&self, key: &str) -> &Value {
        self.get(key).unwrap_or(&Value::Null)
    }

    fn text(&self, key: &str) -> &str {
        self.under(key).as_str().unwrap_or_default()
    }

    fn count(&self, key: &str) -> Option<u64> {
        let value = self.under(key);
        value.as_u64().or_else(|| value.as_f64().filter(|number| *number >= 0.0).map(|number| number as u64))
    }

    fn list(&self, key: &str) -> &[Value] {
        self.under(key).as_array().map(Vec::as_slice).unwrap_or_default()
    }

    fn is(&self, key: &str) -> bool {
        self.under(key).as_bool().unwrap_or(false)
    }
}

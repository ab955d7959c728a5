//! The text of a workbench request in an audit row. The audit itself belongs to the storage crate.

use serde_json::{Map, Value};
pub use storage::audit::{Audit, AuditEntry, AuditOutcome, Row};

use crate::limits;
use crate::scrub::Scrubber;

/// Returns a request for the audit: scrubbed, then cut. Long texts are cut one by one, so that the result
/// stays JSON.
pub fn input_text(scrubber: &Scrubber, input: &Map<String, Value>) -> String {
    let mut left = limits::AUDIT_INPUT_CHARS;
    let kept: Map<String, Value> = input
        .iter()
        .filter(|(_, value)| !matches!(value, Value::Null) && *value != "")
        // The name of an unknown field may contain a secret too.
        .map(|(name, value)| (scrubber.scrub_text(name), shortened(scrubber, value, &mut left)))
        .collect();
    Value::Object(kept).to_string()
}

/// Scrubs a value and shortens its texts; `left` is the number of characters that remain.
fn shortened(scrubber: &Scrubber, value: &Value, left: &mut usize) -> Value {
    match value {
        Value::String(text) => {
            let clean = scrubber.scrub_text(text);
            let kept: String = clean.chars().take(*left).collect();
            *left = left.saturating_sub(kept.chars().count());
            Value::String(if kept.len() < clean.len() { kept + "…" } else { kept })
        }
        Value::Array(list) => list.iter().map(|value| shortened(scrubber, value, left)).collect(),
        Value::Object(_) => Value::Null,
        other => other.clone(),
    }
}

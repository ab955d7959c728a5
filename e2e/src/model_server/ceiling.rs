//! The longest request that is taken, as a model's window bounds it. Knows no API: the answer is the test's.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

/// Shared by the server's thread and the test's handle; absent at first.
#[derive(Clone, Default)]
pub(crate) struct Ceiling(Arc<Mutex<Option<(usize, Value)>>>);

impl Ceiling {
    pub(super) fn set(&self, bytes: usize, answer: Value) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((bytes, answer));
    }

    /// Returns the answer to a request that is too long.
    pub(super) fn refusal(&self, body: &Value) -> Option<Value> {
        let ceiling = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        ceiling.filter(|(bytes, _)| body.to_string().len() > *bytes).map(|(_, answer)| answer)
    }
}

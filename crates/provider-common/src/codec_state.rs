//! What a codec keeps between two lines, as the text that is saved with the events.

use domain::{Error, ErrorCode};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Reads what was saved.
pub fn read<T: DeserializeOwned>(saved: &str) -> Result<T, Error> {
    serde_json::from_str(saved).map_err(|error| {
        Error::new(ErrorCode::SessionError, "the agent's saved state cannot be read; restart the session")
            .with_detail(error.to_string())
    })
}

/// Returns the text to save. States are plain data with text keys, so serialising one cannot fail.
pub fn write(state: &impl Serialize) -> String {
    serde_json::to_string(state).unwrap_or_default()
}

//! The fuzz targets.

mod paths;
mod requests;
mod scrubber;

use anyhow::Result;

use crate::Target;

/// Returns every target.
pub fn all() -> Result<Vec<Box<dyn Target>>> {
    Ok(vec![
        Box::new(paths::Paths::new()?),
        Box::new(scrubber::Scrubbing::new()?),
        Box::new(requests::Requests),
    ])
}

/// A number for an error: its code, and the first words of its message.
fn kind(error: &domain::Error) -> u64 {
    let message: String = error
        .message
        .chars()
        .filter(|letter| letter.is_ascii_lowercase() || *letter == ' ')
        .take(40)
        .collect();
    crate::mutate::hash(format!("{} {message}", error.code).as_bytes())
}

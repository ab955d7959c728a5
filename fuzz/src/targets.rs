//! The fuzz targets.

mod agents;
mod configuration;
mod journal;
mod json_calls;
mod model_replies;
mod paths;
mod records;
mod requests;
mod scrubber;
mod spool;
mod tunnel;

use anyhow::Result;

use crate::Target;

/// Returns every target.
pub fn all() -> Result<Vec<Box<dyn Target>>> {
    let mut all: Vec<Box<dyn Target>> = vec![
        Box::new(paths::Paths::new()?),
        Box::new(scrubber::Scrubbing::new()?),
        Box::new(requests::Requests),
        Box::new(tunnel::TunnelFrames::new()?),
        Box::new(tunnel::Enrolment),
        Box::new(records::SealedRecords::new()?),
        Box::new(model_replies::ModelReplies),
        Box::new(model_replies::GatewayFrames),
        Box::new(json_calls::JsonCalls::new()),
        Box::new(journal::JournalRows),
        Box::new(spool::SpoolFiles::new()?),
        Box::new(configuration::Configuration),
        Box::new(configuration::Rules),
    ];
    all.extend(agents::all()?);
    Ok(all)
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

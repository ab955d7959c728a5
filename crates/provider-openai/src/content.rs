//! Prompts with files: what is sent for each file. Pure; the two APIs only name the parts differently.

use domain::Error;
use domain::event::Attachment;

use provider_common::attachment::{self, AttachmentPart};

/// A part of a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PromptPart {
    Text(String),
    /// A data URL that contains the image.
    Image(String),
}

/// Returns a prompt's parts, the files first; an error names a file that cannot be sent.
pub(super) fn parts(text: &str, attachments: &[Attachment]) -> Result<Vec<PromptPart>, Error> {
    let mut parts = attachments.iter().map(part).collect::<Result<Vec<PromptPart>, Error>>()?;
    if !text.is_empty() || parts.is_empty() {
        parts.push(PromptPart::Text(text.to_owned()));
    }
    Ok(parts)
}

/// Converts a file: images as data URLs, everything else as text in a tag.
fn part(file: &Attachment) -> Result<PromptPart, Error> {
    Ok(match attachment::part(file)? {
        AttachmentPart::Picture(url) => PromptPart::Image(url),
        AttachmentPart::Text(text) => PromptPart::Text(text),
    })
}

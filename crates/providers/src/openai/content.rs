//! Prompts with files: what is sent for each file. Pure; the two APIs only name the parts differently.

use domain::Error;
use domain::event::Attachment;

use crate::base64;

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
    let bytes = base64::decode(&file.content).ok_or_else(|| {
        Error::invalid("attachments", format_args!("the content of {:?} is not base64", file.name))
    })?;
    if matches!(file.media_type.as_str(), "image/png" | "image/jpeg" | "image/gif" | "image/webp") {
        let content: String = file.content.split_ascii_whitespace().collect();
        return Ok(PromptPart::Image(format!("data:{};base64,{content}", file.media_type)));
    }
    let text = String::from_utf8(bytes).map_err(|_| {
        Error::invalid(
            "attachments",
            format_args!("{:?} is {}; text, PNG, JPEG, GIF and WebP can be sent", file.name, file.media_type),
        )
    })?;
    let name = file.name.replace(['"', '<', '>', '\n'], "_");
    Ok(PromptPart::Text(format!("<attachment name=\"{name}\">\n{text}\n</attachment>")))
}

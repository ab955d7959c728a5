//! Files that a person sends with a prompt, as agents take them. Pure.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use domain::Error;
use domain::event::Attachment;

/// Accepts missing padding, and bits behind the last byte, which some encoders write.
const DECODER: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// A file as agents take it that know pictures by their address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttachmentPart {
    /// A data URL that contains the picture.
    Picture(String),
    /// The text in a tag.
    Text(String),
}

/// Returns the bytes of a file; the error names one that is not base64.
pub fn bytes(file: &Attachment) -> Result<Vec<u8>, Error> {
    DECODER.decode(base64_text(file)).map_err(|_| {
        Error::invalid("attachments", format_args!("the content of {:?} is not base64", file.name))
    })
}

/// Returns the base64 of a file without the white space that some clients put into it.
pub fn base64_text(file: &Attachment) -> String {
    file.content.split_ascii_whitespace().collect()
}

/// Returns a file's text as it is; the error names one that is not text.
pub fn text(file: &Attachment) -> Result<String, Error> {
    String::from_utf8(bytes(file)?).map_err(|_| {
        Error::invalid("attachments", format_args!("the content of {:?} is not text", file.name))
    })
}

/// Returns a file's text in a tag; `None` if it is not text.
pub fn tagged_text(file: &Attachment, bytes: Vec<u8>) -> Option<String> {
    let text = String::from_utf8(bytes).ok()?;
    let name = file.name.replace(['"', '<', '>', '\n'], "_");
    Some(format!("<attachment name=\"{name}\">\n{text}\n</attachment>"))
}

/// Returns whether agents take a file of this kind as a picture.
pub fn is_picture(file: &Attachment) -> bool {
    matches!(file.media_type.as_str(), "image/png" | "image/jpeg" | "image/gif" | "image/webp")
}

/// Converts a file: pictures as data URLs, everything else as text in a tag.
pub fn part(file: &Attachment) -> Result<AttachmentPart, Error> {
    let bytes = bytes(file)?;
    if is_picture(file) {
        let content = base64_text(file);
        return Ok(AttachmentPart::Picture(format!("data:{};base64,{content}", file.media_type)));
    }
    tagged_text(file, bytes).map(AttachmentPart::Text).ok_or_else(|| {
        Error::invalid(
            "attachments",
            format_args!("{:?} is {}; text, PNG, JPEG, GIF and WebP can be sent", file.name, file.media_type),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(content: &str) -> Attachment {
        Attachment { name: "a".to_owned(), media_type: String::new(), content: content.to_owned() }
    }

    #[test]
    fn decodes_what_encoders_write() {
        let decoded = |text: &str| bytes(&file(text));
        assert_eq!(decoded("aGVsbG8=").unwrap(), b"hello");
        assert_eq!(decoded("aGVs\nbG8").unwrap(), b"hello");
        assert_eq!(decoded("/+8A").unwrap(), [0xff, 0xef, 0x00]);
        assert_eq!(decoded("").unwrap(), b"");
        assert!(decoded("a").is_err());
        assert!(decoded("a*b=").unwrap_err().message.contains("\"a\" is not base64"));
    }
}

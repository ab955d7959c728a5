//! Files that are sent along with a prompt: reads them and names their kind. Must not know what agents take.

use std::path::Path;

use config::failure::{Failure, Result};
use wire::obey::v1 as pb;

/// Reads the files.
pub fn read(paths: &[impl AsRef<Path>]) -> Result<Vec<pb::PromptAttachment>> {
    paths.iter().map(|path| read_one(path.as_ref())).collect()
}

/// Reads one file.
pub fn read_one(path: &Path) -> Result<pb::PromptAttachment> {
    let content = std::fs::read(path)
        .map_err(|error| Failure::usage(format!("{} cannot be read: {error}", path.display())))?;
    if content.is_empty() {
        return Err(Failure::usage(format!("{} is empty", path.display())));
    }
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let media_type = media_type(&content).to_owned();
    Ok(pb::PromptAttachment { name, media_type, content })
}

/// Returns the kind of a file by how it begins; a name may lie.
fn media_type(content: &[u8]) -> &'static str {
    match content {
        [0x89, b'P', b'N', b'G', ..] => "image/png",
        [0xff, 0xd8, 0xff, ..] => "image/jpeg",
        [b'G', b'I', b'F', b'8', ..] => "image/gif",
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => "image/webp",
        [b'%', b'P', b'D', b'F', b'-', ..] => "application/pdf",
        other if std::str::from_utf8(other).is_ok() => "text/plain",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_what_it_begins_with() {
        assert_eq!(media_type(b"\x89PNG\r\n"), "image/png");
        assert_eq!(media_type(b"RIFF\0\0\0\0WEBPVP8 "), "image/webp");
        assert_eq!(media_type(b"%PDF-1.7"), "application/pdf");
        assert_eq!(media_type("naïve".as_bytes()), "text/plain");
        assert_eq!(media_type(b"\xfe\xed\xfa\xce"), "application/octet-stream");
    }
}

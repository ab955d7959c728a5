//! Files for a message: read away from the screen, with a bound on their size.

use std::path::PathBuf;
use std::sync::Arc;

use client::attachments;
use wire::obey::v1 as pb;

use super::DaemonSettings;
use crate::data::{AttachedFile, Update};
use crate::limits;

/// Reads a file, from the folder in which the terminal UI was started if its path is relative.
pub(super) async fn read(settings: &DaemonSettings, session: String, path: String, text: String) -> Update {
    let path = settings.folder.join(path);
    let reading = tokio::task::spawn_blocking(move || read_bounded(path)).await;
    match reading.unwrap_or_else(|error| Err(error.to_string())) {
        Ok(file) => Update::Attached { session, file },
        Err(why) => Update::NotAttached { session, text, why },
    }
}

fn read_bounded(path: PathBuf) -> Result<AttachedFile, String> {
    let unreadable = |error: &dyn std::fmt::Display| format!("{} cannot be read: {error}", path.display());
    let about = std::fs::metadata(&path).map_err(|error| unreadable(&error))?;
    if !about.is_file() {
        return Err(unreadable(&"it is no file"));
    }
    if about.len() > limits::ATTACHED_MAX_BYTES {
        return Err(unreadable(&"all files of a message may have 10 MB together"));
    }
    let file = attachments::read_one(&path).map_err(|failure| failure.message)?;
    Ok(AttachedFile { name: file.name, media_type: file.media_type, content: Arc::new(file.content) })
}

/// Returns a file as the daemon takes it.
pub(super) fn to_wire(file: AttachedFile) -> pb::PromptAttachment {
    let content = Arc::try_unwrap(file.content).unwrap_or_else(|shared| shared.as_ref().clone());
    pb::PromptAttachment { name: file.name, media_type: file.media_type, content }
}

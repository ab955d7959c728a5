//! Stored output: scrubbed content too long for an answer, kept per session for a limited time and fetched by
//! an unguessable id. Small content stays in memory, large content is in files only our user can read.
//! Nothing survives a restart. Must be given scrubbed content only.

mod writer;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::{Error, ErrorCode, SessionId};
use tokio::time::Instant;

pub use writer::Writer;

use crate::limits;

/// The prefix of every id.
pub const REF_PREFIX: &str = "ref_";

/// How much is kept, and how long.
#[derive(Clone, Copy, Debug)]
pub struct RefLimits {
    pub ttl: Duration,
    /// Largest single content; of more, the beginning and the end are kept.
    pub content_bytes: u64,
    /// Per session; the oldest are removed first.
    pub session_bytes: u64,
    /// Of all sessions; the oldest are removed first.
    pub total_bytes: u64,
    /// Content up to this size stays in memory.
    pub memory_bytes: usize,
}

impl Default for RefLimits {
    fn default() -> Self {
        Self {
            ttl: limits::REF_TTL,
            content_bytes: limits::REF_CONTENT_MAX,
            session_bytes: limits::REF_SESSION_MAX,
            total_bytes: limits::REF_TOTAL_MAX,
            memory_bytes: limits::REF_MEMORY_MAX,
        }
    }
}

/// The type of content, for display.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentKind {
    Text,
    Json,
    Binary,
}

impl ContentKind {
    /// Returns the word in contextd's answers.
    pub fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
            Self::Binary => "binary",
        }
    }
}

/// A part of stored content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    pub bytes: Vec<u8>,
    pub kind: ContentKind,
    /// The size of the whole content.
    pub total_bytes: u64,
}

#[derive(Debug)]
enum Body {
    Memory(Arc<[u8]>),
    File(PathBuf),
}

#[derive(Debug)]
struct RefEntry {
    session: SessionId,
    body: Body,
    bytes: u64,
    kind: ContentKind,
    expires: Instant,
    /// Increasing; a lower number is older.
    number: u64,
}

impl Drop for RefEntry {
    fn drop(&mut self) {
        if let Body::File(path) = &self.body {
            remove(path);
        }
    }
}

/// Removes a file; a missing one is not an error.
fn remove(path: &Path) {
    if let Err(error) = std::fs::remove_file(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(%error, "cannot remove stored output");
    }
}

#[derive(Debug, Default)]
struct Entries {
    by_id: BTreeMap<String, RefEntry>,
    made: u64,
}

/// All stored output of the daemon.
#[derive(Debug)]
pub struct Refs {
    folder: PathBuf,
    limits: RefLimits,
    entries: Mutex<Entries>,
}

impl Refs {
    /// Opens the store; removes what a previous daemon left in the folder.
    pub fn open(folder: PathBuf, limits: RefLimits) -> io::Result<Arc<Self>> {
        match std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        for entry in std::fs::read_dir(&folder)?.flatten() {
            if entry.file_name().to_string_lossy().starts_with(REF_PREFIX) {
                remove(&entry.path());
            }
        }
        Ok(Arc::new(Self { folder, limits, entries: Mutex::default() }))
    }

    /// Starts new content.
    pub fn writer(self: &Arc<Self>, session: &SessionId) -> io::Result<Writer> {
        Writer::new(Arc::clone(self), session.clone())
    }

    /// Returns content, or the part of it from `offset` on, at most `max` bytes. Only the session that owns
    /// it may read it, or a caller that needs no session.
    pub fn read(
        &self,
        session: Option<&SessionId>,
        id: &str,
        offset: u64,
        max: usize,
    ) -> Result<Content, Error> {
        let now = Instant::now();
        let unknown = || {
            let message = format!("ref_id: {id:?} is unknown or has expired; run the command again");
            Error::new(ErrorCode::ItemNotFound, message)
        };
        let entries = self.entries();
        let entry = entries
            .by_id
            .get(id)
            .filter(|entry| session.is_none_or(|session| entry.session == *session) && entry.expires > now);
        let entry = entry.ok_or_else(unknown)?;
        let (kind, total_bytes) = (entry.kind, entry.bytes);
        let from = usize::try_from(offset.min(total_bytes)).unwrap_or(usize::MAX);
        let len = max.min(usize::try_from(total_bytes).unwrap_or(usize::MAX).saturating_sub(from));
        let mut file = match &entry.body {
            Body::Memory(all) => {
                return Ok(Content { bytes: all[from..from + len].to_vec(), kind, total_bytes });
            }
            // Opened under the lock, so that it cannot be removed; read after the lock is released.
            Body::File(path) => File::open(path).map_err(|error| failed(&error))?,
        };
        drop(entries);
        let mut bytes = Vec::with_capacity(len);
        let read = file
            .seek(SeekFrom::Start(from as u64))
            .and_then(|_| file.take(len as u64).read_to_end(&mut bytes));
        read.map_err(|error| failed(&error))?;
        Ok(Content { bytes, kind, total_bytes })
    }

    /// Removes everything a session stored.
    pub fn end_session(&self, session: &SessionId) {
        self.entries().by_id.retain(|_, entry| entry.session != *session);
    }

    /// Removes what has expired; returns how many.
    pub fn sweep(&self) -> usize {
        let now = Instant::now();
        let mut entries = self.entries();
        let before = entries.by_id.len();
        entries.by_id.retain(|_, entry| entry.expires > now);
        before - entries.by_id.len()
    }

    /// Returns the number of stored bytes.
    pub fn stored_bytes(&self) -> u64 {
        self.entries().by_id.values().map(|entry| entry.bytes).sum()
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds content, and removes the oldest if there is too much.
    fn add(&self, id: String, session: SessionId, body: Body, bytes: u64, kind: ContentKind) {
        let expires = Instant::now() + self.limits.ttl;
        let mut entries = self.entries();
        entries.made += 1;
        let number = entries.made;
        entries.by_id.insert(id, RefEntry { session: session.clone(), body, bytes, kind, expires, number });
        shrink(&mut entries, self.limits.session_bytes, number, |entry| entry.session == session);
        shrink(&mut entries, self.limits.total_bytes, number, |_| true);
    }
}

/// Removes the oldest of the selected entries until they take no more than `most`; never the newest.
fn shrink(entries: &mut Entries, most: u64, newest: u64, meant: impl Fn(&RefEntry) -> bool) {
    loop {
        let total: u64 = entries.by_id.values().filter(|entry| meant(entry)).map(|entry| entry.bytes).sum();
        if total <= most {
            return;
        }
        let candidates = entries.by_id.iter().filter(|(_, entry)| meant(entry) && entry.number != newest);
        let Some(oldest) = candidates.min_by_key(|(_, entry)| entry.number).map(|(id, _)| id.clone()) else {
            return;
        };
        entries.by_id.remove(&oldest);
    }
}

fn failed(error: &io::Error) -> Error {
    Error::new(ErrorCode::StorageFailed, "stored output cannot be read").with_detail(error.to_string())
}

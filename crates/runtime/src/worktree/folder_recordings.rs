//! Shares recordings of the files of a folder between sessions. Callers that ask while a recording is being made share the
//! next one, so that many sessions in one folder cost no more git commands than a few, and no caller gets files from
//! before its call.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::{Error, ErrorCode};
use tokio::sync::{Mutex as AsyncMutex, Semaphore, watch};
use tokio::time::Instant;

use super::Worktrees;
use super::turn_tree::RecordedFiles;
use crate::limits;

/// The result of a recording, once it is made.
type Recording = Option<Result<RecordedFiles, Error>>;

/// Recordings that are made, and those that wait.
pub(super) struct FolderRecordings {
    folders: Mutex<HashMap<PathBuf, Arc<RecordedFolder>>>,
    /// Bounds how many are made at a time, whatever the folder.
    room: Semaphore,
}

/// The recordings of one folder.
#[derive(Default)]
struct RecordedFolder {
    /// The one that has not begun.
    next: Mutex<Option<watch::Receiver<Recording>>>,
    /// Held while one is made; the time at which the last one ended, if several callers shared it.
    making: AsyncMutex<Option<Instant>>,
}

impl Default for FolderRecordings {
    fn default() -> Self {
        Self { folders: Mutex::default(), room: Semaphore::new(limits::TURN_TREES_AT_ONCE_MAX) }
    }
}

impl FolderRecordings {
    fn folder(&self, folder: &Path) -> Arc<RecordedFolder> {
        let mut folders = self.folders.lock().unwrap_or_else(PoisonError::into_inner);
        // Only the map holds those that nobody records.
        folders.retain(|_, recorded| Arc::strong_count(recorded) > 1 || recorded.is_fresh());
        Arc::clone(folders.entry(folder.to_owned()).or_default())
    }
}

impl RecordedFolder {
    fn next(&self) -> MutexGuard<'_, Option<watch::Receiver<Recording>>> {
        self.next.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the last recording was shared and ended a moment ago.
    fn is_fresh(&self) -> bool {
        let last = self.making.try_lock();
        last.is_ok_and(|last| last.is_some_and(|ended| ended.elapsed() < limits::TURN_TREE_PAUSE))
    }

    /// Returns the next recording, and its sender if the caller must make it.
    fn join(&self) -> (watch::Receiver<Recording>, Option<watch::Sender<Recording>>) {
        let mut next = self.next();
        if let Some(waiting) = next.as_ref() {
            return (waiting.clone(), None);
        }
        let (sender, receiver) = watch::channel(None);
        *next = Some(receiver.clone());
        (receiver, Some(sender))
    }
}

impl Worktrees {
    /// Records the files of a folder as they are at some moment after the call.
    pub(super) async fn record_files_shared(&self, folder: &Path) -> Result<RecordedFiles, Error> {
        let recorded = self.shared().recordings.folder(folder);
        let (mut receiver, sender) = recorded.join();
        if let Some(sender) = sender {
            let (worktrees, folder) = (self.clone(), folder.to_owned());
            // In a task of its own: whoever came first may go away while others wait.
            tokio::spawn(async move { worktrees.make_recording(&folder, &recorded, &sender).await });
        }
        let lost = || Error::new(ErrorCode::WorktreeFailed, "the files of the folder were not recorded");
        let made = receiver.wait_for(Option::is_some).await.map_err(|_| lost())?;
        made.clone().unwrap_or_else(|| Err(lost()))
    }

    async fn make_recording(
        &self,
        folder: &Path,
        recorded: &RecordedFolder,
        sender: &watch::Sender<Recording>,
    ) {
        let mut last = recorded.making.lock().await;
        if let Some(ended) = *last {
            tokio::time::sleep_until(ended + limits::TURN_TREE_PAUSE).await;
        }
        // Fails only if the semaphore is closed, which nobody does.
        let _room = self.shared().recordings.room.acquire().await;
        // From here on, others wait for the next one.
        recorded.next().take();
        let made = self.record_files(folder).await;
        // Whoever is alone in a folder does not wait: the files must be those of its turn's start.
        *last = (sender.receiver_count() > 1).then(Instant::now);
        sender.send_replace(Some(made));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_asks_before_a_recording_begins_shares_it() {
        let recorded = RecordedFolder::default();
        let (first, sender) = recorded.join();
        let sender = sender.expect("the first makes it");
        let (second, none) = recorded.join();
        assert!(none.is_none());
        recorded.next().take();
        let (later, own) = recorded.join();
        assert!(own.is_some(), "it has begun: the next one is another");
        let files = RecordedFiles { tree: "a".to_owned(), complete: true };
        sender.send_replace(Some(Ok(files.clone())));
        for receiver in [first, second] {
            assert!(matches!(receiver.borrow().as_ref(), Some(Ok(made)) if *made == files));
        }
        assert!(later.borrow().is_none());
    }
}

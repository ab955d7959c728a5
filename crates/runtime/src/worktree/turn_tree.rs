//! The files of a session's folder at the start of each turn, so that the changes since then can be shown. They are
//! stored as objects of the repository that nothing refers to: git keeps those for two weeks. Recorded beside the turn,
//! never in its way.

use std::path::Path;

use domain::{Error, ErrorCode, EventKind, SessionId, Status};
use host::clock;
use storage::{Durability, worktrees};
use tokio::sync::broadcast::error::RecvError;

use super::skipped::{SkipReason, SkippedPath};
use super::{Worktrees, edited_turn};
use crate::limits;
use crate::supervisor::Supervisor;

/// The files of a folder at one moment, as a tree object of its repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedFiles {
    pub tree: String,
    /// No file was left out for its size, for the number of them, or because git cannot take it.
    pub complete: bool,
}

/// Starts recording for all sessions of a supervisor; ends with it.
pub(crate) fn record_turns(supervisor: &Supervisor) {
    let mut statuses = supervisor.watch_statuses();
    let supervisor = supervisor.downgrade();
    tokio::spawn(async move {
        loop {
            let event = match statuses.recv().await {
                Ok(event) => event,
                // The turns that were missed have no record, which their diff says.
                Err(RecvError::Lagged(_)) => continue,
                Err(RecvError::Closed) => return,
            };
            if !matches!(event.kind, EventKind::StatusChanged { to: Status::Working, .. }) {
                continue;
            }
            let Some(supervisor) = supervisor.upgrade() else { return };
            tokio::spawn(async move {
                let recorded = supervisor.worktrees().record_turn(&event.session).await;
                match recorded {
                    Ok(Some((turn, files))) => {
                        let from = edited_turn::TurnPlace { seq: event.seq, may_have_acted: false };
                        edited_turn::follow(&supervisor, &event.session, turn, from, files).await;
                    }
                    Ok(None) => {}
                    Err(error) => {
                        tracing::debug!(%error, session = %event.session, "the files at the start of a turn are not recorded");
                    }
                }
            });
        }
    });
}

impl Worktrees {
    /// Records the files of a session's folder as they are now, for its turn. `None` where there is no repository.
    async fn record_turn(&self, session: &SessionId) -> Result<Option<(u64, RecordedFiles)>, Error> {
        let snapshot = self.supervisor.snapshot(session).await?;
        let folder = &snapshot.spec.working_dir;
        if git_files::root_around(folder).is_none() {
            return Ok(None);
        }
        let turn = snapshot.state.turn.as_ref().map_or(snapshot.state.turns, |turn| turn.id.0);
        let files = self.record_turn_in(session, turn, folder).await?;
        Ok(Some((turn, files)))
    }

    /// Records the files of a folder as those at the start of a turn.
    pub(super) async fn record_turn_in(
        &self,
        session: &SessionId,
        turn: u64,
        folder: &Path,
    ) -> Result<RecordedFiles, Error> {
        let files = self.record_files_shared(folder).await?;
        let (session, now, tree) = (session.to_string(), clock::now(), files.tree.clone());
        self.store()
            .write(Durability::Soon, move |connection| {
                worktrees::put_turn_tree(connection, &session, turn, &tree, now)
            })
            .await?;
        Ok(files)
    }

    /// Stores the files of a folder as they are now. Its index and its branches stay as they are.
    pub(super) async fn record_files(&self, folder: &Path) -> Result<RecordedFiles, Error> {
        let tree = Self::look_at_files(folder).await?;
        let isolation = self.isolation(&tree).await?;
        let index = isolation.index_copy(&tree.git_dir)?;
        let mut untracked = isolation.untracked(&tree.path, &index).await?;
        let found = untracked.files.len();
        untracked.files.retain(|path| is_small(&tree.path, path));
        untracked.files.truncate(limits::TURN_TREE_FILES_MAX);
        isolation.add_tracked(&tree.path, &index, &mut untracked).await?;
        isolation.add(&tree.path, &index, &untracked.files, false).await?;
        let files = isolation.run_text(&tree.path, &index, &["write-tree"]).await?;
        // A repository of its own is no part of the tree.
        let is_lost = |path: &SkippedPath| path.reason != SkipReason::NestedRepository;
        let complete = untracked.files.len() == found && !untracked.skipped.iter().any(is_lost);
        Ok(RecordedFiles { tree: files, complete })
    }

    /// Returns the tree object with the files at the start of a turn.
    pub(super) async fn turn_tree(&self, session: &SessionId, turn: u64) -> Result<String, Error> {
        let wanted = session.to_string();
        let found =
            self.store().read(move |connection| worktrees::turn_tree(connection, &wanted, turn)).await?;
        found.ok_or_else(|| {
            Error::new(
                ErrorCode::WorktreeFailed,
                format!("the files at the start of turn {turn} of session {session} are not recorded"),
            )
        })
    }
}

/// Returns whether a file is small enough to be stored at every turn.
fn is_small(tree: &Path, path: &[u8]) -> bool {
    use std::os::unix::ffi::OsStrExt as _;
    let path = tree.join(std::ffi::OsStr::from_bytes(path));
    path.symlink_metadata().is_ok_and(|found| found.len() <= limits::TURN_TREE_FILE_MAX_BYTES)
}

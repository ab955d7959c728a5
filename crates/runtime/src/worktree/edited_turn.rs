//! Finds out whether a turn changes files, and says so once: while the turn runs, as soon as a call has ended after which
//! the files differ from those at its start, else at its end. Whoever keeps checkpoints listens. Changes no file.

use std::path::PathBuf;

use domain::{Error, EventKind, SessionId, Status, any_event};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::Worktrees;
use super::tree::OpenTree;
use super::turn_tree::RecordedFiles;
use crate::limits;
use crate::supervisor::Supervisor;

/// A turn that changed files, with what was there before it.
#[derive(Clone, Debug)]
pub struct EditedTurn {
    pub session: SessionId,
    pub turn: u64,
    /// The folder of the session.
    pub folder: PathBuf,
    /// The folder that users name as the project.
    pub project: PathBuf,
    /// The files at the turn's start.
    pub files: RecordedFiles,
    /// A call had begun before the files were recorded.
    pub late: bool,
}

impl Worktrees {
    /// Sets the listener for turns that change files, once. Without one, files are not compared.
    pub fn tell_edited_turns(&self, listener: mpsc::Sender<EditedTurn>) {
        // A second listener is ignored: a checkpoint is made once.
        let _ = self.shared().edited_turns.set(listener);
    }

    /// Looks at the turns that a former daemon left running. Its record says what was there when they began.
    pub async fn follow_running_turns(&self) -> Result<(), Error> {
        if self.shared().edited_turns.get().is_none() {
            return Ok(());
        }
        for snapshot in self.supervisor.list(storage::sessions::SessionFilter::default()).await? {
            let Some(turn) = snapshot.state.turn.as_ref().map(|turn| turn.id.0) else { continue };
            let session = snapshot.spec.id.clone();
            let Ok(tree) = self.turn_tree(&session, turn).await else { continue };
            // Whether files were left out is not on record, so nothing that is missing counts as removed.
            let files = RecordedFiles { tree, complete: false };
            let supervisor = self.supervisor.clone();
            // What the agent did while there was no daemon may be behind that number.
            let from = TurnPlace { seq: snapshot.last_seq, may_have_acted: true };
            tokio::spawn(async move { follow(&supervisor, &session, turn, from, files).await });
        }
        Ok(())
    }
}

/// From where a turn is followed.
#[derive(Clone, Copy)]
pub(super) struct TurnPlace {
    /// The number of the last event before.
    pub(super) seq: u64,
    /// Whether the turn may have changed files before that event.
    pub(super) may_have_acted: bool,
}

/// Follows a turn to its first change of files or its end.
pub(super) async fn follow(
    supervisor: &Supervisor,
    session: &SessionId,
    turn: u64,
    from: TurnPlace,
    files: RecordedFiles,
) {
    let Some(listener) = supervisor.worktrees().shared().edited_turns.get().cloned() else { return };
    let followed = find_edit(supervisor, session, turn, from, files).await;
    match followed {
        Ok(Some(edited)) => {
            // Nobody listens any more when the daemon ends.
            let _ = listener.send(edited).await;
        }
        Ok(None) => {}
        Err(error) => {
            tracing::debug!(%error, %session, turn, "cannot see whether a turn changed files");
        }
    }
}

async fn find_edit(
    supervisor: &Supervisor,
    session: &SessionId,
    turn: u64,
    from: TurnPlace,
    files: RecordedFiles,
) -> Result<Option<EditedTurn>, Error> {
    let worktrees = supervisor.worktrees();
    let spec = supervisor.snapshot(session).await?.spec.clone();
    let mut cursor = supervisor.events_after(session, from.seq).await?;
    let mut late = false;
    let mut is_first = true;
    let mut next_look = Instant::now();
    loop {
        // What is there already happened while the files were recorded.
        let events = if is_first { cursor.available().await? } else { cursor.next().await? };
        let has_ended = events.iter().any(|event| ends_turn(&event.kind));
        let may_have_acted = is_first && from.may_have_acted;
        late |= is_first
            && !from.may_have_acted
            && events.iter().any(|event| matches!(event.kind, EventKind::ToolStarted { .. }));
        is_first = false;
        let has_acted =
            may_have_acted || events.iter().any(|event| matches!(event.kind, EventKind::ToolFinished { .. }));
        let is_due = has_acted && Instant::now() >= next_look;
        if !has_ended && !is_due {
            continue;
        }
        if worktrees.record_files_shared(&spec.working_dir).await?.tree != files.tree {
            let tree = Worktrees::look_at_files(&spec.working_dir).await?;
            let project = project_of(&tree, crate::containment::root_of_tools(&spec).to_owned());
            let folder = spec.working_dir.clone();
            return Ok(Some(EditedTurn { session: session.clone(), turn, folder, project, files, late }));
        }
        if has_ended {
            return Ok(None);
        }
        next_look = Instant::now() + limits::EDIT_CHECK_PAUSE;
    }
}

/// Returns the session's project if it belongs to the tree that was recorded, else the tree: a project's other working trees
/// have files of their own.
fn project_of(tree: &OpenTree, root: PathBuf) -> PathBuf {
    if root.starts_with(&tree.path) { root } else { tree.path.clone() }
}

fn ends_turn(kind: &EventKind) -> bool {
    match kind {
        EventKind::TurnEnded { .. } => true,
        EventKind::StatusChanged { to, .. } => *to != Status::Working,
        any_event!(
            SessionCreated AgentStarted AgentReady AgentExited AgentLogged Restarted TurnStarted
            InterruptRequested MessageAdded output request settings plan usage worker report
        ) => false,
    }
}

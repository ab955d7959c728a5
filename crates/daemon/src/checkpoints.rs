//! Checkpoints before turns that change files: the files as a bundle in the data folder, where agents in the sandbox cannot
//! reach them, and the conversation so far. Removes what the configuration does not keep.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ::workbench::checkpoint::automatic::KeepPolicy;
use ::workbench::checkpoint::{Checkpoints, NewCheckpoint};
use ::workbench::scrub::Scrubber;
use domain::Error;
use host::clock;
use runtime::Supervisor;
use runtime::worktree::EditedTurn;
use storage::Store;
use surface_contextd::{bundle_of, conversation, conversation_end};
use tokio::sync::mpsc;

use crate::limits;
use crate::options::ServeOptions;

/// The tag of these checkpoints, and that of one whose turn had begun to act before the files were recorded.
const TAG: &str = "automatic";
const LATE_TAG: &str = "late";

/// Returns the folder of the bundles.
pub(crate) fn folder(options: &ServeOptions) -> PathBuf {
    options.data_dir.join("checkpoints")
}

/// Makes checkpoints as sessions need them.
pub(crate) struct AutomaticCheckpoints {
    supervisor: Supervisor,
    store: Store,
    scrubber: Scrubber,
    folder: PathBuf,
    policy: KeepPolicy,
    edited: mpsc::Receiver<EditedTurn>,
}

impl AutomaticCheckpoints {
    /// Begins to listen for turns that change files; `None` if the configuration wants no checkpoints.
    pub(crate) fn new(
        options: &ServeOptions,
        supervisor: &Supervisor,
        store: &Store,
        scrubber: &Scrubber,
    ) -> Option<Self> {
        let config = &options.config.checkpoints;
        if !config.automatic {
            return None;
        }
        let (tell, edited) = mpsc::channel(runtime::limits::EDITED_TURNS_WAITING_MAX);
        supervisor.worktrees().tell_edited_turns(tell);
        Some(Self {
            supervisor: supervisor.clone(),
            store: store.clone(),
            scrubber: scrubber.clone(),
            folder: folder(options),
            policy: KeepPolicy {
                count: config.keep_count,
                age: Duration::from_secs(u64::from(config.keep_days) * 24 * 3600),
            },
            edited,
        })
    }

    /// Makes checkpoints and removes old ones until the daemon ends.
    pub(crate) async fn run(mut self) {
        if let Err(error) = self.supervisor.worktrees().follow_running_turns().await {
            tracing::warn!(%error, "cannot look at the turns that run");
        }
        let mut sweep = tokio::time::interval(limits::CHECKPOINT_SWEEP_INTERVAL);
        loop {
            let result = tokio::select! {
                edited = self.edited.recv() => match edited {
                    Some(edited) => self.save(&edited).await,
                    None => return,
                },
                _ = sweep.tick() => self.remove_surplus().await,
            };
            if let Err(error) = result {
                tracing::warn!(%error, detail = error.detail, "a checkpoint cannot be made or removed");
            }
        }
    }

    /// Makes the checkpoint before a turn.
    async fn save(&self, edited: &EditedTurn) -> Result<(), Error> {
        let checkpoints = Checkpoints::open(self.store.clone()).await?;
        let session = edited.session.to_string();
        if checkpoints.has_turn(&session, edited.turn).await? {
            return Ok(());
        }
        super::make_private(&self.folder)?;
        let id = Checkpoints::new_id()?;
        let bundle = bundle_of(&self.folder, &id);
        let worktrees = self.supervisor.worktrees();
        worktrees.bundle_checkpoint(&edited.folder, &edited.files, &id, &bundle).await?;
        let (said, prompt) = conversation(&self.supervisor, &edited.session, edited.turn).await?;
        let (said, prompt) = (self.scrubber.scrub_text(&said), self.scrubber.scrub_text(&prompt));
        let project = edited.project.to_string_lossy().into_owned();
        let prompt: String = prompt.chars().take(limits::CHECKPOINT_PROMPT_CHARS).collect();
        let summary = format!("Before turn {} of {session}: {}", edited.turn, prompt.trim());
        let head = format!("Project: {project}\nWhere it stood: before turn {}\n", edited.turn);
        let mut tags = vec![TAG.to_owned()];
        if edited.late {
            tags.push(LATE_TAG.to_owned());
        }
        let new = NewCheckpoint {
            session,
            project,
            summary,
            tags,
            context: format!("{head}{}", conversation_end(&said)),
            everything: format!("{head}\nConversation:\n{said}"),
        };
        checkpoints.save_automatic(&id, edited.turn, new, clock::now()).await?;
        tracing::debug!(id, session = %edited.session, turn = edited.turn, "made a checkpoint");
        self.remove_surplus().await
    }

    /// Removes what the policy does not keep, and files without a record: of a daemon that was killed in between.
    async fn remove_surplus(&self) -> Result<(), Error> {
        if !self.folder.is_dir() {
            return Ok(());
        }
        let checkpoints = Checkpoints::open(self.store.clone()).await?;
        let kept = checkpoints.remove_surplus(self.policy, clock::now()).await?;
        let kept: HashSet<PathBuf> = kept.iter().map(|id| bundle_of(&self.folder, id)).collect();
        for path in bundles(&self.folder) {
            if !kept.contains(&path)
                && let Err(error) = std::fs::remove_file(&path)
            {
                tracing::warn!(%error, path = %path.display(), "cannot remove an old checkpoint");
            }
        }
        Ok(())
    }
}

/// Returns the files in the folder.
fn bundles(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

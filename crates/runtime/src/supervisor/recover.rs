//! Recovery after an earlier daemon: every session that had not ended gets an actor again.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use sandbox::session_group::SessionGroup;

use domain::{Command, Error, LaunchPolicy, Status, StopMode};

use super::Supervisor;
use crate::execute;
use crate::process::{AgentLink, Claim, Position, scan};
use crate::session::{ActorStart, clear_placeholders, remove_orphan_keys, run_dir};
use crate::workers::Workers;
use host::failpoint;
use storage::sessions;

impl Supervisor {
    /// Recovers every session that had not ended. Actors reattach to their agents concurrently; a stuck one
    /// does not delay the others. Returns how many sessions there were.
    pub async fn recover(&self) -> Result<usize, Error> {
        let workers = Workers::new(self);
        let unfinished = workers.unfinished().await?;
        let rows = self.store().read(sessions::live).await?;
        let count = rows.len();
        let needed =
            rows.iter().map(|row| run_dir(&self.inner.services.agents_dir, &row.spec.id, row.run)).collect();
        let leftover = self.leftover_groups(&needed);
        self.end_orphans(&needed, leftover);
        let agents_dir = &self.inner.services.agents_dir;
        let is_live = |session: &str| rows.iter().any(|row| row.spec.id.as_str() == session);
        if let Err(error) = remove_orphan_keys(agents_dir, is_live)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(%error, "cannot remove keys of a former daemon");
        }
        for row in rows {
            let (id, status, launch) = (row.spec.id.clone(), row.state.status, row.spec.launch);
            let handle = self.spawn_actor(row, ActorStart::Recover);
            if status == Status::Created && launch == LaunchPolicy::Now && !unfinished.contains(&id) {
                // Its creator never learnt that it exists.
                if let Err(error) = handle.command(Command::Stop { how: StopMode::Now }).await {
                    tracing::warn!(session = %id, %error, "cannot end a session that never started");
                }
            }
        }
        workers.resume_all().await?;
        Ok(count)
    }

    /// Clears away what a former daemon left that nobody needs: commands whose callers are gone with it, agents whose
    /// end was written but never acknowledged, and folders without anybody in them.
    fn end_orphans(&self, needed: &HashSet<PathBuf>, groups: Vec<SessionGroup>) {
        let mut orphans = scan::find_all(&self.inner.services.agents_dir).unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot look for agents of a former daemon");
            Vec::new()
        });
        orphans.retain(|dir| !needed.contains(dir));
        let epoch = self.inner.services.epoch;
        tokio::spawn(async move {
            for dir in orphans {
                failpoint!("orphan.found");
                if let Err(error) = end_orphan(&dir, epoch).await {
                    tracing::warn!(%error, dir = %dir.display(), "cannot end an orphan");
                }
            }
            for group in groups {
                group.remove().await;
            }
        });
    }

    /// Returns the control groups of runs that nobody needs. Looked for before new runs begin.
    fn leftover_groups(&self, needed: &HashSet<PathBuf>) -> Vec<SessionGroup> {
        let services = &self.inner.services;
        services.groups.remove_abandoned();
        let is_needed = |run: &str| needed.contains(&services.agents_dir.join(run));
        let existing = services.groups.existing().into_iter();
        existing.filter(|(run, _)| !is_needed(run)).map(|(_, group)| group).collect()
    }
}

/// Ends whatever holds a directory and removes it.
async fn end_orphan(dir: &Path, epoch: u64) -> io::Result<()> {
    match Claim::take(dir) {
        Ok(Some(claim)) => {
            clear_placeholders(dir).await;
            claim.clear().await
        }
        Ok(None) => match AgentLink::attach(dir, Position::START, epoch).await {
            Ok(link) => {
                execute::end_and_remove(link, dir.to_owned()).await;
                Ok(())
            }
            // The shim does not answer, or obeys a program that is not a daemon.
            Err(_) => {
                Claim::end_holder(dir).await?;
                match Claim::take(dir)? {
                    Some(claim) => {
                        clear_placeholders(dir).await;
                        claim.clear().await
                    }
                    None => Err(io::ErrorKind::WouldBlock.into()),
                }
            }
        },
        Err(error) => Err(error),
    }
}

//! Coming back after a former daemon: every session that had not ended gets its actor again.

use std::collections::HashSet;
use std::path::PathBuf;

use domain::{Command, Error, Launch, Status, StopHow};

use super::Supervisor;
use crate::execute;
use crate::process::{Link, Position, scan};
use crate::session::{Beginning, run_dir};
use crate::store::sessions;

impl Supervisor {
    /// Takes up every session that had not ended. Each actor finds its agent in its own time; one that is stuck does
    /// not hold up the others. Returns how many there were.
    pub async fn recover(&self) -> Result<usize, Error> {
        let rows = self.store().read(sessions::live).await?;
        let count = rows.len();
        let needed =
            rows.iter().map(|row| run_dir(&self.inner.services.agents_dir, &row.spec.id, row.run)).collect();
        self.end_orphans(needed);
        for row in rows {
            let (id, status, launch) = (row.spec.id.clone(), row.state.status, row.spec.launch);
            let handle = self.enliven(row, Beginning::Recover);
            if status == Status::Created && launch == Launch::Now {
                // Its creator was never told that it exists.
                if let Err(error) = handle.command(Command::Stop { how: StopHow::Now }).await {
                    tracing::warn!(session = %id, %error, "cannot end a session that never started");
                }
            }
        }
        Ok(count)
    }

    /// Ends what shims hold for nobody: commands whose callers are gone with the former daemon, and agents whose end
    /// was written but never acknowledged.
    fn end_orphans(&self, needed: HashSet<PathBuf>) {
        let held = scan::find_held(&self.inner.services.agents_dir).unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot look for shims of a former daemon");
            Vec::new()
        });
        let orphans: Vec<PathBuf> = held
            .into_iter()
            .filter(|found| found.is_held && !needed.contains(&found.dir))
            .map(|found| found.dir)
            .collect();
        let epoch = self.inner.services.epoch;
        tokio::spawn(async move {
            for dir in orphans {
                match Link::attach(&dir, Position::START, epoch).await {
                    Ok(link) => execute::end_and_remove(link, dir).await,
                    Err(error) => tracing::warn!(%error, dir = %dir.display(), "cannot end an orphan"),
                }
            }
        });
    }
}

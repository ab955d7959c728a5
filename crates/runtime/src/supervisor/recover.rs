//! Coming back after a former daemon: every session that had not ended gets its actor again.

use domain::{Command, Error, Launch, Status, StopHow};

use super::Supervisor;
use crate::execute;
use crate::session::Beginning;
use crate::store::sessions;

impl Supervisor {
    /// Takes up every session that had not ended. Each actor finds its agent in its own time; one that is stuck does
    /// not hold up the others. Returns how many there were.
    pub async fn recover(&self) -> Result<usize, Error> {
        tokio::spawn({
            let services = self.inner.services.clone();
            async move { execute::end_left_behind(&services).await }
        });
        let rows = self.store().read(sessions::live).await?;
        let count = rows.len();
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
}

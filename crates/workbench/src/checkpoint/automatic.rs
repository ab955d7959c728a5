//! Checkpoints that the daemon makes by itself before turns that change files, and the policy by which they are removed. Those
//! that users or agents save are never removed here.

use std::time::Duration;

use domain::{Error, Timestamp};
use rusqlite::OptionalExtension as _;
use storage::{Durability, Store};

use super::{Checkpoints, NewCheckpoint, PREFIX};
use crate::tables::{self, list_text};

/// Which automatic checkpoints are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeepPolicy {
    /// The newest of each session.
    pub count: u32,
    pub age: Duration,
}

impl Checkpoints {
    /// Opens the checkpoints of a store without the rest of the workbench.
    pub async fn open(store: Store) -> Result<Self, Error> {
        tables::prepare(&store).await?;
        Ok(Self::new(store))
    }

    /// Returns a new id.
    pub fn new_id() -> Result<String, Error> {
        tables::new_id(PREFIX)
    }

    /// Returns whether the checkpoint before a turn exists.
    pub async fn has_turn(&self, session: &str, turn: u64) -> Result<bool, Error> {
        let session = session.to_owned();
        let found = self.store.read(move |connection| {
            connection
                .prepare_cached("SELECT 1 FROM bench_checkpoints WHERE session = ?1 AND turn = ?2")?
                .query_row(rusqlite::params![session, turn.cast_signed()], |_| Ok(()))
                .optional()
        });
        Ok(found.await?.is_some())
    }

    /// Stores the checkpoint before a turn; the first one of a turn wins.
    pub async fn save_automatic(
        &self,
        id: &str,
        turn: u64,
        new: NewCheckpoint,
        now: Timestamp,
    ) -> Result<(), Error> {
        let id = id.to_owned();
        self.store
            .write(Durability::Synced, move |connection| {
                connection.execute(
                    "INSERT INTO bench_checkpoints
                        (id, session, project, summary, tags, context, everything, created_at, turn)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) ON CONFLICT DO NOTHING",
                    rusqlite::params![
                        id,
                        new.session,
                        new.project,
                        new.summary,
                        list_text(&new.tags),
                        new.context,
                        new.everything,
                        now.0,
                        turn.cast_signed()
                    ],
                )
            })
            .await
            .map(drop)
    }

    /// Removes the automatic checkpoints that the policy does not keep. Returns the ids of those that remain.
    pub async fn remove_surplus(&self, policy: KeepPolicy, now: Timestamp) -> Result<Vec<String>, Error> {
        let age = i64::try_from(policy.age.as_micros()).unwrap_or(i64::MAX);
        let oldest = now.0.saturating_sub(age);
        self.store
            .write(Durability::Soon, move |connection| {
                connection.execute(
                    "DELETE FROM bench_checkpoints WHERE key IN (
                        SELECT key FROM (
                            SELECT key, created_at,
                                   row_number() OVER (PARTITION BY session ORDER BY key DESC) AS place
                            FROM bench_checkpoints WHERE turn IS NOT NULL)
                        WHERE place > ?1 OR created_at < ?2)",
                    rusqlite::params![policy.count, oldest],
                )?;
                let mut select =
                    connection.prepare_cached("SELECT id FROM bench_checkpoints WHERE turn IS NOT NULL")?;
                select.query_map([], |row| row.get(0))?.collect()
            })
            .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_newest_of_a_session_are_kept_and_those_of_users_all() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("daemon.db")).unwrap();
        let checkpoints = Checkpoints::open(store).await.unwrap();
        let new = |session: &str| NewCheckpoint {
            session: session.into(),
            project: "/p".into(),
            ..NewCheckpoint::default()
        };
        let day = Duration::from_secs(24 * 3600);
        let at = |days: i64| Timestamp(days * 24 * 3600 * 1_000_000);
        let by_user = checkpoints.save(new("sess_a"), at(0)).await.unwrap();
        for turn in 1..=4 {
            checkpoints.save_automatic(&format!("a{turn}"), turn, new("sess_a"), at(10)).await.unwrap();
        }
        checkpoints.save_automatic("b1", 1, new("sess_b"), at(1)).await.unwrap();
        checkpoints.save_automatic("b2", 2, new("sess_b"), at(10)).await.unwrap();
        // The turn has its checkpoint already.
        checkpoints.save_automatic("b3", 2, new("sess_b"), at(10)).await.unwrap();
        assert!(checkpoints.has_turn("sess_b", 2).await.unwrap());
        assert!(!checkpoints.has_turn("sess_b", 3).await.unwrap());
        let policy = KeepPolicy { count: 2, age: 5 * day };
        let mut kept = checkpoints.remove_surplus(policy, at(11)).await.unwrap();
        kept.sort();
        assert_eq!(kept, ["a3", "a4", "b2"]);
        let listed = checkpoints.list("/p", Some("sess_a"), 10).await.unwrap();
        assert!(listed.iter().any(|checkpoint| checkpoint.id == by_user), "{listed:?}");
    }
}

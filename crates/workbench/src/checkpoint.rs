//! Checkpoints of a session: a written summary, the context for resuming, and a record of everything that was
//! done. Kept across sessions and restarts. Must be given scrubbed text only.

pub mod automatic;
mod tree;

use domain::{Error, Timestamp};
use rusqlite::OptionalExtension as _;
use storage::{Durability, Store};

use crate::audit::Row;
use crate::limits;
use crate::tables::{self, list, list_text};

/// The prefix of every id.
const PREFIX: &str = "ckpt_";

/// How much of a checkpoint is requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckpointDetail {
    Summary,
    Context,
    Full,
}

impl CheckpointDetail {
    /// Parses contextd's words; empty: context.
    pub fn parse(text: &str) -> Result<Self, Error> {
        match text {
            "summary" => Ok(Self::Summary),
            "" | "context" => Ok(Self::Context),
            "full" => Ok(Self::Full),
            other => {
                Err(Error::invalid("level", format_args!("{other:?} is none of summary, context, full")))
            }
        }
    }
}

/// A checkpoint to store.
#[derive(Clone, Debug, Default)]
pub struct NewCheckpoint {
    pub session: String,
    pub project: String,
    pub summary: String,
    pub tags: Vec<String>,
    pub context: String,
    pub everything: String,
}

/// A stored checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    pub id: String,
    pub session: String,
    pub summary: String,
    pub tags: Vec<String>,
    pub created_at: Timestamp,
    /// The daemon made it before a turn.
    pub automatic: bool,
}

/// All checkpoints of the daemon.
#[derive(Clone, Debug)]
pub struct Checkpoints {
    store: Store,
}

impl Checkpoints {
    pub(crate) fn new(store: Store) -> Self {
        Self { store }
    }

    /// Stores a checkpoint and returns its id.
    pub async fn save(&self, new: NewCheckpoint, now: Timestamp) -> Result<String, Error> {
        let id = tables::new_id(PREFIX)?;
        let row = id.clone();
        self.store
            .write(Durability::Synced, move |connection| {
                connection.execute(
                    "INSERT INTO bench_checkpoints
                        (id, session, project, summary, tags, context, everything, created_at)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
                    rusqlite::params![
                        row,
                        new.session,
                        new.project,
                        new.summary,
                        list_text(&new.tags),
                        new.context,
                        new.everything,
                        now.0
                    ],
                )
            })
            .await?;
        Ok(id)
    }

    /// Lists the checkpoints of a project, newest first. `only` restricts them to one session.
    pub async fn list(
        &self,
        project: &str,
        only: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Checkpoint>, Error> {
        let (project, only) = (project.to_owned(), only.unwrap_or_default().to_owned());
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.store
            .read(move |connection| {
                let mut select = connection.prepare_cached(
                    "SELECT id, session, summary, tags, created_at, turn FROM bench_checkpoints
                     WHERE project = ?1 AND (?2 = '' OR session = ?2) ORDER BY key DESC LIMIT ?3",
                )?;
                select.query_map(rusqlite::params![project, only, limit], read)?.collect()
            })
            .await
    }

    /// Returns a checkpoint of a project with its context and its full record.
    pub async fn get(
        &self,
        project: &str,
        only: Option<&str>,
        id: &str,
    ) -> Result<(Checkpoint, String, String), Error> {
        let (project, only, wanted) =
            (project.to_owned(), only.unwrap_or_default().to_owned(), id.to_owned());
        let found = self.store.read(move |connection| {
            let mut select = connection.prepare_cached(
                "SELECT id, session, summary, tags, created_at, turn, context, everything FROM bench_checkpoints
                 WHERE id = ?1 AND project = ?2 AND (?3 = '' OR session = ?3)",
            )?;
            select
                .query_row([wanted, project, only], |row| Ok((read(row)?, row.get(6)?, row.get(7)?)))
                .optional()
        });
        found.await?.ok_or_else(|| tables::unknown("checkpoint_id", "checkpoint", id))
    }
}

fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Checkpoint> {
    let tags: String = row.get(3)?;
    Ok(Checkpoint {
        id: row.get(0)?,
        session: row.get(1)?,
        summary: row.get(2)?,
        tags: list(&tags),
        created_at: Timestamp(row.get(4)?),
        automatic: row.get::<_, Option<i64>>(5)?.is_some(),
    })
}

/// Describes a session's calls: the last of them as context for resuming, and all of them as the record.
pub fn describe_calls(project: &str, task: &str, summary: &str, rows: &[Row]) -> (String, String) {
    let mut head = format!("Project: {project}\n");
    if !task.is_empty() {
        head.push_str(&format!("Task: {task}\n"));
    }
    head.push_str(&format!("Where it stood: {summary}\n"));
    let done: Vec<&Row> = rows.iter().filter(|row| !row.entry.summary.is_empty()).collect();
    let mut context = head.clone();
    let left_out = done.len().saturating_sub(limits::CHECKPOINT_CALLS);
    if !done.is_empty() {
        context.push_str("What was done:\n");
    }
    if left_out > 0 {
        context.push_str(&format!("- ({left_out} earlier calls; see the full record)\n"));
    }
    for row in &done[left_out..] {
        context.push_str(&format!("- {}\n", row.entry.summary));
    }
    let mut everything = head;
    for row in rows {
        let entry = &row.entry;
        everything.push_str(&format!(
            "\n#{} {} {}\n{}\n{}\n",
            row.seq, entry.operation, entry.outcome, entry.summary, entry.input
        ));
    }
    (context, everything)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::AuditEntry;

    #[test]
    fn the_context_tells_the_last_calls_and_the_full_record_all() {
        let rows: Vec<Row> = (1..=60)
            .map(|seq| {
                let entry =
                    AuditEntry { summary: format!("Executed: step {seq} (exit 0)"), ..AuditEntry::default() };
                Row { seq, entry, body: String::new(), hash: Vec::new() }
            })
            .collect();
        let (context, everything) = describe_calls("/p", "a task", "half done", &rows);
        assert!(context.contains("Task: a task") && context.contains("Where it stood: half done"));
        assert!(context.contains("(20 earlier calls") && context.contains("step 60 "), "{context}");
        assert!(!context.contains("step 20 ") && everything.contains("step 1 "));
    }

    #[tokio::test]
    async fn checkpoints_are_found_in_their_project_only() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("daemon.db")).unwrap();
        crate::tables::prepare(&store).await.unwrap();
        let checkpoints = Checkpoints::new(store);
        let new = |session: &str, summary: &str| NewCheckpoint {
            session: session.into(),
            project: "/p".into(),
            summary: summary.into(),
            tags: vec!["x".into()],
            context: "c".into(),
            everything: "e".into(),
        };
        let first = checkpoints.save(new("sess_a", "one"), Timestamp(1)).await.unwrap();
        let second = checkpoints.save(new("sess_b", "two"), Timestamp(2)).await.unwrap();
        let listed = checkpoints.list("/p", None, 10).await.unwrap();
        assert_eq!(
            listed.iter().map(|it| it.id.clone()).collect::<Vec<_>>(),
            [second.clone(), first.clone()]
        );
        assert_eq!(checkpoints.list("/p", Some("sess_a"), 10).await.unwrap().len(), 1);
        assert_eq!(checkpoints.get("/p", None, &first).await.unwrap().2, "e");
        for (project, only) in [("/q", None), ("/p", Some("sess_a"))] {
            let error = checkpoints.get(project, only, &second).await.unwrap_err();
            assert_eq!(error.code, domain::ErrorCode::ItemNotFound);
        }
    }
}

//! The workbench's tables in the daemon's file: made and brought up to date here, used by the parts they belong to.
//! Their version is their own, so that the session core and the workbench can change apart.

use domain::{Error, ErrorCode};
use rusqlite::OptionalExtension as _;
use storage::{Durability, Store};

/// Each step brings the tables from version N to N+1. Steps are never changed once released.
const STEPS: &[&str] = &[
    include_str!("tables/schema_1.sql"),
    include_str!("tables/schema_2.sql"),
    include_str!("tables/schema_3.sql"),
];

/// Makes the tables or brings older ones up to date; those of a newer version are refused (OBEY-1011).
pub(crate) async fn prepare(store: &Store) -> Result<(), Error> {
    let known = STEPS.len();
    let found = store.write(Durability::Synced, move |connection| {
        let version = connection
            .query_row("SELECT value FROM meta WHERE key = 'workbench'", [], |row| row.get::<_, i64>(0))
            .optional()?
            .unwrap_or(0);
        let version = usize::try_from(version).unwrap_or(0);
        for step in STEPS.iter().skip(version) {
            connection.execute_batch(step)?;
        }
        if version < known {
            connection.execute(
                "INSERT INTO meta VALUES ('workbench', ?1) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
                [i64::try_from(known).unwrap_or(0)],
            )?;
        }
        Ok(version)
    });
    let found = found.await?;
    if found > known {
        let message = format!(
            "the workbench's tables were written by a newer obey (format {found}, this one knows {known}); upgrade obey"
        );
        return Err(Error::new(ErrorCode::StorageTooNew, message));
    }
    Ok(())
}

/// Reads a list of texts that a column holds as JSON.
pub(crate) fn list(text: &str) -> Vec<String> {
    serde_json::from_str(text).unwrap_or_default()
}

/// Writes a list of texts for a column.
pub(crate) fn list_text(list: &[String]) -> String {
    serde_json::to_string(list).unwrap_or_else(|_| "[]".to_owned())
}

/// Makes an id nobody can guess.
pub(crate) fn new_id(prefix: &str) -> Result<String, Error> {
    let name = crate::random::name().map_err(|error| {
        Error::new(ErrorCode::StorageFailed, "the system gives no randomness").with_detail(error.to_string())
    })?;
    Ok(format!("{prefix}{name}"))
}

/// Makes the error for an entry that is not there, or not for this caller.
pub(crate) fn unknown(field: &str, what: &str, id: &str) -> Error {
    Error::new(ErrorCode::ItemNotFound, format!("{field}: there is no {what} {id:?} here"))
}

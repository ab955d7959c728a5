//! Creates and migrates the workbench's tables in the daemon's file; the modules that own them use them. They
//! have a separate version, so that the session core and the workbench can change independently.

use domain::{Error, ErrorCode};
use rusqlite::OptionalExtension as _;
use storage::{Durability, Store};

/// Each step migrates the tables from version N to N+1. Released steps are never changed.
const STEPS: &[&str] = &[
    include_str!("tables/schema_1.sql"),
    include_str!("tables/schema_2.sql"),
    include_str!("tables/schema_3.sql"),
    include_str!("tables/schema_4.sql"),
];

/// Creates the tables or migrates older ones; newer versions are rejected (OBEY-1011).
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

/// Parses a list of texts that a column holds as JSON.
pub(crate) fn list(text: &str) -> Vec<String> {
    serde_json::from_str(text).unwrap_or_default()
}

/// Serializes a list of texts for a column.
pub(crate) fn list_text(list: &[String]) -> String {
    serde_json::to_string(list).unwrap_or_else(|_| "[]".to_owned())
}

/// Returns an unguessable id.
pub(crate) fn new_id(prefix: &str) -> Result<String, Error> {
    let name = crate::random::name().map_err(|error| {
        Error::new(ErrorCode::StorageFailed, "the system gives no randomness").with_detail(error.to_string())
    })?;
    Ok(format!("{prefix}{name}"))
}

/// Returns the error for an entry that does not exist or is not visible to this caller.
pub(crate) fn unknown(field: &str, what: &str, id: &str) -> Error {
    Error::new(ErrorCode::ItemNotFound, format!("{field}: there is no {what} {id:?} here"))
}

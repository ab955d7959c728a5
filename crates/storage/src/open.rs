//! Opens the file: pragmas, versions, migrations.

use std::path::Path;

use domain::{Error, ErrorCode};
use rusqlite::{Connection, OpenFlags};

use super::storage_error;
use host::failpoint;

/// Each step migrates the file from version N to N+1. Steps are never changed once released.
pub(super) const MIGRATIONS: &[&str] = &[
    include_str!("schema.sql"),
    include_str!("schema_2.sql"),
    include_str!("schema_environments.sql"),
    include_str!("schema_environment_config.sql"),
    include_str!("schema_campaign_roots.sql"),
    include_str!("schema_audit.sql"),
    include_str!("schema_campaign_scrub.sql"),
    include_str!("schema_worktree_bases.sql"),
    include_str!("schema_session_seen.sql"),
    include_str!("schema_client_keys.sql"),
    include_str!("schema_workers.sql"),
    include_str!("schema_campaign_mode.sql"),
    include_str!("schema_published_tables.sql"),
    include_str!("schema_shared_budgets.sql"),
    include_str!("schema_environment_safety.sql"),
    include_str!("schema_records.sql"),
];

const VERSION: i64 = MIGRATIONS.len() as i64;

/// Opens the writer's connection: refuses a newer file, sets the pragmas, migrates, restricts the
/// permissions.
pub(super) fn open(path: &Path) -> Result<Connection, Error> {
    let version =
        if path.exists() { read_version(path).map_err(|error| open_error(path, &error))? } else { 0 };
    check_version(path, version)?;
    let mut connection = Connection::open(path).map_err(|error| open_error(path, &error))?;
    configure(&connection).map_err(|error| open_error(path, &error))?;
    migrate(&mut connection, version).map_err(|error| open_error(path, &error))?;
    restrict(path)?;
    Ok(connection)
}

/// Refuses a file that a newer program has written.
pub(super) fn check_version(path: &Path, version: i64) -> Result<(), Error> {
    if version <= VERSION {
        return Ok(());
    }
    Err(Error::new(
        ErrorCode::StorageTooNew,
        format!(
            "{} was written by a newer obey (format {version}, this one knows {VERSION}); upgrade obey or \
             choose another data folder",
            path.display()
        ),
    ))
}

/// Returns the version of an existing file. A newer file must stay unchanged, and so must the log that a
/// killed daemon left beside it: closing a writable connection would move the log into the file.
pub(super) fn read_version(path: &Path) -> rusqlite::Result<i64> {
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    connection.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.query_row("PRAGMA user_version", [], |row| row.get(0))
}

pub(super) fn open_reader(path: &Path) -> Result<Connection, Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection =
        Connection::open_with_flags(path, flags).map_err(|error| storage_error("open a reader", &error))?;
    connection
        .execute_batch("PRAGMA query_only = ON; PRAGMA mmap_size = 268435456; PRAGMA cache_size = -1024;")
        .map_err(|error| storage_error("open a reader", &error))?;
    Ok(connection)
}

/// Opens the connection that checkpoints the log.
pub(super) fn open_sweeper(path: &Path) -> Result<Connection, Error> {
    let connection = Connection::open(path).map_err(|error| open_error(path, &error))?;
    connection
        .execute_batch(
            "PRAGMA synchronous = NORMAL; PRAGMA cache_size = -64; PRAGMA journal_size_limit = 67108864;",
        )
        .map_err(|error| open_error(path, &error))?;
    Ok(connection)
}

fn configure(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(std::time::Duration::from_secs(5))?;
    connection.execute_batch(
        "PRAGMA journal_mode = WAL;
         PRAGMA synchronous = FULL;
         PRAGMA wal_autocheckpoint = 0;
         PRAGMA cache_size = -4096;
         PRAGMA journal_size_limit = 67108864;
         PRAGMA temp_store = MEMORY;",
    )?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(())
}

fn migrate(connection: &mut Connection, from: i64) -> rusqlite::Result<()> {
    for (index, step) in MIGRATIONS.iter().enumerate().skip(usize::try_from(from).unwrap_or(0)) {
        let transaction = connection.transaction()?;
        transaction.execute_batch(step)?;
        transaction.pragma_update(None, "user_version", index as i64 + 1)?;
        failpoint!("start.migrating");
        transaction.commit()?;
    }
    Ok(())
}

/// Restricts the file to its owner: it contains prompts and may contain secrets.
fn restrict(path: &Path) -> Result<(), Error> {
    use std::os::unix::fs::PermissionsExt;
    for suffix in ["", "-wal", "-shm"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        if std::fs::metadata(&name).is_ok() {
            std::fs::set_permissions(&name, std::fs::Permissions::from_mode(0o600))
                .map_err(|error| open_error(path, &error))?;
        }
    }
    Ok(())
}

fn open_error(path: &Path, error: &dyn std::fmt::Display) -> Error {
    let mut failure = storage_error("be opened", error);
    failure.message = format!("{} ({}: {error})", failure.message, path.display());
    failure
}

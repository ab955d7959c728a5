//! Looks at a database file without changing it, for people who ask whether it is sound. Repairs nothing.

use std::path::Path;

use domain::{Error, ErrorCode};
use rusqlite::{Connection, OpenFlags};

use super::{limits, open};

/// Finds out whether this program can use a file, and whether its pages are intact: an error says what is wrong. A large
/// file is not read to its end.
pub fn check_file(path: &Path) -> Result<(), Error> {
    let damaged = |problem: &dyn std::fmt::Display| {
        Error::new(ErrorCode::StorageFailed, format!("{} is damaged: {problem}", path.display()))
    };
    let version = open::read_version(path).map_err(|error| damaged(&error))?;
    open::check_version(path, version)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(|error| damaged(&error))?;
    connection
        .set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)
        .map_err(|error| damaged(&error))?;
    let is_small = std::fs::metadata(path).is_ok_and(|meta| meta.len() <= limits::CHECKED_FILE_MAX_BYTES);
    let question = if is_small { "PRAGMA quick_check(1)" } else { "SELECT 'ok' FROM sqlite_schema LIMIT 1" };
    let answer: String =
        connection.query_row(question, [], |row| row.get(0)).map_err(|error| damaged(&error))?;
    if answer == "ok" { Ok(()) } else { Err(damaged(&answer.replace('\n', " "))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_newer_or_damaged_is_told_from_a_sound_one() -> Result<(), Box<dyn std::error::Error>> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("daemon.db");
        drop(open::open(&path)?);
        check_file(&path)?;
        Connection::open(&path)?.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")?;
        let sound = std::fs::read(&path)?;
        let mut broken = sound.clone();
        broken[4096 * 2..].fill(0xA5);
        std::fs::write(&path, &broken)?;
        let error = check_file(&path).err().ok_or("found sound")?;
        assert_eq!(error.code, ErrorCode::StorageFailed);
        assert!(error.message.contains("is damaged"), "{error}");
        std::fs::write(&path, &sound)?;
        Connection::open(&path)?.pragma_update(None, "user_version", 9_999)?;
        assert_eq!(check_file(&path).err().map(|error| error.code), Some(ErrorCode::StorageTooNew));
        Ok(())
    }
}

//! Folders that belong to this user alone: they hold the socket, the lock and the token. No symbolic link is
//! followed, and nothing that belongs to another user is used.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;

use domain::{Error, ErrorCode};

/// Makes a folder with mode 0700 where it is missing, then verifies that it is a real folder of this user that nobody
/// else may enter. `remedy` tells the user how to choose another.
pub fn private(path: &Path, remedy: &str) -> Result<(), Error> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    if let Err(error) = made {
        return Err(refused(path, &format!("cannot be made ({error})"), remedy));
    }
    // The owner of the parent folder could have put a link there: examine the entry itself, not its target.
    let found = fs::symlink_metadata(path)
        .map_err(|error| refused(path, &format!("cannot be examined ({error})"), remedy))?;
    if found.file_type().is_symlink() {
        return Err(refused(path, "is a symbolic link", remedy));
    }
    if !found.is_dir() {
        return Err(refused(path, "is not a folder", remedy));
    }
    if found.uid() != host::own_uid() {
        return Err(refused(path, &format!("belongs to user {}", found.uid()), remedy));
    }
    if found.mode() & 0o077 != 0 {
        let problem = format!(
            "can be entered by other users (mode {:03o}; `chmod 700 {}` closes it)",
            found.mode() & 0o777,
            path.display()
        );
        return Err(refused(path, &problem, remedy));
    }
    Ok(())
}

/// Returns the folder of a file; a bare name lives in the current one.
pub fn of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

fn refused(path: &Path, problem: &str, remedy: &str) -> Error {
    Error::new(ErrorCode::ListenFailed, format!("the folder {} {problem}; {remedy}", path.display()))
}

/// Names an I/O error without its number, for messages.
pub fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error") {
        Some((words, _)) => words.to_lowercase(),
        None => text,
    }
}

//! Listeners serve both protocols, protect their files, and shut down in time.

mod crowds;
mod files;
mod floods;
pub mod running;
mod serving;

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

/// A folder that only we can enter.
pub fn private_home() -> tempfile::TempDir {
    tempfile::Builder::new().permissions(Permissions::from_mode(0o700)).tempdir().unwrap()
}

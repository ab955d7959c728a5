//! A snapshot of the environment at the start of the command. Everything that depends on variables takes it,
//! so that rules about paths and configuration can be tested without the real environment.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// A snapshot of environment variables.
#[derive(Clone, Debug, Default)]
pub struct Vars(BTreeMap<OsString, OsString>);

impl Vars {
    /// Takes the environment of this process.
    pub fn of_process() -> Self {
        Self(std::env::vars_os().collect())
    }

    /// Takes the given variables.
    pub fn of(pairs: &[(&str, &str)]) -> Self {
        Self(pairs.iter().map(|(name, value)| (name.into(), value.into())).collect())
    }

    /// Returns every variable.
    pub fn all(&self) -> impl Iterator<Item = (OsString, OsString)> {
        self.0.clone().into_iter()
    }

    /// Returns a variable that is set, even if empty.
    pub fn set(&self, name: &str) -> Option<&OsStr> {
        self.0.get(OsStr::new(name)).map(OsString::as_os_str)
    }

    /// Returns a variable that is set and not empty.
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        self.set(name).filter(|value| !value.is_empty())
    }

    /// Returns a folder named by a variable. Relative ones are ignored, as the XDG rules require.
    pub fn folder(&self, name: &str) -> Option<PathBuf> {
        self.get(name).map(PathBuf::from).filter(|path| path.is_absolute())
    }

    /// Finds a program on `PATH`.
    pub fn find_program(&self, name: &str) -> Option<PathBuf> {
        if name.contains('/') {
            return Some(PathBuf::from(name)).filter(|path| is_program(path));
        }
        std::env::split_paths(self.get("PATH")?).map(|folder| folder.join(name)).find(|path| is_program(path))
    }
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

//! Default paths: socket, data, configuration, the daemon's log, following the XDG base directories. The only
//! side effect here is the creation of private folders.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use crate::failure::{Failure, Result};
use crate::vars::Vars;

/// The daemon's folders are private to its user: they hold prompts, source code and the control socket.
pub const PRIVATE_FOLDER: u32 = 0o700;
pub const PRIVATE_FILE: u32 = 0o600;

/// The default paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    pub socket: PathBuf,
    pub data_dir: PathBuf,
    pub config_file: PathBuf,
    pub state_dir: PathBuf,
    pub home: Option<PathBuf>,
}

impl Paths {
    /// Determines the paths of a user.
    pub fn of(vars: &Vars, uid: u32) -> Self {
        let home = vars.folder("HOME");
        let runtime = vars
            .folder("XDG_RUNTIME_DIR")
            .map_or_else(|| PathBuf::from(format!("/tmp/obey-{uid}")), |folder| folder.join("obey"));
        let below_home = |name: &str, default: &str| {
            vars.folder(name)
                .or_else(|| home.as_ref().map(|home| home.join(default)))
                // A service account without a home still has its runtime folder.
                .unwrap_or_else(|| runtime.clone())
                .join("obey")
        };
        Self {
            data_dir: below_home("XDG_DATA_HOME", ".local/share"),
            config_file: below_home("XDG_CONFIG_HOME", ".config").join("config.toml"),
            state_dir: below_home("XDG_STATE_HOME", ".local/state"),
            socket: runtime.join("daemon.sock"),
            home,
        }
    }

    /// Returns the log file of an automatically started daemon.
    pub fn log_file(&self) -> PathBuf {
        self.state_dir.join("daemon.log")
    }

    /// Returns the lock that keeps two commands from starting a daemon concurrently.
    pub fn start_lock(&self) -> PathBuf {
        self.state_dir.join("start.lock")
    }

    /// Returns the user's settings of conversations: `settings.json` in `BETCODE_CONFIG_DIR`, else in the
    /// folder `betcode` next to our own configuration.
    pub fn settings_file(&self, vars: &Vars) -> PathBuf {
        let ours = self.config_file.parent().and_then(Path::parent);
        let usual = ours.map_or_else(|| self.state_dir.clone(), Path::to_owned).join("betcode");
        vars.folder("BETCODE_CONFIG_DIR").unwrap_or(usual).join("settings.json")
    }

    /// Expands a leading `~/`.
    pub fn expand(&self, path: &Path) -> PathBuf {
        match (path.strip_prefix("~"), &self.home) {
            (Ok(rest), Some(home)) => home.join(rest),
            _ => path.to_owned(),
        }
    }
}

/// Returns the effective user of this process.
pub fn uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Creates a folder that only the user can enter, or checks that an existing one is private.
///
/// Rejects a folder of another user: below `/tmp` any user could have created it first and would own its
/// content.
pub fn make_private(folder: &Path) -> Result<()> {
    let made = fs::DirBuilder::new().recursive(true).mode(PRIVATE_FOLDER).create(folder);
    made.map_err(|error| Failure::failed(format!("cannot make {}: {error}", folder.display())))?;
    check_private(folder).map_err(|problem| {
        Failure::failed(problem).with_hint(format!(
            "move {} away, or name another folder of your own with XDG_RUNTIME_DIR",
            folder.display()
        ))
    })
}

/// Returns what is wrong with a folder that should be private.
pub fn check_private(folder: &Path) -> std::result::Result<(), String> {
    let shown = folder.display();
    let meta = fs::symlink_metadata(folder).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => format!("{shown} does not exist"),
        _ => format!("cannot look at {shown}: {error}"),
    })?;
    if !meta.is_dir() {
        return Err(format!("{shown} is not a folder"));
    }
    if meta.uid() != uid() {
        return Err(format!("{shown} belongs to another user (uid {})", meta.uid()));
    }
    if meta.permissions().mode() & 0o022 != 0 {
        return Err(format!("others may write to {shown}"));
    }
    Ok(())
}

/// Returns the configuration file: from the flag, `OBEY_CONFIG` or the default path.
pub fn config_file(flag: Option<&Path>, vars: &Vars, paths: &Paths) -> Result<PathBuf> {
    let chosen = flag.map(Path::to_owned).or_else(|| vars.get("OBEY_CONFIG").map(PathBuf::from));
    chosen.map_or_else(|| Ok(paths.config_file.clone()), |path| absolute(&path))
}

/// Returns an absolute path; the daemon changes its working directory.
pub fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).map_err(|error| Failure::usage(format!("{}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn xdg_folders_are_used() {
        let vars = Vars::of(&[
            ("HOME", "/home/u"),
            ("XDG_RUNTIME_DIR", "/run/user/7"),
            ("XDG_DATA_HOME", "/d"),
            ("XDG_CONFIG_HOME", "/c"),
            ("XDG_STATE_HOME", "/s"),
        ]);
        let paths = Paths::of(&vars, 7);
        assert_eq!(paths.socket, Path::new("/run/user/7/obey/daemon.sock"));
        assert_eq!(paths.data_dir, Path::new("/d/obey"));
        assert_eq!(paths.config_file, Path::new("/c/obey/config.toml"));
        assert_eq!(paths.log_file(), Path::new("/s/obey/daemon.log"));
    }

    #[test]
    fn the_home_folder_is_the_default() {
        let paths = Paths::of(&Vars::of(&[("HOME", "/home/u")]), 7);
        assert_eq!(paths.socket, Path::new("/tmp/obey-7/daemon.sock"));
        assert_eq!(paths.data_dir, Path::new("/home/u/.local/share/obey"));
        assert_eq!(paths.config_file, Path::new("/home/u/.config/obey/config.toml"));
        assert_eq!(paths.log_file(), Path::new("/home/u/.local/state/obey/daemon.log"));
    }

    #[test]
    fn relative_and_empty_xdg_folders_are_ignored() {
        let vars = Vars::of(&[("HOME", "/h"), ("XDG_RUNTIME_DIR", ""), ("XDG_DATA_HOME", "data")]);
        let paths = Paths::of(&vars, 7);
        assert_eq!(paths.socket, Path::new("/tmp/obey-7/daemon.sock"));
        assert_eq!(paths.data_dir, Path::new("/h/.local/share/obey"));
    }

    #[test]
    fn a_tilde_stands_for_the_home_folder() {
        let paths = Paths::of(&Vars::of(&[("HOME", "/h")]), 7);
        assert_eq!(paths.expand(Path::new("~/x")), Path::new("/h/x"));
        assert_eq!(paths.expand(Path::new("/~/x")), Path::new("/~/x"));
    }

    #[test]
    fn folders_are_made_private_and_open_ones_are_refused() {
        let temp = tempfile::tempdir().unwrap();
        let folder = temp.path().join("a/b");
        make_private(&folder).unwrap();
        assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, PRIVATE_FOLDER);

        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(make_private(&folder).unwrap_err().message.contains("others may write"));
        let link = temp.path().join("link");
        std::os::unix::fs::symlink(temp.path(), &link).unwrap();
        assert!(check_private(&link).unwrap_err().contains("not a folder"));
    }
}

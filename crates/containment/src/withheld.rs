//! Folders that no agent in the sandbox is given: the daemon's own, and those in which programs keep keys. Says which
//! of them a folder holds or lies in; changes nothing.

use std::path::{Path, PathBuf};

use domain::Error;
use sandbox::agent::Mount;

use super::refused;

/// Folders that agents in the sandbox are not given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Withheld {
    /// The daemon's own: configuration, rules, database, spool, log, socket.
    pub own: Vec<PathBuf>,
    /// Where the user's programs keep keys.
    pub keys: Vec<PathBuf>,
    /// What lies below these is given all the same: working trees that the daemon made.
    pub given: Vec<PathBuf>,
}

impl Withheld {
    /// Returns the folder of the daemon's that a folder holds or lies in.
    fn own_with(&self, folder: &Path) -> Option<PathBuf> {
        self.first(&self.own, folder)
    }

    /// Returns the folder that a project holds or lies in although no agent is given it.
    fn any_with(&self, folder: &Path) -> Option<PathBuf> {
        self.own_with(folder).or_else(|| self.first(&self.keys, folder))
    }

    fn first(&self, withheld: &[PathBuf], folder: &Path) -> Option<PathBuf> {
        let folder = resolved(folder);
        let is_given = |given: &PathBuf| {
            let given = resolved(given);
            folder != given && folder.starts_with(given)
        };
        let overlaps = |other: &PathBuf| {
            let other = resolved(other);
            other.starts_with(&folder) || (folder.starts_with(&other) && !self.given.iter().any(is_given))
        };
        withheld.iter().find(|other| overlaps(other)).cloned()
    }

    /// Refuses a project of which an agent in the sandbox would get more than its project.
    pub fn check_project(&self, folder: &Path) -> Result<(), Error> {
        let Some(found) = self.any_with(folder) else { return Ok(()) };
        Err(refused(format!(
            "its project {} {}; register a folder that does not, or start the session without the sandbox",
            folder.display(),
            relation(folder, &found)
        )))
    }

    /// Refuses folders beside the project, given by the configuration, that would hand out the daemon's own.
    pub(super) fn check_mounts(&self, mounts: &[Mount]) -> Result<(), Error> {
        let found = mounts.iter().find_map(|mount| Some((mount, self.own_with(&mount.from)?)));
        let Some((mount, found)) = found else { return Ok(()) };
        Err(refused(format!(
            "{} is to be shown to it and {}; take it out of sandbox.read_only and sandbox.writable, or of the agent's \
             sandbox_read_only and sandbox_writable",
            mount.at.display(),
            relation(&mount.from, &found)
        )))
    }

    /// Returns what the user should know about a project, in words.
    pub fn warning(&self, folder: &Path) -> Option<String> {
        let found = self.any_with(folder)?;
        Some(format!(
            "{} {}: agents without the sandbox can read and change what is there, agents in the sandbox are refused \
             (OBEY-2005)",
            folder.display(),
            relation(folder, &found)
        ))
    }
}

fn relation(folder: &Path, found: &Path) -> String {
    let verb = if resolved(found).starts_with(resolved(folder)) { "contains" } else { "lies in" };
    format!("{verb} {}, which agents must not have", found.display())
}

/// Returns a path without links, as far as it exists: what is not there yet can be made.
fn resolved(path: &Path) -> PathBuf {
    let real = path.ancestors().find_map(|part| Some((part, part.canonicalize().ok()?)));
    let Some((part, real)) = real else { return path.to_owned() };
    match path.strip_prefix(part) {
        Ok(rest) if !rest.as_os_str().is_empty() => real.join(rest),
        _ => real,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_that_holds_or_lies_in_the_daemons_folders_is_refused() {
        let temp = tempfile::tempdir().unwrap();
        let home = temp.path().canonicalize().unwrap();
        for folder in [".config/nvim", "share/obey/worktrees/a", "dotfiles/ssh", "code"] {
            std::fs::create_dir_all(home.join(folder)).unwrap();
        }
        std::os::unix::fs::symlink(home.join("dotfiles/ssh"), home.join(".ssh")).unwrap();
        let withheld = Withheld {
            // Not there yet: an agent could make it.
            own: vec![home.join(".config/obey"), home.join("share/obey")],
            keys: vec![home.join(".ssh")],
            given: vec![home.join("share/obey/worktrees")],
        };
        for refused in [
            ".config",
            "share",
            "share/obey",
            "share/obey/agents",
            "share/obey/worktrees",
            "dotfiles",
            ".ssh",
        ] {
            let error = withheld.check_project(&home.join(refused)).unwrap_err();
            assert_eq!(error.code, domain::ErrorCode::SandboxFailed);
            assert!(error.message.contains("register a folder"), "{refused}: {error}");
            assert!(withheld.warning(&home.join(refused)).is_some());
        }
        for allowed in [".config/nvim", "code", "share/obey/worktrees/a", "share/obey/worktrees/new"] {
            withheld.check_project(&home.join(allowed)).unwrap();
            assert_eq!(withheld.warning(&home.join(allowed)), None);
        }
        // The user may name keys for agents, the daemon's own folders not.
        let shown = |path: &str| withheld.check_mounts(&[Mount::same(home.join(path), false)]);
        shown(".ssh").unwrap();
        assert!(shown(".config").unwrap_err().message.contains("sandbox.read_only"));
    }
}

//! Finds an agent's program. Searches only absolute folders outside the agent's working directory, so that a
//! repository cannot supply its own `claude`. Runs nothing.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use agent_port::Availability;
use domain::{Error, ErrorCode, SessionSpec};

/// Returns whether a version differs from a tested one in its last number at most.
pub fn has_same_minor(tested: &str, version: &str) -> bool {
    let line = tested.rsplit_once('.').map_or(tested, |(line, _)| line);
    version.strip_prefix(line).is_some_and(|rest| rest.starts_with('.'))
}

/// A program to find, and the message if it is missing.
pub struct ProgramSearch {
    /// Its name on a `PATH`.
    pub name: &'static str,
    /// Its name for people.
    pub title: &'static str,
    /// What to install or set.
    pub remedy: &'static str,
}

impl ProgramSearch {
    /// Returns the program: the configured one, or the first on the agent's `PATH`.
    pub fn locate(
        &self,
        configured: Option<&Path>,
        path: Option<&OsStr>,
        working_dir: Option<&Path>,
    ) -> Result<PathBuf, Error> {
        let ProgramSearch { name, title, remedy } = self;
        let failed = |message: String| Error::new(ErrorCode::CreateFailed, message);
        match configured {
            Some(program) if program.is_absolute() && is_executable(program) => Ok(program.to_owned()),
            // A name without a folder is searched like the default one.
            Some(program) if program.components().count() == 1 && !program.is_absolute() => path
                .and_then(|path| find(&program.to_string_lossy(), path, working_dir))
                .ok_or_else(|| failed(format!("{} is not on the agent's PATH; {remedy}", program.display()))),
            Some(program) => Err(failed(format!(
                "{} is configured as {title} but cannot be run; {remedy}",
                program.display()
            ))),
            None => path
                .and_then(|path| find(name, path, working_dir))
                .ok_or_else(|| failed(format!("{name} is not on the agent's PATH; {remedy}"))),
        }
    }

    /// Returns whether the program can be run with a `PATH`, and its version as its installation says.
    pub fn availability(
        &self,
        configured: Option<&Path>,
        path: Option<&OsStr>,
        version: impl FnOnce(&Path) -> Option<String>,
    ) -> Availability {
        match self.locate(configured, path, None) {
            Ok(program) => Availability::Installed { version: version(&program), program },
            Err(error) => Availability::Missing { remedy: error.message },
        }
    }
}

/// Returns the working directory, unless it contains the home folder: then it is no repository that could
/// supply a program, and the user's own programs lie within it.
pub fn untrusted_dir<'a>(spec: &'a SessionSpec, environment: &[(OsString, OsString)]) -> Option<&'a Path> {
    let home = variable(environment, "HOME").map(Path::new);
    let dir = spec.working_dir.as_path();
    if home.is_some_and(|home| home.starts_with(dir)) { None } else { Some(dir) }
}

/// Returns a variable of an agent's environment; the last one wins, as for a program.
pub fn variable<'a>(environment: &'a [(OsString, OsString)], name: &str) -> Option<&'a OsStr> {
    environment.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value.as_os_str())
}

/// Returns the first program of that name on a `PATH`, without resolving links.
pub fn find(name: &str, path: &OsStr, working_dir: Option<&Path>) -> Option<PathBuf> {
    let inside = working_dir.and_then(|dir| dir.canonicalize().ok());
    std::env::split_paths(path).filter(|folder| folder.is_absolute()).map(|folder| folder.join(name)).find(
        |candidate| {
            let Ok(real) = candidate.canonicalize() else { return false };
            is_executable(&real)
                && !inside.as_ref().is_some_and(|dir| real.starts_with(dir) || candidate.starts_with(dir))
        },
    )
}

/// Returns whether a path is an executable file.
pub fn is_executable(program: &Path) -> bool {
    program.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// Reads the version from the npm package that contains the program; asking the program would start it.
pub fn npm_version(program: &Path) -> Option<String> {
    let real = program.canonicalize().ok()?;
    real.ancestors().skip(1).take(4).find_map(|folder| {
        let text = std::fs::read_to_string(folder.join("package.json")).ok()?;
        let package: serde_json::Value = serde_json::from_str(&text).ok()?;
        package["version"].as_str().map(str::to_owned)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(folder: &Path) -> PathBuf {
        std::fs::create_dir_all(folder).unwrap();
        let file = folder.join("agent");
        std::fs::write(&file, "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        file
    }

    #[test]
    fn a_program_of_the_repository_is_never_taken() {
        let temp = tempfile::tempdir().unwrap();
        let work = temp.path().join("work");
        program(&work.join("bin"));
        let real = program(&temp.path().join("bin"));
        std::os::unix::fs::symlink(work.join("bin"), temp.path().join("link")).unwrap();
        let folders = [work.join("bin"), temp.path().join("link"), "bin".into(), temp.path().join("bin")];
        let path = std::env::join_paths(folders).unwrap();
        assert_eq!(find("agent", &path, Some(&work)), Some(real));
        assert_eq!(find("nothing", &path, Some(&work)), None);
    }

    #[test]
    fn a_configured_name_is_looked_for_on_the_path() {
        let temp = tempfile::tempdir().unwrap();
        let real = program(&temp.path().join("bin"));
        let wanted = ProgramSearch { name: "other", title: "Other", remedy: "install it" };
        let path = temp.path().join("bin").into_os_string();
        let found = |configured: &str| wanted.locate(Some(Path::new(configured)), Some(&path), None);
        assert_eq!(found("agent"), Ok(real.clone()));
        assert_eq!(found(real.to_str().unwrap()), Ok(real));
        assert!(found("nothing").unwrap_err().message.ends_with("PATH; install it"));
        assert!(found("bin/agent").unwrap_err().message.contains("cannot be run"));
    }

    #[test]
    fn a_file_that_cannot_be_run_is_passed_over() {
        let temp = tempfile::tempdir().unwrap();
        std::fs::write(temp.path().join("agent"), "").unwrap();
        assert_eq!(find("agent", temp.path().as_os_str(), None), None);
    }
}

//! Finds an agent's program. Looks only at absolute places outside the agent's working directory, so that a
//! repository cannot bring its own `claude`. Runs nothing.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Returns a variable of an agent's environment; the last one wins, as it does for a program.
pub(crate) fn variable<'a>(environment: &'a [(OsString, OsString)], name: &str) -> Option<&'a OsStr> {
    environment.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value.as_os_str())
}

/// Returns the first program of that name on a `PATH`, as it is written there.
pub(crate) fn find(name: &str, path: &OsStr, working_dir: Option<&Path>) -> Option<PathBuf> {
    let inside = working_dir.and_then(|dir| dir.canonicalize().ok());
    std::env::split_paths(path).filter(|folder| folder.is_absolute()).map(|folder| folder.join(name)).find(
        |candidate| {
            let Ok(real) = candidate.canonicalize() else { return false };
            is_executable(&real)
                && !inside.as_ref().is_some_and(|dir| real.starts_with(dir) || candidate.starts_with(dir))
        },
    )
}

/// Returns whether a file is there that can be run.
pub(crate) fn is_executable(program: &Path) -> bool {
    program.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
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
    fn a_file_that_cannot_be_run_is_passed_over() {
        let temp = tempfile::tempdir().unwrap();
        std::fs::write(temp.path().join("agent"), "").unwrap();
        assert_eq!(find("agent", temp.path().as_os_str(), None), None);
    }
}

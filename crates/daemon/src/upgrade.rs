//! What the next daemon needs in order to be started like this one. The old daemon must hand it over: its memory, environment and
//! program are hidden from the other processes of its user, since agents are among them.

use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::Arc;
use std::{env, fs};

use config::paths::{self, Paths};
use config::vars::Vars;
use domain::{Error, ErrorCode};
use surface_obey::{PrepareUpgrade, UpgradePreparation};

/// The program that this process runs, whatever file is at its path by now.
const RUNNING: &str = "/proc/self/exe";

/// Returns what prepares an upgrade. Called at the start, when the program's own file is still at its path.
pub(crate) fn preparer() -> Arc<PrepareUpgrade> {
    let program = env::current_exe().unwrap_or_default();
    let folder = Paths::of(&Vars::of_process(), paths::uid()).state_dir.join("previous");
    Arc::new(move || prepare(&program, &folder))
}

fn prepare(program: &Path, folder: &Path) -> Result<UpgradePreparation, Error> {
    let identity = |path: &Path| fs::metadata(path).map(|meta| (meta.dev(), meta.ino())).ok();
    let (now, then) = (identity(program), identity(Path::new(RUNNING)));
    let environment = env::vars_os().collect();
    // Without /proc, the file at its path is the best guess.
    if then.is_none() || now == then {
        return Ok(UpgradePreparation { environment, program: program.to_owned(), is_copy: false });
    }
    let copy = folder.join("obey");
    let failed = |why: String| {
        let message = format!(
            "cannot keep a copy of the running program in {}: {why}; make room there, or end the daemon yourself: obey stop",
            folder.display()
        );
        Error::new(ErrorCode::StorageFailed, message)
    };
    paths::make_private(folder).map_err(|failure| failed(failure.message))?;
    copy_program(Path::new(RUNNING), &copy).map_err(|error| failed(error.to_string()))?;
    Ok(UpgradePreparation { environment, program: copy, is_copy: true })
}

fn copy_program(from: &Path, to: &Path) -> io::Result<()> {
    // A running program cannot be overwritten, so the copy is renamed into place.
    let draft = to.with_extension("new");
    let _absent = fs::remove_file(&draft);
    let mut source = fs::File::open(from)?;
    let mut copy = fs::OpenOptions::new().write(true).create_new(true).mode(0o700).open(&draft)?;
    io::copy(&mut source, &mut copy)?;
    drop(copy);
    fs::rename(draft, to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_was_replaced_is_copied_from_the_living_process() {
        let temp = tempfile::tempdir().unwrap();
        let folder = temp.path().join("previous");
        let own = env::current_exe().unwrap();
        let kept = prepare(&own, &folder).unwrap();
        assert_eq!((kept.program, kept.is_copy), (own.clone(), false));
        assert_eq!(kept.environment.len(), env::vars_os().count());

        let other = temp.path().join("obey");
        fs::write(&other, "another one").unwrap();
        let kept = prepare(&other, &folder).unwrap();
        assert!(kept.is_copy);
        assert_eq!(fs::metadata(&kept.program).unwrap().len(), fs::metadata(&own).unwrap().len());
        assert_eq!(fs::metadata(&kept.program).unwrap().mode() & 0o777, 0o700);
    }
}

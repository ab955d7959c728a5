//! Where a program is installed: what must be seen for it to run. Looks at the disk, runs nothing.

use std::ffi::OsStr;
use std::io::Read;
use std::path::{Path, PathBuf};

use domain::Error;
use sandbox::agent::Mount;

use super::refused;

/// Longest first line of a script that is looked at; the kernel looks at as much.
const FIRST_LINE_MAX: u64 = 256;

/// Returns a program without links, and everything it needs to run: itself or its package, and its interpreter.
pub(super) fn of(program: &Path, path: &OsStr) -> Result<(PathBuf, Vec<Mount>), Error> {
    let real = program
        .canonicalize()
        .map_err(|error| refused(format!("{} cannot be found: {error}", program.display())))?;
    let mut mounts = vec![Mount::same(package(&real), false)];
    if let Some(interpreter) = interpreter(&real, path) {
        mounts.extend(file(&interpreter));
    }
    Ok((real, mounts))
}

/// Shows a file where it is written and where it really is.
pub(super) fn file(path: &Path) -> Vec<Mount> {
    let Ok(real) = path.canonicalize() else { return Vec::new() };
    let mut mounts = vec![Mount::same(&real, false)];
    if path != real {
        mounts.push(Mount { from: real, at: path.to_owned(), writable: false });
    }
    mounts
}

/// A package of npm needs its neighbours; anything else is one file.
fn package(real: &Path) -> PathBuf {
    let outermost = real.ancestors().filter(|folder| folder.ends_with("node_modules")).last();
    outermost.unwrap_or(real).to_owned()
}

/// Returns what runs a script: named by its first line, by a path or by a name on the `PATH`.
fn interpreter(script: &Path, path: &OsStr) -> Option<PathBuf> {
    let mut line = Vec::new();
    std::fs::File::open(script).ok()?.take(FIRST_LINE_MAX).read_to_end(&mut line).ok()?;
    let line = line.split(|byte| *byte == b'\n').next()?.strip_prefix(b"#!")?;
    let line = std::str::from_utf8(line).ok()?;
    let mut words = line.split_ascii_whitespace();
    let first = Path::new(words.next()?);
    if first.file_name() != Some(OsStr::new("env")) {
        return Some(first.to_owned());
    }
    let name = words.find(|word| !word.starts_with('-') && !word.contains('='))?;
    std::env::split_paths(path)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(name))
        .find(|candidate| candidate.is_file())
}

//! Unix sockets in a project on which programs outside of the sandbox listen. Before Landlock 9 nothing keeps a sandboxed
//! agent from connecting to one by its path, so that those which exist at its start are covered. (Commands can make no such
//! connection at all.) Sockets of other network namespaces are not listed by the kernel, and those made later are not seen.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use crate::limits;
use crate::sys;

/// The kernel's list of Unix sockets.
const LIST: &str = "/proc/net/unix";

/// The version of Landlock that refuses to connect by path.
const LANDLOCK_RESOLVES: i32 = 9;

/// Returns the sockets below a folder that somebody has bound, as paths below it. None where Landlock keeps them out of reach.
pub(crate) fn below(root: &Path) -> Vec<OsString> {
    if sys::landlock_abi() >= LANDLOCK_RESOLVES {
        return Vec::new();
    }
    let list = std::fs::read(LIST).unwrap_or_default();
    let bound = BoundNames::of(&list, root);
    let mut found: BTreeSet<PathBuf> =
        bound.below.into_iter().filter(|path| is_socket(&root.join(path))).collect();
    if !bound.relative.is_empty() {
        found.extend(walk(root, &bound.relative));
    }
    found.into_iter().take(limits::SOCKETS_COVERED_MAX).map(PathBuf::into_os_string).collect()
}

/// What sockets are called by those who bound them.
#[derive(Debug, Default, PartialEq, Eq)]
struct BoundNames {
    /// Paths below the project.
    below: BTreeSet<PathBuf>,
    /// The last parts of names that are relative to a folder nobody knows.
    relative: BTreeSet<OsString>,
}

impl BoundNames {
    fn of(list: &[u8], root: &Path) -> Self {
        let mut names = Self::default();
        for line in list.split(|byte| *byte == b'\n').skip(1) {
            // Seven fields, the fourth to the sixth of fixed width, then the name, in which there may be spaces.
            let name = name_in(line).filter(|name| !name.is_empty() && name[0] != b'@');
            let Some(path) = name.map(|name| Path::new(OsStr::from_bytes(name))) else { continue };
            if path.is_absolute() {
                names.below.extend(path.strip_prefix(root).ok().map(Path::to_owned));
            } else if let Some(last) = path.file_name() {
                names.relative.insert(last.to_owned());
            }
        }
        names
    }
}

fn name_in(line: &[u8]) -> Option<&[u8]> {
    let mut rest = line;
    for _ in 0..7 {
        let begin = rest.iter().position(|byte| *byte != b' ')?;
        let len = rest[begin..].iter().position(|byte| *byte == b' ')?;
        rest = &rest[begin + len..];
    }
    rest.strip_prefix(b" ")
}

fn is_socket(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|meta| meta.file_type().is_socket())
}

/// Looks for sockets with one of these names; gives up after many files.
fn walk(root: &Path, names: &BTreeSet<OsString>) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = std::collections::VecDeque::from([PathBuf::new()]);
    let mut seen = 0;
    while let Some(folder) = folders.pop_front() {
        for entry in std::fs::read_dir(root.join(&folder)).into_iter().flatten().flatten() {
            seen += 1;
            if seen > limits::SOCKETS_WALK_MAX {
                return found;
            }
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() {
                folders.push_back(folder.join(entry.file_name()));
            } else if kind.is_socket() && names.contains(&entry.file_name()) {
                found.push(folder.join(entry.file_name()));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_from_the_kernels_list() {
        let list = b"Num       RefCount Protocol Flags    Type St Inode Path\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 22913 /home/u/a project/run/dev.sock\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 22914 @/tmp/.X11-unix/X0\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 22915 run/other.sock\n\
            0000000000000000: 00000003 00000000 00000000 0001 03 22916\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 22917 /run/dbus/socket\n";
        let names = BoundNames::of(list, Path::new("/home/u/a project"));
        assert_eq!(names.below, BTreeSet::from(["run/dev.sock".into()]));
        assert_eq!(names.relative, BTreeSet::from(["other.sock".into()]));
    }

    #[test]
    fn sockets_that_somebody_listens_on_are_found_and_left_over_ones_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("run")).unwrap();
        let _listener = std::os::unix::net::UnixListener::bind(root.join("run/dev.sock")).unwrap();
        drop(std::os::unix::net::UnixListener::bind(root.join("run/stale.sock")).unwrap());
        let expected: Vec<OsString> =
            if sys::landlock_abi() >= LANDLOCK_RESOLVES { Vec::new() } else { vec!["run/dev.sock".into()] };
        assert_eq!(below(&root), expected);
        assert_eq!(
            walk(&root, &BTreeSet::from(["dev.sock".into()])),
            [PathBuf::from("run/dev.sock")],
            "by its name alone"
        );
    }
}

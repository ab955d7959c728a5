//! Where the daemon's own git may write. Agents can write most files of a repository, and git follows links there: to an index, a
//! reflog or a folder of objects. The kernel keeps what it writes below the folders that are named here.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use host::project_file;

/// Returns the folders below which a command may write: what its variables name, else the working tree around the folder and its
/// repository.
pub(super) fn folders(folder: &Path, env: &[(&str, &OsStr)], more: &[&Path]) -> Vec<PathBuf> {
    let named =
        |wanted: &str| env.iter().rfind(|(name, _)| *name == wanted).map(|(_, value)| PathBuf::from(value));
    let mut found: Vec<PathBuf> = more.iter().map(|path| path.to_path_buf()).collect();
    match named("GIT_DIR") {
        Some(git_dir) => found.push(git_dir),
        None => found.extend(repository_around(folder)),
    }
    found.extend(named("GIT_WORK_TREE"));
    found.extend(named("GIT_OBJECT_DIRECTORY"));
    found.extend(named("GIT_INDEX_FILE").and_then(|index| index.parent().map(Path::to_owned)));
    found
}

/// Returns the working tree around a folder and the folder that its repository's trees share.
fn repository_around(folder: &Path) -> Vec<PathBuf> {
    let Some(root) = git_files::root_around(folder) else {
        return Vec::new();
    };
    let mut found = vec![root.to_owned()];
    let shared = project_file::off_async_threads(|| {
        let git_folder = git_files::git_folder(root)?;
        Some(git_files::common_folder(&git_folder).unwrap_or(git_folder))
    });
    found.extend(shared.and_then(|shared| shared.canonicalize().ok()).filter(|shared| is_repository(shared)));
    found
}

/// Returns whether a folder is a repository: a file that an agent can write may name any folder as one.
fn is_repository(folder: &Path) -> bool {
    let is_folder = |name: &str| folder.join(name).symlink_metadata().is_ok_and(|found| found.is_dir());
    is_folder("objects") && is_folder("refs") && folder.join("HEAD").symlink_metadata().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_and_what_the_trees_share_can_be_written() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        let (repository, tree) = (home.join("repo"), home.join("tree"));
        let git = repository.join(".git");
        for folder in ["objects", "refs", "worktrees/tree"] {
            std::fs::create_dir_all(git.join(folder)).unwrap();
        }
        std::fs::create_dir_all(tree.join("src")).unwrap();
        std::fs::write(git.join("HEAD"), "ref: refs/heads/main\n").unwrap();
        std::fs::write(git.join("worktrees/tree/commondir"), "../..\n").unwrap();
        let pointer = format!("gitdir: {}\n", git.join("worktrees/tree").display());
        std::fs::write(tree.join(".git"), pointer).unwrap();
        assert_eq!(folders(&repository, &[], &[]), [repository.clone(), git.clone()]);
        assert_eq!(folders(&tree.join("src"), &[], &[&home]), [home.clone(), tree.clone(), git.clone()]);
        assert!(folders(&home, &[], &[]).is_empty());
        let index = git.join("worktrees/tree/index");
        let env = [("GIT_DIR", home.as_os_str()), ("GIT_INDEX_FILE", index.as_os_str())];
        assert_eq!(folders(&tree, &env, &[]), [home.clone(), git.join("worktrees/tree")]);
        // A folder that is named as a repository and is none.
        std::fs::write(tree.join(".git"), format!("gitdir: {}\n", home.display())).unwrap();
        assert_eq!(folders(&tree, &[], &[]), [tree]);
    }
}

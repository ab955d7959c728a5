//! The branch that is checked out in a folder, read from git's own files without running git.

use std::path::Path;

use git_files::Head;
use host::project_file;

use crate::limits;

/// Returns the branch that is checked out in a folder, if there is one.
pub(super) fn checked_out(folder: &Path) -> Option<String> {
    let head = project_file::off_async_threads(|| {
        let mut around = folder.ancestors().take(limits::BRANCH_PARENTS_MAX);
        git_files::head(&around.find_map(git_files::git_folder)?)
    });
    match head {
        Some(Head::Branch(name)) => Some(name),
        Some(Head::Commit(_)) | None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_branch_of_a_repository_and_of_a_tree_beside_it_is_found() {
        let home = tempfile::tempdir().unwrap();
        let (repository, tree) = (home.path().join("repo"), home.path().join("tree"));
        let git = repository.join(".git");
        std::fs::create_dir_all(git.join("worktrees/tree")).unwrap();
        std::fs::create_dir_all(repository.join("src/deep")).unwrap();
        std::fs::create_dir_all(&tree).unwrap();
        std::fs::write(git.join("HEAD"), "ref: refs/heads/main\n").unwrap();
        std::fs::write(git.join("worktrees/tree/HEAD"), "ref: refs/heads/fix/cart\n").unwrap();
        let pointer = format!("gitdir: {}\n", git.join("worktrees/tree").display());
        std::fs::write(tree.join(".git"), pointer).unwrap();
        assert_eq!(checked_out(&repository).as_deref(), Some("main"));
        assert_eq!(checked_out(&repository.join("src/deep")).as_deref(), Some("main"));
        assert_eq!(checked_out(&tree).as_deref(), Some("fix/cart"));
    }

    #[test]
    fn what_is_no_branch_is_not_shown() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(checked_out(home.path()), None);
        let git = home.path().join(".git");
        std::fs::create_dir_all(&git).unwrap();
        for head in
            ["", "0123456789abcdef0123456789abcdef01234567\n", "secret", "ref: refs/heads/a\u{1b}[2J\n"]
        {
            std::fs::write(git.join("HEAD"), head).unwrap();
            assert_eq!(checked_out(home.path()), None, "{head:?}");
        }
        std::fs::remove_file(git.join("HEAD")).unwrap();
        std::os::unix::fs::symlink("/etc/hostname", git.join("HEAD")).unwrap();
        assert_eq!(checked_out(home.path()), None);
    }
}

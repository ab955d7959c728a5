//! The branch that is checked out in a folder, read from git's own files without running git. Repositories are untrusted:
//! what is read is small, and shown only if it is the name of a branch.

use std::path::{Path, PathBuf};

use crate::limits;
use host::project_file;

/// Returns the branch that is checked out in a folder; empty if there is none, or no repository.
pub(super) fn checked_out(folder: &Path) -> String {
    let found = folder.ancestors().take(limits::BRANCH_PARENTS_MAX).find_map(head);
    found.unwrap_or_default()
}

/// Returns the branch of the repository whose top folder this is; nothing if it is none.
fn head(folder: &Path) -> Option<String> {
    let dot_git = folder.join(".git");
    let kind = std::fs::symlink_metadata(&dot_git).ok()?;
    let git_dir = if kind.is_dir() {
        dot_git
    } else {
        // A working tree beside the repository: the file says where git keeps its files.
        let text = read(folder, ".git")?;
        let named = PathBuf::from(text.strip_prefix("gitdir:")?.trim());
        if named.is_absolute() { named } else { folder.join(named) }
    };
    Some(read(&git_dir, "HEAD").and_then(|head| branch_name(&head)).unwrap_or_default())
}

fn read(folder: &Path, file: &str) -> Option<String> {
    project_file::read_text(folder, Path::new(file), limits::BRANCH_FILE_MAX_BYTES).ok().flatten()
}

/// Returns the branch that the content of `HEAD` names.
fn branch_name(head: &str) -> Option<String> {
    let name = head.strip_prefix("ref: refs/heads/")?.trim_end();
    let is_shown =
        !name.is_empty() && name.len() <= git::limits::BRANCH_MAX_BYTES && !name.contains(char::is_control);
    is_shown.then(|| name.to_owned())
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
        assert_eq!(checked_out(&repository), "main");
        assert_eq!(checked_out(&repository.join("src/deep")), "main");
        assert_eq!(checked_out(&tree), "fix/cart");
    }

    #[test]
    fn what_is_no_branch_is_not_shown() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(checked_out(home.path()), "");
        let git = home.path().join(".git");
        std::fs::create_dir_all(&git).unwrap();
        for head in
            ["", "0123456789abcdef0123456789abcdef01234567\n", "secret", "ref: refs/heads/a\u{1b}[2J\n"]
        {
            std::fs::write(git.join("HEAD"), head).unwrap();
            assert_eq!(checked_out(home.path()), "", "{head:?}");
        }
        std::fs::remove_file(git.join("HEAD")).unwrap();
        std::os::unix::fs::symlink("/etc/hostname", git.join("HEAD")).unwrap();
        assert_eq!(checked_out(home.path()), "");
    }
}

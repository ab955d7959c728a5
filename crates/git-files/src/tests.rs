//! The readers on repositories that tests lay out by hand.

use std::fs;

use super::*;

/// A repository with a commit on `main`, and the folder that it has for a working tree called `tree`.
fn repository(home: &Path) -> (PathBuf, PathBuf) {
    let git = home.join("repo/.git");
    let own = git.join("worktrees/tree");
    fs::create_dir_all(&own).unwrap();
    fs::write(git.join("HEAD"), "ref: refs/heads/main\n").unwrap();
    fs::write(own.join("HEAD"), "ref: refs/heads/fix/cart\n").unwrap();
    fs::write(own.join("commondir"), "../..\n").unwrap();
    (git, own)
}

fn linked_tree(home: &Path, own: &str) -> PathBuf {
    let tree = home.join("tree");
    fs::create_dir_all(tree.join("src")).unwrap();
    fs::write(tree.join(DOT_GIT), format!("gitdir: {own}\n")).unwrap();
    tree
}

#[test]
fn the_git_folder_of_a_repository_and_of_a_linked_tree_is_found() {
    let home = tempfile::tempdir().unwrap();
    let (git, own) = repository(home.path());
    let tree = linked_tree(home.path(), own.to_str().unwrap());
    assert_eq!(git_folder(&home.path().join("repo")), Some(git.clone()));
    assert_eq!(git_folder(&tree), Some(own.clone()));
    assert_eq!(root_around(&tree.join("src")), Some(&*tree));
    assert_eq!(common_folder(&git), None);
    assert_eq!(common_folder(&own).unwrap().canonicalize().unwrap(), git.canonicalize().unwrap());
    assert_eq!(git_folder(home.path()), None);
    assert_eq!(git_folder(&linked_tree(home.path(), "../repo/.git/x ")), Some(tree.join("../repo/.git/x ")));
}

#[test]
fn a_linked_tree_counts_only_if_its_repository_knows_it() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path().canonicalize().unwrap();
    let (git, own) = repository(&home);
    let tree = linked_tree(&home, own.to_str().unwrap());
    assert_eq!(LinkedTree::of(&tree), None, "the repository does not name a tree");
    fs::write(own.join("gitdir"), "/somewhere/else/.git\n").unwrap();
    assert_eq!(LinkedTree::of(&tree), None, "it names another one");
    let linked = LinkedTree { common: git.clone(), own: own.clone() };
    // The second is how git writes it with worktree.useRelativePaths.
    for back in [tree.join(DOT_GIT).to_str().unwrap(), "../../../../tree/.git"] {
        fs::write(own.join("gitdir"), format!("{back}\n")).unwrap();
        assert_eq!(LinkedTree::of(&tree).as_ref(), Some(&linked), "{back}");
    }
    fs::write(own.join("commondir"), "../../../..\n").unwrap();
    assert_eq!(LinkedTree::of(&tree), None, "what is named is no repository");
    fs::write(own.join("commondir"), "../..\n").unwrap();
    fs::rename(tree.join(DOT_GIT), tree.join("elsewhere")).unwrap();
    std::os::unix::fs::symlink("elsewhere", tree.join(DOT_GIT)).unwrap();
    assert_eq!(LinkedTree::of(&tree), None, "a link in place of the file");
}

#[test]
fn a_head_is_a_branch_or_a_commit() {
    let home = tempfile::tempdir().unwrap();
    let (git, _) = repository(home.path());
    assert_eq!(head(&git), Some(Head::Branch("main".into())));
    let id = "0123456789abcdef0123456789abcdef01234567";
    for (text, expected) in [
        (format!("{id}\n"), Some(Head::Commit(id.into()))),
        (String::new(), None),
        ("secret".to_owned(), None),
        ("ref: refs/heads/a\u{1b}[2J\n".to_owned(), None),
        (format!("ref: refs/heads/{}\n", "a".repeat(BRANCH_MAX_BYTES + 1)), None),
    ] {
        fs::write(git.join("HEAD"), &text).unwrap();
        assert_eq!(head(&git), expected, "{text:?}");
    }
}

#[test]
fn a_pipe_and_a_folder_in_place_of_a_file_are_not_read() {
    let home = tempfile::tempdir().unwrap();
    let (git, own) = repository(home.path());
    fs::remove_file(git.join("HEAD")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, git.join("HEAD"), Mode::RUSR).unwrap();
    assert_eq!(head(&git), None);
    fs::remove_file(own.join("commondir")).unwrap();
    fs::create_dir(own.join("commondir")).unwrap();
    assert_eq!(common_folder(&own), None);
    fs::write(own.join("HEAD"), "a long text").unwrap();
    assert_eq!(read(&own.join("HEAD"), 6).as_deref(), Some(b"a long".as_slice()));
}

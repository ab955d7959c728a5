//! The submodules of a repository: folders below `.git/modules` that are repositories themselves, each with a configuration and hooks
//! by which git runs code, and the working trees that belong to them. Looks at the disk, runs nothing.

use std::path::{Component, Path, PathBuf};

/// Most submodules that are looked for, and how deep their names are: `libs/a` is two deep, one inside it again two more.
const SUBMODULES_MAX: usize = 128;
const DEPTH_MAX: usize = 8;

/// A submodule.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Submodule {
    /// Its repository.
    pub(super) git: PathBuf,
    /// Its working tree, where it has one inside `root`.
    pub(super) tree: Option<PathBuf>,
}

/// Finds the submodules of a repository whose working tree is `root`.
pub(super) fn find(git: &Path, root: &Path) -> Vec<Submodule> {
    let mut found = Vec::new();
    search(&git.join("modules"), root, DEPTH_MAX, &mut found);
    found
}

fn search(folder: &Path, root: &Path, depth: usize, found: &mut Vec<Submodule>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        // A link leads elsewhere, and what is there is not the agent's to write.
        if found.len() >= SUBMODULES_MAX || depth == 0 || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let path = entry.path();
        if path.join("HEAD").is_file() {
            let tree = working_tree(&path).filter(|tree| tree.starts_with(root) && tree.is_dir());
            search(&path.join("modules"), root, depth - 1, found);
            found.push(Submodule { git: path, tree });
        } else {
            search(&path, root, depth - 1, found);
        }
    }
}

/// Returns where a repository says that its working tree is.
fn working_tree(git: &Path) -> Option<PathBuf> {
    let text = std::fs::read_to_string(git.join("config")).ok()?;
    let value = text.lines().find_map(|line| {
        let (key, value) = line.split_once('=')?;
        key.trim().eq_ignore_ascii_case("worktree").then(|| value.trim().trim_matches('"').to_owned())
    })?;
    let tree = git.join(value);
    tree.canonicalize().ok().filter(|tree| tree.components().all(|part| part != Component::ParentDir))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn submodules_are_found_however_they_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let modules = root.join(".git/modules");
        for (name, tree) in [("a", "../../../a"), ("libs/b", "../../../../libs/b"), ("away", "/etc")] {
            std::fs::create_dir_all(modules.join(name)).unwrap();
            std::fs::write(modules.join(name).join("HEAD"), "ref: refs/heads/main\n").unwrap();
            let config = format!("[core]\n\tbare = false\n\tworktree = {tree}\n");
            std::fs::write(modules.join(name).join("config"), config).unwrap();
        }
        std::fs::create_dir_all(root.join("a")).unwrap();
        std::fs::create_dir_all(root.join("libs/b")).unwrap();
        let mut found = find(&root.join(".git"), &root);
        found.sort_by(|one, other| one.git.cmp(&other.git));
        let expected = |name: &str, tree: Option<&str>| Submodule {
            git: modules.join(name),
            tree: tree.map(|tree| root.join(tree)),
        };
        let wanted = [expected("a", Some("a")), expected("away", None), expected("libs/b", Some("libs/b"))];
        assert_eq!(found, wanted);
        assert!(find(&root.join("none"), &root).is_empty());
    }
}

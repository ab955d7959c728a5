//! Git in the sandbox: which parts of a repository a command may write. Index, references and new objects are writable; what makes
//! git run code (configuration, hooks) and the packed history are not. Knows the layout of a repository, not git's
//! commands; a file of the project is never believed without a check.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use git_files::{DOT_GIT, LinkedTree};

use crate::limits;
use crate::protect::{self, NO_REDIRECTION};

/// What makes git run code, or leads it to settings elsewhere; something stands at each, always.
const RUNS_CODE: &[&str] = &["config", "config.worktree", "hooks", "commondir"];

/// What keeps git from taking a folder without `.git` for a repository, whatever else is made in it (`HEAD`, `config`). One of the
/// folders is enough, beside the first name.
pub(crate) const KEEP_FROM_REPOSITORY: &[&str] = &[NO_REDIRECTION, "refs", "objects"];

/// What holds the history, and repositories and working trees that belong to this one; covered where it exists. Loose
/// objects and references stay writable: a commit makes them.
const HISTORY: &[&str] = &["objects/pack", "objects/info", "packed-refs", "modules", "worktrees"];

/// What the working tree's own folder in a repository says about where things are.
const LINKED: &[&str] = &["commondir", "config.worktree", "gitdir"];

/// Folders of a repository that are not written to from a linked working tree.
const NOT_FOR_LINKED: &[&str] = &["hooks", "worktrees", "config.worktree"];

/// Settings that every git in the sandbox has: no program that the repository names, and nothing that would write to the
/// packed history.
const SETTINGS: &[(&str, &str)] = &[
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("transfer.unpackLimit", "1000000000"),
];

/// Where the sandbox has the system's configuration of git; builds of git look for it in different places.
const SYSTEM_CONFIG: &str = "/etc/gitconfig";

/// What a command may do with a project's repository.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RepositoryAccess {
    /// Paths below the project's root that stay as they are.
    pub(crate) protected: Vec<OsString>,
    /// The repository of a linked working tree, which is outside the root, and the paths in it that stay as they are.
    pub(crate) linked: Option<(PathBuf, Vec<OsString>)>,
    /// The folders in it that the command may write to.
    pub(crate) linked_writable: Vec<PathBuf>,
    /// The repository, if a command may write to it.
    pub(crate) repository: Option<PathBuf>,
    /// There is no repository: one that the command makes is freed of what runs code.
    pub(crate) is_new: bool,
    /// The project's own folder is no repository, and the command must not leave it as one.
    pub(crate) has_no_head: bool,
    pub(crate) env: Vec<(OsString, OsString)>,
}

impl RepositoryAccess {
    /// Looks at a project. `protected` are the names in its root that stay as they are.
    pub(crate) fn of(root: &Path, protected: &[OsString]) -> Self {
        let mut access = Self { protected: protected.to_vec(), ..Self::default() };
        if !protected.iter().any(|name| name == DOT_GIT) {
            return access;
        }
        let stops_git = root.join(DOT_GIT).symlink_metadata().is_ok_and(|meta| meta.is_file());
        access.has_no_head = !stops_git && root.join("HEAD").symlink_metadata().is_err();
        let git = root.join(DOT_GIT);
        let repository = match git.symlink_metadata() {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                access.protected.retain(|name| name != DOT_GIT);
                access.is_new = true;
                access.env = settings(None);
                return access;
            }
            Ok(meta) if meta.is_dir() => {
                access.protected.retain(|name| name != DOT_GIT);
                access.protect_repository(Path::new(DOT_GIT), &git);
                git
            }
            Ok(meta) if meta.is_file() => match LinkedTree::of(root) {
                Some(linked) => {
                    let names = protected_in(&linked.common).into_iter().filter(|name| *name != "worktrees");
                    let mut names: Vec<OsString> = names.map(OsString::from).collect();
                    if let Ok(own) = linked.own.strip_prefix(&linked.common) {
                        let existing = LINKED.iter().map(|name| own.join(name));
                        let existing = existing.filter(|path| linked.common.join(path).exists());
                        names.extend(existing.map(PathBuf::into_os_string));
                    }
                    let Ok(writable) = writable_for_linked_tree(&linked.common, &linked.own) else {
                        return access;
                    };
                    access.linked_writable = writable;
                    access.linked = Some((linked.common.clone(), names));
                    linked.common
                }
                None => match separate_repository(root) {
                    Some((below, repository)) => {
                        access.protect_repository(&below, &repository);
                        repository
                    }
                    None => return access,
                },
            },
            // A link, or what cannot be looked at: protected as a whole.
            _ => return access,
        };
        access.env = settings(Some(&repository));
        access.repository = Some(repository);
        access
    }

    /// Protects what is in a repository that lies in the project.
    fn protect_repository(&mut self, below: &Path, git: &Path) {
        let names = protected_in(git).into_iter().map(|name| below.join(name).into_os_string());
        self.protected.extend(names);
    }
}

/// Returns the names in a folder by which git takes it for a repository, although it has no `.git` or one that was destroyed. Git
/// would then run what the `config` in that folder names. A folder that is a repository itself is protected as one.
pub fn protected_beside(folder: &Path) -> Vec<&'static str> {
    // Where `.git` is a file, git looks for no other repository.
    if folder.join(DOT_GIT).symlink_metadata().is_ok_and(|meta| meta.is_file()) {
        return Vec::new();
    }
    let [redirection, refs, objects] = KEEP_FROM_REPOSITORY else { return Vec::new() };
    let is_absent = |name: &&&str| {
        let path = folder.join(name);
        path.symlink_metadata().is_err() || protect::stands(&path)
    };
    match [refs, objects].into_iter().find(is_absent) {
        Some(absent) => vec![redirection, absent],
        None if folder.join("HEAD").is_file() => RUNS_CODE.to_vec(),
        None => vec![redirection, "HEAD"],
    }
}

/// Finds the repository of a project that keeps it inside under a name of its own (`git init --separate-git-dir`): its path below
/// the project, and whole.
pub fn separate_repository(root: &Path) -> Option<(PathBuf, PathBuf)> {
    let text = configuration(&root.join(DOT_GIT))?;
    let repository = root.join(text.strip_prefix("gitdir:")?.trim()).canonicalize().ok()?;
    let below = repository.strip_prefix(root.canonicalize().ok()?).ok()?.to_owned();
    let is_one = !below.as_os_str().is_empty() && repository.join("HEAD").is_file();
    is_one.then_some((below, repository))
}

/// Returns the names in a repository that stay as they are.
fn protected_in(git: &Path) -> Vec<&'static str> {
    let history = HISTORY.iter().filter(|name| git.join(name).symlink_metadata().is_ok());
    RUNS_CODE.iter().chain(history).copied().collect()
}

/// Returns the folders in a repository that git writes to from a linked working tree: the tree's own part, and all but those with
/// programs and with the parts of other trees. Nothing directly in the repository's folder is among them.
pub fn writable_for_linked_tree(common: &Path, own: &Path) -> std::io::Result<Vec<PathBuf>> {
    // In a bare repository it is made with the first commit in a tree.
    match std::fs::create_dir(common.join("logs")) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let mut folders = vec![own.to_owned()];
    for entry in std::fs::read_dir(common)? {
        let entry = entry?;
        let is_other = NOT_FOR_LINKED.iter().any(|name| entry.file_name() == *name);
        if entry.file_type()?.is_dir() && !is_other {
            folders.push(entry.path());
        }
    }
    Ok(folders)
}

/// Reads a configuration as text. Bytes that are no text hide nothing of the rest.
fn configuration(file: &Path) -> Option<String> {
    let bytes = git_files::read(file, limits::REPOSITORY_FILE_MAX)?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns the settings of git as variables, which win over every file.
fn settings(repository: Option<&Path>) -> Vec<(OsString, OsString)> {
    let mut all: Vec<(String, String)> =
        SETTINGS.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    for file in ["config", "config.worktree"] {
        let text =
            repository.and_then(|repository| configuration(&repository.join(file))).unwrap_or_default();
        for name in filters(&text) {
            for key in ["clean", "smudge", "process"] {
                all.push((format!("filter.{name}.{key}"), String::new()));
            }
            // Git stops instead of storing what was not filtered.
            all.push((format!("filter.{name}.required"), "true".to_owned()));
        }
    }
    let mut env = vec![
        ("GIT_CONFIG_COUNT".to_owned(), all.len().to_string()),
        ("GIT_CONFIG_SYSTEM".to_owned(), SYSTEM_CONFIG.to_owned()),
        ("GIT_TERMINAL_PROMPT".to_owned(), "0".to_owned()),
    ];
    for (at, (key, value)) in all.into_iter().enumerate() {
        env.push((format!("GIT_CONFIG_KEY_{at}"), key));
        env.push((format!("GIT_CONFIG_VALUE_{at}"), value));
    }
    env.into_iter().map(|(name, value)| (name.into(), value.into())).collect()
}

/// Returns the filters that a configuration defines.
fn filters(text: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for line in text.lines() {
        let Some(rest) = line.trim_start().strip_prefix('[') else { continue };
        let Some((section, rest)) = rest.split_once(char::is_whitespace) else { continue };
        if !section.eq_ignore_ascii_case("filter") {
            continue;
        }
        let name = rest.trim_start().strip_prefix('"').and_then(|rest| rest.split_once("\"]"));
        // Quotes and backslashes are escaped by a backslash.
        let name = name.map(|(name, _)| name.replace("\\\"", "\"").replace("\\\\", "\\"));
        names.extend(name.filter(|name| !names.contains(name)));
        if names.len() >= limits::REPOSITORY_FILTERS_MAX {
            break;
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &[&str]) -> Vec<OsString> {
        list.iter().map(OsString::from).collect()
    }

    #[test]
    fn of_a_repository_only_what_runs_code_and_what_is_packed_is_protected() {
        let dir = tempfile::tempdir().unwrap();
        let protected = names(&[".git", ".claude"]);
        let none = RepositoryAccess::of(dir.path(), &protected);
        assert!(none.is_new && none.protected == names(&[".claude"]) && none.has_no_head);
        std::fs::create_dir_all(dir.path().join(".git/objects/pack")).unwrap();
        let config = "[user]\n\tname = Ann\u{1}\n[core]\n\tbare = false\n[filter \"lfs\"]\n\tclean = evil\n[FILTER \"a \\\"b\"]\n";
        // A byte that is not UTF-8 hides nothing of the rest.
        let config: Vec<u8> = config.bytes().map(|byte| if byte == 1 { 0xe9 } else { byte }).collect();
        std::fs::write(dir.path().join(".git/config"), config).unwrap();
        let access = RepositoryAccess::of(dir.path(), &protected);
        let expected = [
            ".claude",
            ".git/config",
            ".git/config.worktree",
            ".git/hooks",
            ".git/commondir",
            ".git/objects/pack",
        ];
        assert_eq!(access.protected, names(&expected));
        assert!(!access.is_new);
        let keys: Vec<&OsString> = access.env.iter().map(|(_, value)| value).collect();
        for key in ["core.hooksPath", "filter.lfs.clean", "filter.lfs.required", "filter.a \"b.process"] {
            assert!(keys.contains(&&OsString::from(key)), "{key}: {keys:?}");
        }
    }

    #[test]
    fn what_would_make_a_repository_of_a_folder_is_protected() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        assert_eq!(protected_beside(&root), [NO_REDIRECTION, "refs"]);
        std::fs::create_dir(root.join("refs")).unwrap();
        assert_eq!(protected_beside(&root), [NO_REDIRECTION, "objects"], "a folder of the project's own");
        std::fs::create_dir(root.join("objects")).unwrap();
        assert_eq!(protected_beside(&root), [NO_REDIRECTION, "HEAD"]);
        std::fs::write(root.join("HEAD"), "ref: refs/heads/main\n").unwrap();
        assert_eq!(protected_beside(&root), RUNS_CODE, "it is a repository");
        std::fs::write(root.join(DOT_GIT), "gitdir: elsewhere\n").unwrap();
        assert!(protected_beside(&root).is_empty(), "git stops at the file");
    }

    #[test]
    fn a_repository_under_another_name_in_the_project_is_protected() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let store = root.join("a/store");
        std::fs::create_dir_all(&store).unwrap();
        std::fs::write(root.join(DOT_GIT), "gitdir: a/store\n").unwrap();
        let protected = names(&[DOT_GIT]);
        assert_eq!(RepositoryAccess::of(&root, &protected).protected, protected, "no repository");
        std::fs::write(store.join("HEAD"), "ref: refs/heads/main\n").unwrap();
        let access = RepositoryAccess::of(&root, &protected);
        let expected =
            [DOT_GIT, "a/store/config", "a/store/config.worktree", "a/store/hooks", "a/store/commondir"];
        assert_eq!(access.protected, names(&expected));
        assert_eq!(access.repository.as_deref(), Some(store.as_path()));
        for outside in ["..", ".", "/"] {
            std::fs::write(root.join(DOT_GIT), format!("gitdir: {outside}\n")).unwrap();
            assert_eq!(separate_repository(&root), None, "{outside}");
        }
    }

    #[test]
    fn a_file_that_points_to_a_repository_that_does_not_know_the_tree_is_protected_whole() {
        let dir = tempfile::tempdir().unwrap();
        let (tree, other) = (dir.path().join("tree"), dir.path().join("other/.git"));
        std::fs::create_dir_all(&tree).unwrap();
        std::fs::create_dir_all(other.join("worktrees/x")).unwrap();
        std::fs::write(tree.join(".git"), format!("gitdir: {}\n", other.join("worktrees/x").display()))
            .unwrap();
        std::fs::write(other.join("worktrees/x/commondir"), "../..\n").unwrap();
        std::fs::write(other.join("HEAD"), "ref: refs/heads/main\n").unwrap();
        std::fs::write(other.join("worktrees/x/gitdir"), "/somewhere/else/.git\n").unwrap();
        let protected = names(&[".git"]);
        let access = RepositoryAccess::of(&tree, &protected);
        assert_eq!((access.protected, access.linked), (protected.clone(), None));
        let back = tree.canonicalize().unwrap().join(".git");
        std::fs::write(other.join("worktrees/x/gitdir"), format!("{}\n", back.display())).unwrap();
        let access = RepositoryAccess::of(&tree, &protected);
        assert_eq!(access.protected, protected, "the file itself stays");
        let (common, inside) = access.linked.unwrap();
        assert_eq!(common, other.canonicalize().unwrap());
        assert!(
            inside.contains(&"hooks".into()) && inside.contains(&"worktrees/x/gitdir".into()),
            "{inside:?}"
        );
    }
}

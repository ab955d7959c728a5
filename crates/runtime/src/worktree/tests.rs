//! Worktrees of real repositories: ordinary ones, broken ones, and one that tries to run its own code.

mod changes;
mod creating;
mod hostile;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use domain::{Error, ErrorCode, LaunchPolicy, ProviderKind, SessionId, Status};

use super::*;
use crate::settings::Settings;
use crate::supervisor::{NewSession, SupervisorOptions};
use agent_port::Providers;
use storage::Store;

/// A daemon's worktrees and a repository with one commit.
struct Bench {
    worktrees: Worktrees,
    repo: PathBuf,
    folder: tempfile::TempDir,
}

impl Bench {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("agents")).unwrap();
        let supervisor = Supervisor::new(SupervisorOptions {
            store: Store::open(&root.join("daemon.db")).unwrap(),
            providers: Providers::new(vec![Arc::new(Idle)]),
            agents_dir: root.join("agents"),
            shim_program: "/bin/false".into(),
            socket: root.join("sock"),
            spool_max_bytes: 1 << 20,
            active_sessions_max: 10,
            default_mode: domain::Mode::default(),
            settings: Settings::default(),
            worktrees_dir: root.join("worktrees"),
            offers_tools: false,
            scrubber: None,
            containment: crate::containment::Policy::default(),
            scrub_events: false,
        })
        .await
        .unwrap();
        let repo = root.join("repo");
        std::fs::create_dir(&repo).unwrap();
        git(&repo, &["init", "-q", "-b", "main"]);
        git(&repo, &["config", "user.name", "Test"]);
        git(&repo, &["config", "user.email", "test@example.invalid"]);
        std::fs::create_dir(repo.join("src")).unwrap();
        std::fs::write(repo.join("src/a.txt"), "one\n").unwrap();
        std::fs::write(repo.join("README.md"), "hi\n").unwrap();
        git(&repo, &["add", "-A"]);
        git(&repo, &["commit", "-q", "-m", "start"]);
        git(&repo, &["branch", "other"]);
        Self { worktrees: supervisor.worktrees(), repo, folder }
    }

    fn path(&self) -> String {
        self.repo.display().to_string()
    }

    fn root(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap()
    }

    fn asked(&self, name: &str, branch: &str, create_branch: bool) -> NewWorktree {
        NewWorktree {
            repo_path: self.path(),
            branch: branch.to_owned(),
            name: name.to_owned(),
            branch_choice: if create_branch { BranchChoice::New } else { BranchChoice::Existing },
            ..NewWorktree::default()
        }
    }

    async fn refused(&self, new: NewWorktree) -> Error {
        let before = self.state();
        let error = self.worktrees.create(new).await.unwrap_err();
        assert_eq!(self.state(), before, "something was left behind after {error}");
        error
    }

    /// Everything a creation could leave behind.
    fn state(&self) -> (String, String, Vec<PathBuf>) {
        let mut left = Vec::new();
        let mut folders = vec![self.root().join("worktrees")];
        while let Some(folder) = folders.pop() {
            for entry in folder.read_dir().into_iter().flatten().flatten() {
                // The folder for a repository's worktrees may stay; its content may not.
                if entry.path().parent() != Some(&self.root().join("worktrees")) {
                    left.push(entry.path());
                }
                if entry.path().is_dir() {
                    folders.push(entry.path());
                }
            }
        }
        let trees = output(&self.repo, &["worktree", "list", "--porcelain"]);
        (trees, output(&self.repo, &["branch", "--list"]), left)
    }

    async fn session(&self, directory: &Path) -> SessionId {
        let new = NewSession {
            directory: directory.display().to_string(),
            launch: LaunchPolicy::OnPrompt,
            ..NewSession::new(ProviderKind::Scripted, "test".to_owned())
        };
        self.worktrees.supervisor.create(new).await.unwrap().spec.id.clone()
    }
}

/// A provider whose agents are never started here.
struct Idle;

impl agent_port::Provider for Idle {
    fn kind(&self) -> ProviderKind {
        ProviderKind::Scripted
    }

    fn capabilities(&self) -> agent_port::Capabilities {
        agent_port::Capabilities::default()
    }

    fn check(&self, _spec: &domain::SessionSpec) -> Result<(), Error> {
        Ok(())
    }

    fn launch(&self, _request: &agent_port::LaunchRequest<'_>) -> Result<agent_port::LaunchPlan, Error> {
        Err(Error::new(ErrorCode::ProviderNotReady, "never"))
    }

    fn codec(&self, _spec: &domain::SessionSpec, _saved: &str) -> Result<Box<dyn agent_port::Codec>, Error> {
        Err(Error::new(ErrorCode::ProviderNotReady, "never"))
    }

    fn availability(&self, _path: Option<&std::ffi::OsStr>) -> agent_port::Availability {
        agent_port::Availability::BuiltIn
    }
}

fn output(folder: &Path, args: &[&str]) -> String {
    let done = Command::new("git")
        .args(args)
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .unwrap();
    assert!(done.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8_lossy(&done.stdout).into_owned()
}

fn git(folder: &Path, args: &[&str]) {
    output(folder, args);
}

#[tokio::test]
async fn a_worktree_is_made_listed_and_removed() {
    let bench = Bench::new().await;
    let made = bench.worktrees.create(bench.asked("fix", "fix/it", true)).await.unwrap();
    assert_eq!((made.name.as_str(), made.branch.as_deref()), ("fix", Some("fix/it")));
    assert!(
        made.id.starts_with("wt_") && made.exists && made.path.starts_with(bench.root().join("worktrees"))
    );
    assert_eq!(std::fs::read_to_string(made.path.join("src/a.txt")).unwrap(), "one\n");
    assert_eq!(
        output(&made.path, &["status", "--porcelain"]),
        "",
        "the files are as git would have put them"
    );
    let listed = bench.worktrees.list(&bench.path()).await.unwrap();
    assert_eq!(listed.len(), 2);
    assert_eq!((listed[0].path.as_path(), listed[0].branch.as_deref()), (bench.repo.as_path(), Some("main")));
    assert_eq!(listed[1], made);
    // From within the tree the same worktrees are listed, with the same ids.
    assert_eq!(bench.worktrees.list(&made.path.display().to_string()).await.unwrap(), listed);
    let removed = bench.worktrees.remove(&made.id, false).await.unwrap();
    assert_eq!(removed, RemovedWorktree { sessions_closed: 0 });
    assert!(!made.path.exists());
    assert_eq!(bench.worktrees.list(&bench.path()).await.unwrap().len(), 1);
    assert!(output(&bench.repo, &["branch", "--list"]).contains("fix/it"), "its branch stays");
    let error = bench.worktrees.remove(&made.id, false).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::WorktreeNotFound);
}

#[tokio::test]
async fn an_existing_branch_is_checked_out_where_it_is_wanted() {
    let bench = Bench::new().await;
    let path = bench.root().join("beside");
    let new = NewWorktree { path: path.display().to_string(), ..bench.asked("", "other", false) };
    let made = bench.worktrees.create(new).await.unwrap();
    assert_eq!((made.name.as_str(), made.path.as_path()), ("other", path.as_path()));
    let error = bench.refused(bench.asked("again", "other", false)).await;
    assert_eq!(error.code, ErrorCode::WorktreeFailed);
    assert!(error.message.contains("checked out at"), "{error}");
    let error = bench.refused(bench.asked("again", "main", false)).await;
    assert!(error.message.contains("checked out at"), "{error}");
}

#[tokio::test]
async fn bad_names_branches_and_paths_are_refused_by_field() {
    let bench = Bench::new().await;
    for (name, branch, field) in [
        ("../x", "new", "name"),
        ("-b", "new", "name"),
        ("a/b", "new", "name"),
        (".git", "new", "name"),
        ("ok", "-b", "branch"),
        ("ok", "--upload-pack=touch x", "branch"),
        ("ok", "a..b", "branch"),
        ("ok", "main", "branch"),
        ("", "", "branch"),
    ] {
        let error = bench.refused(bench.asked(name, branch, true)).await;
        assert_eq!(error.code, ErrorCode::InvalidArgument, "{error}");
        assert!(error.message.starts_with(&format!("{field}: ")), "{name} {branch}: {error}");
    }
    let error = bench.refused(bench.asked("ok", "nobody", false)).await;
    assert!(error.message.contains("create_branch"), "{error}");
    let inside = bench.repo.join(".git/x").display().to_string();
    let there = bench.repo.join("src").display().to_string();
    let link = bench.root().join("link");
    std::os::unix::fs::symlink("/nowhere", &link).unwrap();
    let link = link.display().to_string();
    for path in ["relative", "../../x", "/", "/dev/null/x", "/root/../x", &inside, &there, &link] {
        let new = NewWorktree { path: path.to_owned(), ..bench.asked("ok", "new", true) };
        let error = bench.refused(new).await;
        assert!(error.message.starts_with("path: "), "{path}: {error}");
    }
}

#[tokio::test]
async fn what_is_no_repository_is_refused() {
    let bench = Bench::new().await;
    let root = bench.root();
    let bare = root.join("bare.git");
    git(&root, &["clone", "-q", "--bare", "repo", "bare.git"]);
    let plain = root.join("plain");
    std::fs::create_dir(&plain).unwrap();
    let empty = root.join("empty");
    std::fs::create_dir(&empty).unwrap();
    git(&empty, &["init", "-q"]);
    for (path, what) in [
        (bare.clone(), "bare"),
        (plain, "no git repository"),
        (root.join("nowhere"), "cannot be used"),
        ("/".into(), "more than one project"),
        ("relative".into(), "not absolute"),
        (empty, "no commit"),
    ] {
        let new = NewWorktree { repo_path: path.display().to_string(), ..bench.asked("x", "x", true) };
        let error = bench.worktrees.create(new).await.unwrap_err();
        assert!(
            error.message.starts_with("repo_path: ") && error.message.contains(what),
            "{path:?}: {error}"
        );
    }
    assert!(bench.worktrees.list("").await.unwrap_err().message.starts_with("repo_path: "));
}

#[tokio::test]
async fn a_shallow_repository_is_as_good_as_any() {
    let bench = Bench::new().await;
    std::fs::write(bench.repo.join("README.md"), "more\n").unwrap();
    git(&bench.repo, &["commit", "-qam", "second"]);
    let source = format!("file://{}", bench.path());
    git(&bench.root(), &["clone", "-q", "--depth", "1", &source, "shallow"]);
    let repo_path = bench.root().join("shallow").display().to_string();
    let made =
        bench.worktrees.create(NewWorktree { repo_path, ..bench.asked("x", "x", true) }).await.unwrap();
    assert_eq!(std::fs::read_to_string(made.path.join("README.md")).unwrap(), "more\n");
    assert_eq!(output(&made.path, &["status", "--porcelain"]), "");
}

#[tokio::test]
async fn a_failure_on_the_way_leaves_nothing_behind() {
    let bench = Bench::new().await;
    // The branch is locked, so that git fails half way.
    let lock = bench.repo.join(".git/refs/heads/new.lock");
    std::fs::write(&lock, "").unwrap();
    let error = bench.refused(bench.asked("x", "new", true)).await;
    assert!(error.code == ErrorCode::WorktreeFailed && error.message.contains("lock"), "{error}");
    std::fs::remove_file(&lock).unwrap();
    // An object is missing, so that the tree exists when checking out the files fails.
    let blob = output(&bench.repo, &["rev-parse", "HEAD:src/a.txt"]);
    let blob = blob.trim();
    let object = bench.repo.join(".git/objects").join(&blob[..2]).join(&blob[2..]);
    std::fs::rename(&object, bench.root().join("kept")).unwrap();
    let error = bench.refused(bench.asked("x", "new", true)).await;
    assert_eq!(error.code, ErrorCode::WorktreeFailed, "{error}");
    std::fs::rename(bench.root().join("kept"), &object).unwrap();
    assert!(bench.worktrees.create(bench.asked("x", "new", true)).await.is_ok());
}

#[tokio::test]
async fn uncommitted_work_is_only_lost_by_force() {
    let bench = Bench::new().await;
    let refuses = |made: &Worktree| {
        let (worktrees, id) = (bench.worktrees.clone(), made.id.clone());
        async move {
            let error = worktrees.remove(&id, false).await.unwrap_err();
            assert!(error.message.contains("not committed"), "{error}");
        }
    };
    let made = bench.worktrees.create(bench.asked("x", "x", true)).await.unwrap();
    std::fs::write(made.path.join("README.md"), "changed\n").unwrap();
    refuses(&made).await;
    git(&made.path, &["checkout", "-q", "README.md"]);
    std::fs::write(made.path.join("new.txt"), "new\n").unwrap();
    refuses(&made).await;
    git(&made.path, &["add", "new.txt"]);
    refuses(&made).await;
    git(&made.path, &["-c", "user.name=T", "-c", "user.email=t@e.invalid", "commit", "-qm", "new"]);
    std::fs::write(bench.repo.join(".git/info/exclude"), "*.tmp\n").unwrap();
    std::fs::write(made.path.join("x.tmp"), "left out\n").unwrap();
    bench.worktrees.remove(&made.id, false).await.unwrap();
    let made = bench.worktrees.create(bench.asked("y", "y", true)).await.unwrap();
    std::fs::write(made.path.join("README.md"), "changed\n").unwrap();
    bench.worktrees.remove(&made.id, true).await.unwrap();
    assert!(!made.path.exists());
}

#[tokio::test]
async fn sessions_of_a_worktree_are_known_and_closed_with_it() {
    let bench = Bench::new().await;
    let made = bench.worktrees.create(bench.asked("x", "x", true)).await.unwrap();
    let inside = bench.session(&made.path).await;
    let deeper = bench.session(&made.path.join("src")).await;
    let outside = bench.session(&bench.repo).await;
    let seen = bench.worktrees.list(&bench.path()).await.unwrap();
    assert_eq!((seen[1].active_session.as_ref(), seen[1].session_count), (Some(&deeper), 2));
    assert_eq!((seen[0].active_session.as_ref(), seen[0].session_count), (Some(&outside), 1));
    let folders = [made.path.join("src"), bench.repo.clone(), "/".into()];
    let folders: Vec<&Path> = folders.iter().map(PathBuf::as_path).collect();
    assert_eq!(
        bench.worktrees.holding(&folders).await.unwrap(),
        [made.id.clone(), seen[0].id.clone(), String::new()]
    );
    assert_eq!(bench.worktrees.remove(&made.id, false).await.unwrap().sessions_closed, 2);
    let supervisor = &bench.worktrees.supervisor;
    for (id, status) in [(inside, Status::Stopped), (deeper, Status::Stopped), (outside, Status::Created)] {
        assert_eq!(supervisor.snapshot(&id).await.unwrap().state.status, status);
    }
}

#[tokio::test]
async fn a_tree_inside_another_has_its_own_sessions() {
    let bench = Bench::new().await;
    std::fs::create_dir(bench.repo.join("trees")).unwrap();
    let path = bench.repo.join("trees/x").display().to_string();
    let made = bench.worktrees.create(NewWorktree { path, ..bench.asked("x", "x", true) }).await.unwrap();
    let inner = bench.session(&made.path).await;
    let seen = bench.worktrees.list(&bench.path()).await.unwrap();
    assert_eq!((seen[0].active_session.as_ref(), seen[0].session_count), (None, 0));
    assert_eq!((seen[1].active_session.as_ref(), seen[1].session_count), (Some(&inner), 1));
}

#[tokio::test]
async fn a_tree_deleted_behind_our_back_is_noticed() {
    let bench = Bench::new().await;
    let made = bench.worktrees.create(bench.asked("x", "x", true)).await.unwrap();
    std::fs::remove_dir_all(&made.path).unwrap();
    let seen = bench.worktrees.list(&bench.path()).await.unwrap();
    assert_eq!((seen[1].id.as_str(), seen[1].exists), (made.id.as_str(), false));
    assert!(bench.worktrees.folder(&made.id).await.unwrap_err().message.contains("is gone"));
    assert!(bench.worktrees.switch(&made.id).await.unwrap_err().message.contains("is gone"));
    let error = bench.worktrees.create(bench.asked("x", "z", true)).await.unwrap_err();
    assert!(error.message.contains("remove it first"), "{error}");
    bench.worktrees.remove(&made.id, false).await.unwrap();
    assert_eq!(bench.worktrees.list(&bench.path()).await.unwrap().len(), 1);
    // A worktree that git has pruned is removed here too.
    let made = bench.worktrees.create(bench.asked("y", "y", true)).await.unwrap();
    std::fs::remove_dir_all(&made.path).unwrap();
    git(&bench.repo, &["worktree", "prune"]);
    assert_eq!(bench.worktrees.list(&bench.path()).await.unwrap().len(), 1);
    assert_eq!(bench.worktrees.folder(&made.id).await.unwrap_err().code, ErrorCode::WorktreeNotFound);
    // The same for a whole repository.
    let made = bench.worktrees.create(bench.asked("z", "zz", true)).await.unwrap();
    std::fs::remove_dir_all(&bench.repo).unwrap();
    std::fs::remove_dir_all(&made.path).unwrap();
    bench.worktrees.remove(&made.id, false).await.unwrap();
}

#[tokio::test]
async fn main_and_locked_trees_are_not_removed() {
    let bench = Bench::new().await;
    let made = bench.worktrees.create(bench.asked("x", "x", true)).await.unwrap();
    let main = bench.worktrees.list(&bench.path()).await.unwrap().remove(0);
    let error = bench.worktrees.remove(&main.id, true).await.unwrap_err();
    assert!(error.message.contains("main working tree"), "{error}");
    git(&bench.repo, &["worktree", "lock", &made.path.display().to_string()]);
    let error = bench.worktrees.remove(&made.id, true).await.unwrap_err();
    assert!(error.message.contains("locked"), "{error}");
    assert!(made.path.exists() && bench.repo.exists());
}

#[tokio::test]
async fn somebody_switches_between_trees() {
    let bench = Bench::new().await;
    assert_eq!(bench.worktrees.current_folder().await.unwrap(), None);
    let made = bench.worktrees.create(bench.asked("x", "x", true)).await.unwrap();
    let main = bench.worktrees.list(&bench.path()).await.unwrap().remove(0);
    let (now, before) = bench.worktrees.switch(&made.id).await.unwrap();
    assert_eq!((now.id.as_str(), now.branch.as_deref(), before), (made.id.as_str(), Some("x"), None));
    assert_eq!(bench.worktrees.current_folder().await.unwrap(), Some(made.path.clone()));
    let (_, before) = bench.worktrees.switch(&main.id).await.unwrap();
    assert_eq!(before, Some(made.id));
    assert_eq!(bench.worktrees.switch("wt_x").await.unwrap_err().code, ErrorCode::WorktreeNotFound);
}

#[tokio::test]
async fn many_creations_at_once_do_not_disturb_each_other() {
    let bench = Bench::new().await;
    let made: Vec<_> = (0..6)
        .map(|number| {
            let (worktrees, new) = (bench.worktrees.clone(), bench.asked(&format!("t{number}"), "", true));
            tokio::spawn(async move { worktrees.create(new).await })
        })
        .collect();
    for made in made {
        made.await.unwrap().unwrap();
    }
    assert_eq!(bench.worktrees.list(&bench.path()).await.unwrap().len(), 7);
}

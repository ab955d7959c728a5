//! A repository that tries to run its own code: every hook, filters of both kinds, a file monitor, and all
//! sorts of helpers write to one file. Whatever we do with it, that file must not appear.

use std::os::unix::fs::PermissionsExt as _;

use super::*;

const HOOKS: &[&str] = &[
    "post-checkout",
    "pre-commit",
    "post-commit",
    "post-merge",
    "post-index-change",
    "reference-transaction",
    "fsmonitor-watchman",
    "pre-auto-gc",
    "post-rewrite",
    "update",
    "post-update",
];

/// Sets traps in a repository; returns the file they would write to.
fn set_traps(repo: &Path) -> PathBuf {
    let canary = repo.parent().unwrap().join("canary");
    let trap = repo.parent().unwrap().join("trap.sh");
    let script = format!("#!/bin/sh\necho \"$0 $*\" >> {}\ncat 2>/dev/null\nexit 0\n", canary.display());
    std::fs::write(&trap, &script).unwrap();
    std::fs::set_permissions(&trap, std::fs::Permissions::from_mode(0o755)).unwrap();
    let trap = trap.display().to_string();
    std::fs::write(
        repo.join(".gitattributes"),
        "* filter=evil diff=evil merge=evil\nsrc/* filter=evilprocess\n*.md ident\n",
    )
    .unwrap();
    git(repo, &["add", "-A"]);
    git(repo, &["commit", "-qm", "attributes"]);
    let hooks = repo.parent().unwrap().join("hooks");
    for folder in [repo.join(".git/hooks"), hooks.clone()] {
        std::fs::create_dir_all(&folder).unwrap();
        for hook in HOOKS {
            std::fs::write(folder.join(hook), &script).unwrap();
            std::fs::set_permissions(folder.join(hook), std::fs::Permissions::from_mode(0o755)).unwrap();
        }
    }
    let config = |key: &str, value: &str| git(repo, &["config", key, value]);
    for key in [
        "core.fsmonitor",
        "core.sshCommand",
        "core.askPass",
        "core.editor",
        "core.pager",
        "core.gitProxy",
        "core.alternateRefsCommand",
        "filter.evil.smudge",
        "filter.evil.clean",
        "filter.evilprocess.process",
        "diff.evil.command",
        "diff.evil.textconv",
        "diff.external",
        "merge.evil.driver",
        "gpg.program",
        "credential.helper",
        "uploadpack.packObjectsHook",
        "trailer.x.command",
        "interactive.diffFilter",
        "difftool.x.cmd",
    ] {
        config(key, &trap);
    }
    config("filter.evil.required", "true");
    config("core.hooksPath", &hooks.display().to_string());
    config("alias.worktree", &format!("!{trap}"));
    config("alias.status", &format!("!{trap}"));
    config("remote.origin.url", &format!("ext::{trap}"));
    config("remote.origin.uploadpack", &trap);
    config("remote.origin.promisor", "true");
    config("include.path", "../more");
    std::fs::write(repo.join("more"), format!("[core]\n\tfsmonitor = {trap}\n")).unwrap();
    canary
}

#[tokio::test]
async fn a_repository_cannot_run_its_own_code() {
    let bench = Bench::new().await;
    let canary = set_traps(&bench.repo);
    // The traps work: plain git triggers them.
    let _ = Command::new("git").args(["status"]).current_dir(&bench.repo).output().unwrap();
    assert!(canary.exists(), "the repository is not as hostile as it should be");
    std::fs::remove_file(&canary).unwrap();

    let worktrees = &bench.worktrees;
    let quiet = |step: &str| {
        let ran = std::fs::read_to_string(&canary).unwrap_or_default();
        assert!(ran.is_empty(), "while {step}, the repository ran:\n{ran}");
    };
    let listed = worktrees.list(&bench.path()).await.unwrap();
    quiet("listing");
    let made = worktrees.create(bench.asked("x", "x", true)).await.unwrap();
    quiet("creating");
    assert_eq!(std::fs::read_to_string(made.path.join("src/a.txt")).unwrap(), "one\n");
    worktrees.switch(&made.id).await.unwrap();
    quiet("switching");
    std::fs::write(made.path.join("src/a.txt"), "two\n").unwrap();
    assert!(worktrees.remove(&made.id, false).await.is_err());
    quiet("looking for changes");
    worktrees.remove(&made.id, true).await.unwrap();
    quiet("removing");
    let made = worktrees.create(bench.asked("y", "other", false)).await.unwrap();
    worktrees.remove(&made.id, false).await.unwrap();
    quiet("removing a clean tree");
    // Undoing a failure triggers nothing either.
    let blob = output_quietly(&bench.repo, "HEAD:README.md");
    let object = bench.repo.join(".git/objects").join(&blob[..2]).join(&blob[2..]);
    std::fs::remove_file(object).unwrap();
    assert!(worktrees.create(bench.asked("z", "z", true)).await.is_err());
    quiet("undoing");
    assert_eq!(worktrees.list(&bench.path()).await.unwrap(), listed);
}

#[tokio::test]
async fn a_repository_cannot_run_its_own_code_while_it_is_compared_and_merged() {
    let bench = Bench::new().await;
    let canary = set_traps(&bench.repo);
    let worktrees = &bench.worktrees;
    let quiet = |step: &str| {
        let ran = std::fs::read_to_string(&canary).unwrap_or_default();
        assert!(ran.is_empty(), "while {step}, the repository ran:\n{ran}");
    };
    let made = worktrees.create(bench.asked("x", "x", true)).await.unwrap();
    let tree = TreeName { id: made.id.clone(), ..TreeName::default() };
    std::fs::write(made.path.join("src/a.txt"), "two\n").unwrap();
    std::fs::write(made.path.join("new.md"), "new\n").unwrap();
    assert_eq!(worktrees.diff(&tree, &DiffScope::Base).await.unwrap().files.len(), 2);
    worktrees.diff_file(&tree, &DiffScope::Base, "src/a.txt", 3).await.unwrap();
    quiet("comparing");
    let request =
        MergeRequest { tree: tree.clone(), commit_message: "all".to_owned(), ..MergeRequest::default() };
    worktrees.merge(request.clone()).await.unwrap();
    quiet("merging");
    // A real merge, with the attribute that asks for a driver of the repository.
    let other = worktrees.create(bench.asked("y", "y", true)).await.unwrap();
    let other_tree = TreeName { id: other.id.clone(), ..TreeName::default() };
    std::fs::write(other.path.join("src/a.txt"), "two\nfrom y\n").unwrap();
    std::fs::write(made.path.join("new.md"), "changed\n").unwrap();
    worktrees.merge(request).await.unwrap();
    let request = MergeRequest {
        tree: other_tree.clone(),
        commit_message: "all".to_owned(),
        ..MergeRequest::default()
    };
    worktrees.merge(request).await.unwrap();
    quiet("making a merge commit");
    std::fs::write(made.path.join("src/a.txt"), "conflict\n").unwrap();
    let request =
        MergeRequest { tree: tree.clone(), commit_message: "conflict".to_owned(), ..MergeRequest::default() };
    assert_eq!(worktrees.merge(request).await.unwrap_err().code, ErrorCode::MergeConflict);
    quiet("finding a conflict");
    worktrees.discard(&tree, DiscardScope::Paths(vec!["src/a.txt".to_owned()])).await.unwrap();
    std::fs::write(made.path.join("untracked"), "x\n").unwrap();
    worktrees.discard(&tree, DiscardScope::Uncommitted).await.unwrap();
    quiet("discarding");
    worktrees.rebase(&tree, "").await.unwrap();
    quiet("rebasing");
    worktrees.is_merged(&tree).await.unwrap();
    worktrees.collect(&bench.path(), false).await.unwrap();
    quiet("collecting");
}

/// An agent in the sandbox cannot write such a file, but commit one.
#[tokio::test]
async fn a_protected_file_that_was_committed_unseen_is_merged_only_when_allowed() {
    let bench = Bench::new().await;
    let made = bench.worktrees.create(bench.asked("x", "x", true)).await.unwrap();
    std::fs::write(made.path.join("content"), "{}").unwrap();
    let blob = output(&made.path, &["hash-object", "-w", "content"]);
    std::fs::remove_file(made.path.join("content")).unwrap();
    let hidden = [".mcp.json", ".vscode/tasks.json"];
    for name in hidden {
        let entry = format!("100644,{},{name}", blob.trim());
        git(&made.path, &["update-index", "--add", "--cacheinfo", &entry]);
    }
    git(&made.path, &["-c", "user.name=T", "-c", "user.email=t@e.invalid", "commit", "-qm", "hidden"]);
    for name in hidden {
        git(&made.path, &["update-index", "--assume-unchanged", name]);
    }
    let tree = TreeName { id: made.id.clone(), ..TreeName::default() };
    for squash in [false, true] {
        let request = MergeRequest { tree: tree.clone(), squash, ..MergeRequest::default() };
        let refused = bench.worktrees.merge(request).await.unwrap_err();
        assert!(hidden.iter().all(|name| refused.message.contains(name)), "{refused}");
        assert!(!bench.repo.join(".mcp.json").exists() && !bench.repo.join(".vscode").exists());
    }
    let request = MergeRequest { tree, allow_protected: true, ..MergeRequest::default() };
    bench.worktrees.merge(request).await.unwrap();
    assert_eq!(std::fs::read_to_string(bench.repo.join(".mcp.json")).unwrap(), "{}");
}

/// Runs git in a way that does not trigger the traps.
fn output_quietly(repo: &Path, name: &str) -> String {
    output(repo, &["-c", "core.fsmonitor=false", "rev-parse", name]).trim().to_owned()
}

#[tokio::test]
async fn a_tree_cannot_write_outside_of_itself() {
    let bench = Bench::new().await;
    // A link in the tree, and a file whose path leads through it.
    std::os::unix::fs::symlink(bench.root(), bench.repo.join("out")).unwrap();
    git(&bench.repo, &["add", "out"]);
    git(&bench.repo, &["commit", "-qm", "link"]);
    let made = bench.worktrees.create(bench.asked("x", "x", true)).await.unwrap();
    assert!(made.path.join("out").is_symlink());
    // Removing the tree removes the link, not its target.
    bench.worktrees.remove(&made.id, true).await.unwrap();
    assert!(bench.repo.join("README.md").exists());
    let blob = output(&bench.repo, &["rev-parse", "HEAD:README.md"]);
    let entry = |path: &str| format!("100644 blob {}\t{path}\n", blob.trim());
    for path in ["../evil", ".git/hooks/post-checkout", ".GIT/config", "a/../../evil"] {
        let made = Command::new("git")
            .args(["-c", "core.protectHFS=false", "mktree", "--missing"])
            .current_dir(&bench.repo)
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::null())
            .spawn()
            .and_then(|mut child| {
                std::io::Write::write_all(&mut child.stdin.take().unwrap(), entry(path).as_bytes())?;
                child.wait_with_output()
            })
            .unwrap();
        if !made.status.success() {
            // Git refuses to create such a tree at all.
            continue;
        }
        let tree = String::from_utf8_lossy(&made.stdout).trim().to_owned();
        let commit = output(&bench.repo, &["commit-tree", &tree, "-m", "evil"]);
        git(&bench.repo, &["branch", "-f", "evil", commit.trim()]);
        let error = bench.worktrees.create(bench.asked("evil", "evil", false)).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::WorktreeFailed, "{path}: {error}");
        assert!(!bench.root().join("evil").exists());
    }
}

#[tokio::test]
async fn a_link_among_the_reflogs_leads_nothing_out_of_the_repository() {
    let bench = Bench::new().await;
    let victim = bench.root().join("victim");
    std::fs::write(&victim, "mine\n").unwrap();
    let logs = bench.repo.join(".git/logs/refs/heads");
    std::fs::create_dir_all(&logs).unwrap();
    std::os::unix::fs::symlink(&victim, logs.join("planted")).unwrap();
    let error = bench.worktrees.create(bench.asked("planted", "planted", true)).await.unwrap_err();
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "mine\n", "{error}");
    bench.worktrees.create(bench.asked("fresh", "fresh", true)).await.unwrap();
}

#[tokio::test]
async fn links_in_place_of_folders_of_objects_lead_nothing_out_of_the_repository() {
    let bench = Bench::new().await;
    let outside = bench.root().join("outside");
    std::fs::create_dir(&outside).unwrap();
    for number in 0..=255 {
        // Those that exist stay.
        let _ = std::os::unix::fs::symlink(&outside, bench.repo.join(format!(".git/objects/{number:02x}")));
    }
    for number in 0..8 {
        std::fs::write(bench.repo.join(format!("new-{number}")), format!("content {number}")).unwrap();
    }
    let recorded = bench.worktrees.record_files(&bench.repo).await;
    assert_eq!(outside.read_dir().unwrap().count(), 0, "{recorded:?}");
    assert!(recorded.is_err(), "what could not be stored is not told to be");
}

#[tokio::test]
async fn a_link_in_place_of_an_index_leads_nothing_out_of_the_repository() {
    let bench = Bench::new().await;
    let tree = bench.worktrees.create(bench.asked("x", "x", true)).await.unwrap();
    let victim = bench.root().join("victim");
    let index = bench.repo.join(".git/worktrees/x/index");
    std::fs::remove_file(&index).unwrap();
    std::os::unix::fs::symlink(&victim, &index).unwrap();
    let open = bench.worktrees.open_folder(&tree.path).await.unwrap();
    let isolation = bench.worktrees.isolation(&open).await.unwrap();
    let head = open.head().unwrap().to_owned();
    // As an agent that exchanges the index after it was looked at.
    isolation.check_out(&tree.path, &index, &head).await.unwrap_err();
    assert!(!victim.exists());
}

#[tokio::test]
async fn a_script_that_a_hook_calls_is_allowed_as_it_is() {
    let bench = Bench::new().await;
    std::fs::create_dir(bench.repo.join(".obey")).unwrap();
    std::fs::write(bench.repo.join(".obey/worktree.toml"), "setup = \"sh ./setup.sh\"\n").unwrap();
    let commit = |script: &str| {
        std::fs::write(bench.repo.join("setup.sh"), script).unwrap();
        git(&bench.repo, &["add", "-A"]);
        git(&bench.repo, &["commit", "-qm", "setup"]);
    };
    commit("touch done\n");
    let made = bench.worktrees.create_set_up(bench.asked("x", "x", true)).await.unwrap();
    let SetupOutcome::NotAllowed { hash, .. } = made.setup else { panic!("{:?}", made.setup) };
    let name = TreeName { id: made.worktree.id, ..TreeName::default() };
    assert_eq!(bench.worktrees.allow_setup(&name, &hash, "me").await.unwrap(), SetupOutcome::Done);
    // An agent in the sandbox cannot have it run with its user's rights, though it is allowed.
    let new = NewWorktree { hook: HookChoice::Never, ..bench.asked("y", "y", true) };
    let made = bench.worktrees.create_set_up(new).await.unwrap();
    assert!(matches!(made.setup, SetupOutcome::NotAllowed { .. }));
    assert!(!made.worktree.path.join("done").exists());
    commit("touch changed\n");
    let made = bench.worktrees.create_set_up(bench.asked("z", "z", true)).await.unwrap();
    assert!(matches!(made.setup, SetupOutcome::NotAllowed { .. }));
    assert!(!made.worktree.path.join("changed").exists());
}

//! Git in the sandbox: what a repository is for works, what makes git run code stays as it is, and the packed history
//! cannot be damaged.

use std::path::Path;
use std::process::Command;

use sandbox::{Sandbox, Tier};

use super::bombs::until;
use super::{command, config, run, sandbox};

/// Runs git outside, as the user would, and returns what it printed.
fn git(folder: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .args(["-c", "user.name=U", "-c", "user.email=u@localhost"])
        .args(arguments)
        .output()
        .unwrap();
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A repository with one packed commit.
fn repository(folder: &Path) {
    git(folder, &["init", "-q", "-b", "main"]);
    std::fs::write(folder.join("a.txt"), "one\n").unwrap();
    git(folder, &["add", "."]);
    git(folder, &["commit", "-q", "-m", "first"]);
    git(folder, &["gc", "-q"]);
}

#[tokio::test]
async fn git_adds_commits_stashes_and_branches_inside() {
    let dir = tempfile::tempdir().unwrap();
    repository(dir.path());
    let marks = dir.path().join("marks");
    let hook = dir.path().join(".git/hooks/pre-commit");
    std::fs::write(&hook, format!("#!/bin/sh\ntouch {}\n", marks.display())).unwrap();
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();
    let sandbox = sandbox(Tier::Namespaces).await;
    let script = "set -e; echo two > b.txt; git add b.txt; git commit -qm second; echo three >> a.txt; git stash -q; \
                  git stash pop -q; git checkout -q -b topic; git branch other; git commit -qam third; git tag v1; \
                  git log --format=%s%an; git status --porcelain";
    let outcome = run(&sandbox, command(dir.path(), script)).await;
    assert_eq!(outcome.stdout, "thirdobey\nsecondobey\nfirstU\n", "{}", outcome.stderr);
    assert_eq!(git(dir.path(), &["log", "--format=%s", "topic"]), "third\nsecond\nfirst\n");
    assert_eq!(git(dir.path(), &["fsck", "--strict", "--no-dangling"]), "");
    assert!(!marks.exists(), "the repository's hook ran");
}

#[tokio::test]
async fn what_makes_git_run_code_stays_as_it_is_and_packed_history_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    repository(dir.path());
    let marks = dir.path().join("marks");
    git(dir.path(), &["config", "filter.evil.clean", &format!("touch {}; cat", marks.display())]);
    std::fs::write(dir.path().join(".gitattributes"), "*.bin filter=evil\n").unwrap();
    let config = std::fs::read(dir.path().join(".git/config")).unwrap();
    let sandbox = sandbox(Tier::Namespaces).await;
    for script in [
        "git config core.fsmonitor 'touch marks'",
        "echo '[core] fsmonitor = evil' >> .git/config",
        "mv .git/config .git/was",
        "echo evil > .git/hooks/post-checkout",
        "rm -rf .git/hooks && mkdir .git/hooks",
        "mv .git elsewhere",
        "rm -rf .git/objects/pack/*",
        "chmod -R u+w .git/objects/pack && echo x > $(ls .git/objects/pack/*.pack)",
        "rm .git/packed-refs",
        "git gc --prune=now",
        "echo x > c.bin && git add c.bin",
        "echo /tmp > .git/commondir",
        "rm -f .git/commondir && ln -s /tmp .git/commondir",
    ] {
        let outcome = run(&sandbox, command(dir.path(), script)).await;
        assert_ne!(outcome.end.exit_code, 0, "{script} succeeded: {}", outcome.stdout);
    }
    run(&sandbox, command(dir.path(), "rm -rf .git")).await;
    assert_eq!(std::fs::read(dir.path().join(".git/config")).unwrap(), config);
    assert!(!marks.exists(), "the repository's filter ran");
    std::fs::write(dir.path().join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
    std::fs::create_dir_all(dir.path().join(".git/refs")).unwrap();
    assert_eq!(git(dir.path(), &["log", "--format=%s", "main"]), "first\n", "packed history survives");
}

#[tokio::test]
async fn a_repository_made_inside_works_and_runs_nothing_outside() {
    let dir = tempfile::tempdir().unwrap();
    let sandbox = sandbox(Tier::Namespaces).await;
    let script = "set -e; git init -q -b main; git config core.pager evil; git config user.name Inside; \
                  mkdir -p .git/hooks; printf '#!/bin/sh\\ntouch marks' > .git/hooks/post-checkout; \
                  chmod +x .git/hooks/post-checkout; echo a > a; git add a; git commit -qm first; git log --format=%an";
    let outcome = run(&sandbox, command(dir.path(), script)).await;
    assert_eq!(outcome.stdout, "Inside\n", "{}", outcome.stderr);
    assert!(!dir.path().join(".git/hooks").exists());
    let config = std::fs::read_to_string(dir.path().join(".git/config")).unwrap();
    assert!(!config.contains("evil") && config.contains("repositoryformatversion"), "{config}");
    assert_eq!(git(dir.path(), &["log", "--format=%s"]), "first\n");
    // The next command works in it as in any other.
    let outcome = run(&sandbox, command(dir.path(), "echo b > b; git add b; git commit -qm second")).await;
    assert_eq!(outcome.end.exit_code, 0, "{}", outcome.stderr);
    assert_eq!(git(dir.path(), &["log", "--format=%s"]), "second\nfirst\n");
}

#[tokio::test]
async fn git_works_in_a_linked_working_tree() {
    let dir = tempfile::tempdir().unwrap();
    let (main, tree) = (dir.path().join("main"), dir.path().join("tree"));
    std::fs::create_dir(&main).unwrap();
    repository(&main);
    git(&main, &["worktree", "add", "-q", "-b", "topic", tree.to_str().unwrap()]);
    std::fs::write(main.join("private"), "x").unwrap();
    let sandbox = sandbox(Tier::Namespaces).await;
    let script = format!(
        "set -e; echo b > b; git add b; git commit -qm second; cat {0}/private 2>/dev/null && echo seen; \
         echo x > {0}/.git/hooks/x 2>/dev/null && echo hooked; git config core.pager evil 2>/dev/null && echo configured; \
         git log --format=%s",
        main.display()
    );
    let outcome = run(&sandbox, command(&tree, &script)).await;
    assert_eq!(outcome.stdout, "second\nfirst\n", "{}", outcome.stderr);
    assert_eq!(git(&main, &["log", "--format=%s", "topic"]), "second\nfirst\n");
}

/// No cover is needed there that a replacement could take away.
#[tokio::test]
async fn nothing_directly_in_the_repository_of_a_linked_working_tree_can_be_made() {
    let dir = tempfile::tempdir().unwrap();
    let (main, tree) = (dir.path().join("main"), dir.path().join("tree"));
    std::fs::create_dir(&main).unwrap();
    repository(&main);
    git(&main, &["worktree", "add", "-q", "-b", "topic", tree.to_str().unwrap()]);
    git(&main, &["worktree", "add", "-q", "-b", "other", dir.path().join("other").to_str().unwrap()]);
    let sandbox = sandbox(Tier::Namespaces).await;
    let script = format!(
        "cd {}/.git; for name in config.lock new hooks/x worktrees/new worktrees/other/commondir worktrees/other/new; do \
         (echo x > $name) 2>/dev/null && echo $name; done; echo x > worktrees/tree/new && echo own",
        main.display()
    );
    let outcome = run(&sandbox, command(&tree, &script)).await;
    assert_eq!(outcome.stdout, "own\n", "{}", outcome.stderr);
}

/// A sandbox that keeps copies of histories in a folder.
async fn keeping_sandbox(folder: &Path) -> Sandbox {
    let mut config = config(Tier::Namespaces);
    config.history_folder = Some(folder.to_owned());
    Sandbox::probe(config).await
}

/// A repository of which nothing is packed: two commits, a branch, a tag and two stashes.
fn loose_repository(folder: &Path) {
    git(folder, &["init", "-q", "-b", "main"]);
    for (text, name) in [("one\n", "first"), ("two\n", "second")] {
        std::fs::write(folder.join("a.txt"), text).unwrap();
        git(folder, &["add", "."]);
        git(folder, &["commit", "-q", "-m", name]);
    }
    git(folder, &["branch", "topic"]);
    git(folder, &["tag", "v1", "HEAD~1"]);
    for text in ["three\n", "four\n"] {
        std::fs::write(folder.join("a.txt"), text).unwrap();
        git(folder, &["stash", "-q"]);
    }
}

/// What the user would miss of a repository.
fn history(folder: &Path) -> String {
    let all = ["log", "--all", "--format=%H %s %D"];
    [&all[..], &["stash", "list"], &["status", "--porcelain", "--branch"], &["fsck", "--strict"]]
        .map(|arguments| git(folder, arguments))
        .concat()
}

#[tokio::test]
async fn a_repository_without_packs_outlives_its_destruction() {
    let (dir, kept) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    loose_repository(dir.path());
    let before = history(dir.path());
    let sandbox = keeping_sandbox(kept.path()).await;
    for script in [
        "rm -rf .git",
        "find .git -type f -delete",
        "echo x > .git/HEAD; rm -r .git/logs .git/index",
        "rm -rf .git/refs .git/HEAD .git/objects/??; ln -s /etc .git/refs; mkdir .git/HEAD",
        "rm -rf .git/objects/??; for name in 00 0a a0 ff; do ln -s /tmp .git/objects/$name; done; rm .git/HEAD",
    ] {
        run(&sandbox, command(dir.path(), script)).await;
        // Nobody waits: the repository is there when the command's end is told.
        assert_eq!(history(dir.path()), before, "{script}");
    }
}

#[tokio::test]
async fn objects_that_were_removed_or_damaged_are_put_back_and_commits_of_commands_are_kept() {
    let (dir, kept) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    loose_repository(dir.path());
    let sandbox = keeping_sandbox(kept.path()).await;
    let commit =
        "git checkout -q topic; echo new > b; git add b; git commit -qm third; git branch -q -D main";
    let outcome = run(&sandbox, command(dir.path(), commit)).await;
    assert_eq!(outcome.end.exit_code, 0, "{}", outcome.stderr);
    let before = history(dir.path());
    assert!(before.contains("third"), "{before}");
    assert_eq!(git(dir.path(), &["branch", "--format=%(refname:short)"]), "topic\n", "what git does stays");
    let objects = || Command::new("git").current_dir(dir.path()).args(["fsck", "--strict"]).output().unwrap();
    for script in [
        "rm -rf .git/objects/??",
        "chmod -R u+w .git/objects/??; for file in .git/objects/??/*; do echo damaged > $file; done",
        "chmod -R u+w .git/objects/??; for file in .git/objects/??/*; do truncate -s 0 $file; done",
    ] {
        run(&sandbox, command(dir.path(), script)).await;
        until(script, || objects().status.success()).await;
        assert_eq!(history(dir.path()), before, "{script}");
    }
}

/// The next daemon looks after what one that was killed could not.
#[tokio::test]
async fn what_a_command_of_a_killed_daemon_destroyed_is_put_back() {
    let (dir, kept) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    loose_repository(dir.path());
    let before = history(dir.path());
    let first = keeping_sandbox(kept.path()).await;
    let running = first.run(command(dir.path(), "echo begun; exec sleep 600")).await.unwrap();
    // As after a kill: nobody clears up.
    std::mem::forget(running);
    let git_folder = dir.path().join(".git");
    std::fs::remove_dir_all(git_folder.join("objects")).unwrap();
    std::fs::remove_dir_all(git_folder.join("refs")).unwrap();
    std::fs::remove_file(git_folder.join("HEAD")).unwrap();
    let _second = keeping_sandbox(kept.path()).await;
    until("the next daemon puts it back", || git_folder.join("HEAD").exists()).await;
    let is_back =
        || Command::new("git").current_dir(dir.path()).args(["fsck"]).output().unwrap().status.success();
    until("all of it is back", is_back).await;
    assert_eq!(history(dir.path()), before);
}

/// What the user removes while no command runs is not brought back, nor is anything of another repository at the same path.
#[tokio::test]
async fn what_the_user_removed_stays_removed() {
    let (dir, kept) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    loose_repository(dir.path());
    let sandbox = keeping_sandbox(kept.path()).await;
    run(&sandbox, command(dir.path(), "true")).await;
    let unchecked = || {
        let stores = std::fs::read_dir(kept.path()).unwrap();
        stores.flatten().any(|store| store.path().join("unchecked").exists())
    };
    until("the repository was looked at", || !unchecked()).await;
    git(dir.path(), &["branch", "-q", "-D", "topic"]);
    git(dir.path(), &["stash", "clear"]);
    git(dir.path(), &["reflog", "expire", "--expire=now", "--all"]);
    git(dir.path(), &["prune", "--expire=now"]);
    let count = || git(dir.path(), &["count-objects"]);
    let pruned = count();
    run(&sandbox, command(dir.path(), "rm .git/HEAD")).await;
    assert_eq!(count(), pruned);
    assert_eq!(git(dir.path(), &["branch", "--format=%(refname:short)"]), "main\n");
    std::fs::remove_dir_all(dir.path().join(".git")).unwrap();
    git(dir.path(), &["init", "-q", "-b", "other"]);
    let fresh = count();
    run(&sandbox, command(dir.path(), "rm .git/HEAD")).await;
    until("the repository was looked at", || !unchecked()).await;
    assert_eq!(count(), fresh);
    assert_eq!(
        git(dir.path(), &["symbolic-ref", "HEAD"]),
        "refs/heads/other
"
    );
}

//! Git in the sandbox: what a repository is for works, what makes git run code stays as it is, and the packed history
//! cannot be damaged.

use std::path::Path;
use std::process::Command;

use sandbox::Tier;

use super::{command, run, sandbox};

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

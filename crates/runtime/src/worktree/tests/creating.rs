//! Branches that new trees start from, names made of prompts, and the set-up of projects.

use super::*;

#[tokio::test]
async fn a_branch_of_a_remote_is_checked_out_and_tracked() {
    let bench = Bench::new().await;
    git(&bench.repo, &["checkout", "-q", "-b", "remote-only"]);
    std::fs::write(bench.repo.join("g.txt"), "only there\n").unwrap();
    git(&bench.repo, &["add", "-A"]);
    git(&bench.repo, &["commit", "-qm", "g"]);
    git(&bench.repo, &["checkout", "-q", "main"]);
    git(&bench.root(), &["clone", "-q", "repo", "clone"]);
    let repo_path = bench.root().join("clone").display().to_string();
    let new = NewWorktree { repo_path: repo_path.clone(), ..bench.asked("", "remote-only", false) };
    let made = bench.worktrees.create(new).await.unwrap();
    assert_eq!(std::fs::read_to_string(made.path.join("g.txt")).unwrap(), "only there\n");
    assert_eq!(output(&made.path, &["rev-parse", "--abbrev-ref", "@{upstream}"]), "origin/remote-only\n");
    assert_eq!(output(&made.path, &["status", "--porcelain"]), "");
    // A new branch may start from one of a remote too.
    let new = NewWorktree {
        repo_path: repo_path.clone(),
        base: "origin/remote-only".to_owned(),
        ..bench.asked("y", "y", true)
    };
    let made = bench.worktrees.create(new).await.unwrap();
    assert!(made.path.join("g.txt").exists());
    assert_eq!(made.base, "origin/remote-only");
    let new = NewWorktree { repo_path, base: "nowhere".to_owned(), ..bench.asked("z", "z", true) };
    let error = bench.worktrees.create(new).await.unwrap_err();
    assert!(error.message.starts_with("base: "), "{error}");
}

#[tokio::test]
async fn a_prompt_names_the_branch_and_a_second_one_is_numbered() {
    let bench = Bench::new().await;
    let asked = || NewWorktree {
        repo_path: bench.path(),
        prompt: "Fix the login bug, please!".to_owned(),
        branch_choice: BranchChoice::Either,
        ..NewWorktree::default()
    };
    let one = bench.worktrees.create(asked()).await.unwrap();
    let two = bench.worktrees.create(asked()).await.unwrap();
    assert_eq!(one.branch.as_deref(), Some("fix-the-login-bug-please"));
    assert_eq!(two.branch.as_deref(), Some("fix-the-login-bug-please-2"));
    // Folders of branches that differ only in letters no folder has.
    let one = bench.worktrees.create(bench.asked("", "feat/y", true)).await.unwrap();
    let two = bench.worktrees.create(bench.asked("", "feat-y", true)).await.unwrap();
    assert_eq!((one.name.as_str(), two.name.as_str()), ("feat-y", "feat-y-2"));
    let made = bench.worktrees.create(bench.asked("", "über", true)).await.unwrap();
    assert_eq!((made.name.as_str(), made.branch.as_deref()), ("ber", Some("über")));
}

#[tokio::test]
async fn missing_folders_above_a_path_are_made() {
    let bench = Bench::new().await;
    let path = bench.root().join("a/b/c").display().to_string();
    let made = bench.worktrees.create(NewWorktree { path, ..bench.asked("x", "x", true) }).await.unwrap();
    assert!(made.path.ends_with("a/b/c") && made.path.join("README.md").exists());
}

#[tokio::test]
async fn a_sparse_checkout_stays_sparse() {
    let bench = Bench::new().await;
    git(&bench.repo, &["sparse-checkout", "set", "nothing-there"]);
    assert!(!bench.repo.join("src").exists());
    let made = bench.worktrees.create(bench.asked("x", "x", true)).await.unwrap();
    assert!(made.path.join("README.md").exists() && !made.path.join("src").exists());
    assert_eq!(output(&made.path, &["status", "--porcelain"]), "");
    let name = TreeName { id: made.id.clone(), ..TreeName::default() };
    assert_eq!(bench.worktrees.diff(&name, &DiffScope::Base).await.unwrap().files, []);
    bench.worktrees.remove(&made.id, false).await.unwrap();
}

#[tokio::test]
async fn a_tree_with_a_path_that_is_no_text_hides_no_other() {
    use std::os::unix::ffi::OsStrExt as _;
    let bench = Bench::new().await;
    let path = bench.root().join(std::ffi::OsStr::from_bytes(b"odd-\xff"));
    let mut add = Command::new("git");
    add.args(["worktree", "add", "-q", "-b", "odd"]).arg(&path).current_dir(&bench.repo);
    assert!(add.status().unwrap().success());
    assert_eq!(bench.worktrees.list(&bench.path()).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_tree_that_others_made_is_as_old_as_it_is() {
    let bench = Bench::new().await;
    let path = bench.root().join("foreign");
    git(&bench.repo, &["worktree", "add", "-q", "-b", "foreign", &path.display().to_string()]);
    // Its birth, or its last change where the file system knows no birth, lies before the first listing.
    let before = clock::now();
    let listed = bench.worktrees.list(&bench.path()).await.unwrap();
    assert!(listed.iter().all(|tree| tree.created_at.0 > 0 && tree.created_at <= before), "{listed:?}");
}

#[tokio::test]
async fn a_project_s_hook_runs_only_after_the_user_allowed_it() {
    let bench = Bench::new().await;
    let setup =
        "copy = [\".env\", \"conf/key\", \"missing\"]\nsetup = \"cp .env made-by-hook; pwd > where\"\n";
    std::fs::create_dir(bench.repo.join(".obey")).unwrap();
    std::fs::write(bench.repo.join(".obey/worktree.toml"), setup).unwrap();
    std::fs::write(bench.repo.join(".gitignore"), ".env\nconf/\nmade-by-hook\nwhere\n").unwrap();
    git(&bench.repo, &["add", "-A"]);
    git(&bench.repo, &["commit", "-qm", "setup"]);
    std::fs::write(bench.repo.join(".env"), "KEY=1\n").unwrap();
    std::fs::create_dir(bench.repo.join("conf")).unwrap();
    std::fs::write(bench.repo.join("conf/key"), "key\n").unwrap();
    let made = bench.worktrees.create_set_up(bench.asked("x", "x", true)).await.unwrap();
    let SetupOutcome::NotAllowed { command, hash } = made.setup else { panic!("{:?}", made.setup) };
    assert!(command.contains("made-by-hook"));
    let tree = made.worktree.path.clone();
    assert_eq!(std::fs::read_to_string(tree.join(".env")).unwrap(), "KEY=1\n");
    assert_eq!(std::fs::read_to_string(tree.join("conf/key")).unwrap(), "key\n");
    bench.worktrees.list(&bench.path()).await.unwrap();
    assert!(!tree.join("made-by-hook").exists());
    let name = TreeName { id: made.worktree.id.clone(), ..TreeName::default() };
    assert!(
        bench.worktrees.allow_setup(&name, "another", "me").await.unwrap_err().message.starts_with("hash: ")
    );
    assert_eq!(bench.worktrees.allow_setup(&name, &hash, "me").await.unwrap(), SetupOutcome::Done);
    assert_eq!(std::fs::read_to_string(tree.join("made-by-hook")).unwrap(), "KEY=1\n");
    let made = bench.worktrees.create_set_up(bench.asked("y", "y", true)).await.unwrap();
    assert_eq!(made.setup, SetupOutcome::Done);
    assert!(made.worktree.path.join("made-by-hook").exists());
    // Any change of the file is another hook.
    std::fs::write(bench.repo.join(".obey/worktree.toml"), format!("{setup}\n")).unwrap();
    git(&bench.repo, &["commit", "-qam", "changed"]);
    let made = bench.worktrees.create_set_up(bench.asked("z", "z", true)).await.unwrap();
    assert!(matches!(made.setup, SetupOutcome::NotAllowed { .. }));
}

#[tokio::test]
async fn a_hostile_set_up_copies_nothing_from_or_to_elsewhere() {
    let bench = Bench::new().await;
    let outside = bench.root().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("secret"), "secret\n").unwrap();
    std::fs::create_dir(bench.repo.join(".obey")).unwrap();
    let commit = |setup: &str| {
        std::fs::write(bench.repo.join(".obey/worktree.toml"), setup).unwrap();
        git(&bench.repo, &["add", "-A"]);
        git(&bench.repo, &["commit", "-qm", "setup"]);
    };
    for setup in
        ["copy = [\"../outside/secret\"]", "copy = [\"/etc/passwd\"]", "copy = [\".git/config\"]", "nonsense"]
    {
        commit(setup);
        let error = bench.refused(bench.asked("x", "x", true)).await;
        assert!(error.message.starts_with(".obey/worktree.toml: "), "{setup}: {error}");
    }
    // A folder that is a link to somewhere else, from which and into which the project has copied.
    std::os::unix::fs::symlink(&outside, bench.repo.join("link")).unwrap();
    commit("copy = [\"link/secret\"]");
    let error = bench.refused(bench.asked("x", "x", true)).await;
    assert!(error.message.contains("link/secret"), "{error}");
    assert_eq!(outside.read_dir().unwrap().count(), 1);
}

#[tokio::test]
async fn a_hook_that_fails_leaves_no_tree_behind() {
    let bench = Bench::new().await;
    std::fs::create_dir(bench.repo.join(".obey")).unwrap();
    std::fs::write(
        bench.repo.join(".obey/worktree.toml"),
        "setup = \"test -e ok || { echo no such thing >&2; exit 3; }\"",
    )
    .unwrap();
    git(&bench.repo, &["add", "-A"]);
    git(&bench.repo, &["commit", "-qm", "setup"]);
    let made = bench.worktrees.create_set_up(bench.asked("x", "x", true)).await.unwrap();
    let SetupOutcome::NotAllowed { hash, .. } = made.setup else { panic!("{:?}", made.setup) };
    let name = TreeName { id: made.worktree.id, ..TreeName::default() };
    let error = bench.worktrees.allow_setup(&name, &hash, "me").await.unwrap_err();
    assert!(error.message.contains("no such thing"), "{error}");
    let error = bench.refused(bench.asked("y", "y", true)).await;
    assert!(error.message.contains("no such thing"), "{error}");
}

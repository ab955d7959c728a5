//! What changed in a tree, and merging, rebasing, discarding and collecting it, with real repositories.

use super::*;

/// Makes a commit of everything in a tree.
fn commit_all(tree: &Path, message: &str) {
    git(tree, &["add", "-A"]);
    git(tree, &["-c", "user.name=T", "-c", "user.email=t@e.invalid", "commit", "-qm", message]);
}

fn write(folder: &Path, name: &str, text: &str) {
    std::fs::write(folder.join(name), text).unwrap();
}

fn read(folder: &Path, name: &str) -> String {
    std::fs::read_to_string(folder.join(name)).unwrap_or_default()
}

impl Bench {
    async fn tree(&self, name: &str) -> Worktree {
        self.worktrees.create(self.asked(name, name, true)).await.unwrap()
    }

    /// Everything of a tree that a refused change must leave alone.
    fn everything(&self, tree: &Path) -> String {
        [
            output(tree, &["rev-parse", "HEAD"]),
            output(tree, &["status", "--porcelain"]),
            output(tree, &["diff"]),
            output(tree, &["diff", "--cached"]),
            output(&self.repo, &["for-each-ref"]),
        ]
        .join("\n")
    }
}

fn named(tree: &Worktree) -> TreeName {
    TreeName { id: tree.id.clone(), ..TreeName::default() }
}

fn merging(tree: &Worktree) -> MergeRequest {
    MergeRequest { tree: named(tree), ..MergeRequest::default() }
}

#[tokio::test]
async fn a_diff_has_committed_changed_renamed_deleted_binary_and_untracked_files() {
    let bench = Bench::new().await;
    for name in ["gone.txt", "moved.txt", "same.txt"] {
        write(&bench.repo, name, &format!("{name}\n").repeat(10));
    }
    write(&bench.repo, ".gitignore", "*.log\n");
    commit_all(&bench.repo, "more");
    let tree = bench.tree("x").await;
    assert_eq!(tree.base, "main");
    write(&tree.path, "README.md", "hi\nthere\n");
    commit_all(&tree.path, "in the tree");
    write(&tree.path, "src/a.txt", "two\n");
    std::fs::remove_file(tree.path.join("gone.txt")).unwrap();
    git(&tree.path, &["mv", "moved.txt", "src/elsewhere.txt"]);
    std::fs::write(tree.path.join("pic.bin"), [0, 1, 2, 0]).unwrap();
    write(&tree.path, "new file.txt", "a\nb\nc\n");
    write(&tree.path, "debug.log", "not a change\n");
    // What happens in the base meanwhile is no change of the tree.
    write(&bench.repo, "same.txt", "changed in main\n");
    commit_all(&bench.repo, "main goes on");
    let before = bench.everything(&tree.path);
    let diff = bench.worktrees.diff(&named(&tree), &DiffScope::Base).await.unwrap();
    let seen: Vec<_> =
        diff.files.iter().map(|file| (file.path.as_str(), file.status, file.added, file.removed)).collect();
    assert_eq!(
        seen,
        [
            ("README.md", FileChangeStatus::Modified, 1, 0),
            ("gone.txt", FileChangeStatus::Deleted, 0, 10),
            ("new file.txt", FileChangeStatus::Added, 3, 0),
            ("pic.bin", FileChangeStatus::Added, 0, 0),
            ("src/a.txt", FileChangeStatus::Modified, 1, 1),
            ("src/elsewhere.txt", FileChangeStatus::Renamed, 0, 0),
        ]
    );
    assert_eq!((diff.against.as_str(), diff.branch.as_str()), ("main", "x"));
    assert_eq!((diff.files_total, diff.added_total, diff.removed_total), (6, 5, 11));
    assert!(diff.files[2].untracked && diff.files[3].binary && !diff.files[0].untracked);
    assert_eq!(diff.files[5].old_path, "moved.txt");
    let working = bench.worktrees.diff(&named(&tree), &DiffScope::WorkingTree).await.unwrap();
    assert_eq!(working.files.len(), 5, "the commit is no change of the working tree");
    let file = bench.worktrees.diff_file(&named(&tree), &DiffScope::Base, "src/a.txt", 3).await.unwrap();
    let lines: Vec<_> = file.hunks[0].lines.iter().map(|line| (line.kind, line.text.as_str())).collect();
    assert_eq!(lines, [(DiffLineKind::Removed, "one"), (DiffLineKind::Added, "two")]);
    let file = bench.worktrees.diff_file(&named(&tree), &DiffScope::Base, "new file.txt", 3).await.unwrap();
    assert_eq!(file.hunks[0].lines.len(), 3);
    for path in ["same.txt", "../x", "/etc/passwd", "", "debug.log"] {
        let error = bench.worktrees.diff_file(&named(&tree), &DiffScope::Base, path, 3).await.unwrap_err();
        assert!(error.message.starts_with("path: "), "{path}: {error}");
    }
    assert_eq!(bench.everything(&tree.path), before, "looking changes nothing");
}

#[tokio::test]
async fn a_repository_without_a_commit_shows_its_files() {
    let bench = Bench::new().await;
    let empty = bench.root().join("empty");
    std::fs::create_dir(&empty).unwrap();
    git(&empty, &["init", "-q"]);
    write(&empty, "a.txt", "one\ntwo\n");
    let name = TreeName { folder: empty.display().to_string(), ..TreeName::default() };
    let diff = bench.worktrees.diff(&name, &DiffScope::Base).await.unwrap();
    assert_eq!((diff.files.len(), diff.files[0].added), (1, 2));
    let request = MergeRequest { tree: name.clone(), into: "main".to_owned(), ..MergeRequest::default() };
    assert!(bench.worktrees.merge(request).await.is_err());
    let plain = bench.root().join("plain");
    std::fs::create_dir(&plain).unwrap();
    let name = TreeName { folder: plain.display().to_string(), ..TreeName::default() };
    let error = bench.worktrees.diff(&name, &DiffScope::Base).await.unwrap_err();
    assert!(error.message.contains("no git repository"), "{error}");
}

#[tokio::test]
async fn a_merge_moves_the_base_and_the_files_of_its_checkout() {
    let bench = Bench::new().await;
    let tree = bench.tree("x").await;
    write(&tree.path, "new.txt", "new\n");
    commit_all(&tree.path, "new");
    let merged = bench.worktrees.merge(merging(&tree)).await.unwrap();
    assert_eq!((merged.into.as_str(), merged.fast_forward, merged.up_to_date), ("main", true, false));
    assert_eq!(read(&bench.repo, "new.txt"), "new\n");
    assert_eq!(output(&bench.repo, &["status", "--porcelain"]), "");
    assert!(bench.worktrees.merge(merging(&tree)).await.unwrap().up_to_date);
    // Both went on: a commit with two parents.
    write(&bench.repo, "main.txt", "main\n");
    commit_all(&bench.repo, "main goes on");
    write(&tree.path, "src/a.txt", "two\n");
    commit_all(&tree.path, "two");
    // Other changes in the base's checkout stay.
    write(&bench.repo, "README.md", "being edited\n");
    let merged = bench.worktrees.merge(merging(&tree)).await.unwrap();
    assert!(!merged.fast_forward);
    assert_eq!(read(&bench.repo, "src/a.txt"), "two\n");
    assert_eq!(output(&bench.repo, &["status", "--porcelain"]), " M README.md\n");
    assert_eq!(output(&bench.repo, &["log", "-1", "--format=%s|%an"]), "Merge branch 'x' into main|Test\n");
    assert_eq!(output(&bench.repo, &["rev-list", "--parents", "-1", "HEAD"]).split_whitespace().count(), 3);
}

#[tokio::test]
async fn a_conflict_changes_nothing_and_says_what_to_do() {
    let bench = Bench::new().await;
    let tree = bench.tree("x").await;
    write(&tree.path, "src/a.txt", "tree\n");
    write(&tree.path, "uncommitted.txt", "work\n");
    write(&bench.repo, "src/a.txt", "main\n");
    commit_all(&bench.repo, "main goes on");
    let before = (bench.everything(&tree.path), bench.everything(&bench.repo));
    let request = MergeRequest { commit_message: "all".to_owned(), ..merging(&tree) };
    let error = bench.worktrees.merge(request).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::MergeConflict);
    assert!(error.message.contains("src/a.txt") && error.message.contains("git merge main"), "{error}");
    assert_eq!((bench.everything(&tree.path), bench.everything(&bench.repo)), before);
    assert_eq!(read(&tree.path, "uncommitted.txt"), "work\n");
    git(&tree.path, &["checkout", "-q", "src/a.txt"]);
    write(&tree.path, "src/a.txt", "tree\n");
    commit_all(&tree.path, "tree");
    let before = (bench.everything(&tree.path), bench.everything(&bench.repo));
    let error = bench.worktrees.rebase(&named(&tree), "").await.unwrap_err();
    assert_eq!(error.code, ErrorCode::MergeConflict);
    assert!(error.message.contains("git rebase main"), "{error}");
    assert_eq!((bench.everything(&tree.path), bench.everything(&bench.repo)), before);
}

#[tokio::test]
async fn uncommitted_changes_are_merged_only_with_a_message() {
    let bench = Bench::new().await;
    let tree = bench.tree("x").await;
    write(&tree.path, "src/a.txt", "two\n");
    write(&tree.path, "new.txt", "new\n");
    let error = bench.worktrees.merge(merging(&tree)).await.unwrap_err();
    assert!(error.message.contains("not committed"), "{error}");
    let request = MergeRequest { commit_message: "what the agent did".to_owned(), ..merging(&tree) };
    let merged = bench.worktrees.merge(request).await.unwrap();
    assert_eq!(merged.committed, merged.commit);
    assert_eq!(output(&tree.path, &["status", "--porcelain"]), "");
    assert_eq!(output(&tree.path, &["log", "-1", "--format=%s"]), "what the agent did\n");
    assert_eq!(read(&bench.repo, "new.txt"), "new\n");
    assert_eq!(output(&bench.repo, &["status", "--porcelain"]), "");
}

#[tokio::test]
async fn changes_in_the_way_of_a_merge_are_not_touched() {
    let bench = Bench::new().await;
    let tree = bench.tree("x").await;
    write(&tree.path, "src/a.txt", "tree\n");
    write(&tree.path, "new.txt", "tree\n");
    commit_all(&tree.path, "tree");
    for (name, text) in [("src/a.txt", "being edited\n"), ("new.txt", "untracked here\n")] {
        write(&bench.repo, name, text);
        let before = (bench.everything(&tree.path), bench.everything(&bench.repo));
        let error = bench.worktrees.merge(merging(&tree)).await.unwrap_err();
        assert!(error.message.contains("in the way") && error.message.contains("commit or stash"), "{error}");
        assert_eq!((bench.everything(&tree.path), bench.everything(&bench.repo)), before);
        assert_eq!(read(&bench.repo, name), text);
        git(&bench.repo, &["stash", "-qu"]);
    }
    bench.worktrees.merge(merging(&tree)).await.unwrap();
    assert_eq!(read(&bench.repo, "src/a.txt"), "tree\n");
}

#[tokio::test]
async fn a_merge_finds_its_branch_or_asks_for_one() {
    let bench = Bench::new().await;
    let tree = bench.tree("x").await;
    write(&tree.path, "new.txt", "new\n");
    commit_all(&tree.path, "new");
    // The base is checked out nowhere.
    git(&bench.repo, &["checkout", "-q", "other"]);
    bench.worktrees.merge(merging(&tree)).await.unwrap();
    assert_eq!(output(&bench.repo, &["show", "main:new.txt"]), "new\n");
    assert!(!bench.repo.join("new.txt").exists());
    // It was deleted, or the tree has no branch at all.
    git(&bench.repo, &["branch", "-D", "main"]);
    let error = bench.worktrees.merge(merging(&tree)).await.unwrap_err();
    assert!(error.message.starts_with("into: there is no branch main"), "{error}");
    assert!(bench.worktrees.diff(&named(&tree), &DiffScope::Base).await.is_ok());
    git(&tree.path, &["checkout", "-q", "--detach"]);
    git(&bench.repo, &["branch", "-D", "x"]);
    let request = MergeRequest { into: "other".to_owned(), ..merging(&tree) };
    bench.worktrees.merge(request).await.unwrap();
    assert_eq!(read(&bench.repo, "new.txt"), "new\n");
}

#[tokio::test]
async fn a_rebase_makes_the_tree_s_commits_again() {
    let bench = Bench::new().await;
    let tree = bench.tree("x").await;
    for number in 1..=3 {
        write(&tree.path, &format!("{number}.txt"), "text\n");
        commit_all(&tree.path, &format!("commit {number}\n\nWhy it is there."));
    }
    write(&bench.repo, "main.txt", "main\n");
    commit_all(&bench.repo, "main goes on");
    // The base has one of them already.
    git(&bench.repo, &["-c", "user.name=T", "-c", "user.email=t@e", "cherry-pick", "x~2"]);
    let rebased = bench.worktrees.rebase(&named(&tree), "").await.unwrap();
    assert_eq!((rebased.onto.as_str(), rebased.commits, rebased.up_to_date), ("main", 2, false));
    assert_eq!(
        output(&tree.path, &["log", "--format=%s|%an|%b", "main..HEAD"]),
        "commit 3|T|Why it is there.\n\ncommit 2|T|Why it is there.\n\n"
    );
    assert_eq!(output(&tree.path, &["status", "--porcelain"]), "");
    assert_eq!(
        (read(&tree.path, "main.txt").as_str(), read(&tree.path, "3.txt").as_str()),
        ("main\n", "text\n")
    );
    assert!(bench.worktrees.rebase(&named(&tree), "").await.unwrap().up_to_date);
    assert!(bench.worktrees.merge(merging(&tree)).await.unwrap().fast_forward);
}

#[tokio::test]
async fn discarded_work_can_be_brought_back() {
    let bench = Bench::new().await;
    let tree = bench.tree("x").await;
    write(&tree.path, "done.txt", "committed\n");
    commit_all(&tree.path, "done");
    write(&tree.path, "src/a.txt", "two\n");
    write(&tree.path, "new.txt", "new\n");
    let paths = DiscardScope::Paths(vec!["new.txt".to_owned()]);
    let discarded = bench.worktrees.discard(&named(&tree), paths).await.unwrap();
    assert_eq!(output(&tree.path, &["status", "--porcelain"]), " M src/a.txt\n");
    assert_eq!(output(&bench.repo, &["show", &format!("{}:new.txt", discarded.kept_as)]), "new\n");
    let discarded = bench.worktrees.discard(&named(&tree), DiscardScope::Uncommitted).await.unwrap();
    assert_eq!(output(&tree.path, &["status", "--porcelain"]), "");
    assert_eq!(read(&tree.path, "src/a.txt"), "one\n");
    assert_eq!(output(&bench.repo, &["show", &format!("{}:src/a.txt", discarded.kept_commit)]), "two\n");
    let none = bench.worktrees.discard(&named(&tree), DiscardScope::Uncommitted).await.unwrap();
    assert_eq!(none.kept_as, "");
    write(&tree.path, "new.txt", "again\n");
    let discarded = bench.worktrees.discard(&named(&tree), DiscardScope::ToBase).await.unwrap();
    assert!(!tree.path.join("done.txt").exists() && !tree.path.join("new.txt").exists());
    assert_eq!(output(&tree.path, &["rev-parse", "HEAD"]), output(&bench.repo, &["rev-parse", "main"]));
    assert_eq!(output(&bench.repo, &["show", &format!("{}:done.txt", discarded.kept_as)]), "committed\n");
    let error = bench
        .worktrees
        .discard(&named(&tree), DiscardScope::Paths(vec!["../../x".to_owned()]))
        .await
        .unwrap_err();
    assert!(error.message.starts_with("paths: "), "{error}");
}

#[tokio::test]
async fn merged_trees_are_recognised_also_when_squashed() {
    let bench = Bench::new().await;
    let state = async |tree: &Worktree| bench.worktrees.is_merged(&named(tree)).await.unwrap().state;
    let tree = bench.tree("x").await;
    assert_eq!(state(&tree).await, MergeState::Empty);
    write(&tree.path, "1.txt", "text\n");
    commit_all(&tree.path, "one");
    write(&tree.path, "2.txt", "text\n");
    commit_all(&tree.path, "two");
    assert_eq!(state(&tree).await, MergeState::NotMerged);
    // Squashed by somebody else, and the base went on in the same files.
    git(&bench.repo, &["merge", "-q", "--squash", "x"]);
    commit_all(&bench.repo, "squashed");
    write(&bench.repo, "1.txt", "changed since\n");
    commit_all(&bench.repo, "main goes on");
    assert_eq!(state(&tree).await, MergeState::Squashed);
    write(&tree.path, "3.txt", "text\n");
    commit_all(&tree.path, "three");
    assert_eq!(state(&tree).await, MergeState::NotMerged);
    let other = bench.tree("y").await;
    write(&other.path, "4.txt", "text\n");
    commit_all(&other.path, "four");
    bench.worktrees.merge(merging(&other)).await.unwrap();
    assert_eq!(state(&other).await, MergeState::Merged);
}

#[tokio::test]
async fn only_trees_that_hold_nothing_are_collected() {
    let bench = Bench::new().await;
    let empty = bench.tree("empty").await;
    let merged = bench.tree("merged").await;
    write(&merged.path, "m.txt", "text\n");
    commit_all(&merged.path, "m");
    bench.worktrees.merge(merging(&merged)).await.unwrap();
    let squashed = bench.tree("squashed").await;
    write(&squashed.path, "s.txt", "text\n");
    commit_all(&squashed.path, "s");
    bench.worktrees.merge(MergeRequest { squash: true, ..merging(&squashed) }).await.unwrap();
    let work = bench.tree("work").await;
    write(&work.path, "w.txt", "text\n");
    commit_all(&work.path, "w");
    let dirty = bench.tree("dirty").await;
    write(&dirty.path, "d.txt", "text\n");
    let busy = bench.tree("busy").await;
    bench.session(&busy.path).await;
    let locked = bench.tree("locked").await;
    git(&bench.repo, &["worktree", "lock", &locked.path.display().to_string()]);
    let foreign = bench.root().join("foreign");
    git(&bench.repo, &["worktree", "add", "-q", "-b", "foreign", &foreign.display().to_string()]);
    let kept = |list: &[CollectedWorktree]| -> Vec<(String, Option<KeptReason>)> {
        list.iter().map(|one| (one.worktree.name.clone(), one.kept.clone())).collect()
    };
    let expected: Vec<(String, Option<KeptReason>)> = [
        ("empty", None),
        ("merged", None),
        ("squashed", None),
        ("work", Some(KeptReason::NotMerged)),
        ("dirty", Some(KeptReason::Uncommitted)),
        ("busy", Some(KeptReason::SessionAlive)),
        ("locked", Some(KeptReason::Locked)),
        ("foreign", Some(KeptReason::NotMadeHere)),
    ]
    .map(|(name, kept)| (name.to_owned(), kept))
    .to_vec();
    let sorted = |mut list: Vec<(String, Option<KeptReason>)>| {
        list.sort_by(|one, other| one.0.cmp(&other.0));
        list
    };
    let told = bench.worktrees.collect(&bench.path(), true).await.unwrap();
    assert_eq!(sorted(kept(&told)), sorted(expected.clone()));
    assert!(empty.path.exists() && merged.path.exists(), "a dry run removes nothing");
    let told = bench.worktrees.collect(&bench.path(), false).await.unwrap();
    assert_eq!(sorted(kept(&told)), sorted(expected));
    for gone in [&empty, &merged, &squashed] {
        assert!(!gone.path.exists());
    }
    for there in [&work, &dirty, &busy, &locked] {
        assert!(there.path.exists());
    }
    let branches = output(&bench.repo, &["branch", "--list", "--format=%(refname:short)"]);
    let branches: Vec<&str> = branches.lines().collect();
    // The commits of a squashed branch are in no other.
    assert_eq!(branches, ["busy", "dirty", "foreign", "locked", "main", "other", "squashed", "work"]);
}

#[tokio::test]
async fn changes_in_submodules_are_shown_and_not_lost() {
    let bench = Bench::new().await;
    let source = bench.root().join("library");
    std::fs::create_dir(&source).unwrap();
    git(&source, &["init", "-q", "-b", "main"]);
    write(&source, "lib.txt", "one\n");
    commit_all(&source, "library");
    git(
        &bench.repo,
        &[
            "-c",
            "protocol.file.allow=always",
            "submodule",
            "--quiet",
            "add",
            &source.display().to_string(),
            "lib",
        ],
    );
    commit_all(&bench.repo, "with a library");
    let tree = bench.tree("x").await;
    let diff = bench.worktrees.diff(&named(&tree), &DiffScope::Base).await.unwrap();
    assert_eq!(diff.files, [], "a submodule that is not checked out is no change");
    git(&tree.path, &["-c", "protocol.file.allow=always", "submodule", "--quiet", "update", "--init"]);
    write(&tree.path.join("lib"), "lib.txt", "two\n");
    commit_all(&tree.path.join("lib"), "two");
    let diff = bench.worktrees.diff(&named(&tree), &DiffScope::Base).await.unwrap();
    assert_eq!((diff.files.len(), diff.files[0].path.as_str(), diff.files[0].submodule), (1, "lib", true));
    let told = bench.worktrees.collect(&bench.path(), false).await.unwrap();
    assert_eq!(told[0].kept, Some(KeptReason::Uncommitted));
}

#[tokio::test]
async fn a_checkpoint_survives_what_happens_to_the_repository_s_references() {
    let bench = Bench::new().await;
    let repo = &bench.repo;
    write(repo, "README.md", "half done\n");
    write(repo, "new.txt", "untracked\n");
    let (index, refs) = (std::fs::read(repo.join(".git/index")).unwrap(), output(repo, &["for-each-ref"]));
    let files = bench.worktrees.record_files(repo).await.unwrap();
    assert!(files.complete);
    let bundle = bench.folder.path().join("ckpt_x.bundle");
    bench.worktrees.bundle_checkpoint(repo, &files, "ckpt_x", &bundle).await.unwrap();
    assert_eq!(std::fs::read(repo.join(".git/index")).unwrap(), index);
    assert_eq!(output(repo, &["for-each-ref"]), refs);
    assert!(std::fs::metadata(&bundle).unwrap().len() < 2_000, "only what the history lacks");
    // An agent commits something else, and everything that nothing refers to is removed.
    write(repo, "README.md", "broken\n");
    std::fs::remove_file(repo.join("new.txt")).unwrap();
    git(repo, &["commit", "-qam", "by the agent"]);
    git(repo, &["gc", "-q", "--prune=now"]);
    let tree = format!("{}^{{tree}}", files.tree);
    assert!(
        !std::process::Command::new("git")
            .current_dir(repo)
            .args(["cat-file", "-e", &tree])
            .status()
            .unwrap()
            .success()
    );
    // Even a reference that leads elsewhere does not mislead.
    git(repo, &["update-ref", "refs/obey/checkpoints/ckpt_x", "HEAD"]);
    bench.worktrees.unbundle_checkpoint(repo, "ckpt_x", &bundle).await.unwrap();
    for (path, content) in [("README.md", "half done"), ("new.txt", "untracked"), ("src/a.txt", "one")] {
        assert_eq!(output(repo, &["show", &format!("refs/obey/checkpoints/ckpt_x:{path}")]).trim(), content);
    }
    let lost = bench.worktrees.unbundle_checkpoint(repo, "ckpt_x", &bench.folder.path().join("none")).await;
    assert!(lost.unwrap_err().message.contains("ckpt_x"));
}

#[tokio::test]
async fn a_tree_is_opened_whatever_the_session_s_folder_in_it() {
    let bench = Bench::new().await;
    let tree = bench.tree("x").await;
    let session = bench.session(&tree.path.join("src")).await;
    write(&tree.path, "README.md", "changed\n");
    let name = TreeName { session: Some(session.clone()), ..TreeName::default() };
    let diff = bench.worktrees.diff(&name, &DiffScope::WorkingTree).await.unwrap();
    assert_eq!(diff.files[0].path, "README.md");
    let error = bench.worktrees.diff(&name, &DiffScope::Turn(1)).await.unwrap_err();
    assert!(error.message.contains("turn 1"), "{error}");
    // A turn begins, and the agent changes something after it.
    bench.worktrees.record_turn_in(&session, 1, &tree.path).await.unwrap();
    write(&tree.path, "src/a.txt", "by the agent\n");
    let diff = bench.worktrees.diff(&name, &DiffScope::Turn(1)).await.unwrap();
    assert_eq!(diff.files.iter().map(|file| file.path.as_str()).collect::<Vec<_>>(), ["src/a.txt"]);
}

#[tokio::test]
async fn one_name_that_git_refuses_hides_nothing_else_and_a_nested_repository_is_told() {
    let bench = Bench::new().await;
    let tree = bench.tree("x").await;
    write(&tree.path, "README.md", "changed\n");
    std::fs::create_dir_all(tree.path.join("deep/.GIT")).unwrap();
    write(&tree.path, "deep/.GIT/config", "x\n");
    write(&tree.path, "new.txt", "new\n");
    git(&tree.path, &["init", "-q", "sub"]);
    write(&tree.path, "sub/inner.txt", "hidden\n");
    let diff = bench.worktrees.diff(&named(&tree), &DiffScope::Base).await.unwrap();
    let seen: Vec<&str> = diff.files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(seen, ["README.md", "new.txt"]);
    let skipped: Vec<_> = diff.skipped.iter().map(|path| (path.path.as_str(), path.reason)).collect();
    assert_eq!(skipped, [("deep/.GIT", SkipReason::RefusedName), ("sub", SkipReason::NestedRepository)]);
    assert_eq!(diff.skipped_total, 2);
    bench.worktrees.diff_file(&named(&tree), &DiffScope::Base, "new.txt", 3).await.unwrap();

    let before = bench.everything(&tree.path);
    let committing = || MergeRequest { commit_message: "work".to_owned(), ..merging(&tree) };
    let error = bench.worktrees.merge(committing()).await.unwrap_err();
    for part in ["deep/.GIT: rename or remove it", "sub is a repository of its own", "remove sub/.git"] {
        assert!(error.message.contains(part), "{part}: {error}");
    }
    assert_eq!(bench.everything(&tree.path), before, "nothing was changed");
    std::fs::remove_dir_all(tree.path.join("deep")).unwrap();
    write(&tree.path, ".gitignore", "sub\n");
    bench.worktrees.merge(committing()).await.unwrap();
    assert_eq!(read(&bench.repo, "new.txt"), "new\n");
}

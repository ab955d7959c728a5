//! Sessions in working trees of their own: one step to get there, five at once, and what is refused.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::stage::{Agent, Stage, script, stage};

/// Runs git in a folder with the world's environment; returns what it printed.
pub(super) fn git(stage: &Stage, folder: &Path, args: &[&str]) -> Result<String> {
    let done = stage.world.command("git").args(args).current_dir(folder).output()?;
    ensure!(done.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&done.stderr));
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

/// Creates a session in a tree; returns its id and its folder.
pub(super) async fn create(stage: &Stage, args: &[&str]) -> Result<(String, PathBuf)> {
    let mut all = vec!["session", "create", "--campaign", crate::stage::CAMPAIGN, "-p", stage.agent.name()];
    all.extend(args);
    let made = stage.cli().json(&all).await?;
    let text = |key: &str| made[key].as_str().map(str::to_owned).with_context(|| format!("no {key}: {made}"));
    Ok((text("id")?, PathBuf::from(text("working_dir")?)))
}

#[tokio::test]
async fn a_session_gets_a_tree_of_its_own_in_one_step() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let message = script(Agent::Scripted, "Fix the login bug", &json!([{"text": "done"}]));
    let (id, folder) = create(&stage, &["--message", &message, "-w"]).await?;
    assert_ne!(folder, stage.world.project());
    let branch = git(&stage, &folder, &["branch", "--show-current"])?;
    assert!(branch.starts_with("fix-the-login-bug"), "{branch}");
    let cli = stage.cli();
    let listed = cli.json(&["worktree", "list"]).await?;
    assert_eq!(listed["worktrees"][1]["active_session_id"], json!(id), "{listed}");
    assert_eq!(listed["worktrees"][1]["base"], json!("main"), "{listed}");
    // A second session may share the tree, by its name, and one that is started in the tree's folder works there.
    let name = listed["worktrees"][1]["name"].as_str().context("no name")?;
    let (_, same) = create(&stage, &["-w", name]).await?;
    assert_eq!(same, folder);
    let inside = stage
        .world
        .command(stage.world.obey()?)
        .args(["session", "create", "-p", "scripted", "--json"])
        .current_dir(&folder)
        .output()?;
    ensure!(inside.status.success(), "{}", String::from_utf8_lossy(&inside.stderr));
    let inside: Value = serde_json::from_slice(&inside.stdout)?;
    assert_eq!(inside["working_dir"], json!(folder), "{inside}");
    // The end of its sessions keeps the tree.
    for session in [&id, inside["id"].as_str().context("no id")?] {
        stage.stop(session, false).await?;
    }
    assert!(folder.join("README.md").exists());
    stage.close().await
}

#[tokio::test]
async fn a_session_that_is_refused_leaves_no_tree_behind() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let trees = || git(&stage, &stage.world.project(), &["worktree", "list"]);
    let before = (trees()?, git(&stage, &stage.world.project(), &["branch"])?);
    let refused = |args: &'static [&'static str]| {
        let cli = stage.cli();
        async move {
            let mut all =
                vec!["session", "create", "--campaign", crate::stage::CAMPAIGN, "-p", "scripted", "-w", "x"];
            all.extend(args);
            cli.run(&all).await
        }
    };
    for (args, what) in [
        (&["--config", "{\"permission_mode\": \"sometimes\"}"][..], "permission_mode"),
        (&["--base", "nowhere"], "provider_config.worktree_base"),
        (&["--branch", "a..b"], "provider_config.worktree_branch"),
        (&["--model", "no\u{1}model"], "model"),
    ] {
        let output = refused(args).await?;
        assert!(output.code != Some(0) && output.stderr.contains(what), "{what}: {output:?}");
    }
    assert_eq!((trees()?, git(&stage, &stage.world.project(), &["branch"])?), before);
    stage.close().await
}

#[tokio::test]
async fn a_folder_without_git_or_without_a_commit_has_no_trees() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let cli = stage.cli();
    for (name, what) in [("plain", "no git repository"), ("empty", "no commit yet")] {
        let folder = stage.world.path(name);
        std::fs::create_dir(&folder)?;
        if name == "empty" {
            git(&stage, &folder, &["init", "--quiet"])?;
        }
        let path = folder.display().to_string();
        cli.ok(&["campaign", "add", &path, "--name", name]).await?;
        let output = cli.run(&["session", "create", "--campaign", name, "-p", "scripted", "-w"]).await?;
        assert_eq!(output.code, Some(2), "{output:?}");
        assert!(output.stderr.contains(what) && output.stderr.contains("worktree"), "{output:?}");
        // Without a tree a session works there as ever.
        cli.ok(&["session", "create", "--campaign", name, "-p", "scripted"]).await?;
    }
    stage.close().await
}

#[tokio::test]
async fn real_claude_five_agents_work_in_five_trees_at_once() -> Result<()> {
    let stage = stage!(Agent::Claude);
    let start = |number: u32| {
        let stage = &stage;
        async move {
            let command =
                format!("echo {number} > file-{number}.txt; git add -A; git commit -qm 'by agent {number}'");
            let steps = json!([{"tool": "Bash", "input": {"command": command}}, {"text": "done"}]);
            let message = script(Agent::Claude, &format!("agent{number}"), &steps);
            let tree = format!("tree-{number}");
            create(stage, &["--mode", "autonomous", "--message", &message, "-w", &tree]).await
        }
    };
    let (one, two, three, four, five) = tokio::try_join!(start(1), start(2), start(3), start(4), start(5))?;
    let sessions = [one, two, three, four, five];
    let cli = stage.cli();
    for (number, (id, folder)) in (1..=5).zip(&sessions) {
        stage.wait_for(id, "turn_ended", |_| true).await?;
        assert!(folder.ends_with(format!("tree-{number}")), "{}", folder.display());
        let diff = cli.json(&["diff", id]).await?;
        let files = &diff["files"];
        let expected = json!([format!("file-{number}.txt"), 1, 0]);
        assert_eq!(json!([files[0]["path"], files[0]["added"], files[0]["removed"]]), expected, "{diff}");
        assert_eq!((files.as_array().map(Vec::len), &diff["against"]), (Some(1), &json!("main")), "{diff}");
    }
    for (id, _) in &sessions {
        let merged = cli.json(&["merge", id]).await?;
        assert_eq!(merged["into"], json!("main"), "{merged}");
    }
    let project = stage.world.project();
    for number in 1..=5 {
        assert_eq!(
            std::fs::read_to_string(project.join(format!("file-{number}.txt")))?,
            format!("{number}\n")
        );
    }
    assert_eq!(git(&stage, &project, &["status", "--porcelain"])?, "");
    // While sessions live, their trees stay; then nothing is lost without them.
    let kept = cli.json(&["worktree", "gc"]).await?;
    assert!(
        kept["worktrees"].as_array().is_some_and(|all| all.iter().all(|one| one["removed"] == json!(false))),
        "{kept}"
    );
    for (id, _) in &sessions {
        stage.stop(id, false).await?;
    }
    let gone = cli.json(&["worktree", "gc"]).await?;
    let removed = |one: &Value| one["removed"] == json!(true) && one["branch_deleted"] == json!(true);
    assert!(
        gone["worktrees"].as_array().is_some_and(|all| all.len() == 5 && all.iter().all(removed)),
        "{gone}"
    );
    assert_eq!(git(&stage, &project, &["branch", "--format=%(refname:short)"])?, "main\n");
    stage.close().await
}

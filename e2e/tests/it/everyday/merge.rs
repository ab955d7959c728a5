//! Looking at changes and merging them from the command line: since a turn, with a conflict, with changes in the way.

use anyhow::{Context, Result};
use e2e::deadline::within;
use serde_json::json;
use wire::obey::v1 as own;

use super::trees::{create, git};
use crate::stage::{Agent, Stage, script, stage};

/// A script that writes a file and says so; it must ask first.
fn writing(key: &str, file: &str, text: &str) -> String {
    let command = format!("echo {text} > {file}");
    script(Agent::Claude, key, &json!([Agent::Claude.asking(&command), {"text": "written"}]))
}

/// Lets a turn run to its end, with its one request allowed once `ready` has been seen.
async fn turn(stage: &Stage, id: &str, prompt: &str, ready: Option<&str>) -> Result<()> {
    let cli = stage.cli();
    let before = stage.requests(id, true).await?.len();
    let running = stage.send(id, prompt).await?;
    let request = format!("req_{}", before + 1);
    stage.wait_for(id, "request_opened", |event| event["request"] == json!(request)).await?;
    if let Some(turn) = ready {
        within("the files at the start of the turn", async {
            while cli.run(&["diff", id, "--turn", turn]).await?.code != Some(0) {}
            anyhow::Ok(())
        })
        .await??;
    }
    stage.decide(id, &request, own::Decision::AllowOnce).await?;
    e2e::clients::collect(running).await?;
    Ok(())
}

#[tokio::test]
async fn real_claude_the_changes_since_a_turn_are_those_of_that_turn() -> Result<()> {
    let stage = stage!(Agent::Claude);
    let (id, folder) = create(&stage, &["--mode", "supervised", "-w", "fix"]).await?;
    turn(&stage, &id, &writing("first", "first.txt", "one"), None).await?;
    turn(&stage, &id, &writing("second", "second.txt", "two"), Some("2")).await?;
    let cli = stage.cli();
    let diff = cli.json(&["diff", &id, "--turn", "2"]).await?;
    let paths = |diff: &serde_json::Value| -> Vec<String> {
        let files = diff["files"].as_array().cloned().unwrap_or_default();
        files.iter().filter_map(|file| file["path"].as_str().map(str::to_owned)).collect()
    };
    assert_eq!(paths(&diff), ["second.txt"], "{diff}");
    let all = cli.json(&["diff", &id]).await?;
    assert_eq!(paths(&all), ["first.txt", "second.txt"], "{all}");
    let patch = cli.ok(&["diff", &id, "--patch"]).await?.stdout;
    assert!(patch.contains("+++ b/second.txt") && patch.contains("\n+two\n"), "{patch}");
    // Nothing is merged unasked that is not committed.
    let refused = cli.run(&["merge", &id]).await?;
    assert!(refused.code == Some(5) && refused.stderr.contains("not committed"), "{refused:?}");
    cli.ok(&["merge", &id, "--commit", "what the agent did"]).await?;
    assert_eq!(std::fs::read_to_string(stage.world.project().join("second.txt"))?, "two\n");
    assert_eq!(git(&stage, &folder, &["status", "--porcelain"])?, "");
    stage.close().await
}

#[tokio::test]
async fn a_conflict_is_said_with_its_files_and_loses_nothing() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let (id, folder) = create(&stage, &["-w", "fix"]).await?;
    let project = stage.world.project();
    std::fs::write(folder.join("README.md"), "changed in the tree\n")?;
    git(&stage, &folder, &["commit", "--quiet", "-am", "tree"])?;
    std::fs::write(folder.join("notes.txt"), "not committed\n")?;
    std::fs::write(project.join("README.md"), "changed in main\n")?;
    git(&stage, &project, &["commit", "--quiet", "-am", "main"])?;
    let state = || -> Result<Vec<String>> {
        let mut all = vec![git(&stage, &project, &["for-each-ref"])?];
        for folder in [&project, &folder] {
            all.push(git(&stage, folder, &["status", "--porcelain"])?);
            all.push(git(&stage, folder, &["diff", "HEAD"])?);
        }
        Ok(all)
    };
    let before = state()?;
    let cli = stage.cli();
    let refused = cli.run(&["merge", &id, "--commit", "all"]).await?;
    assert_eq!(refused.code, Some(5), "{refused:?}");
    for what in ["OBEY-2042", "README.md", "nothing was changed", "git merge main"] {
        assert!(refused.stderr.contains(what), "{what}: {refused:?}");
    }
    assert_eq!(state()?, before);
    // As the message says.
    git(&stage, &folder, &["add", "--all"])?;
    git(&stage, &folder, &["commit", "--quiet", "-m", "notes"])?;
    git(&stage, &folder, &["merge", "--quiet", "-X", "ours", "main"])?;
    // What is being edited where main is checked out is not touched.
    std::fs::write(project.join("README.md"), "being edited\n")?;
    let refused = cli.run(&["merge", &id]).await?;
    assert!(refused.code == Some(5) && refused.stderr.contains("in the way"), "{refused:?}");
    assert_eq!(std::fs::read_to_string(project.join("README.md"))?, "being edited\n");
    git(&stage, &project, &["checkout", "--quiet", "README.md"])?;
    let merged = cli.json(&["merge", &id]).await?;
    assert_eq!((&merged["into"], &merged["fast_forward"]), (&json!("main"), &json!(true)), "{merged}");
    assert_eq!(std::fs::read_to_string(project.join("README.md"))?, "changed in the tree\n");
    assert_eq!(std::fs::read_to_string(project.join("notes.txt"))?, "not committed\n");
    stage.close().await
}

#[tokio::test]
async fn trees_are_rebased_discarded_and_set_up_on_the_command_line() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let project = stage.world.project();
    std::fs::create_dir(project.join(".obey"))?;
    std::fs::write(project.join(".obey/worktree.toml"), "setup = \"touch made-by-hook\"\n")?;
    git(&stage, &project, &["add", "--all"])?;
    git(&stage, &project, &["commit", "--quiet", "-m", "setup"])?;
    let cli = stage.cli();
    let made = cli.ok(&["worktree", "create", "fix"]).await?;
    assert!(made.stderr.contains("touch made-by-hook") && made.stderr.contains("allow-setup"), "{made:?}");
    let listed = cli.json(&["worktree", "list"]).await?;
    let folder = std::path::PathBuf::from(listed["worktrees"][1]["path"].as_str().context("no path")?);
    assert!(!folder.join("made-by-hook").exists());
    let asked = cli.run(&["worktree", "allow-setup", "fix"]).await?;
    assert_eq!(asked.code, Some(2), "{asked:?}");
    let hash = asked.stderr.split("--hash ").nth(1).and_then(|rest| rest.split_whitespace().next());
    cli.ok(&["worktree", "allow-setup", "fix", "--hash", hash.context("no hash")?]).await?;
    assert!(folder.join("made-by-hook").exists());
    let discarded = cli.json(&["worktree", "discard", "fix"]).await?;
    assert!(discarded["kept_as"].as_str().is_some_and(|name| name.starts_with("refs/obey/discarded/")));
    assert!(!folder.join("made-by-hook").exists());
    std::fs::write(folder.join("a.txt"), "a\n")?;
    git(&stage, &folder, &["add", "--all"])?;
    git(&stage, &folder, &["commit", "--quiet", "-m", "a"])?;
    std::fs::write(project.join("b.txt"), "b\n")?;
    git(&stage, &project, &["add", "--all"])?;
    git(&stage, &project, &["commit", "--quiet", "-m", "b"])?;
    let rebased = cli.json(&["worktree", "rebase", "fix"]).await?;
    assert_eq!((&rebased["onto"], &rebased["commits"]), (&json!("main"), &json!(1)), "{rebased}");
    assert!(folder.join("b.txt").exists());
    stage.close().await
}

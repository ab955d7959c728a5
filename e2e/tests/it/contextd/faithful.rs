//! What users of the workbench expect of git, checkpoints, policies and numbers; and that the checks of `obey conformance` hold
//! for this daemon.

use anyhow::{Context, Result, ensure};
use e2e::cli::Cli;
use e2e::deadline::within;
use serde_json::{Value, json};

use super::bench::Bench;
use crate::stage::{Agent, Stage, script, stage};

/// Runs git outside, as the user would.
fn git(folder: &std::path::Path, arguments: &[&str]) -> Result<String> {
    let output = std::process::Command::new("git")
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .args(["-c", "user.name=U", "-c", "user.email=u@localhost"])
        .args(arguments)
        .output()?;
    ensure!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[tokio::test]
async fn conformance_holds_for_this_daemon() -> Result<()> {
    let bench = Bench::start().await?;
    let cli = Cli::new(&bench.world);
    let address = bench.address()?.to_string();
    for arguments in [vec!["conformance"], vec!["conformance", "--address", &address]] {
        let checked = cli.json(&arguments).await?;
        let clauses = checked["clauses"].as_array().context("no clauses")?;
        ensure!(checked["failed"] == 0 && clauses.len() > 30, "{arguments:?}: {checked:#}");
        // Every interface that is reached over a listener; editors are served by a program of the daemon's user.
        let has_editors = arguments.len() == 1;
        let interfaces = ["L-", "B-", "Z-", "C-"].into_iter().chain(has_editors.then_some("A-"));
        for interface in interfaces {
            let of = |clause: &&Value| clause["id"].as_str().is_some_and(|id| id.starts_with(interface));
            let held = clauses.iter().filter(of).filter(|clause| clause["result"] == "held").count();
            ensure!(held > 2, "{interface}: {checked:#}");
        }
    }
    let table = cli.ok(&["conformance", "--address", &address]).await?;
    ensure!(table.stdout.contains("C-28") && table.stdout.contains("held"), "{table:#?}");
    ensure!(table.stderr.contains("0 failed, 8 skipped"), "{table:#?}");
    // Nothing of the checks is left.
    for listing in [["--json", "ps", "--all"], ["--json", "campaign", "list"]] {
        let left = cli.ok(&listing).await?;
        ensure!(!left.stdout.contains("conformance"), "{left:#?}");
    }
    let nobody = cli.run(&["conformance", "--address", "127.0.0.1:1"]).await?;
    ensure!(nobody.code == Some(2) && nobody.stderr.contains("no daemon answers"), "{nobody:#?}");
    bench.end().await
}

#[tokio::test]
async fn a_checkpoint_holds_the_tree_and_restores_it() -> Result<()> {
    let bench = Bench::start().await?;
    let cli = Cli::new(&bench.world);
    let folder = bench.folder("repo")?;
    let project = folder.to_str().context("a path")?.to_owned();
    let session = bench.session(&folder).await?;
    let made = bench
        .bash(
            &session,
            "git init -q -b main && echo one > a && git add a && git commit -qm first && echo new > b",
        )
        .await?;
    ensure!(made["exit_code"] == 0, "{made}");
    let index = std::fs::read(folder.join(".git/index"))?;
    let saved = cli.ok(&["checkpoint", "save", "half way", "--project", &project]).await?.stdout;
    let id = saved.trim();
    ensure!(std::fs::read(folder.join(".git/index"))? == index, "the index changed");
    ensure!(git(&folder, &["branch", "--format=%(refname:short)"])? == "main\n");
    ensure!(git(&folder, &["show", &format!("refs/obey/checkpoints/{id}:b")])? == "new\n");
    std::fs::write(folder.join("a"), "broken\n")?;
    std::fs::remove_file(folder.join("b"))?;
    std::fs::write(folder.join("c"), "later\n")?;
    // A repository without a commit cannot be saved by git, and is no obstacle.
    git(&folder, &["init", "--quiet", "nested"])?;
    git(&folder, &["init", "--quiet", "verschachtelt-ä"])?;
    let restored = cli.ok(&["checkpoint", "restore", id, "--project", &project]).await?;
    ensure!(restored.stdout.contains("refs/obey/before-restore/"), "{restored:#?}");
    let content = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap_or_default();
    ensure!((content("a"), content("b"), content("c")) == ("one\n".into(), "new\n".into(), String::new()));
    ensure!(folder.join("nested/.git").is_dir());
    ensure!(git(&folder, &["show", &format!("refs/obey/before-restore/{id}:c")])? == "later\n");
    let unknown = cli.run(&["checkpoint", "restore", "ckpt_none", "--project", &project]).await?;
    ensure!(unknown.code == Some(4), "{unknown:#?}");
    bench.end().await
}

/// Returns the checkpoints of a project with their tags.
async fn checkpoints(cli: &Cli, project: &str) -> Result<Vec<serde_json::Value>> {
    let listed = cli.json(&["checkpoint", "list", "--project", project]).await?;
    Ok(listed["checkpoints"].as_array().cloned().unwrap_or_default())
}

/// Begins a turn that waits for a file, and waits until the files at its start are on record.
async fn begin_turn(stage: &Stage, id: &str, turn: u64, steps: &serde_json::Value) -> Result<()> {
    let cli = stage.cli();
    let message = script(Agent::Scripted, &format!("turn {turn}"), steps);
    cli.ok(&["session", "send", id, "--no-wait", &message]).await?;
    let since = turn.to_string();
    within("the files at the start of the turn", async {
        while cli.run(&["diff", id, "--turn", &since]).await?.code != Some(0) {}
        anyhow::Ok(())
    })
    .await?
}

#[tokio::test]
async fn a_turn_that_edits_has_a_checkpoint_before_it_and_one_that_does_not_has_none() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let (cli, folder) = (stage.cli(), stage.world.project());
    let project = folder.to_str().context("a path")?.to_owned();
    let (go, end) = (stage.world.path("go"), stage.world.path("end"));
    let id = stage.create().await?;
    std::fs::write(folder.join("notes.txt"), "before\n")?;
    let (index, refs) = (std::fs::read(folder.join(".git/index"))?, git(&folder, &["for-each-ref"])?);
    let steps = json!([{"wait_file": go}, {"tool": "Write", "input": {}, "result": "ok"}, {"wait_file": end}, {"text": "done"}]);
    begin_turn(&stage, &id, 1, &steps).await?;
    // What the agent does.
    std::fs::write(folder.join("notes.txt"), "by the agent\n")?;
    std::fs::write(folder.join("extra.txt"), "by the agent\n")?;
    std::fs::write(&go, "")?;
    // It is there while the turn still runs.
    let made = within("the checkpoint", async {
        loop {
            if let Some(made) = checkpoints(&cli, &project).await?.pop() {
                return anyhow::Ok(made);
            }
        }
    })
    .await??;
    std::fs::write(&end, "")?;
    stage.wait_for(&id, "turn_ended", |_| true).await?;
    ensure!(made["tags"] == json!(["automatic"]), "{made}");
    ensure!(std::fs::read(folder.join(".git/index"))? == index && git(&folder, &["for-each-ref"])? == refs);
    // A turn that changes nothing has none.
    stage
        .turn(
            &id,
            &script(
                Agent::Scripted,
                "look",
                &json!([{"tool": "Read", "input": {}, "result": "ok"}, {"text": "seen"}]),
            ),
        )
        .await?;
    ensure!(checkpoints(&cli, &project).await?.len() == 1);
    let ckpt = made["id"].as_str().context("no id")?;
    let told = cli.ok(&["checkpoint", "resume", ckpt, "--project", &project]).await?.stdout;
    ensure!(told.contains("before turn 1"), "{told}");
    cli.ok(&["checkpoint", "restore", ckpt, "--project", &project]).await?;
    ensure!(std::fs::read_to_string(folder.join("notes.txt"))? == "before\n");
    ensure!(!folder.join("extra.txt").exists());
    ensure!(
        git(&folder, &["show", &format!("refs/obey/before-restore/{ckpt}:extra.txt")])? == "by the agent\n"
    );
    stage.close().await
}

#[tokio::test]
async fn a_turn_that_edits_after_the_daemon_was_killed_has_a_checkpoint_of_its_start() -> Result<()> {
    let mut stage = stage!(Agent::Scripted);
    let folder = stage.world.project();
    let project = folder.to_str().context("a path")?.to_owned();
    let (go, end) = (stage.world.path("go"), stage.world.path("end"));
    let id = stage.create().await?;
    std::fs::write(folder.join("notes.txt"), "before\n")?;
    let steps = json!([{"wait_file": go}, {"tool": "Write", "input": {}, "result": "ok"}, {"wait_file": end}, {"text": "done"}]);
    begin_turn(&stage, &id, 1, &steps).await?;
    stage.daemon.kill9().await?;
    // The agent goes on while there is no daemon.
    std::fs::write(folder.join("notes.txt"), "by the agent\n")?;
    std::fs::write(&go, "")?;
    stage.daemon.restart().await?;
    stage.clients = stage.daemon.clients().await?;
    let cli = stage.cli();
    let made = within("the checkpoint", async {
        loop {
            if let Some(made) = checkpoints(&cli, &project).await?.pop() {
                return anyhow::Ok(made);
            }
        }
    })
    .await??;
    std::fs::write(&end, "")?;
    stage.wait_for(&id, "turn_ended", |_| true).await?;
    ensure!(checkpoints(&cli, &project).await?.len() == 1, "one for the turn");
    let ckpt = made["id"].as_str().context("no id")?;
    cli.ok(&["checkpoint", "restore", ckpt, "--project", &project]).await?;
    ensure!(std::fs::read_to_string(folder.join("notes.txt"))? == "before\n");
    stage.close().await
}

#[tokio::test]
async fn statuses_numbers_and_policies_are_as_users_expect() -> Result<()> {
    let bench = Bench::start().await?;
    let folder = bench.folder("plain")?;
    std::fs::create_dir(folder.join(".obey"))?;
    let session = bench.session(&folder).await?;
    bench.refused("/api/v1/safeexec/read", json!({"path": "no.txt", "session_id": session}), 404).await?;
    let protected = json!({"path": ".mcp.json", "content": "{}", "session_id": session});
    std::fs::create_dir(folder.join(".mcp.json"))?;
    bench.refused("/api/v1/safeexec/write", protected, 403).await?;
    let stored = json!({"title": "t", "content": "c", "session_id": session});
    let id = bench.post("/api/v1/memory/store", stored).await?["id"].as_str().context("no id")?.to_owned();
    let path = format!("/api/v1/memory/{id}?session_id={session}");
    let memory = bench.send("GET", &path, None).await?;
    ensure!(
        memory.body.contains("\"confidence\":0.8,") || memory.body.contains("\"confidence\":0.8}"),
        "{}",
        memory.body
    );
    // A policy that is added applies to the session that is open.
    ensure!(bench.bash(&session, "echo launch").await?["exit_code"] == 0);
    let policy = "[[policies]]\nid = \"no-launch\"\ntitle = \"No launches\"\ncategory = \"repo\"\nseverity = \"critical\"\n\
                  requirement = \"r\"\nsuggestion = \"s\"\ncommand_patterns = ['launch']\n";
    std::fs::write(folder.join(".obey/policies.toml"), policy)?;
    let refused = json!({"cmd": "echo launch", "session_id": session});
    let error = bench.refused("/api/v1/safeexec/bash", refused, 403).await?;
    ensure!(error["error"].as_str().is_some_and(|text| text.contains("no-launch")), "{error}");
    bench.end().await
}

//! A session that starts from an issue and ends in a merge request.

use anyhow::{Context, Result, ensure};
use e2e::forge_server::TOKEN;
use serde_json::json;

use super::Forges;
use crate::stage::{Agent, CAMPAIGN};

#[tokio::test]
async fn a_session_starts_from_an_issue_and_its_branch_becomes_a_merge_request() -> Result<()> {
    let Some(forges) = Forges::open(Agent::Scripted).await? else { return Ok(()) };
    let (stage, cli) = (&forges.stage, forges.stage.cli());
    let project = stage.world.project();
    let git = |folder: &std::path::Path, args: &[&str]| -> Result<String> {
        let done = stage.world.command("git").args(args).current_dir(folder).output()?;
        ensure!(done.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&done.stderr));
        Ok(String::from_utf8_lossy(&done.stdout).trim().to_owned())
    };
    // Pushed to a folder, so that no server of git's own protocol is needed; which project it is, the address says.
    let bare = stage.world.path("bare.git");
    git(&project, &["clone", "--quiet", "--bare", ".", &bare.display().to_string()])?;
    git(&project, &["config", "remote.origin.pushurl", &bare.display().to_string()])?;
    let made = cli
        .json(&[
            "session",
            "create",
            "--campaign",
            CAMPAIGN,
            "-p",
            "scripted",
            "--issue",
            "#7",
            "-w",
            "--mode",
            "autonomous",
        ])
        .await?;
    let id = made["id"].as_str().context("no id")?;
    assert_eq!((&made["agent_name"], &made["task_id"]), (&json!("issue-7"), &json!("#7")), "{made}");
    let first = stage.wait_for(id, "turn_started", |_| true).await?;
    let prompt = first.to_string();
    for what in ["Work on this issue.", "Issue #7: Login fails", "/issues/7", "Written by ann", "It fails."] {
        assert!(prompt.contains(what), "{what}: {prompt}");
    }
    let unknown =
        cli.run(&["session", "create", "--campaign", CAMPAIGN, "-p", "scripted", "--issue", "99"]).await?;
    assert!(unknown.stderr.contains("OBEY-1062"), "{unknown:?}");

    let folder = std::path::PathBuf::from(made["working_dir"].as_str().context("no folder")?);
    stage.wait_for(id, "turn_ended", |_| true).await?;
    std::fs::write(folder.join("fix.txt"), "fixed\n")?;
    let refused = cli.run(&["merge", id, "--request"]).await?;
    assert!(refused.stderr.contains("not committed"), "{refused:?}");
    // A hook of the repository is not run.
    std::fs::write(project.join(".git/hooks/pre-push"), "#!/bin/sh\nexit 1\n")?;
    std::process::Command::new("chmod").arg("+x").arg(project.join(".git/hooks/pre-push")).status()?;
    let opened = cli
        .json(&["merge", id, "--request", "--commit", "Fix the login", "-m", "Closes #7", "--draft"])
        .await?;
    assert_eq!(opened["title"], json!("Draft: Fix the login"), "{opened}");
    assert_eq!((&opened["source_branch"], &opened["target_branch"]), (&json!("issue-7"), &json!("main")));
    assert_eq!((&opened["description"], &opened["existed"]), (&json!("Closes #7"), &json!(false)));
    assert_eq!(git(&bare, &["log", "-1", "--format=%s", "issue-7"])?, "Fix the login");
    let again = cli.json(&["merge", id, "--request"]).await?;
    assert_eq!((&again["existed"], &again["iid"]), (&json!(true), &opened["iid"]), "{again}");
    let journal: Vec<String> = stage.journal(id).await?.iter().map(|event| format!("{event:?}")).collect();
    assert!(!journal.iter().any(|event| event.contains(TOKEN)), "the token is in the journal");
    forges.stage.close().await
}

/// The server asks git for a password: it gets the token, and nobody else does, whatever the repository says.
#[tokio::test]
async fn a_branch_is_pushed_with_the_servers_token_and_shown_to_nobody_else() -> Result<()> {
    let Some(forges) = Forges::open(Agent::Scripted).await? else { return Ok(()) };
    let (stage, cli) = (&forges.stage, forges.stage.cli());
    let project = stage.world.project();
    let git = |folder: &std::path::Path, args: &[&str]| -> Result<String> {
        let done = stage.world.command("git").args(args).current_dir(folder).output()?;
        ensure!(done.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&done.stderr));
        Ok(String::from_utf8_lossy(&done.stdout).trim().to_owned())
    };
    let bare = stage.world.path("bare.git");
    git(&project, &["clone", "--quiet", "--bare", ".", &bare.display().to_string()])?;
    forges.server.serve_git(bare.clone());
    let made = cli
        .json(&["session", "create", "--campaign", CAMPAIGN, "-p", "scripted", "-w", "--name", "fix"])
        .await?;
    let id = made["id"].as_str().context("no id")?;
    let folder = std::path::PathBuf::from(made["working_dir"].as_str().context("no folder")?);
    std::fs::write(folder.join("fix.txt"), "fixed\n")?;
    // A helper of the repository would be told the password.
    let told = stage.world.path("told");
    git(&project, &["config", "credential.helper", &format!("!cat >> {}; :", told.display())])?;
    let opened = cli.json(&["merge", id, "--request", "--commit", "Fix it"]).await?;
    let branch = opened["source_branch"].as_str().context("no branch")?;
    assert_eq!(git(&bare, &["log", "-1", "--format=%s", branch])?, "Fix it");
    assert!(!told.exists(), "{:?}", std::fs::read_to_string(&told));
    // The repository sends git to another server instead: that is asked without the token.
    let instead = format!("url.{}/.insteadOf", forges.other.url());
    git(&project, &["config", &instead, &format!("{}/", forges.server.url())])?;
    std::fs::write(folder.join("more.txt"), "more\n")?;
    let refused = cli.run(&["merge", id, "--request", "--commit", "More"]).await?;
    assert_ne!(refused.code, Some(0), "{refused:?}");
    assert!(forges.other.asked().iter().any(|asked| asked.path.contains("info/refs")), "{refused:?}");
    forges.check_token_stayed();
    let said = format!("{refused:?}{:?}", stage.journal(id).await?);
    assert!(!said.contains(TOKEN), "the token is shown");
    forges.stage.close().await
}

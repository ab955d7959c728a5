//! Worktrees from outside: agents side by side on one repository.

use std::collections::HashMap;

use anyhow::{Context, Result};
use e2e::clients::{Clients, refused};
use serde_json::json;
use tonic::Code;
use tonic::transport::Channel;
use wire::betcode::v1 as pb;
use wire::betcode::v1::worktree_service_client::WorktreeServiceClient;
use wire::obey::local::v1::SessionStatus;

use super::talk::{Talk, agents, new_start, text};
use crate::stage::{Agent, Stage, process_scenarios, script, stage};

process_scenarios!(an_agent_works_in_a_worktree_of_its_own);
crate::stage::scenarios_of!(openai, Openai, an_agent_works_in_a_worktree_of_its_own);

fn worktrees(clients: &Clients) -> WorktreeServiceClient<Channel> {
    WorktreeServiceClient::new(clients.channel.clone())
}

fn new_tree(stage: &Stage, name: &str) -> pb::CreateWorktreeRequest {
    pb::CreateWorktreeRequest {
        repo_path: stage.world.project().display().to_string(),
        name: name.into(),
        branch: format!("work/{name}"),
        create_branch: true,
        ..Default::default()
    }
}

async fn an_agent_works_in_a_worktree_of_its_own(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let mut trees = worktrees(&stage.clients);
    let made = trees.create_worktree(new_tree(&stage, "fix")).await?.into_inner();
    assert_eq!((made.name.as_str(), made.branch.as_str()), ("fix", "work/fix"));
    let start = pb::StartConversation { worktree_id: made.id.clone(), ..new_start(&stage) };
    let mut talk = Talk::start(&stage.clients, start).await?;
    assert_eq!((&talk.info.worktree_id, &talk.info.working_directory), (&made.id, &made.path));
    talk.prompt(&script(agent, "go", &json!([agent.asking("touch made"), {"text": "made it"}]))).await?;
    let asked = talk.permission().await?;
    talk.decide(&asked.request_id, pb::PermissionDecision::AllowOnce).await?;
    assert_eq!(text(&talk.turn().await?), "made it");
    let there = std::path::Path::new(&made.path).join("made").exists();
    assert_eq!(there, agent.is_real());
    assert!(!stage.world.project().join("made").exists());

    let repo_path = stage.world.project().display().to_string();
    let list = || pb::ListWorktreesRequest { repo_path: repo_path.clone() };
    let listed = trees.list_worktrees(list()).await?.into_inner().worktrees;
    assert_eq!(listed.len(), 2);
    assert_eq!((listed[1].active_session_id.as_str(), listed[1].session_count), (talk.session(), 1));
    let filter = pb::ListSessionsRequest { worktree_id: made.id.clone(), ..Default::default() };
    let sessions = agents(&stage.clients).list_sessions(filter).await?.into_inner();
    assert_eq!((sessions.total, &sessions.sessions[0].worktree_id), (1, &made.id));

    let remove = |force| pb::RemoveWorktreeRequest { worktree_id: made.id.clone(), force };
    if agent.is_real() {
        let refusal = trees.remove_worktree(remove(false)).await;
        refused(refusal, Code::FailedPrecondition, "OBEY-2041")?;
        assert_eq!(stage.info(talk.session()).await?.status(), SessionStatus::Running, "it goes on");
    }
    let removed = trees.remove_worktree(remove(true)).await?.into_inner();
    assert!(removed.removed && removed.sessions_closed == 1, "{removed:?}");
    assert!(!std::path::Path::new(&made.path).exists());
    let last = talk.error().await?;
    assert!(last.is_fatal && last.code == "OBEY-2040", "the stream says why it ends: {last:?}");
    talk.rest().await?;
    assert_eq!(stage.info(talk.session()).await?.status(), SessionStatus::Stopped);
    assert_eq!(trees.list_worktrees(list()).await?.into_inner().worktrees.len(), 1);
    stage.close().await
}

#[tokio::test]
async fn conversations_that_name_no_folder_start_in_the_current_worktree() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let mut trees = worktrees(&stage.clients);
    let nowhere = || pb::StartConversation {
        metadata: HashMap::from([("provider".to_owned(), "scripted".to_owned())]),
        ..Default::default()
    };
    // The daemon was started in the project.
    let talk = Talk::start(&stage.clients, nowhere()).await?;
    assert_eq!(talk.info.working_directory, stage.world.project().canonicalize()?.display().to_string());
    let one = trees.create_worktree(new_tree(&stage, "one")).await?.into_inner();
    let two = trees.create_worktree(new_tree(&stage, "two")).await?.into_inner();
    let switch = |id: &str| pb::SwitchWorktreeRequest { worktree_id: id.into() };
    let first = trees.switch_worktree(switch(&one.id)).await?.into_inner();
    assert_eq!(first.previous_worktree_id, "");
    assert_eq!(first.worktree.context("no worktree")?.id, one.id);
    let second = trees.switch_worktree(switch(&two.id)).await?.into_inner();
    assert_eq!(second.previous_worktree_id, one.id);
    let talk = Talk::start(&stage.clients, nowhere()).await?;
    assert_eq!(talk.info.worktree_id, two.id);
    refused(trees.switch_worktree(switch("wt_x")).await, Code::NotFound, "OBEY-2040")?;
    stage.close().await
}

#[tokio::test]
async fn bad_worktrees_are_refused_by_field() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let mut trees = worktrees(&stage.clients);
    let good = || new_tree(&stage, "x");
    let bare = stage.world.path("bare.git");
    let status = stage.world.command("git").args(["clone", "-q", "--bare", "."]).arg(&bare).status()?;
    assert!(status.success());
    for (request, code, obey, what) in [
        (
            pb::CreateWorktreeRequest { name: "../x".into(), ..good() },
            Code::InvalidArgument,
            "OBEY-1001",
            "name",
        ),
        (
            pb::CreateWorktreeRequest { name: "-b".into(), ..good() },
            Code::InvalidArgument,
            "OBEY-1001",
            "name",
        ),
        (
            pb::CreateWorktreeRequest { branch: "-b".into(), ..good() },
            Code::InvalidArgument,
            "OBEY-1001",
            "branch",
        ),
        (
            pb::CreateWorktreeRequest { branch: "main".into(), create_branch: false, ..good() },
            Code::FailedPrecondition,
            "OBEY-2041",
            "checked out at",
        ),
        (
            pb::CreateWorktreeRequest { repo_path: bare.display().to_string(), ..good() },
            Code::InvalidArgument,
            "OBEY-1001",
            "bare",
        ),
        (
            pb::CreateWorktreeRequest { repo_path: stage.world.path("tmp").display().to_string(), ..good() },
            Code::InvalidArgument,
            "OBEY-1001",
            "no git repository",
        ),
        (
            pb::CreateWorktreeRequest { path: "relative".into(), ..good() },
            Code::InvalidArgument,
            "OBEY-1001",
            "path",
        ),
        (pb::CreateWorktreeRequest::default(), Code::InvalidArgument, "OBEY-1001", "repo_path"),
    ] {
        let status = refused(trees.create_worktree(request).await, code, obey)?;
        assert!(status.message().contains(what), "{status:?}");
    }
    let remove = pb::RemoveWorktreeRequest { worktree_id: "wt_x".into(), force: true };
    refused(trees.remove_worktree(remove).await, Code::NotFound, "OBEY-2040")?;
    super::settings::write(&stage, &json!({"feature_flags": {"worktree_management": false}}))?;
    refused(trees.create_worktree(good()).await, Code::PermissionDenied, "OBEY-1002")?;
    stage.close().await
}

#[tokio::test]
async fn worktrees_are_made_and_removed_on_the_command_line() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let cli = stage.cli();
    let repo = stage.world.project().display().to_string();
    let made = cli.json(&["worktree", "create", "fix", "--repo", &repo]).await?;
    assert_eq!((&made["name"], &made["branch"]), (&json!("fix"), &json!("fix")), "{made}");
    let id = made["id"].as_str().context("no id")?.to_owned();
    let talk =
        Talk::start(&stage.clients, pb::StartConversation { worktree_id: id.clone(), ..new_start(&stage) })
            .await?;
    let listed = cli.json(&["worktree", "list", &repo]).await?;
    assert_eq!(listed["worktrees"][1]["active_session_id"], talk.session(), "{listed}");
    let table = cli.ok(&["worktree", "list", &repo]).await?.stdout;
    assert!(table.starts_with("ID") && table.contains(&id), "{table}");
    let folder = made["path"].as_str().context("no path")?;
    std::fs::write(std::path::Path::new(folder).join("README.md"), "changed\n")?;
    let refused = cli.run(&["worktree", "remove", "fix", "--repo", &repo]).await?;
    assert_eq!(refused.code, Some(5), "{refused:?}");
    assert!(refused.stderr.contains("OBEY-2041"), "{refused:?}");
    let removed = cli.json(&["worktree", "remove", folder, "--repo", &repo, "--force"]).await?;
    assert_eq!(removed, json!({"id": id, "removed": true, "sessions_closed": 1}));
    let unknown = cli.run(&["worktree", "remove", "fix", "--repo", &repo]).await?;
    assert_eq!(unknown.code, Some(4), "{unknown:?}");
    // Its branch stayed, and is checked out by name.
    let again = cli.ok(&["worktree", "create", "--branch", "fix", "--repo", &repo]).await?;
    assert!(again.stdout.starts_with("Worktree: wt_"), "{again:?}");
    let wrong = cli.run(&["worktree", "create", "../x", "--repo", &repo]).await?;
    assert_eq!(wrong.code, Some(2), "{wrong:?}");
    stage.close().await
}

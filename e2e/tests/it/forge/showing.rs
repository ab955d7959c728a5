//! What the commands and `betcode.v1` show of a server that behaves.

use anyhow::{Context, Result};
use e2e::faults::memory;
use e2e::forge_server::{HUGE_LOG_BYTES, LARGEST_LOG_BYTES, MANY, TOKEN};
use serde_json::json;
use wire::betcode::v1 as pb;
use wire::betcode::v1::git_lab_service_client::GitLabServiceClient;

use super::{Forges, column};
use crate::stage::Agent;

#[tokio::test]
async fn gitlab_is_shown_on_the_command_line_and_over_betcode() -> Result<()> {
    let Some(forges) = Forges::open(Agent::Scripted).await? else { return Ok(()) };
    let cli = forges.stage.cli();
    let listed = cli.json(&["gitlab", "mr", "list"]).await?;
    assert_eq!(column(&listed, "merge_requests", "iid")?, ["3", "2", "1"]);
    assert_eq!(listed["total"], json!(3));
    let opened = cli.json(&["gitlab", "mr", "list", "--state", "opened", "--limit", "1"]).await?;
    assert_eq!(column(&opened, "merge_requests", "title")?, ["Merge request 3"]);
    let shown = cli.json(&["gitlab", "mr", "show", "!2"]).await?;
    assert_eq!((&shown["draft"], &shown["merge_status"]), (&json!(true), &json!("can_be_merged")));
    assert_eq!(shown["assignees"], json!(["ben", "cora"]));
    assert_eq!(shown["created_at"], json!("2026-01-02T03:04:05.678Z"));
    let people = cli.ok(&["gitlab", "mr", "show", "2"]).await?.stdout;
    assert!(people.contains("!2 Merge request 2") && people.contains("branch-2 into main"), "{people}");
    let failed = cli.json(&["gitlab", "pipeline", "list", "--status", "failed"]).await?;
    assert_eq!(column(&failed, "pipelines", "id")?, ["501"]);
    assert_eq!(cli.json(&["gitlab", "pipeline", "show", "500"]).await?["status"], json!("canceling"));
    let jobs = cli.json(&["gitlab", "job", "list", "501"]).await?;
    assert_eq!(column(&jobs, "jobs", "id")?, ["901", "902"]);
    let all = cli.json(&["gitlab", "job", "list", "--retried"]).await?;
    assert_eq!(column(&all, "jobs", "id")?, ["901", "902", "900"]);
    let job = cli.json(&["gitlab", "job", "show", "901"]).await?;
    assert_eq!((&job["failure_reason"], &job["duration_secs"]), (&json!("script_failure"), &json!(12.5)));
    let issues = cli.ok(&["gitlab", "issue", "list", "--state", "opened"]).await?.stdout;
    assert!(
        issues.contains("#7") && issues.contains("Login fails") && !issues.contains("Old one"),
        "{issues}"
    );
    let issue = cli.ok(&["gitlab", "issue", "show", "7"]).await?.stdout;
    assert!(issue.contains("It fails.") && !issue.contains('\u{1b}'), "{issue}");

    let mut gitlab = GitLabServiceClient::new(forges.stage.clients.channel.clone());
    let project = "group/sub/demo".to_owned();
    let request = pb::ListPipelinesRequest { project: project.clone(), limit: 2, ..Default::default() };
    let pipelines = gitlab.list_pipelines(request).await?.into_inner();
    assert_eq!((pipelines.pipelines[0].status(), pipelines.total), (pb::PipelineStatus::Running, 3));
    let one = gitlab.get_pipeline(pb::GetPipelineRequest { project: project.clone(), id: 500 }).await?;
    assert_eq!(one.into_inner().status(), pb::PipelineStatus::Canceling);
    let found =
        gitlab.get_merge_request(pb::GetMrRequest { project: project.clone(), iid: 1 }).await?.into_inner();
    assert_eq!((found.state(), found.assignee.as_str()), (pb::MergeRequestState::Merged, "ben"));
    assert_eq!(found.merge_status(), pb::MergeStatus::CanBeMerged);
    let closed =
        pb::ListIssuesRequest { project, state: pb::IssueState::Closed.into(), ..Default::default() };
    let closed = gitlab.list_issues(closed).await?.into_inner().issues;
    assert!(closed.len() == 1 && closed[0].confidential, "{closed:?}");
    // No project: that of the remote of the folder that the daemon runs in, if it is one; here it is not.
    let asked = forges.server.asked();
    assert!(asked.iter().all(|asked| asked.token.as_deref() == Some(TOKEN)), "{asked:?}");
    assert!(asked.iter().any(|asked| asked.path.starts_with("/git/api/v4/projects/group%2Fsub%2Fdemo/")));
    forges.stage.close().await
}

#[tokio::test]
async fn logs_are_plain_scrubbed_and_bounded_and_lists_go_over_pages() -> Result<()> {
    let Some(forges) = Forges::open(Agent::Scripted).await? else { return Ok(()) };
    let cli = forges.stage.cli();
    let log = cli.ok(&["gitlab", "job", "log", "901"]).await?.stdout;
    assert!(
        log.starts_with("Running with runner\nBuild\n100%\n") && log.contains("ERROR: Job failed"),
        "{log}"
    );
    assert!(!log.contains(TOKEN) && !log.contains("kQ8vN3xT7bLm2") && !log.contains('\u{1b}'), "{log}");
    let huge = cli.json(&["gitlab", "job", "log", "902", "--tail", "2"]).await?;
    let text = huge["log"].as_str().unwrap_or_default();
    assert!(text.ends_with("the last line\n") && text.lines().count() == 2, "{text}");
    assert_eq!(huge["truncated"], json!(true));
    assert!(huge["total_bytes"].as_u64() > Some(HUGE_LOG_BYTES - 200_000), "{}", huge["total_bytes"]);
    // A log that is kept elsewhere is read there, as a stranger.
    let stored = cli.ok(&["gitlab", "job", "log", "903"]).await?.stdout;
    assert_eq!(stored, "stored log 903\n");
    assert!(forges.other.asked().iter().any(|asked| asked.path == "/stored/903"));
    forges.check_token_stayed();

    let many = |limit: &'static str, offset: &'static str| {
        ["gitlab", "mr", "list", "--project", "group/many", "--limit", limit, "--offset", offset]
    };
    let before = forges.server.asked().len();
    let first = cli.json(&many("100", "0")).await?;
    assert_eq!(forges.server.asked().len(), before + 1, "one page is one request");
    assert_eq!((column(&first, "merge_requests", "iid")?.len(), &first["total"]), (100, &json!(101)));
    let middle = column(&cli.json(&many("150", "60")).await?, "merge_requests", "iid")?;
    assert_eq!((middle.len(), middle[0].clone(), middle[149].clone()), (150, "190".into(), "41".into()));
    let last = cli.json(&many("100", "200")).await?;
    assert_eq!((column(&last, "merge_requests", "iid")?.len(), &last["total"]), (50, &json!(MANY)));
    assert_eq!(cli.json(&many("10", "900")).await?["merge_requests"], json!([]));
    forges.stage.close().await
}

/// A gigabyte goes through the daemon, and its end is shown; the rest is kept by nobody.
#[tokio::test]
#[ignore = "large: make test-all"]
async fn a_log_of_a_gigabyte_costs_no_memory() -> Result<()> {
    let Some(forges) = Forges::open(Agent::Scripted).await? else { return Ok(()) };
    let mut gitlab = GitLabServiceClient::new(forges.stage.clients.channel.clone());
    let pid = forges.stage.daemon.pid().context("no daemon")?;
    let before = memory::most(pid)?;
    let request = pb::GetJobLogRequest {
        project: "group/demo".to_owned(),
        job_id: 904,
        tail_lines: 1,
        ..Default::default()
    };
    let log = gitlab.get_job_log(request).await?.into_inner();
    assert!(log.truncated && log.log == "the last line\n", "{}", log.log);
    assert!(log.total_bytes > LARGEST_LOG_BYTES - 200_000, "{}", log.total_bytes);
    let grown = memory::most(pid)?.saturating_sub(before);
    assert!(grown < 64 * memory::MIB, "{grown} bytes more for a log of a gigabyte");
    forges.stage.close().await
}

#[tokio::test]
async fn github_is_shown_in_the_same_words() -> Result<()> {
    let Some(forges) = Forges::open(Agent::Scripted).await? else { return Ok(()) };
    let cli = forges.stage.cli();
    let github = |args: &[&'static str]| {
        let mut all = vec!["github", "--project", "octo/demo"];
        all.extend(args);
        all
    };
    for (state, expected) in
        [("open", vec!["3"]), ("closed", vec!["2"]), ("merged", vec!["1"]), ("all", vec!["3", "2", "1"])]
    {
        let listed = cli.json(&github(&["pr", "list", "--state", state])).await?;
        assert_eq!(column(&listed, "merge_requests", "iid")?, expected, "{state}");
    }
    let shown = cli.json(&github(&["mr", "show", "3"])).await?;
    assert_eq!((&shown["state"], &shown["merge_status"]), (&json!("opened"), &json!("can_be_merged")));
    let runs = cli.json(&github(&["pipeline", "list"])).await?;
    assert_eq!(column(&runs, "pipelines", "status")?, ["running", "failed"]);
    let jobs = cli.json(&github(&["job", "list", "701"])).await?;
    assert_eq!(
        (&jobs["jobs"][0]["status"], &jobs["jobs"][0]["duration_secs"]),
        (&json!("failed"), &json!(10.0))
    );
    assert_eq!(cli.ok(&github(&["job", "log", "801"])).await?.stdout, "stored log 801\n");
    let issues = cli.json(&github(&["issue", "list"])).await?;
    assert_eq!(column(&issues, "issues", "title")?, ["Crash at start"]);
    let limited = cli.run(&["github", "-p", "octo/limited", "issue", "list"]).await?;
    assert!(limited.stderr.contains("OBEY-1063") && limited.stderr.contains("1800 s"), "{limited:?}");
    forges.check_token_stayed();
    forges.stage.close().await
}

//! `obey gitlab` and `obey github`: merge requests, pipelines, jobs and issues. Also the issue that a session starts from.

use serde_json::{Value, json};
use wire::obey::v1 as pb;

use cli_args::forge::{
    ForgeCommand, ForgeItemCommand, ForgeJobCommand, ForgeJobListArgs, ForgeJobLogArgs, ForgeListArgs,
    ForgeSubject,
};
use client::connection::Client;
use client::format::{self, rfc3339};
use config::exit::Exit;
use config::failure::{Failure, Result};
use terminal::console::Console;
use terminal::output::TextStyle;
use terminal::table::{Table, named};

/// The columns of a list, and a row of it.
type Columns<'a, T> = (&'a [&'a str], fn(&T) -> Vec<String>);

pub(super) async fn run(console: &mut Console, command: ForgeCommand) -> Result<Exit> {
    let (forge, args) = match command {
        ForgeCommand::Gitlab(args) => ("gitlab", args),
        ForgeCommand::Github(args) => ("github", args),
    };
    let project = Some(pb::ForgeProject {
        forge: forge.to_owned(),
        project: args.project.unwrap_or_default(),
        folder: console.folder.display().to_string(),
    });
    let client = console.connect().await?;
    match args.subject {
        ForgeSubject::Mr(ForgeItemCommand::List(args)) => {
            let found = client.forges().list_merge_requests(list(project, args)).await?.into_inner();
            let columns: Columns<'_, pb::ForgeMergeRequest> =
                (&["NUMBER", "STATE", "AUTHOR", "BRANCH", "TITLE"], merge_request_row);
            print(console, "merge_requests", &found.merge_requests, found.total, columns, merge_request_json)
        }
        ForgeSubject::Mr(ForgeItemCommand::Show(args)) => {
            let request = pb::ForgeGetRequest { project, id: args.id };
            let found = client.forges().get_merge_request(request).await?.into_inner();
            show_merge_request(console, &found)
        }
        ForgeSubject::Pipeline(ForgeItemCommand::List(args)) => {
            let found = client.forges().list_pipelines(list(project, args)).await?.into_inner();
            let columns: Columns<'_, pb::ForgePipeline> =
                (&["ID", "STATUS", "BRANCH", "COMMIT", "UPDATED"], pipeline_row);
            print(console, "pipelines", &found.pipelines, found.total, columns, pipeline_json)
        }
        ForgeSubject::Pipeline(ForgeItemCommand::Show(args)) => {
            let request = pb::ForgeGetRequest { project, id: args.id };
            let found = client.forges().get_pipeline(request).await?.into_inner();
            show_pipeline(console, &found)
        }
        ForgeSubject::Job(ForgeJobCommand::List(args)) => jobs(console, &client, project, args).await,
        ForgeSubject::Job(ForgeJobCommand::Show(args)) => {
            let request = pb::ForgeGetRequest { project, id: args.id };
            let found = client.forges().get_job(request).await?.into_inner();
            show_job(console, &found)
        }
        ForgeSubject::Job(ForgeJobCommand::Log(args)) => log(console, &client, project, &args).await,
        ForgeSubject::Issue(ForgeItemCommand::List(args)) => {
            let found = client.forges().list_issues(list(project, args)).await?.into_inner();
            let columns: Columns<'_, pb::ForgeIssue> =
                (&["NUMBER", "STATE", "AUTHOR", "LABELS", "TITLE"], issue_row);
            print(console, "issues", &found.issues, found.total, columns, issue_json)
        }
        ForgeSubject::Issue(ForgeItemCommand::Show(args)) => {
            let request = pb::ForgeGetRequest { project, id: args.id };
            let found = client.forges().get_issue(request).await?.into_inner();
            show_issue(console, &found)
        }
    }
}

/// Returns the issue that a session starts from: by its number in the project of a folder, or by its address.
pub(super) async fn issue(client: &Client, folder: &str, typed: &str) -> Result<pb::ForgeIssue> {
    let (project, number) = match typed.rsplit_once('/') {
        Some((address, number)) if typed.contains("://") => (address.trim_end_matches("/issues"), number),
        _ => ("", typed),
    };
    let id = cli_args::forge::item_number(number)
        .map_err(|problem| Failure::usage(format!("--issue {typed}: {problem}, or its address")))?;
    let project =
        pb::ForgeProject { forge: String::new(), project: project.to_owned(), folder: folder.to_owned() };
    let request = pb::ForgeGetRequest { project: Some(project), id };
    Ok(client.forges().get_issue(request).await?.into_inner())
}

/// Returns the prompt that gives an agent an issue. The issue's text is marked as foreign, because the user did not write it.
pub(super) fn issue_prompt(issue: &pb::ForgeIssue, message: Option<&str>) -> String {
    let asked = message.unwrap_or("Work on this issue.");
    let description = issue.description.trim();
    let labels = if issue.labels.is_empty() {
        String::new()
    } else {
        format!("Labels: {}\n", issue.labels.join(", "))
    };
    format!(
        "{asked}\n\nIssue #{}: {}\n{}\nWritten by {}\n{labels}\n<issue>\n{description}\n</issue>",
        issue.iid, issue.title, issue.web_url, issue.author
    )
}

fn list(project: Option<pb::ForgeProject>, args: ForgeListArgs) -> pb::ForgeListRequest {
    let state = match args.state.unwrap_or_default().as_str() {
        // As GitHub's users write it.
        "open" => "opened".to_owned(),
        "all" => String::new(),
        other => other.to_owned(),
    };
    pb::ForgeListRequest { project, state, limit: args.rows.limit, offset: args.rows.offset }
}

/// Prints a list as a table or as JSON.
fn print<T>(
    console: &mut Console,
    name: &str,
    items: &[T],
    total: u32,
    (heading, row): Columns<'_, T>,
    document: fn(&T) -> Value,
) -> Result<Exit> {
    if console.out.json {
        let all: Vec<Value> = items.iter().map(document).collect();
        console.out.json(&json!({name: all, "total": total}))?;
        return Ok(Exit::OK);
    }
    if items.is_empty() {
        console.out.note(TextStyle::Dim, &format!("No {}.", name.replace('_', " ")))?;
        return Ok(Exit::OK);
    }
    let mut table = Table::new(heading);
    items.iter().for_each(|item| table.row(row(item)));
    super::session::print_table(console, &table)?;
    if items.len() < total as usize {
        console.out.note(
            TextStyle::Dim,
            &format!("{} of {total}; --limit and --offset show others.", items.len()),
        )?;
    }
    Ok(Exit::OK)
}

async fn jobs(
    console: &mut Console,
    client: &Client,
    project: Option<pb::ForgeProject>,
    args: ForgeJobListArgs,
) -> Result<Exit> {
    let pipeline_id = match args.pipeline {
        Some(id) => id,
        None => {
            let newest = pb::ForgeListRequest { project: project.clone(), limit: 1, ..Default::default() };
            let newest = client.forges().list_pipelines(newest).await?.into_inner().pipelines;
            newest.first().ok_or_else(|| Failure::failed("there is no pipeline yet"))?.id
        }
    };
    let request = pb::ForgeListJobsRequest {
        project,
        pipeline_id,
        include_retried: args.retried,
        scope: Vec::new(),
        limit: args.rows.limit,
        offset: args.rows.offset,
    };
    let found = client.forges().list_jobs(request).await?.into_inner();
    let columns: Columns<'_, pb::ForgeJob> = (&["ID", "STATUS", "STAGE", "SECONDS", "NAME"], job_row);
    print(console, "jobs", &found.jobs, found.total, columns, job_json)
}

async fn log(
    console: &mut Console,
    client: &Client,
    project: Option<pb::ForgeProject>,
    args: &ForgeJobLogArgs,
) -> Result<Exit> {
    let request = pb::ForgeJobLogRequest { project, job_id: args.id, tail_lines: args.tail, max_bytes: 0 };
    let found = client.forges().get_job_log(request).await?.into_inner();
    if console.out.json {
        console.out.json(&json!({
            "log": found.log,
            "truncated": found.truncated,
            "total_bytes": found.total_bytes,
        }))?;
        return Ok(Exit::OK);
    }
    found.log.lines().try_for_each(|line| console.out.line(line))?;
    if found.truncated {
        let whole = format::size(found.total_bytes);
        console.out.note(TextStyle::Dim, &format!("The end of a log of {whole}."))?;
    }
    Ok(Exit::OK)
}

/// Prints named values, those that are empty left out.
fn print_named(console: &mut Console, pairs: &[(&str, String)]) -> Result<()> {
    let told: Vec<(&str, String)> = pairs.iter().filter(|(_, value)| !value.is_empty()).cloned().collect();
    named(&told).into_iter().try_for_each(|line| console.out.line(&line))
}

fn print_description(console: &mut Console, text: &str) -> Result<()> {
    if text.trim().is_empty() {
        return Ok(());
    }
    console.out.line("")?;
    text.trim().lines().try_for_each(|line| console.out.line(line))
}

fn show_merge_request(console: &mut Console, found: &pb::ForgeMergeRequest) -> Result<Exit> {
    if console.out.json {
        console.out.json(&merge_request_json(found))?;
        return Ok(Exit::OK);
    }
    let state = if found.draft { format!("{}, draft", found.state) } else { found.state.clone() };
    let branches = format!("{} into {}", found.source_branch, found.target_branch);
    let pairs = [
        ("Merge request", format!("!{} {}", found.iid, format::one_line(&found.title))),
        ("State", state),
        ("Branch", branches),
        ("Author", found.author.clone()),
        ("Assignees", found.assignees.join(", ")),
        ("Reviewers", found.reviewers.join(", ")),
        ("Labels", found.labels.join(", ")),
        ("Milestone", found.milestone.clone()),
        ("Merge status", found.merge_status.clone()),
        ("Updated", rfc3339(found.updated_at.as_ref()).unwrap_or_default()),
        ("Address", found.web_url.clone()),
    ];
    print_named(console, &pairs)?;
    print_description(console, &found.description)?;
    Ok(Exit::OK)
}

fn show_pipeline(console: &mut Console, found: &pb::ForgePipeline) -> Result<Exit> {
    if console.out.json {
        console.out.json(&pipeline_json(found))?;
        return Ok(Exit::OK);
    }
    let pairs = [
        ("Pipeline", found.id.to_string()),
        ("Status", found.status.clone()),
        ("Branch", found.ref_name.clone()),
        ("Commit", found.sha.clone()),
        ("Source", found.source.clone()),
        ("Created", rfc3339(found.created_at.as_ref()).unwrap_or_default()),
        ("Updated", rfc3339(found.updated_at.as_ref()).unwrap_or_default()),
        ("Address", found.web_url.clone()),
    ];
    print_named(console, &pairs)?;
    Ok(Exit::OK)
}

fn show_job(console: &mut Console, found: &pb::ForgeJob) -> Result<Exit> {
    if console.out.json {
        console.out.json(&job_json(found))?;
        return Ok(Exit::OK);
    }
    let pairs = [
        ("Job", format!("{} {}", found.id, format::one_line(&found.name))),
        ("Status", found.status.clone()),
        ("Stage", found.stage.clone()),
        ("Reason", found.failure_reason.clone()),
        ("Branch", found.ref_name.clone()),
        ("Seconds", format!("{:.1}", found.duration_secs)),
        ("Started", rfc3339(found.started_at.as_ref()).unwrap_or_default()),
        ("Finished", rfc3339(found.finished_at.as_ref()).unwrap_or_default()),
        ("Address", found.web_url.clone()),
    ];
    print_named(console, &pairs)?;
    console.out.note(TextStyle::Dim, &format!("Its log: job log {}", found.id))?;
    Ok(Exit::OK)
}

fn show_issue(console: &mut Console, found: &pb::ForgeIssue) -> Result<Exit> {
    if console.out.json {
        console.out.json(&issue_json(found))?;
        return Ok(Exit::OK);
    }
    let pairs = [
        ("Issue", format!("#{} {}", found.iid, format::one_line(&found.title))),
        ("State", found.state.clone()),
        ("Author", found.author.clone()),
        ("Assignees", found.assignees.join(", ")),
        ("Labels", found.labels.join(", ")),
        ("Milestone", found.milestone.clone()),
        ("Updated", rfc3339(found.updated_at.as_ref()).unwrap_or_default()),
        ("Address", found.web_url.clone()),
    ];
    print_named(console, &pairs)?;
    print_description(console, &found.description)?;
    let start = format!("Start a session from it: obey session create --issue {}", found.iid);
    console.out.note(TextStyle::Dim, &start)?;
    Ok(Exit::OK)
}

fn merge_request_row(found: &pb::ForgeMergeRequest) -> Vec<String> {
    let title = format::one_line(&found.title);
    vec![
        format!("!{}", found.iid),
        found.state.clone(),
        format::one_line(&found.author),
        format::shorten(&format::one_line(&found.source_branch), 30),
        title,
    ]
}

fn pipeline_row(found: &pb::ForgePipeline) -> Vec<String> {
    vec![
        found.id.to_string(),
        found.status.clone(),
        format::shorten(&format::one_line(&found.ref_name), 30),
        found.sha.chars().take(8).collect(),
        rfc3339(found.updated_at.as_ref()).unwrap_or_default(),
    ]
}

fn job_row(found: &pb::ForgeJob) -> Vec<String> {
    vec![
        found.id.to_string(),
        found.status.clone(),
        format::one_line(&found.stage),
        format!("{:.0}", found.duration_secs),
        format::one_line(&found.name),
    ]
}

fn issue_row(found: &pb::ForgeIssue) -> Vec<String> {
    vec![
        format!("#{}", found.iid),
        found.state.clone(),
        format::one_line(&found.author),
        format::shorten(&found.labels.join(","), 30),
        format::one_line(&found.title),
    ]
}

pub(super) fn merge_request_json(found: &pb::ForgeMergeRequest) -> Value {
    json!({
        "id": found.id,
        "iid": found.iid,
        "title": found.title,
        "description": found.description,
        "state": found.state,
        "source_branch": found.source_branch,
        "target_branch": found.target_branch,
        "author": found.author,
        "labels": found.labels,
        "created_at": rfc3339(found.created_at.as_ref()),
        "updated_at": rfc3339(found.updated_at.as_ref()),
        "web_url": found.web_url,
        "draft": found.draft,
        "merge_status": found.merge_status,
        "assignees": found.assignees,
        "reviewers": found.reviewers,
        "milestone": found.milestone,
    })
}

fn pipeline_json(found: &pb::ForgePipeline) -> Value {
    json!({
        "id": found.id,
        "status": found.status,
        "ref_name": found.ref_name,
        "sha": found.sha,
        "source": found.source,
        "created_at": rfc3339(found.created_at.as_ref()),
        "updated_at": rfc3339(found.updated_at.as_ref()),
        "web_url": found.web_url,
    })
}

fn job_json(found: &pb::ForgeJob) -> Value {
    json!({
        "id": found.id,
        "name": found.name,
        "stage": found.stage,
        "status": found.status,
        "allow_failure": found.allow_failure,
        "failure_reason": found.failure_reason,
        "duration_secs": found.duration_secs,
        "queued_secs": found.queued_secs,
        "created_at": rfc3339(found.created_at.as_ref()),
        "started_at": rfc3339(found.started_at.as_ref()),
        "finished_at": rfc3339(found.finished_at.as_ref()),
        "web_url": found.web_url,
        "ref_name": found.ref_name,
    })
}

fn issue_json(found: &pb::ForgeIssue) -> Value {
    json!({
        "id": found.id,
        "iid": found.iid,
        "title": found.title,
        "description": found.description,
        "state": found.state,
        "author": found.author,
        "labels": found.labels,
        "created_at": rfc3339(found.created_at.as_ref()),
        "updated_at": rfc3339(found.updated_at.as_ref()),
        "web_url": found.web_url,
        "confidential": found.confidential,
        "assignees": found.assignees,
        "milestone": found.milestone,
    })
}

//! GitLab's side of the server: projects `group/demo`, `group/sub/demo`, `group/many`, and those that misbehave.

use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::misbehave::misbehave;
use super::{
    Call, HUGE_LOG_BYTES, LARGEST_LOG_BYTES, MANY, Shared, TOKEN, cut, huge_log, json_answer, plain,
    redirect, refused,
};

/// The largest page, as the real server has it.
const PAGE_MAX: u64 = 100;

pub(super) fn answer(shared: &Shared, call: &Call) -> Response {
    let segments: Vec<&str> = call.segments.iter().map(String::as_str).collect();
    if segments.first() == Some(&"version") {
        return json_answer(200, &json!({"version": "19.5.0", "revision": "abc"}));
    }
    let ["projects", project, rest @ ..] = segments.as_slice() else { return refused(404, "404 Not Found") };
    if let Some(answer) = misbehave(shared, call, project) {
        return answer;
    }
    if call.token.as_deref() != Some(TOKEN) {
        return refused(401, "401 Unauthorized");
    }
    let many = *project == "group/many";
    if !many && !["group/demo", "group/sub/demo", "42"].contains(project) {
        return refused(404, "404 Project Not Found");
    }
    match rest {
        [] => json_answer(200, &project_row(shared, project)),
        ["merge_requests"] if call.method == "POST" => open(shared, call),
        ["merge_requests"] => {
            let rows = if many { many_rows(shared) } else { merge_requests(shared) };
            let rows = filtered(rows, call, "state");
            let rows = filtered(rows, call, "source_branch");
            paged(call, &rows, many)
        }
        ["merge_requests", iid] => one(&merge_requests(shared), "iid", iid),
        ["pipelines"] => paged(call, &filtered(pipelines(shared), call, "status"), false),
        ["pipelines", id] => one(&pipelines(shared), "id", id),
        ["pipelines", _, "jobs"] => {
            let mut rows = jobs(shared);
            if call.parameter("include_retried") != Some("true") {
                rows.retain(|row| row["retried"] != true);
            }
            paged(call, &rows, false)
        }
        ["jobs", "902", "trace"] => huge_log(HUGE_LOG_BYTES),
        ["jobs", "904", "trace"] => huge_log(LARGEST_LOG_BYTES),
        ["jobs", "903", "trace"] => redirect(&format!("{}/stored/903", shared.elsewhere)),
        ["jobs", _, "trace"] => plain(200, &trace()),
        ["jobs", id] => one(&jobs(shared), "id", id),
        ["issues"] => paged(call, &filtered(issues(shared), call, "state"), false),
        ["issues", iid] => one(&issues(shared), "iid", iid),
        _ => refused(404, "404 Not Found"),
    }
}

fn one(rows: &[Value], key: &str, wanted: &str) -> Response {
    match rows.iter().find(|row| row[key].as_u64() == wanted.parse().ok()) {
        Some(row) => json_answer(200, row),
        None => refused(404, "404 Not found"),
    }
}

fn filtered(mut rows: Vec<Value>, call: &Call, key: &str) -> Vec<Value> {
    match call.parameter(key) {
        None | Some("all") => {}
        Some(wanted) => rows.retain(|row| row[key] == wanted),
    }
    rows
}

/// A page with the headers that the real server sends; a long list is not counted, as above 10,000 rows.
fn paged(call: &Call, rows: &[Value], uncounted: bool) -> Response {
    let (page, size) = call.page(PAGE_MAX);
    let total = rows.len() as u64;
    let pages = total.div_ceil(size).max(1);
    let body = Value::from(cut(rows, page, size));
    let mut answer = json_answer(200, &body);
    let next = if page < pages { (page + 1).to_string() } else { String::new() };
    let mut add = |name: &'static str, value: String| {
        if let Ok(value) = value.parse() {
            answer.headers_mut().insert(name, value);
        }
    };
    add("x-page", page.to_string());
    add("x-per-page", size.to_string());
    if !next.is_empty() {
        let link = format!("<{}?page={next}&per_page={size}>; rel=\"next\"", call.address);
        add("link", link);
    }
    add("x-next-page", next);
    add("x-prev-page", if page > 1 { (page - 1).to_string() } else { String::new() });
    if !uncounted {
        add("x-total", total.to_string());
        add("x-total-pages", pages.to_string());
    }
    answer.into_response()
}

fn user(name: &str) -> Value {
    json!({"id": 7, "username": name, "name": name, "state": "active", "web_url": "http://x/u"})
}

fn project_row(shared: &Shared, path: &str) -> Value {
    json!({
        "id": 42,
        "path_with_namespace": path,
        "name": "demo",
        "web_url": format!("{}/{path}", shared.base),
        "default_branch": "main",
    })
}

fn merge_request(shared: &Shared, iid: u64, state: &str) -> Value {
    json!({
        "id": 1000 + iid,
        "iid": iid,
        "project_id": 42,
        "title": format!("Merge request {iid}"),
        "description": "Does a thing.",
        "state": state,
        "created_at": "2026-01-02T03:04:05.678Z",
        "updated_at": "2026-01-03T03:04:05.678+01:00",
        "source_branch": format!("branch-{iid}"),
        "target_branch": "main",
        "author": user("ann"),
        "assignee": user("ben"),
        "assignees": [user("ben"), user("cora")],
        "reviewers": [user("dan")],
        "labels": ["bug", "urgent"],
        "draft": iid == 2,
        "milestone": {"id": 3, "title": "v1"},
        "merge_status": "can_be_merged",
        "detailed_merge_status": "mergeable",
        "web_url": format!("{}/group/demo/-/merge_requests/{iid}", shared.base),
    })
}

fn merge_requests(shared: &Shared) -> Vec<Value> {
    let opened = shared.opened.lock().map(|opened| opened.clone()).unwrap_or_default();
    let own =
        [(3, "opened"), (2, "opened"), (1, "merged")].map(|(iid, state)| merge_request(shared, iid, state));
    opened.into_iter().rev().chain(own).collect()
}

fn many_rows(shared: &Shared) -> Vec<Value> {
    (1..=MANY).rev().map(|iid| merge_request(shared, iid, "opened")).collect()
}

/// Opens a merge request; a second one of the same branches is refused, as the real server does.
fn open(shared: &Shared, call: &Call) -> Response {
    let Ok(mut opened) = shared.opened.lock() else { return refused(500, "broken") };
    if opened.iter().any(|row| row["source_branch"] == call.body["source_branch"]) {
        return json_answer(
            409,
            &json!({"message": ["Another open merge request already exists for this source branch: !10"]}),
        );
    }
    let mut row = merge_request(shared, 10 + opened.len() as u64, "opened");
    for key in ["source_branch", "target_branch", "title", "description"] {
        row[key] = call.body[key].clone();
    }
    row["draft"] = call.body["title"].as_str().is_some_and(|title| title.starts_with("Draft: ")).into();
    opened.push(row.clone());
    json_answer(201, &row)
}

fn pipelines(shared: &Shared) -> Vec<Value> {
    let row = |id: u64, status: &str| {
        json!({
            "id": id,
            "iid": id,
            "project_id": 42,
            "sha": "a91957a858320c0e17f3a0eca7cfacbff50ea29a",
            "ref": "main",
            "status": status,
            "source": "push",
            "created_at": "2026-01-02T03:04:05.678Z",
            "updated_at": "2026-01-02T03:14:05.678Z",
            "web_url": format!("{}/group/demo/-/pipelines/{id}", shared.base),
        })
    };
    vec![row(502, "running"), row(501, "failed"), row(500, "canceling")]
}

fn jobs(shared: &Shared) -> Vec<Value> {
    let row = |id: u64, name: &str, status: &str, retried: bool| {
        json!({
            "id": id,
            "name": name,
            "stage": "test",
            "status": status,
            "ref": "main",
            "allow_failure": false,
            "failure_reason": if status == "failed" { json!("script_failure") } else { Value::Null },
            "duration": 12.5,
            "queued_duration": 0.25,
            "created_at": "2026-01-02T03:04:05.678Z",
            "started_at": "2026-01-02T03:04:06.678Z",
            "finished_at": Value::Null,
            "retried": retried,
            "web_url": format!("{}/group/demo/-/jobs/{id}", shared.base),
        })
    };
    vec![
        row(901, "unit", "failed", false),
        row(902, "long", "success", false),
        row(900, "unit", "failed", true),
    ]
}

fn issues(shared: &Shared) -> Vec<Value> {
    let row = |iid: u64, state: &str, title: &str, description: Value| {
        json!({
            "id": 2000 + iid,
            "iid": iid,
            "project_id": 42,
            "title": title,
            "description": description,
            "state": state,
            "created_at": "2026-01-02T03:04:05.678Z",
            "updated_at": "2026-01-02T03:04:05.678Z",
            "author": user("ann"),
            "assignees": [],
            "assignee": Value::Null,
            "labels": ["bug"],
            "confidential": iid == 6,
            "milestone": Value::Null,
            "web_url": format!("{}/group/demo/-/issues/{iid}", shared.base),
        })
    };
    vec![
        row(7, "opened", "Login fails", json!("Steps:\n\n1. Log in.\n2. \u{1b}[31mIt fails.")),
        row(6, "closed", "Old one", Value::Null),
    ]
}

/// A log as runners write it: colours, sections, a progress bar, and a secret.
fn trace() -> String {
    format!(
        "\u{1b}[0KRunning with runner\r\nsection_start:1560896352:build\r\u{1b}[0K\u{1b}[36;1mBuild\u{1b}[0;m\n\
         10%\r100%\nuses token {TOKEN}\nexport AWS_SECRET_ACCESS_KEY=\"kQ8vN3xT7bLm2RzW9cYp4HsJ6dFg1UoA5eXi0tBn\"\nERROR: Job failed\n"
    )
}

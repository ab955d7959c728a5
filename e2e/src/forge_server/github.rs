//! GitHub's side of the server: the repository `octo/demo`.

use axum::response::Response;
use serde_json::{Value, json};

use super::{Call, Shared, TOKEN, cut, json_answer, plain, redirect, refused};

pub(super) fn answer(shared: &Shared, call: &Call) -> Response {
    if call.token.as_deref() != Some(TOKEN) {
        return refused(401, "Bad credentials");
    }
    let segments: Vec<&str> = call.segments.iter().map(String::as_str).collect();
    let rest = match segments.as_slice() {
        ["repos", "octo", "demo", rest @ ..] => rest,
        // GitHub tells a rate limit as a refusal.
        ["repos", "octo", "limited", ..] => {
            let mut answer = refused(403, "API rate limit exceeded");
            for (name, value) in [("x-ratelimit-remaining", "0"), ("retry-after", "1800")] {
                if let Ok(value) = value.parse() {
                    answer.headers_mut().insert(name, value);
                }
            }
            return answer;
        }
        _ => return refused(404, "Not Found"),
    };
    match rest {
        [] => json_answer(200, &repository(shared)),
        ["pulls"] if call.method == "POST" => open(shared, call),
        ["pulls"] => {
            let mut rows = pulls(shared);
            keep_state(&mut rows, call);
            if let Some(head) = call.parameter("head") {
                rows.retain(|row| {
                    format!("octo:{}", row["head"]["ref"].as_str().unwrap_or_default()) == head
                });
            }
            paged(call, &rows)
        }
        ["pulls", number] => {
            let mut rows = pulls(shared);
            rows.iter_mut().for_each(|row| row["mergeable"] = true.into());
            one(&rows, "number", number)
        }
        ["issues"] => {
            // Pull requests are issues too, and each has a field that says so.
            let mut rows = issues(shared);
            keep_state(&mut rows, call);
            paged(call, &rows)
        }
        ["issues", number] => one(&issues(shared), "number", number),
        ["actions", "runs"] => {
            let rows = runs(shared);
            json_answer(200, &json!({"total_count": rows.len(), "workflow_runs": page_of(call, &rows)}))
        }
        ["actions", "runs", _, "jobs"] => {
            let rows = jobs(shared);
            json_answer(200, &json!({"total_count": rows.len(), "jobs": page_of(call, &rows)}))
        }
        ["actions", "runs", id] => one(&runs(shared), "id", id),
        ["actions", "jobs", id, "logs"] => redirect(&format!("{}/stored/{id}", shared.elsewhere)),
        ["actions", "jobs", id] => one(&jobs(shared), "id", id),
        _ => plain(404, "{}"),
    }
}

fn one(rows: &[Value], key: &str, wanted: &str) -> Response {
    match rows.iter().find(|row| row[key].as_u64() == wanted.parse().ok()) {
        Some(row) => json_answer(200, row),
        None => refused(404, "Not Found"),
    }
}

fn keep_state(rows: &mut Vec<Value>, call: &Call) {
    match call.parameter("state") {
        Some("all") => {}
        wanted => rows.retain(|row| row["state"] == wanted.unwrap_or("open")),
    }
}

fn page_of(call: &Call, rows: &[Value]) -> Vec<Value> {
    let (page, size) = call.page(100);
    cut(rows, page, size)
}

/// A page with the header that the real server sends: it tells no total.
fn paged(call: &Call, rows: &[Value]) -> Response {
    let (page, size) = call.page(100);
    let mut answer = json_answer(200, &Value::from(cut(rows, page, size)));
    if page * size < rows.len() as u64 {
        let link = format!("<{}?page={}>; rel=\"next\"", call.address, page + 1);
        if let Ok(link) = link.parse() {
            answer.headers_mut().insert("link", link);
        }
    }
    answer
}

fn user(login: &str) -> Value {
    json!({"login": login, "id": 7, "type": "User"})
}

fn repository(shared: &Shared) -> Value {
    json!({
        "id": 1,
        "name": "demo",
        "full_name": "octo/demo",
        "owner": user("octo"),
        "url": format!("{}/api/v3/repos/octo/demo", shared.base),
        "default_branch": "main",
    })
}

fn pull(shared: &Shared, number: u64, state: &str, merged: bool) -> Value {
    json!({
        "id": 3000 + number,
        "number": number,
        "state": state,
        "title": format!("Pull request {number}"),
        "body": "Does a thing.",
        "user": user("ann"),
        "labels": [{"id": 1, "name": "bug"}],
        "assignees": [user("ben")],
        "requested_reviewers": [user("dan")],
        "milestone": {"title": "v1", "number": 1},
        "draft": number == 2,
        "head": {"ref": format!("branch-{number}"), "sha": "a91957a858320c0e17f3a0eca7cfacbff50ea29a"},
        "base": {"ref": "main", "sha": "b91957a858320c0e17f3a0eca7cfacbff50ea29a"},
        "created_at": "2026-01-02T03:04:05Z",
        "updated_at": "2026-01-02T03:04:05Z",
        "merged_at": if merged { json!("2026-01-02T03:04:05Z") } else { Value::Null },
        "html_url": format!("{}/octo/demo/pull/{number}", shared.base),
        "url": format!("{}/api/v3/repos/octo/demo/pulls/{number}", shared.base),
    })
}

fn pulls(shared: &Shared) -> Vec<Value> {
    let opened = shared.opened.lock().map(|opened| opened.clone()).unwrap_or_default();
    let own = [(3, "open", false), (2, "closed", false), (1, "closed", true)];
    let own = own.map(|(number, state, merged)| pull(shared, number, state, merged));
    opened.into_iter().rev().chain(own).collect()
}

fn open(shared: &Shared, call: &Call) -> Response {
    let Ok(mut opened) = shared.opened.lock() else { return refused(500, "broken") };
    let mut row = pull(shared, 10 + opened.len() as u64, "open", false);
    row["head"]["ref"] = call.body["head"].clone();
    row["base"]["ref"] = call.body["base"].clone();
    row["title"] = call.body["title"].clone();
    row["body"] = call.body["body"].clone();
    row["draft"] = call.body["draft"].clone();
    opened.push(row.clone());
    json_answer(201, &row)
}

fn issues(shared: &Shared) -> Vec<Value> {
    let mut request = pull(shared, 3, "open", false);
    request["pull_request"] = json!({"url": "x"});
    let mut issue = pull(shared, 5, "open", false);
    issue["title"] = "Crash at start".into();
    vec![request, issue]
}

fn runs(shared: &Shared) -> Vec<Value> {
    let row = |id: u64, status: &str, conclusion: Value| {
        json!({
            "id": id,
            "name": "CI",
            "status": status,
            "conclusion": conclusion,
            "head_branch": "main",
            "head_sha": "a91957a858320c0e17f3a0eca7cfacbff50ea29a",
            "event": "push",
            "created_at": "2026-01-02T03:04:05Z",
            "updated_at": "2026-01-02T03:04:05Z",
            "html_url": format!("{}/octo/demo/actions/runs/{id}", shared.base),
        })
    };
    vec![row(702, "in_progress", Value::Null), row(701, "completed", json!("failure"))]
}

fn jobs(shared: &Shared) -> Vec<Value> {
    vec![json!({
        "id": 801,
        "run_id": 701,
        "name": "build",
        "workflow_name": "CI",
        "status": "completed",
        "conclusion": "failure",
        "head_branch": "main",
        "created_at": "2026-01-02T03:04:05Z",
        "started_at": "2026-01-02T03:04:06Z",
        "completed_at": "2026-01-02T03:04:16Z",
        "html_url": format!("{}/octo/demo/actions/runs/701/job/801", shared.base),
    })]
}

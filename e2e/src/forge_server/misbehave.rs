//! Projects that answer badly on purpose; the second part of their path says how.

use axum::response::Response;
use serde_json::{Value, json};

use super::{Call, Shared, json_answer, plain, redirect, refused};

/// Returns the answer of a project that misbehaves; `None`: it is another one.
pub(super) fn misbehave(shared: &Shared, call: &Call, project: &str) -> Option<Response> {
    let kind = project.strip_prefix("bad/")?;
    Some(match kind {
        "denied" => refused(403, "403 Forbidden"),
        "limited" => with(refused(429, "Retry later"), "retry-after", "3600"),
        // Two refusals, then the list: the third request is answered.
        "busy" => {
            let asked = shared.asked.lock().map(|asked| asked.len()).unwrap_or_default();
            let before =
                shared.asked.lock().map(|asked| asked.iter().filter(|one| one.path.contains("busy")).count());
            match before.unwrap_or(asked) {
                1 | 2 => with(refused(429, "Retry later"), "retry-after", "0"),
                _ => json_answer(200, &Value::Array(Vec::new())),
            }
        }
        "broken" => plain(500, "<html>oops</html>"),
        "garbage" => plain(200, "<html>Welcome to a page</html>"),
        "object" => json_answer(200, &json!({"not": "a list"})),
        "rows" => json_answer(200, &json!([{"title": "no id"}])),
        "deep" => plain(200, &"[".repeat(100_000)),
        "echo" => refused(403, &format!("your token {} is bad", call.token.clone().unwrap_or_default())),
        "moved" => redirect(&format!("{}/api/v4/projects/42/merge_requests", shared.elsewhere)),
        "circle" => redirect(&format!("{}/api/v4/projects/bad%2Fcircle/merge_requests", shared.base)),
        // Ten thousand pages of one row, and each says that there is another.
        "endless" => {
            let (page, _) = call.page(100);
            let row = json!([{"id": page, "iid": page, "state": "opened", "title": "again"}]);
            with(with(json_answer(200, &row), "x-next-page", &(page + 1).to_string()), "x-per-page", "1")
        }
        "huge" => {
            let row = json!({"id": 1, "iid": 1, "state": "opened", "title": "t".repeat(100_000), "description": "d".repeat(1 << 20)});
            json_answer(200, &Value::Array(vec![row; 20]))
        }
        _ => refused(404, "404 Project Not Found"),
    })
}

fn with(mut answer: Response, name: &'static str, value: &str) -> Response {
    if let Ok(value) = value.parse() {
        answer.headers_mut().insert(name, value);
    }
    answer
}

//! GitLab's REST API, version 4. Turns its JSON into our words.

use domain::{Error, ErrorCode};
use reqwest::Url;
use serde_json::{Value, json};

use crate::http::Api;
use crate::json::{fields, seconds, text, text_up_to, texts, time};
use crate::limits::{DESCRIPTION_MAX_BYTES, LIST_DESCRIPTION_MAX_BYTES, TITLE_MAX_BYTES};
use crate::log::LogTail;
use crate::pages::{self, RowSource, Window};
use crate::types::{
    Issue, Job, JobLog, JobQuery, ListQuery, Listing, LogQuery, MergeRequest, NewMergeRequest,
    OpenedMergeRequest, Pipeline,
};
use crate::{Forge, ForgeFuture};

/// The statuses of pipelines and jobs by which lists can be filtered.
const STATUSES: &[&str] = &[
    "created",
    "waiting_for_resource",
    "preparing",
    "pending",
    "running",
    "success",
    "failed",
    "canceled",
    "skipped",
    "manual",
    "scheduled",
    "canceling",
    "waiting_for_callback",
];

/// The list itself is the answer, and every row counts.
const ROWS: RowSource<'static> = RowSource { field: None, keep: None };

/// A project on a GitLab server.
pub(crate) struct GitLab {
    pub(crate) api: Api,
    /// A path, or a number.
    pub(crate) project: String,
}

impl GitLab {
    fn route(&self, segments: &[&str]) -> Url {
        let all: Vec<&str> =
            ["projects", self.project.as_str()].into_iter().chain(segments.iter().copied()).collect();
        self.api.route(&all)
    }

    async fn list<T>(
        &self,
        url: Url,
        window: Window,
        read: impl Fn(&Value) -> Option<T>,
    ) -> Result<Listing<T>, Error> {
        let found = pages::rows(&self.api, &url, &ROWS, window).await?;
        let items: Option<Vec<T>> = found.items.iter().map(read).collect();
        let items = items.ok_or_else(|| self.garbled())?;
        Ok(Listing { items, total: found.total })
    }

    async fn one<T>(&self, segments: &[&str], read: impl Fn(&Value) -> Option<T>) -> Result<T, Error> {
        let answer = self.api.get(&self.route(segments)).await?;
        read(&answer.body).ok_or_else(|| self.garbled())
    }

    fn garbled(&self) -> Error {
        self.api.unavailable("it sent an item without an id; is it a GitLab?")
    }
}

impl Forge for GitLab {
    fn merge_requests<'a>(&'a self, query: &'a ListQuery) -> ForgeFuture<'a, Listing<MergeRequest>> {
        Box::pin(async move {
            let state = one_of("state", &query.state, &["opened", "closed", "merged", "locked", "all"])?;
            let mut url = self.route(&["merge_requests"]);
            url.query_pairs_mut().append_pair("state", if state.is_empty() { "all" } else { state });
            let window = Window::new(query.limit, query.offset)?;
            self.list(url, window, |row| merge_request(row, LIST_DESCRIPTION_MAX_BYTES)).await
        })
    }

    fn merge_request(&self, iid: u64) -> ForgeFuture<'_, MergeRequest> {
        Box::pin(async move {
            let iid = iid.to_string();
            self.one(&["merge_requests", &iid], |row| merge_request(row, DESCRIPTION_MAX_BYTES)).await
        })
    }

    fn pipelines<'a>(&'a self, query: &'a ListQuery) -> ForgeFuture<'a, Listing<Pipeline>> {
        Box::pin(async move {
            let status = one_of("status", &query.state, STATUSES)?;
            let mut url = self.route(&["pipelines"]);
            if !status.is_empty() {
                url.query_pairs_mut().append_pair("status", status);
            }
            self.list(url, Window::new(query.limit, query.offset)?, pipeline).await
        })
    }

    fn pipeline(&self, id: u64) -> ForgeFuture<'_, Pipeline> {
        Box::pin(async move { self.one(&["pipelines", &id.to_string()], pipeline).await })
    }

    fn jobs<'a>(&'a self, query: &'a JobQuery) -> ForgeFuture<'a, Listing<Job>> {
        Box::pin(async move {
            let mut url = self.route(&["pipelines", &query.pipeline.to_string(), "jobs"]);
            for status in &query.scope {
                let status = one_of("scope", status, STATUSES)?;
                url.query_pairs_mut().append_pair("scope[]", status);
            }
            if query.include_retried {
                url.query_pairs_mut().append_pair("include_retried", "true");
            }
            self.list(url, Window::new(query.limit, query.offset)?, job).await
        })
    }

    fn job(&self, id: u64) -> ForgeFuture<'_, Job> {
        Box::pin(async move { self.one(&["jobs", &id.to_string()], job).await })
    }

    fn job_log<'a>(&'a self, query: &'a LogQuery) -> ForgeFuture<'a, JobLog> {
        Box::pin(async move {
            let mut tail = LogTail::new(query)?;
            let url = self.route(&["jobs", &query.job.to_string(), "trace"]);
            self.api.stream(&url, |piece| tail.push(piece)).await?;
            Ok(tail.finish(self.api.scrubber()?))
        })
    }

    fn issues<'a>(&'a self, query: &'a ListQuery) -> ForgeFuture<'a, Listing<Issue>> {
        Box::pin(async move {
            let state = one_of("state", &query.state, &["opened", "closed", "all"])?;
            let mut url = self.route(&["issues"]);
            if !state.is_empty() {
                url.query_pairs_mut().append_pair("state", state);
            }
            let window = Window::new(query.limit, query.offset)?;
            self.list(url, window, |row| issue(row, LIST_DESCRIPTION_MAX_BYTES)).await
        })
    }

    fn issue(&self, iid: u64) -> ForgeFuture<'_, Issue> {
        Box::pin(async move {
            self.one(&["issues", &iid.to_string()], |row| issue(row, DESCRIPTION_MAX_BYTES)).await
        })
    }

    fn open_merge_request<'a>(&'a self, new: &'a NewMergeRequest) -> ForgeFuture<'a, OpenedMergeRequest> {
        Box::pin(async move {
            let url = self.route(&["merge_requests"]);
            let title = if new.draft { format!("Draft: {}", new.title) } else { new.title.clone() };
            let body = json!({
                "source_branch": new.source_branch,
                "target_branch": new.target_branch,
                "title": title,
                "description": new.description,
            });
            match self.api.post(&url, &body).await {
                Ok(answer) => {
                    let made = merge_request(&answer.body, DESCRIPTION_MAX_BYTES);
                    let merge_request = made.ok_or_else(|| self.garbled())?;
                    Ok(OpenedMergeRequest { merge_request, existed: false })
                }
                Err(error) if error.code == ErrorCode::ForgeRefused => {
                    let mut url = url;
                    url.query_pairs_mut()
                        .append_pair("state", "opened")
                        .append_pair("source_branch", &new.source_branch)
                        .append_pair("target_branch", &new.target_branch);
                    let window = Window::new(1, 0)?;
                    let found =
                        self.list(url, window, |row| merge_request(row, DESCRIPTION_MAX_BYTES)).await?;
                    let found = found.items.into_iter().next().ok_or(error)?;
                    Ok(OpenedMergeRequest { merge_request: found, existed: true })
                }
                Err(error) => Err(error),
            }
        })
    }
}

/// Checks a filter; empty is every one.
pub(crate) fn one_of<'a>(field: &str, value: &'a str, known: &[&str]) -> Result<&'a str, Error> {
    if value.is_empty() || known.contains(&value) {
        return Ok(value);
    }
    Err(Error::invalid(field, format_args!("{value:?} is not known; use one of {}", known.join(", "))))
}

fn merge_request(row: &Value, description_max: usize) -> Option<MergeRequest> {
    // `detailed_merge_status` replaced `merge_status`; servers send one of them, or both.
    let detailed = row["detailed_merge_status"].as_str().unwrap_or_default();
    let merge_status = match (row["merge_status"].as_str().unwrap_or_default(), detailed) {
        ("", "mergeable") => "can_be_merged".to_owned(),
        ("", "") => String::new(),
        ("", "unchecked") => "unchecked".to_owned(),
        ("", "checking" | "preparing" | "approvals_syncing" | "ci_still_running") => "checking".to_owned(),
        ("", _) => "cannot_be_merged".to_owned(),
        (_, _) => text(&row["merge_status"]),
    };
    Some(MergeRequest {
        id: row["id"].as_u64()?,
        iid: row["iid"].as_u64()?,
        title: text_up_to(&row["title"], TITLE_MAX_BYTES),
        description: text_up_to(&row["description"], description_max),
        state: text(&row["state"]),
        source_branch: text(&row["source_branch"]),
        target_branch: text(&row["target_branch"]),
        author: text(&row["author"]["username"]),
        labels: texts(&row["labels"]),
        created_at: time(&row["created_at"]),
        updated_at: time(&row["updated_at"]),
        web_url: text(&row["web_url"]),
        draft: row["draft"].as_bool().or_else(|| row["work_in_progress"].as_bool()).unwrap_or_default(),
        merge_status,
        assignees: people(row),
        reviewers: fields(&row["reviewers"], "username"),
        milestone: text(&row["milestone"]["title"]),
    })
}

fn pipeline(row: &Value) -> Option<Pipeline> {
    Some(Pipeline {
        id: row["id"].as_u64()?,
        status: text(&row["status"]),
        ref_name: text(&row["ref"]),
        sha: text(&row["sha"]),
        source: text(&row["source"]),
        created_at: time(&row["created_at"]),
        updated_at: time(&row["updated_at"]),
        web_url: text(&row["web_url"]),
    })
}

fn job(row: &Value) -> Option<Job> {
    Some(Job {
        id: row["id"].as_u64()?,
        name: text(&row["name"]),
        stage: text(&row["stage"]),
        status: text(&row["status"]),
        allow_failure: row["allow_failure"].as_bool().unwrap_or_default(),
        failure_reason: text(&row["failure_reason"]),
        duration_secs: seconds(&row["duration"]),
        queued_secs: seconds(&row["queued_duration"]),
        created_at: time(&row["created_at"]),
        started_at: time(&row["started_at"]),
        finished_at: time(&row["finished_at"]),
        web_url: text(&row["web_url"]),
        ref_name: text(&row["ref"]),
    })
}

fn issue(row: &Value, description_max: usize) -> Option<Issue> {
    Some(Issue {
        id: row["id"].as_u64()?,
        iid: row["iid"].as_u64()?,
        title: text_up_to(&row["title"], TITLE_MAX_BYTES),
        description: text_up_to(&row["description"], description_max),
        state: text(&row["state"]),
        author: text(&row["author"]["username"]),
        labels: texts(&row["labels"]),
        created_at: time(&row["created_at"]),
        updated_at: time(&row["updated_at"]),
        web_url: text(&row["web_url"]),
        confidential: row["confidential"].as_bool().unwrap_or_default(),
        assignees: people(row),
        milestone: text(&row["milestone"]["title"]),
    })
}

/// Returns the assignees; old servers name one only.
fn people(row: &Value) -> Vec<String> {
    let many = fields(&row["assignees"], "username");
    match row["assignee"]["username"].as_str() {
        Some(_) if many.is_empty() => vec![text(&row["assignee"]["username"])],
        _ => many,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_words_for_whether_it_can_be_merged_are_read() {
        let status = |extra: Value| {
            let mut row = json!({"id": 1, "iid": 2});
            for (key, value) in extra.as_object().unwrap() {
                row[key] = value.clone();
            }
            merge_request(&row, 10).unwrap().merge_status
        };
        assert_eq!(status(json!({"merge_status": "unchecked", "detailed_merge_status": "x"})), "unchecked");
        assert_eq!(status(json!({"detailed_merge_status": "mergeable"})), "can_be_merged");
        assert_eq!(status(json!({"detailed_merge_status": "conflict"})), "cannot_be_merged");
        assert_eq!(status(json!({})), "");
        assert_eq!(merge_request(&json!({"title": "no id"}), 10), None);
    }
}

//! GitHub's REST API. Pull requests become merge requests and runs of workflows become pipelines; states and statuses get
//! GitLab's words.

use domain::{Error, ErrorCode};
use reqwest::Url;
use serde_json::{Value, json};

use crate::gitlab::one_of;
use crate::http::Api;
use crate::json::{fields, text, text_up_to, time};
use crate::limits::{DESCRIPTION_MAX_BYTES, LIST_DESCRIPTION_MAX_BYTES, TITLE_MAX_BYTES};
use crate::log::LogTail;
use crate::pages::{self, RowFilter, RowSource, Window};
use crate::types::{
    Issue, Job, JobLog, JobQuery, ListQuery, Listing, LogQuery, MergeRequest, NewMergeRequest,
    OpenedMergeRequest, Pipeline,
};
use crate::{Forge, ForgeFuture};

/// Our statuses of runs and jobs, and GitHub's word to filter by.
const STATUSES: &[(&str, &str)] = &[
    ("pending", "queued"),
    ("running", "in_progress"),
    ("success", "success"),
    ("failed", "failure"),
    ("canceled", "cancelled"),
    ("skipped", "skipped"),
    ("manual", "action_required"),
    ("waiting_for_resource", "waiting"),
];

/// A repository on a GitHub server.
pub(crate) struct GitHub {
    pub(crate) api: Api,
    pub(crate) owner: String,
    pub(crate) name: String,
}

impl GitHub {
    fn route(&self, segments: &[&str]) -> Url {
        let own = ["repos", self.owner.as_str(), self.name.as_str()];
        let all: Vec<&str> = own.into_iter().chain(segments.iter().copied()).collect();
        self.api.route(&all)
    }

    async fn list<T>(
        &self,
        url: Url,
        source: RowSource<'_>,
        window: Window,
        read: impl Fn(&Value) -> Option<T>,
    ) -> Result<Listing<T>, Error> {
        let found = pages::rows(&self.api, &url, &source, window).await?;
        let items: Option<Vec<T>> = found.items.iter().map(read).collect();
        let items = items.ok_or_else(|| self.garbled())?;
        Ok(Listing { items, total: found.total })
    }

    async fn one<T>(&self, segments: &[&str], read: impl Fn(&Value) -> Option<T>) -> Result<T, Error> {
        let answer = self.api.get(&self.route(segments)).await?;
        read(&answer.body).ok_or_else(|| self.garbled())
    }

    fn garbled(&self) -> Error {
        self.api.unavailable("it sent an item without an id; is it a GitHub?")
    }
}

impl Forge for GitHub {
    fn merge_requests<'a>(&'a self, query: &'a ListQuery) -> ForgeFuture<'a, Listing<MergeRequest>> {
        Box::pin(async move {
            let state = one_of("state", &query.state, &["opened", "closed", "merged", "all"])?;
            let (asked, keep): (&str, Option<RowFilter>) = match state {
                "opened" => ("open", None),
                // GitHub says closed of both.
                "closed" => ("closed", Some(|row| row["merged_at"].is_null())),
                "merged" => ("closed", Some(|row| !row["merged_at"].is_null())),
                _ => ("all", None),
            };
            let mut url = self.route(&["pulls"]);
            url.query_pairs_mut().append_pair("state", asked);
            let window = Window::new(query.limit, query.offset)?;
            let source = RowSource { field: None, keep };
            self.list(url, source, window, |row| pull_request(row, LIST_DESCRIPTION_MAX_BYTES)).await
        })
    }

    fn merge_request(&self, iid: u64) -> ForgeFuture<'_, MergeRequest> {
        Box::pin(async move {
            self.one(&["pulls", &iid.to_string()], |row| pull_request(row, DESCRIPTION_MAX_BYTES)).await
        })
    }

    fn pipelines<'a>(&'a self, query: &'a ListQuery) -> ForgeFuture<'a, Listing<Pipeline>> {
        Box::pin(async move {
            let mut url = self.route(&["actions", "runs"]);
            if let Some(status) = asked_status("status", &query.state)? {
                url.query_pairs_mut().append_pair("status", status);
            }
            let source = RowSource { field: Some("workflow_runs"), keep: None };
            self.list(url, source, Window::new(query.limit, query.offset)?, run).await
        })
    }

    fn pipeline(&self, id: u64) -> ForgeFuture<'_, Pipeline> {
        Box::pin(async move { self.one(&["actions", "runs", &id.to_string()], run).await })
    }

    fn jobs<'a>(&'a self, query: &'a JobQuery) -> ForgeFuture<'a, Listing<Job>> {
        Box::pin(async move {
            if !query.scope.is_empty() {
                return Err(Error::invalid(
                    "scope",
                    "GitHub cannot filter the jobs of a run; leave it empty",
                ));
            }
            let mut url = self.route(&["actions", "runs", &query.pipeline.to_string(), "jobs"]);
            let filter = if query.include_retried { "all" } else { "latest" };
            url.query_pairs_mut().append_pair("filter", filter);
            let source = RowSource { field: Some("jobs"), keep: None };
            self.list(url, source, Window::new(query.limit, query.offset)?, job).await
        })
    }

    fn job(&self, id: u64) -> ForgeFuture<'_, Job> {
        Box::pin(async move { self.one(&["actions", "jobs", &id.to_string()], job).await })
    }

    fn job_log<'a>(&'a self, query: &'a LogQuery) -> ForgeFuture<'a, JobLog> {
        Box::pin(async move {
            let mut tail = LogTail::new(query)?;
            let url = self.route(&["actions", "jobs", &query.job.to_string(), "logs"]);
            self.api.stream(&url, |piece| tail.push(piece)).await?;
            Ok(tail.finish(self.api.scrubber()?))
        })
    }

    fn issues<'a>(&'a self, query: &'a ListQuery) -> ForgeFuture<'a, Listing<Issue>> {
        Box::pin(async move {
            let state = match one_of("state", &query.state, &["opened", "closed", "all"])? {
                "opened" => "open",
                "closed" => "closed",
                _ => "all",
            };
            let mut url = self.route(&["issues"]);
            url.query_pairs_mut().append_pair("state", state);
            // GitHub's list of issues has pull requests among them.
            let source = RowSource { field: None, keep: Some(|row| row["pull_request"].is_null()) };
            let window = Window::new(query.limit, query.offset)?;
            self.list(url, source, window, |row| issue(row, LIST_DESCRIPTION_MAX_BYTES)).await
        })
    }

    fn issue(&self, iid: u64) -> ForgeFuture<'_, Issue> {
        Box::pin(async move {
            self.one(&["issues", &iid.to_string()], |row| issue(row, DESCRIPTION_MAX_BYTES)).await
        })
    }

    fn open_merge_request<'a>(&'a self, new: &'a NewMergeRequest) -> ForgeFuture<'a, OpenedMergeRequest> {
        Box::pin(async move {
            let url = self.route(&["pulls"]);
            let body = json!({
                "head": new.source_branch,
                "base": new.target_branch,
                "title": new.title,
                "body": new.description,
                "draft": new.draft,
            });
            match self.api.post(&url, &body).await {
                Ok(answer) => {
                    let made = pull_request(&answer.body, DESCRIPTION_MAX_BYTES);
                    let merge_request = made.ok_or_else(|| self.garbled())?;
                    Ok(OpenedMergeRequest { merge_request, existed: false })
                }
                Err(error) if error.code == ErrorCode::ForgeRefused => {
                    let mut url = url;
                    url.query_pairs_mut()
                        .append_pair("state", "open")
                        .append_pair("head", &format!("{}:{}", self.owner, new.source_branch))
                        .append_pair("base", &new.target_branch);
                    let source = RowSource { field: None, keep: None };
                    let window = Window::new(1, 0)?;
                    let read = |row: &Value| pull_request(row, DESCRIPTION_MAX_BYTES);
                    let found = self.list(url, source, window, read).await?;
                    let found = found.items.into_iter().next().ok_or(error)?;
                    Ok(OpenedMergeRequest { merge_request: found, existed: true })
                }
                Err(error) => Err(error),
            }
        })
    }
}

/// Returns GitHub's word for a status of ours.
fn asked_status(field: &str, status: &str) -> Result<Option<&'static str>, Error> {
    if status.is_empty() {
        return Ok(None);
    }
    let found = STATUSES.iter().find(|(ours, _)| *ours == status).map(|(_, theirs)| *theirs);
    let known: Vec<&str> = STATUSES.iter().map(|(ours, _)| *ours).collect();
    found.map(Some).ok_or_else(|| {
        Error::invalid(field, format_args!("{status:?} is not known; use one of {}", known.join(", ")))
    })
}

/// Returns the status of a run or job as one word: GitHub has one field for whether it ended and another for how.
fn status(row: &Value) -> String {
    let said = match row["conclusion"].as_str() {
        Some(conclusion) => conclusion,
        None => row["status"].as_str().unwrap_or_default(),
    };
    match said {
        "success" | "neutral" => "success",
        "failure" | "timed_out" | "startup_failure" => "failed",
        "cancelled" | "stale" => "canceled",
        "skipped" => "skipped",
        "action_required" => "manual",
        "in_progress" => "running",
        "queued" | "requested" | "pending" => "pending",
        "waiting" => "waiting_for_resource",
        _ => return text(&Value::from(said)),
    }
    .to_owned()
}

fn pull_request(row: &Value, description_max: usize) -> Option<MergeRequest> {
    let state = match row["state"].as_str() {
        Some("open") => "opened",
        _ if !row["merged_at"].is_null() => "merged",
        _ => "closed",
    };
    let merge_status = match row["mergeable"].as_bool() {
        Some(true) => "can_be_merged",
        Some(false) => "cannot_be_merged",
        // Only the single one has the field, and null while it is being found out.
        None if row.get("mergeable").is_some() => "checking",
        None => "",
    };
    Some(MergeRequest {
        id: row["id"].as_u64()?,
        iid: row["number"].as_u64()?,
        title: text_up_to(&row["title"], TITLE_MAX_BYTES),
        description: text_up_to(&row["body"], description_max),
        state: state.to_owned(),
        source_branch: text(&row["head"]["ref"]),
        target_branch: text(&row["base"]["ref"]),
        author: text(&row["user"]["login"]),
        labels: fields(&row["labels"], "name"),
        created_at: time(&row["created_at"]),
        updated_at: time(&row["updated_at"]),
        web_url: text(&row["html_url"]),
        draft: row["draft"].as_bool().unwrap_or_default(),
        merge_status: merge_status.to_owned(),
        assignees: fields(&row["assignees"], "login"),
        reviewers: fields(&row["requested_reviewers"], "login"),
        milestone: text(&row["milestone"]["title"]),
    })
}

fn run(row: &Value) -> Option<Pipeline> {
    Some(Pipeline {
        id: row["id"].as_u64()?,
        status: status(row),
        ref_name: text(&row["head_branch"]),
        sha: text(&row["head_sha"]),
        source: text(&row["event"]),
        created_at: time(&row["created_at"]),
        updated_at: time(&row["updated_at"]),
        web_url: text(&row["html_url"]),
    })
}

fn job(row: &Value) -> Option<Job> {
    let at = |name: &str| time(&row[name]);
    let between = |from: Option<domain::Timestamp>, to: Option<domain::Timestamp>| match (from, to) {
        #[allow(clippy::cast_precision_loss, reason = "durations of jobs are far below 2^53 microseconds")]
        (Some(from), Some(to)) => (to.0 - from.0).max(0) as f64 / 1e6,
        _ => 0.0,
    };
    let (created_at, started_at, finished_at) = (at("created_at"), at("started_at"), at("completed_at"));
    Some(Job {
        id: row["id"].as_u64()?,
        name: text(&row["name"]),
        stage: text(&row["workflow_name"]),
        status: status(row),
        allow_failure: false,
        failure_reason: match row["conclusion"].as_str() {
            Some("timed_out" | "startup_failure") => text(&row["conclusion"]),
            _ => String::new(),
        },
        duration_secs: between(started_at, finished_at),
        queued_secs: between(created_at, started_at),
        created_at,
        started_at,
        finished_at,
        web_url: text(&row["html_url"]),
        ref_name: text(&row["head_branch"]),
    })
}

fn issue(row: &Value, description_max: usize) -> Option<Issue> {
    Some(Issue {
        id: row["id"].as_u64()?,
        iid: row["number"].as_u64()?,
        title: text_up_to(&row["title"], TITLE_MAX_BYTES),
        description: text_up_to(&row["body"], description_max),
        state: if row["state"] == "open" { "opened" } else { "closed" }.to_owned(),
        author: text(&row["user"]["login"]),
        labels: fields(&row["labels"], "name"),
        created_at: time(&row["created_at"]),
        updated_at: time(&row["updated_at"]),
        web_url: text(&row["html_url"]),
        confidential: false,
        assignees: fields(&row["assignees"], "login"),
        milestone: text(&row["milestone"]["title"]),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_told_in_gitlabs_words() {
        let of = |row: Value| pull_request(&row, 10).unwrap();
        let open = of(json!({"id": 1, "number": 2, "state": "open", "merged_at": null}));
        assert_eq!((open.state.as_str(), open.merge_status.as_str()), ("opened", ""));
        let merged =
            of(json!({"id": 1, "number": 2, "state": "closed", "merged_at": "x", "mergeable": null}));
        assert_eq!((merged.state.as_str(), merged.merge_status.as_str()), ("merged", "checking"));
        for (row, expected) in [
            (json!({"status": "in_progress", "conclusion": null}), "running"),
            (json!({"status": "completed", "conclusion": "timed_out"}), "failed"),
            (json!({"status": "completed", "conclusion": "brand_new"}), "brand_new"),
        ] {
            assert_eq!(status(&row), expected);
        }
        assert_eq!(asked_status("status", "failed").unwrap(), Some("failure"));
        assert!(asked_status("status", "odd").is_err());
    }
}

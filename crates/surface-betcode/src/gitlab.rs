//! `GitLabService`: merge requests, pipelines, jobs and issues. Requests to the server are the crate `forge`'s.

use std::path::Path;

use domain::{Error, Timestamp};
use forge::{Forge, ForgeKind, Forges, JobQuery, ListQuery, Listing, LogQuery};
use tonic::Request;
use wire::betcode::v1 as pb;
use wire::betcode::v1::git_lab_service_server::GitLabService;

use super::{Betcode, RpcResult, answer, to_wire};

#[tonic::async_trait]
impl GitLabService for Betcode {
    async fn list_merge_requests(
        &self,
        request: Request<pb::ListMrsRequest>,
    ) -> RpcResult<pb::ListMrsResponse> {
        answer(self.gitlab_merge_requests(request.into_inner()).await)
    }

    async fn get_merge_request(&self, request: Request<pb::GetMrRequest>) -> RpcResult<pb::MergeRequestInfo> {
        let request = request.into_inner();
        let get = async {
            let forge = self.gitlab(&request.project).await?;
            forge.merge_request(required("iid", request.iid)?).await
        };
        answer(get.await.map(merge_request))
    }

    async fn list_pipelines(
        &self,
        request: Request<pb::ListPipelinesRequest>,
    ) -> RpcResult<pb::ListPipelinesResponse> {
        answer(self.gitlab_pipelines(request.into_inner()).await)
    }

    async fn get_pipeline_jobs(
        &self,
        request: Request<pb::GetJobsRequest>,
    ) -> RpcResult<pb::GetJobsResponse> {
        answer(self.gitlab_jobs(request.into_inner()).await)
    }

    async fn get_job_log(&self, request: Request<pb::GetJobLogRequest>) -> RpcResult<pb::GetJobLogResponse> {
        answer(self.gitlab_job_log(request.into_inner()).await)
    }

    async fn list_issues(
        &self,
        request: Request<pb::ListIssuesRequest>,
    ) -> RpcResult<pb::ListIssuesResponse> {
        answer(self.gitlab_issues(request.into_inner()).await)
    }

    async fn get_pipeline(&self, request: Request<pb::GetPipelineRequest>) -> RpcResult<pb::PipelineInfo> {
        let request = request.into_inner();
        let get = async {
            let forge = self.gitlab(&request.project).await?;
            forge.pipeline(required("id", request.id)?).await
        };
        answer(get.await.map(pipeline))
    }

    async fn get_issue(&self, request: Request<pb::GetIssueRequest>) -> RpcResult<pb::IssueInfo> {
        let request = request.into_inner();
        let get = async {
            let forge = self.gitlab(&request.project).await?;
            forge.issue(required("iid", request.iid)?).await
        };
        answer(get.await.map(issue))
    }
}

impl Betcode {
    /// Finds the project that a request names; none: that of the current worktree, else of the daemon's folder.
    async fn gitlab(&self, project: &str) -> Result<Box<dyn Forge>, Error> {
        let remote = if Forges::needs_remote(project) {
            let folder = self.default_folder().await.map_err(|_| {
                Error::invalid("project", "is required: no worktree is chosen and the daemon has no folder")
            })?;
            self.supervisor.worktrees().remote_address(Path::new(&folder)).await?
        } else {
            None
        };
        self.about.forges.open(Some(ForgeKind::GitLab), project, remote.as_deref()).await
    }

    async fn gitlab_merge_requests(&self, request: pb::ListMrsRequest) -> Result<pb::ListMrsResponse, Error> {
        let state = filter("state", request.state, pb::MergeRequestState::try_from(request.state).ok())?;
        let state = match state {
            pb::MergeRequestState::Unspecified => "",
            pb::MergeRequestState::Opened => "opened",
            pb::MergeRequestState::Closed => "closed",
            pb::MergeRequestState::Merged => "merged",
            pb::MergeRequestState::Locked => "locked",
        };
        let query = ListQuery { state: state.to_owned(), limit: request.limit, offset: request.offset };
        let Listing { items, total } = self.gitlab(&request.project).await?.merge_requests(&query).await?;
        Ok(pb::ListMrsResponse { merge_requests: items.into_iter().map(merge_request).collect(), total })
    }

    async fn gitlab_pipelines(
        &self,
        request: pb::ListPipelinesRequest,
    ) -> Result<pb::ListPipelinesResponse, Error> {
        let status = filter("status", request.status, pb::PipelineStatus::try_from(request.status).ok())?;
        let status = match status {
            pb::PipelineStatus::Unspecified => String::new(),
            status => status.as_str_name().trim_start_matches(STATUS_PREFIX).to_lowercase(),
        };
        let query = ListQuery { state: status, limit: request.limit, offset: request.offset };
        let Listing { items, total } = self.gitlab(&request.project).await?.pipelines(&query).await?;
        Ok(pb::ListPipelinesResponse { pipelines: items.into_iter().map(pipeline).collect(), total })
    }

    async fn gitlab_jobs(&self, request: pb::GetJobsRequest) -> Result<pb::GetJobsResponse, Error> {
        let query = JobQuery {
            pipeline: required("pipeline_id", request.pipeline_id)?,
            include_retried: request.include_retried,
            scope: request.scope,
            limit: request.limit,
            offset: request.offset,
        };
        let Listing { items, total } = self.gitlab(&request.project).await?.jobs(&query).await?;
        Ok(pb::GetJobsResponse { jobs: items.into_iter().map(job).collect(), total })
    }

    async fn gitlab_job_log(&self, request: pb::GetJobLogRequest) -> Result<pb::GetJobLogResponse, Error> {
        let query = LogQuery {
            job: required("job_id", request.job_id)?,
            tail_lines: request.tail_lines,
            max_bytes: request.max_bytes,
        };
        let log = self.gitlab(&request.project).await?.job_log(&query).await?;
        Ok(pb::GetJobLogResponse { log: log.text, truncated: log.truncated, total_bytes: log.total_bytes })
    }

    async fn gitlab_issues(&self, request: pb::ListIssuesRequest) -> Result<pb::ListIssuesResponse, Error> {
        let state = match filter("state", request.state, pb::IssueState::try_from(request.state).ok())? {
            pb::IssueState::Unspecified => "",
            pb::IssueState::Opened => "opened",
            pb::IssueState::Closed => "closed",
        };
        let query = ListQuery { state: state.to_owned(), limit: request.limit, offset: request.offset };
        let Listing { items, total } = self.gitlab(&request.project).await?.issues(&query).await?;
        Ok(pb::ListIssuesResponse { issues: items.into_iter().map(issue).collect(), total })
    }
}

/// What the names of statuses begin with on the wire.
const STATUS_PREFIX: &str = "PIPELINE_STATUS_";

fn required(field: &str, id: u64) -> Result<u64, Error> {
    if id == 0 { Err(Error::invalid(field, "is required")) } else { Ok(id) }
}

/// Refuses a number that the enum does not have, instead of listing everything.
fn filter<T>(field: &str, number: i32, parsed: Option<T>) -> Result<T, Error> {
    parsed.ok_or_else(|| Error::invalid(field, format_args!("{number} is not known")))
}

fn time(at: Option<Timestamp>) -> Option<prost_types::Timestamp> {
    at.map(to_wire::timestamp)
}

fn merge_request(found: forge::MergeRequest) -> pb::MergeRequestInfo {
    let state = match found.state.as_str() {
        "opened" => pb::MergeRequestState::Opened,
        "closed" => pb::MergeRequestState::Closed,
        "merged" => pb::MergeRequestState::Merged,
        "locked" => pb::MergeRequestState::Locked,
        _ => pb::MergeRequestState::Unspecified,
    };
    let merge_status = match found.merge_status.as_str() {
        "can_be_merged" => pb::MergeStatus::CanBeMerged,
        "cannot_be_merged" | "cannot_be_merged_recheck" => pb::MergeStatus::CannotBeMerged,
        "checking" | "cannot_be_merged_rechecking" => pb::MergeStatus::Checking,
        "unchecked" => pb::MergeStatus::Unchecked,
        _ => pb::MergeStatus::Unspecified,
    };
    pb::MergeRequestInfo {
        id: found.id,
        iid: found.iid,
        title: found.title,
        description: found.description,
        state: state.into(),
        source_branch: found.source_branch,
        target_branch: found.target_branch,
        author: found.author,
        labels: found.labels,
        created_at: time(found.created_at),
        updated_at: time(found.updated_at),
        web_url: found.web_url,
        draft: found.draft,
        merge_status: merge_status.into(),
        assignee: found.assignees.first().cloned().unwrap_or_default(),
        assignees: found.assignees,
        reviewers: found.reviewers,
        milestone: found.milestone,
    }
}

fn pipeline(found: forge::Pipeline) -> pb::PipelineInfo {
    let name = format!("{STATUS_PREFIX}{}", found.status.to_uppercase());
    pb::PipelineInfo {
        id: found.id,
        status: pb::PipelineStatus::from_str_name(&name).unwrap_or_default().into(),
        ref_name: found.ref_name,
        sha: found.sha,
        source: found.source,
        created_at: time(found.created_at),
        updated_at: time(found.updated_at),
        web_url: found.web_url,
    }
}

fn job(found: forge::Job) -> pb::JobInfo {
    pb::JobInfo {
        id: found.id,
        name: found.name,
        stage: found.stage,
        status: found.status,
        allow_failure: found.allow_failure,
        failure_reason: found.failure_reason,
        duration_secs: found.duration_secs,
        queued_secs: found.queued_secs,
        created_at: time(found.created_at),
        started_at: time(found.started_at),
        finished_at: time(found.finished_at),
        web_url: found.web_url,
        ref_name: found.ref_name,
    }
}

fn issue(found: forge::Issue) -> pb::IssueInfo {
    let state = match found.state.as_str() {
        "opened" => pb::IssueState::Opened,
        "closed" => pb::IssueState::Closed,
        _ => pb::IssueState::Unspecified,
    };
    pb::IssueInfo {
        id: found.id,
        iid: found.iid,
        title: found.title,
        description: found.description,
        state: state.into(),
        author: found.author,
        labels: found.labels,
        created_at: time(found.created_at),
        updated_at: time(found.updated_at),
        web_url: found.web_url,
        confidential: found.confidential,
        assignee: found.assignees.first().cloned().unwrap_or_default(),
        assignees: found.assignees,
        milestone: found.milestone,
    }
}

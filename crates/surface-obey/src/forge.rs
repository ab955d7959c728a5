//! `ForgeService`: merge requests, pipelines, jobs and issues of GitLab and GitHub. The access table restricts it to the
//! user. Requests to servers are the crate `forge`'s.

use std::path::Path;

use ::forge::{Forge, ForgeKind, Forges, JobQuery, ListQuery, Listing, LogQuery, NewMergeRequest};
use domain::{Error, Timestamp};
use runtime::worktree::{PushCredential, PushRequest};
use tonic::{Request, Response, Status};
use wire::obey::v1 as pb;
use wire::obey::v1::forge_service_server::ForgeService;

use super::local::answer;
use super::worktrees::tree_name;
use super::{Obey, to_wire};

#[tonic::async_trait]
impl ForgeService for Obey {
    async fn list_merge_requests(
        &self,
        request: Request<pb::ForgeListRequest>,
    ) -> Result<Response<pb::ForgeMergeRequestList>, Status> {
        answer(self.forge_merge_requests(request.into_inner()).await)
    }

    async fn get_merge_request(
        &self,
        request: Request<pb::ForgeGetRequest>,
    ) -> Result<Response<pb::ForgeMergeRequest>, Status> {
        let request = request.into_inner();
        answer(self.forge_item(request, |forge, id| forge.merge_request(id)).await.map(merge_request))
    }

    async fn open_merge_request(
        &self,
        request: Request<pb::ForgeOpenRequest>,
    ) -> Result<Response<pb::ForgeOpenResponse>, Status> {
        answer(self.forge_open(request.into_inner()).await)
    }

    async fn list_pipelines(
        &self,
        request: Request<pb::ForgeListRequest>,
    ) -> Result<Response<pb::ForgePipelineList>, Status> {
        answer(self.forge_pipelines(request.into_inner()).await)
    }

    async fn get_pipeline(
        &self,
        request: Request<pb::ForgeGetRequest>,
    ) -> Result<Response<pb::ForgePipeline>, Status> {
        let request = request.into_inner();
        answer(self.forge_item(request, |forge, id| forge.pipeline(id)).await.map(pipeline))
    }

    async fn list_jobs(
        &self,
        request: Request<pb::ForgeListJobsRequest>,
    ) -> Result<Response<pb::ForgeJobList>, Status> {
        answer(self.forge_jobs(request.into_inner()).await)
    }

    async fn get_job(&self, request: Request<pb::ForgeGetRequest>) -> Result<Response<pb::ForgeJob>, Status> {
        answer(self.forge_item(request.into_inner(), |forge, id| forge.job(id)).await.map(job))
    }

    async fn get_job_log(
        &self,
        request: Request<pb::ForgeJobLogRequest>,
    ) -> Result<Response<pb::ForgeJobLog>, Status> {
        answer(self.forge_job_log(request.into_inner()).await)
    }

    async fn list_issues(
        &self,
        request: Request<pb::ForgeListRequest>,
    ) -> Result<Response<pb::ForgeIssueList>, Status> {
        answer(self.forge_issues(request.into_inner()).await)
    }

    async fn get_issue(
        &self,
        request: Request<pb::ForgeGetRequest>,
    ) -> Result<Response<pb::ForgeIssue>, Status> {
        answer(self.forge_item(request.into_inner(), |forge, id| forge.issue(id)).await.map(issue))
    }
}

impl Obey {
    /// Finds the project that a request names.
    async fn forge(&self, project: Option<pb::ForgeProject>) -> Result<Box<dyn Forge>, Error> {
        let project = project.unwrap_or_default();
        let kind = forge_kind(&project.forge)?;
        let remote = if !Forges::needs_remote(&project.project) {
            None
        } else if project.folder.is_empty() {
            return Err(Error::invalid("project", "is required, or the folder whose remote names it"));
        } else {
            self.supervisor.worktrees().remote_address(Path::new(&project.folder)).await?
        };
        self.about.forges.open(kind, &project.project, remote.as_deref()).await
    }

    async fn forge_item<T>(
        &self,
        request: pb::ForgeGetRequest,
        get: impl for<'a> FnOnce(&'a dyn Forge, u64) -> ::forge::ForgeFuture<'a, T>,
    ) -> Result<T, Error> {
        if request.id == 0 {
            return Err(Error::invalid("id", "is required"));
        }
        let forge = self.forge(request.project).await?;
        get(forge.as_ref(), request.id).await
    }

    async fn forge_merge_requests(
        &self,
        request: pb::ForgeListRequest,
    ) -> Result<pb::ForgeMergeRequestList, Error> {
        let (project, query) = list_query(request);
        let Listing { items, total } = self.forge(project).await?.merge_requests(&query).await?;
        let merge_requests = items.into_iter().map(merge_request).collect();
        Ok(pb::ForgeMergeRequestList { merge_requests, total })
    }

    async fn forge_pipelines(&self, request: pb::ForgeListRequest) -> Result<pb::ForgePipelineList, Error> {
        let (project, query) = list_query(request);
        let Listing { items, total } = self.forge(project).await?.pipelines(&query).await?;
        Ok(pb::ForgePipelineList { pipelines: items.into_iter().map(pipeline).collect(), total })
    }

    async fn forge_issues(&self, request: pb::ForgeListRequest) -> Result<pb::ForgeIssueList, Error> {
        let (project, query) = list_query(request);
        let Listing { items, total } = self.forge(project).await?.issues(&query).await?;
        Ok(pb::ForgeIssueList { issues: items.into_iter().map(issue).collect(), total })
    }

    async fn forge_jobs(&self, request: pb::ForgeListJobsRequest) -> Result<pb::ForgeJobList, Error> {
        if request.pipeline_id == 0 {
            return Err(Error::invalid("pipeline_id", "is required"));
        }
        let query = JobQuery {
            pipeline: request.pipeline_id,
            include_retried: request.include_retried,
            scope: request.scope,
            limit: request.limit,
            offset: request.offset,
        };
        let Listing { items, total } = self.forge(request.project).await?.jobs(&query).await?;
        Ok(pb::ForgeJobList { jobs: items.into_iter().map(job).collect(), total })
    }

    async fn forge_job_log(&self, request: pb::ForgeJobLogRequest) -> Result<pb::ForgeJobLog, Error> {
        if request.job_id == 0 {
            return Err(Error::invalid("job_id", "is required"));
        }
        let query =
            LogQuery { job: request.job_id, tail_lines: request.tail_lines, max_bytes: request.max_bytes };
        let log = self.forge(request.project).await?.job_log(&query).await?;
        Ok(pb::ForgeJobLog { log: log.text, truncated: log.truncated, total_bytes: log.total_bytes })
    }

    /// Pushes a tree's branch and opens its merge request. The server is known before anything is pushed.
    async fn forge_open(&self, request: pb::ForgeOpenRequest) -> Result<pb::ForgeOpenResponse, Error> {
        let tree = tree_name(request.tree)?;
        let project = request.project.unwrap_or_default();
        let remote = self.supervisor.worktrees().remote_address_of(&tree).await?;
        let kind = forge_kind(&project.forge)?;
        let forge = self.about.forges.open(kind, &project.project, remote.as_deref()).await?;
        let credential = self.about.forges.git_credential(kind, &project.project, remote.as_deref()).await?;
        let credential = credential.map(|credential| PushCredential {
            server: credential.server,
            username: credential.username.to_owned(),
            password: credential.password,
            ca_file: credential.ca_file,
        });
        let push =
            PushRequest { tree, into: request.into, commit_message: request.commit_message, credential };
        let pushed = self.supervisor.worktrees().push(push).await?;
        let new = NewMergeRequest {
            source_branch: pushed.branch,
            target_branch: pushed.into,
            title: if request.title.is_empty() { pushed.subject } else { request.title },
            description: request.description,
            draft: request.draft,
        };
        let opened = forge.open_merge_request(&new).await?;
        Ok(pb::ForgeOpenResponse {
            merge_request: Some(merge_request(opened.merge_request)),
            existed: opened.existed,
        })
    }
}

fn forge_kind(name: &str) -> Result<Option<ForgeKind>, Error> {
    if name.is_empty() {
        return Ok(None);
    }
    let kind = ForgeKind::parse(name);
    kind.map(Some).ok_or_else(|| {
        Error::invalid(
            "forge",
            format_args!("{name:?} is not known; use gitlab or github, or leave it empty"),
        )
    })
}

fn list_query(request: pb::ForgeListRequest) -> (Option<pb::ForgeProject>, ListQuery) {
    let query = ListQuery { state: request.state, limit: request.limit, offset: request.offset };
    (request.project, query)
}

fn time(at: Option<Timestamp>) -> Option<prost_types::Timestamp> {
    at.map(to_wire::timestamp)
}

fn merge_request(found: ::forge::MergeRequest) -> pb::ForgeMergeRequest {
    pb::ForgeMergeRequest {
        id: found.id,
        iid: found.iid,
        title: found.title,
        description: found.description,
        state: found.state,
        source_branch: found.source_branch,
        target_branch: found.target_branch,
        author: found.author,
        labels: found.labels,
        created_at: time(found.created_at),
        updated_at: time(found.updated_at),
        web_url: found.web_url,
        draft: found.draft,
        merge_status: found.merge_status,
        assignees: found.assignees,
        reviewers: found.reviewers,
        milestone: found.milestone,
    }
}

fn pipeline(found: ::forge::Pipeline) -> pb::ForgePipeline {
    pb::ForgePipeline {
        id: found.id,
        status: found.status,
        ref_name: found.ref_name,
        sha: found.sha,
        source: found.source,
        created_at: time(found.created_at),
        updated_at: time(found.updated_at),
        web_url: found.web_url,
    }
}

fn job(found: ::forge::Job) -> pb::ForgeJob {
    pb::ForgeJob {
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

fn issue(found: ::forge::Issue) -> pb::ForgeIssue {
    pb::ForgeIssue {
        id: found.id,
        iid: found.iid,
        title: found.title,
        description: found.description,
        state: found.state,
        author: found.author,
        labels: found.labels,
        created_at: time(found.created_at),
        updated_at: time(found.updated_at),
        web_url: found.web_url,
        confidential: found.confidential,
        assignees: found.assignees,
        milestone: found.milestone,
    }
}

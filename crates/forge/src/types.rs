//! What a forge tells: merge requests, pipelines, jobs, issues. The words are those of GitLab; GitHub's pull requests,
//! runs and jobs are told in them. Knows no server.

use domain::Timestamp;

/// The kinds of servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForgeKind {
    GitLab,
    GitHub,
}

impl ForgeKind {
    /// The name as people write it.
    pub fn title(self) -> &'static str {
        match self {
            Self::GitLab => "GitLab",
            Self::GitHub => "GitHub",
        }
    }

    /// The name in requests, commands and the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::GitLab => "gitlab",
            Self::GitHub => "github",
        }
    }

    /// Parses the name of a request.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::GitLab, Self::GitHub].into_iter().find(|kind| kind.name() == name)
    }
}

/// Which rows of a list are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListQuery {
    /// The state or status; empty: all.
    pub state: String,
    /// 0: the default.
    pub limit: u32,
    pub offset: u32,
}

/// Which jobs of a pipeline are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobQuery {
    pub pipeline: u64,
    pub include_retried: bool,
    /// Only jobs with these statuses; empty: all.
    pub scope: Vec<String>,
    pub limit: u32,
    pub offset: u32,
}

/// Which part of a job's log is wanted: its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogQuery {
    pub job: u64,
    /// 0: as many as there are.
    pub tail_lines: u32,
    /// 0: the default.
    pub max_bytes: u32,
}

/// Some rows of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing<T> {
    pub items: Vec<T>,
    /// How many there are. If the server does not say: as many as are known, and one more if there are more.
    pub total: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MergeRequest {
    pub id: u64,
    /// Its number in the project.
    pub iid: u64,
    pub title: String,
    pub description: String,
    /// `opened`, `closed`, `merged` or `locked`.
    pub state: String,
    pub source_branch: String,
    pub target_branch: String,
    pub author: String,
    pub labels: Vec<String>,
    pub created_at: Option<Timestamp>,
    pub updated_at: Option<Timestamp>,
    pub web_url: String,
    pub draft: bool,
    /// `can_be_merged`, `cannot_be_merged`, `checking`, `unchecked`, or empty.
    pub merge_status: String,
    pub assignees: Vec<String>,
    pub reviewers: Vec<String>,
    pub milestone: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pipeline {
    pub id: u64,
    /// In GitLab's words, such as `running`, `success` or `failed`.
    pub status: String,
    pub ref_name: String,
    pub sha: String,
    pub source: String,
    pub created_at: Option<Timestamp>,
    pub updated_at: Option<Timestamp>,
    pub web_url: String,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Job {
    pub id: u64,
    pub name: String,
    pub stage: String,
    pub status: String,
    pub allow_failure: bool,
    pub failure_reason: String,
    pub duration_secs: f64,
    pub queued_secs: f64,
    pub created_at: Option<Timestamp>,
    pub started_at: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
    pub web_url: String,
    pub ref_name: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Issue {
    pub id: u64,
    /// Its number in the project.
    pub iid: u64,
    pub title: String,
    pub description: String,
    /// `opened` or `closed`.
    pub state: String,
    pub author: String,
    pub labels: Vec<String>,
    pub created_at: Option<Timestamp>,
    pub updated_at: Option<Timestamp>,
    pub web_url: String,
    pub confidential: bool,
    pub assignees: Vec<String>,
    pub milestone: String,
}

/// The end of a job's log as plain text, without secrets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobLog {
    pub text: String,
    /// There is more in front of it.
    pub truncated: bool,
    /// The size of the whole log as the server sent it.
    pub total_bytes: u64,
}

/// A merge request to open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewMergeRequest {
    pub source_branch: String,
    pub target_branch: String,
    pub title: String,
    pub description: String,
    pub draft: bool,
}

/// A merge request that was opened, or the one there was already for these branches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenedMergeRequest {
    pub merge_request: MergeRequest,
    pub existed: bool,
}

//! Servers that host repositories, behind one port: merge requests, pipelines, jobs and their logs, issues. Owns the
//! requests to GitLab and GitHub, which server is meant, and its token. Must not know sessions, the store or a surface.

mod git_credential;
mod github;
mod gitlab;
mod http;
mod instance;
mod json;
pub mod limits;
mod log;
mod pages;
mod project;
mod project_token;
mod rate;
mod types;

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use domain::{Error, ErrorCode};
use reqwest::Client;
use scrub::Scrubber;
use tokio::sync::Semaphore;

pub use git_credential::GitCredential;
use github::GitHub;
use gitlab::GitLab;
use http::Api;
pub use instance::InstanceConfig;
use instance::{Instance, Instances, Located};
pub use project_token::ProjectTokenConfig;
pub use types::{
    ForgeKind, Issue, Job, JobLog, JobQuery, ListQuery, Listing, LogQuery, MergeRequest, NewMergeRequest,
    OpenedMergeRequest, Pipeline,
};

/// What a call of a forge returns.
pub type ForgeFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// One project on a server.
pub trait Forge: Send + Sync {
    fn merge_requests<'a>(&'a self, query: &'a ListQuery) -> ForgeFuture<'a, Listing<MergeRequest>>;
    fn merge_request(&self, iid: u64) -> ForgeFuture<'_, MergeRequest>;
    fn pipelines<'a>(&'a self, query: &'a ListQuery) -> ForgeFuture<'a, Listing<Pipeline>>;
    fn pipeline(&self, id: u64) -> ForgeFuture<'_, Pipeline>;
    fn jobs<'a>(&'a self, query: &'a JobQuery) -> ForgeFuture<'a, Listing<Job>>;
    fn job(&self, id: u64) -> ForgeFuture<'_, Job>;
    fn job_log<'a>(&'a self, query: &'a LogQuery) -> ForgeFuture<'a, JobLog>;
    fn issues<'a>(&'a self, query: &'a ListQuery) -> ForgeFuture<'a, Listing<Issue>>;
    fn issue(&self, iid: u64) -> ForgeFuture<'_, Issue>;
    /// Opens a merge request, or returns the open one of these branches. The only call that changes something.
    fn open_merge_request<'a>(&'a self, new: &'a NewMergeRequest) -> ForgeFuture<'a, OpenedMergeRequest>;
}

/// The servers this daemon knows.
#[derive(Clone)]
pub struct Forges(Arc<Inner>);

struct Inner {
    instances: Instances,
    scrubber: Scrubber,
    calls: Arc<Semaphore>,
    /// One client for each server: it keeps connections, and loading the machine's certificates takes a while.
    clients: Mutex<HashMap<String, Client>>,
}

/// Checks the addresses of servers, and which projects have tokens of their own.
pub fn check(
    configured: Vec<(ForgeKind, InstanceConfig)>,
    tokens: Vec<ProjectTokenConfig>,
) -> Result<(), Error> {
    Instances::new(configured, tokens).map(drop)
}

impl Forges {
    /// Checks the addresses of the servers; the first of a kind is its default. Tokens are read when they are needed.
    pub fn new(
        configured: Vec<(ForgeKind, InstanceConfig)>,
        tokens: Vec<ProjectTokenConfig>,
        scrubber: Scrubber,
    ) -> Result<Self, Error> {
        Ok(Self(Arc::new(Inner {
            instances: Instances::new(configured, tokens)?,
            scrubber,
            calls: Arc::new(Semaphore::new(limits::CALLS_MAX)),
            clients: Mutex::default(),
        })))
    }

    /// Whether the remote of the caller's folder says which project is meant.
    pub fn needs_remote(project: &str) -> bool {
        project.trim().is_empty()
    }

    /// Finds a project: by what the caller names, or by the address of a remote if it names nothing.
    pub async fn open(
        &self,
        kind: Option<ForgeKind>,
        project: &str,
        remote: Option<&str>,
    ) -> Result<Box<dyn Forge>, Error> {
        let located = self.0.instances.locate(kind, &project::named(project)?, remote)?;
        let has_token = !matches!(located.instance.token, instance::TokenSource::File(_));
        if has_token && self.known_client(&located.instance).is_some() {
            return self.open_here(located);
        }
        let forges = self.clone();
        // It reads a token or certificates from files.
        let opened = tokio::task::spawn_blocking(move || forges.open_here(located));
        opened.await.unwrap_or_else(|error| {
            let failed = Error::new(ErrorCode::ForgeUnavailable, "an internal error");
            Err(failed.with_detail(error.to_string()))
        })
    }

    fn open_here(&self, located: Located) -> Result<Box<dyn Forge>, Error> {
        let client = self.client(&located.instance)?;
        let calls = Arc::clone(&self.0.calls);
        let api = Api::new(Arc::clone(&located.instance), client, &self.0.scrubber, calls)?;
        let project = located.project;
        Ok(match located.instance.kind {
            ForgeKind::GitLab => Box::new(GitLab { api, project }),
            ForgeKind::GitHub => {
                let (owner, name) = project.split_once('/').unwrap_or_default();
                Box::new(GitHub { owner: owner.to_owned(), name: name.to_owned(), api })
            }
        })
    }

    /// Returns the client of a server. Only those of configured servers are kept: addresses that callers name are many.
    fn client(&self, instance: &Instance) -> Result<Client, Error> {
        if let Some(client) = self.known_client(instance) {
            return Ok(client);
        }
        let client = http::client(instance)?;
        if self.0.instances.contains(instance) {
            self.clients().insert(client_key(instance), client.clone());
        }
        Ok(client)
    }

    fn known_client(&self, instance: &Instance) -> Option<Client> {
        self.clients().get(&client_key(instance)).cloned()
    }

    fn clients(&self) -> std::sync::MutexGuard<'_, HashMap<String, Client>> {
        self.0.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn client_key(instance: &Instance) -> String {
    format!("{} {}", instance.kind.name(), instance.base)
}

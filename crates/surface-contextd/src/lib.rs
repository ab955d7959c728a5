//! The surface of `contextd.v1`: the workbench over gRPC and REST. Both protocols, and tools, use one table
//! of operations (`operations`) and one code path to execute them (`call`).

mod audit;
mod call;
mod catalog;
mod checkpoints;
mod consent;
mod document;
mod examples;
mod fields;
pub mod limits;
mod memories;
pub mod operations;
mod policies;
pub mod reading;
mod remediations;
mod rest;
mod sessions;
mod tools;

#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use domain::Error;
use runtime::Supervisor;
use tonic::service::Routes;
use wire::contextd::v1::agent_service_server::AgentServiceServer;
use wire::contextd::v1::checkpoint_service_server::CheckpointServiceServer;
use wire::contextd::v1::memory_service_server::MemoryServiceServer;
use wire::contextd::v1::policy_service_server::PolicyServiceServer;
use wire::contextd::v1::ref_service_server::RefServiceServer;
use wire::contextd::v1::remediation_service_server::RemediationServiceServer;
use wire::contextd::v1::safe_exec_service_server::SafeExecServiceServer;
use wire::contextd::v1::session_service_server::SessionServiceServer;
use wire::contextd::v1::skill_service_server::SkillServiceServer;
use wire::obey::v1::audit_service_server::AuditServiceServer;
use workbench::{ProjectRules, Workbench};

pub use checkpoints::{bundle_of, conversation, conversation_end};
pub use document::{open_api, schema_json, tool_md, tool_schema, tools};

/// What the surface needs to know about the daemon.
pub struct ContextdConfig {
    /// The project of sessions that are created on first use and name none; `None`: they must name one.
    pub default_project: Option<PathBuf>,
    /// Whether the scrubbing rules of projects are used.
    pub project_rules: ProjectRules,
    /// Where the files of checkpoints are that the daemon makes by itself.
    pub checkpoints_folder: PathBuf,
}

/// A future of the workbench.
pub type WorkbenchFuture<'a> = Pin<Box<dyn Future<Output = Result<Arc<Workbench>, Error>> + Send + 'a>>;

/// Opens the workbench on first use: its rules take memory that a daemon without callers does not need.
pub trait OpenWorkbench: Send + Sync {
    /// Returns the workbench, always the same one.
    fn workbench(&self) -> WorkbenchFuture<'_>;
}

/// The services of this surface.
#[derive(Clone)]
pub struct Contextd {
    opening: Arc<dyn OpenWorkbench>,
    supervisor: Supervisor,
    about: Arc<ContextdConfig>,
    version: Arc<str>,
}

/// The workbench together with what its operations need.
struct ContextdHandler {
    workbench: Arc<Workbench>,
    supervisor: Supervisor,
    about: Arc<ContextdConfig>,
}

impl Contextd {
    pub fn new(
        opening: Arc<dyn OpenWorkbench>,
        supervisor: Supervisor,
        about: ContextdConfig,
        version: &str,
    ) -> Self {
        Self { opening, supervisor, about: Arc::new(about), version: version.into() }
    }

    async fn handler(&self) -> Result<ContextdHandler, Error> {
        let workbench = self.opening.workbench().await?;
        Ok(ContextdHandler { workbench, supervisor: self.supervisor.clone(), about: Arc::clone(&self.about) })
    }
}

/// Adds the services of this surface to a router: gRPC and REST.
pub fn routes(routes: Routes, contextd: Contextd) -> Routes {
    let most = surface::limits::MESSAGE_MAX_BYTES;
    let it = contextd;
    let routes = routes
        .add_service(SafeExecServiceServer::new(it.clone()).max_decoding_message_size(most))
        .add_service(SessionServiceServer::new(it.clone()))
        .add_service(RefServiceServer::new(it.clone()).max_encoding_message_size(most))
        .add_service(MemoryServiceServer::new(it.clone()))
        .add_service(CheckpointServiceServer::new(it.clone()))
        .add_service(PolicyServiceServer::new(it.clone()))
        .add_service(SkillServiceServer::new(it.clone()))
        .add_service(AgentServiceServer::new(it.clone()))
        .add_service(RemediationServiceServer::new(it.clone()))
        .add_service(AuditServiceServer::new(it.clone()));
    // REST and gRPC share the port; their paths never overlap.
    Routes::from(routes.into_axum_router().merge(rest::router(it)))
}

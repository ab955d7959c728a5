//! The MCP server's connection to the daemon. Waits while the daemon is being replaced, so that the agent
//! does not notice.

use std::sync::Arc;

use tokio::sync::watch;
use tokio_stream::StreamExt as _;
use tonic::{Code, Status};
use wire::obey::v1 as pb;

use crate::limits;
use client::connection::Client;
use config::failure::Result;

/// The current tools.
pub(super) type Tools = watch::Receiver<Arc<pb::ToolList>>;

/// Whose tools are served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ToolScope {
    /// Those of an agent's session.
    Session(String),
    /// Those of a folder, for a client that the user started.
    Project(String),
}

impl ToolScope {
    /// Returns the session and the project, of which one is empty.
    fn parts(&self) -> (String, String) {
        match self {
            Self::Session(session) => (session.clone(), String::new()),
            Self::Project(folder) => (String::new(), folder.clone()),
        }
    }
}

/// The daemon, for one session or project.
#[derive(Clone)]
pub(super) struct Daemon {
    client: Client,
    place: ToolScope,
}

impl Daemon {
    pub(super) fn new(client: Client, place: ToolScope) -> Self {
        Self { client, place }
    }

    /// Returns the tools of the session, kept up to date in the background. Fails if the session cannot be
    /// used.
    pub(super) async fn watch(&self) -> Result<Tools> {
        let mut stream = self.stream().await?;
        let first = stream.next().await.transpose()?.unwrap_or_default();
        let (sender, tools) = watch::channel(Arc::new(first));
        let daemon = self.clone();
        tokio::spawn(async move {
            loop {
                while let Some(Ok(list)) = stream.next().await {
                    if sender.send(Arc::new(list)).is_err() {
                        return;
                    }
                }
                // The session has ended, or the daemon is being replaced.
                let mut tried = 0_u32;
                stream = loop {
                    tokio::time::sleep(wait_after(tried)).await;
                    match daemon.stream().await {
                        Ok(stream) => break stream,
                        Err(status) if passes(&status) => tried = tried.saturating_add(1),
                        Err(_) => return,
                    }
                };
            }
        });
        Ok(tools)
    }

    async fn stream(&self) -> std::result::Result<tonic::Streaming<pb::ToolList>, Status> {
        let (session_id, project) = self.place.parts();
        let request = pb::WatchToolsRequest { session_id, project };
        Ok(self.client.bridge().watch_tools(request).await?.into_inner())
    }

    /// Reports that the agent has read its tools, or was notified of a change. Errors are ignored, because
    /// only a waiting prompt needs this.
    pub(super) async fn note_read(&self, revision: u64, told: bool) {
        let ToolScope::Session(session) = &self.place else { return };
        let request = pb::NoteToolsReadRequest { session_id: session.clone(), revision, told };
        let _ = self.client.bridge().note_tools_read(request).await;
    }

    /// Executes a tool. The same id means the same call, so a retry is safe.
    pub(super) async fn call(
        &self,
        mut request: pb::CallToolRequest,
    ) -> std::result::Result<pb::CallToolResponse, Status> {
        (request.session_id, request.project) = self.place.parts();
        let mut left = limits::MCP_RETRIES_MAX;
        loop {
            match self.client.bridge().call_tool(request.clone()).await {
                Ok(answer) => return Ok(answer.into_inner()),
                Err(status) if passes(&status) && left > 0 => {
                    left -= 1;
                    tokio::time::sleep(limits::MCP_RETRY_WAIT).await;
                }
                Err(status) => return Err(status),
            }
        }
    }
}

/// The wait before the next attempt: a daemon being replaced is soon back, one that has ended may never be.
fn wait_after(tried: u32) -> std::time::Duration {
    if tried < limits::MCP_QUICK_RETRIES { limits::MCP_RETRY_WAIT } else { limits::MCP_GONE_WAIT }
}

/// Whether an error means that the daemon is temporarily unavailable.
fn passes(status: &Status) -> bool {
    matches!(status.code(), Code::Unavailable | Code::Cancelled | Code::Unknown)
}

//! The daemon's side of the bridge: serves the requests of an agent's MCP server (`obey mcp`). Tools come
//! from toolboxes, which list their tools for a session and execute calls. An agent reaches only its own
//! session. The user's own clients reach a project, over the same service or over MCP's HTTP transport
//! (`http`).

mod client_tools;
mod http;
pub mod limits;
mod team;
mod workers;

use std::path::Path;
use std::sync::Arc;

use domain::{CallId, Error, ErrorCode, EventKind, SessionId, tools};
use runtime::{Snapshot, Supervisor};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::service::Routes;
use tonic::{Request, Response, Status};
use wire::obey::v1 as pb;
use wire::obey::v1::bridge_service_server::{BridgeService, BridgeServiceServer};

pub use asking::Call;
pub use client_tools::ClientTools;
use surface::peer::Caller;
use surface::pump::Messages;
use surface::{access, asking, status};
pub use team::TeamTools;
pub use workers::WorkerTools;

/// A tool as an agent sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct BridgeTool {
    pub name: String,
    pub description: String,
    /// The JSON Schema of an object.
    pub input_schema: Value,
    /// The tool changes nothing.
    pub read_only: bool,
}

/// The result of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BridgeOutput {
    pub ok: bool,
    pub text: String,
}

impl BridgeOutput {
    pub fn failed(text: impl Into<String>) -> Self {
        Self { ok: false, text: text.into() }
    }
}

/// A set of tools that the daemon offers to agents. An error becomes a failed call.
#[tonic::async_trait]
pub trait BridgeToolbox: Send + Sync {
    /// Returns its current tools for a session.
    fn tools(&self, session: &Snapshot) -> Vec<BridgeTool>;

    /// Executes one of its tools. Dropped when the agent stops waiting.
    async fn call(&self, call: Call) -> Result<BridgeOutput, Error>;
}

/// The tools for the user's own clients, which work in a project and are not our agents.
#[tonic::async_trait]
pub trait ProjectTools: Send + Sync {
    /// Returns the tools, the same in every project.
    fn tools(&self) -> Vec<BridgeTool>;

    /// Starts to work in a project; `None`: the default one. Returns the instructions for the client.
    async fn begin(&self, project: Option<&Path>) -> Result<String, Error>;

    /// Executes one of the tools. Dropped when the client stops waiting.
    async fn call(&self, project: Option<&Path>, tool: &str, arguments: Value)
    -> Result<BridgeOutput, Error>;
}

/// For processes that serve only the agents of their sessions.
pub struct NoProjects;

#[tonic::async_trait]
impl ProjectTools for NoProjects {
    fn tools(&self) -> Vec<BridgeTool> {
        Vec::new()
    }

    async fn begin(&self, _project: Option<&Path>) -> Result<String, Error> {
        Err(Error::invalid("project", "only sessions are served here; ask the daemon"))
    }

    async fn call(
        &self,
        project: Option<&Path>,
        _tool: &str,
        _arguments: Value,
    ) -> Result<BridgeOutput, Error> {
        self.begin(project).await.map(|_| BridgeOutput::failed(""))
    }
}

/// The service behind `obey mcp`.
#[derive(Clone)]
struct BridgeServer {
    supervisor: Supervisor,
    /// Of two tools with one name the first one wins.
    toolboxes: Arc<Vec<Box<dyn BridgeToolbox>>>,
    projects: Arc<dyn ProjectTools>,
}

/// Returns the toolboxes every daemon has; additional ones come after them.
pub fn toolboxes(supervisor: &Supervisor) -> Vec<Box<dyn BridgeToolbox>> {
    vec![
        Box::new(ClientTools::new(supervisor.clone())),
        Box::new(TeamTools::new(supervisor.clone())),
        Box::new(WorkerTools::new(supervisor.clone())),
    ]
}

/// Adds the bridge to a router: its service, and MCP at `/mcp`.
pub fn routes(
    routes: Routes,
    supervisor: Supervisor,
    toolboxes: Vec<Box<dyn BridgeToolbox>>,
    projects: Arc<dyn ProjectTools>,
) -> Routes {
    let bridge = BridgeServer { supervisor, toolboxes: Arc::new(toolboxes), projects };
    let most = surface::limits::MESSAGE_MAX_BYTES;
    let routes = routes.add_service(BridgeServiceServer::new(bridge.clone()).max_decoding_message_size(most));
    Routes::from(routes.into_axum_router().merge(http::router(bridge)))
}

/// Returns the session a request names.
fn named_session(session_id: &str) -> Result<SessionId, Status> {
    if session_id.is_empty() {
        return Err(status::grpc(&Error::invalid("session_id", "is required")));
    }
    Ok(SessionId::new(session_id))
}

#[tonic::async_trait]
impl BridgeService for BridgeServer {
    type WatchToolsStream = Messages<pb::ToolList>;

    async fn watch_tools(
        &self,
        request: Request<pb::WatchToolsRequest>,
    ) -> Result<Response<Self::WatchToolsStream>, Status> {
        let (sender, receiver) = mpsc::channel(surface::limits::STREAM_READY_MAX);
        let asked = request.get_ref();
        if asked.session_id.is_empty() && !asked.project.is_empty() {
            let list = self.project_list(Path::new(&asked.project)).await;
            tokio::spawn(async move {
                if sender.send(Ok(list)).await.is_ok() {
                    // The tools of a project do not change while this daemon runs.
                    sender.closed().await;
                }
            });
            return Ok(Response::new(Box::pin(ReceiverStream::new(receiver))));
        }
        let session = named_session(&asked.session_id)?;
        // The sequence number is read before the tools, so that a change between the two is still seen.
        let after =
            self.supervisor.events_after(&session, 0).await.map_err(|error| status::grpc(&error))?.newest();
        let bridge = self.clone();
        tokio::spawn(async move {
            if let Err(error) = bridge.follow_tools(&session, after, &sender).await {
                // A client that has left does not need the reason.
                let _ = sender.send(Err(status::grpc(&error))).await;
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }

    async fn note_tools_read(
        &self,
        request: Request<pb::NoteToolsReadRequest>,
    ) -> Result<Response<pb::NoteToolsReadResponse>, Status> {
        let session = named_session(&request.get_ref().session_id)?;
        self.supervisor.snapshot(&session).await.map_err(|error| status::grpc(&error))?;
        let (bridges, request) = (self.supervisor.bridges(), request.get_ref());
        if request.told {
            bridges.note_told(&session, request.revision);
        } else {
            bridges.note_read(&session, request.revision);
        }
        Ok(Response::new(pb::NoteToolsReadResponse {}))
    }

    async fn call_tool(
        &self,
        request: Request<pb::CallToolRequest>,
    ) -> Result<Response<pb::CallToolResponse>, Status> {
        let asked = request.get_ref();
        let done = if asked.session_id.is_empty() && !asked.project.is_empty() {
            self.run_in(Some(Path::new(&asked.project)), &asked.tool, &asked.arguments_json).await
        } else {
            let session = named_session(&asked.session_id)?;
            self.run(session, request.into_inner()).await
        };
        let BridgeOutput { ok, text: output } = done.map_err(|error| status::grpc(&error))?;
        Ok(Response::new(pb::CallToolResponse { ok, output }))
    }
}

impl BridgeServer {
    /// Sends the tools of a session, and again after every change.
    async fn follow_tools(
        &self,
        session: &SessionId,
        after: u64,
        sender: &mpsc::Sender<Result<pb::ToolList, Status>>,
    ) -> Result<(), Error> {
        let mut cursor = self.supervisor.events_after(session, after).await?;
        loop {
            let snapshot = self.supervisor.snapshot(session).await?;
            let ended = snapshot.state.status.is_terminal();
            if ended {
                self.supervisor.bridges().forget(session);
            }
            if sender.send(Ok(self.list(&snapshot))).await.is_err() || ended {
                return Ok(());
            }
            let mut changed = false;
            while !changed {
                let events = tokio::select! {
                    events = cursor.next_kept() => events?,
                    () = sender.closed() => return Ok(()),
                };
                changed = events.iter().any(|event| {
                    matches!(event.kind, EventKind::ToolsRegistered { .. }) || event.kind.ends_session()
                });
            }
        }
    }

    /// Lists the tools of all toolboxes; of equal names the first one counts.
    fn list(&self, snapshot: &Snapshot) -> pb::ToolList {
        let mut tools: Vec<pb::BridgeTool> = Vec::new();
        for tool in self.toolboxes.iter().flat_map(|toolbox| toolbox.tools(snapshot)) {
            if !tools.iter().any(|known| known.name == tool.name) {
                tools.push(written(tool));
            }
        }
        pb::ToolList { revision: snapshot.state.tools_revision, tools, instructions: String::new() }
    }

    /// Returns the tools and instructions for a user's client. An unusable project is reported by the first
    /// call.
    async fn project_list(&self, project: &Path) -> pb::ToolList {
        let instructions = self.projects.begin(Some(project)).await.unwrap_or_default();
        pb::ToolList { revision: 0, tools: self.projects_tools(), instructions }
    }

    fn projects_tools(&self) -> Vec<pb::BridgeTool> {
        self.projects.tools().into_iter().map(written).collect()
    }

    /// Executes a tool for a user's client.
    async fn run_in(&self, project: Option<&Path>, tool: &str, text: &str) -> Result<BridgeOutput, Error> {
        error_as_output(self.projects.call(project, tool, arguments(text)?).await)
    }

    /// Executes a tool for an agent.
    async fn run(&self, session: SessionId, request: pb::CallToolRequest) -> Result<BridgeOutput, Error> {
        if request.id.is_empty() {
            return Err(Error::invalid("id", "is required"));
        }
        let arguments = arguments(&request.arguments_json)?;
        let snapshot = self.supervisor.snapshot(&session).await?;
        let offers = |toolbox: &dyn BridgeToolbox| {
            toolbox.tools(&snapshot).iter().any(|tool| tool.name == request.tool)
        };
        let Some(toolbox) = self.toolboxes.iter().find(|toolbox| offers(toolbox.as_ref())) else {
            return Ok(BridgeOutput::failed(format!("there is no tool {:?}", request.tool)));
        };
        if tools::find(&snapshot.state.tools, &request.tool).is_none() {
            let row = access::tool(&request.tool);
            access::check(row, &Caller::Agent(session.clone()), session.as_str())?;
        }
        let call = match request.agent_call_id.as_str() {
            "" => asking::agents_call(&self.supervisor, &session, &request.tool)
                .await?
                .unwrap_or_else(|| CallId::new(request.id.as_str())),
            id => CallId::new(id),
        };
        let call =
            Call { session: Arc::clone(&snapshot), tool: request.tool, arguments, id: request.id, call };
        error_as_output(toolbox.call(call).await)
    }
}

/// Turns an error of the call into a failed output, so that the agent sees it. Storage errors stay errors of
/// the bridge.
fn error_as_output(done: Result<BridgeOutput, Error>) -> Result<BridgeOutput, Error> {
    match done {
        Err(error) if error.code != ErrorCode::StorageFailed => Ok(BridgeOutput::failed(error.to_string())),
        done => done,
    }
}

fn written(tool: BridgeTool) -> pb::BridgeTool {
    pb::BridgeTool {
        name: tool.name,
        description: tool.description,
        input_schema_json: tool.input_schema.to_string(),
        read_only: tool.read_only,
    }
}

/// Parses the arguments of a call; an empty text is an empty object.
fn arguments(text: &str) -> Result<Value, Error> {
    if text.is_empty() {
        return Ok(Value::Object(serde_json::Map::new()));
    }
    let object = access::json::object(text.as_bytes());
    object
        .map(Value::Object)
        .map_err(|error| Error::invalid("arguments_json", format_args!("cannot be read: {error}")))
}

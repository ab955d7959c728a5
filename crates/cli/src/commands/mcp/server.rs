//! The protocol side of `obey mcp`: lists the daemon's tools and forwards calls.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation, ListToolsResult,
    PaginatedRequestParams, PingRequest, ProtocolVersion, ServerCapabilities, ServerConfig, ServerRequest,
    Tool, ToolAnnotations,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, Peer, RoleServer, ServerHandler};
use serde_json::{Map, Value};
use wire::obey::v1 as pb;

use super::daemon::{Daemon, Tools};
use crate::limits;

/// Metadata keys under which agents send their own id of a call.
const CALL_KEYS: [&str; 3] = ["claudecode/toolUseId", "callId", "toolCallId"];

pub(super) struct Server {
    daemon: Daemon,
    tools: Tools,
    /// Identifies calls, together with the process id.
    calls: AtomicU64,
}

impl Server {
    pub(super) fn new(daemon: Daemon, tools: Tools) -> Self {
        Self { daemon, tools, calls: AtomicU64::new(1) }
    }
}

impl ServerHandler for Server {
    /// The newest revision whose clients answer pings. Those of the next one drop them, so nothing would tell when an
    /// agent has taken in a changed list; they speak this one too.
    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(ProtocolVersion::known_up_to(&ProtocolVersion::V_2025_11_25))
    }

    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_tool_list_changed().build();
        let config = ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("obey", env!("CARGO_PKG_VERSION")));
        match self.tools.borrow().instructions.as_str() {
            "" => config,
            text => config.with_instructions(text),
        }
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let list = Arc::clone(&self.tools.borrow());
        let daemon = self.daemon.clone();
        let revision = list.revision;
        tokio::spawn(async move {
            taken_in(&context.peer).await;
            daemon.note_read(revision, false).await;
        });
        Ok(ListToolsResult::with_all_items(list.tools.iter().map(tool).collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let meta = Value::Object(context.meta.0.0.clone());
        let agent_call_id = CALL_KEYS.iter().find_map(|key| meta.get(key)?.as_str()).unwrap_or_default();
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        let arguments = request.arguments.map(Value::Object).unwrap_or_default();
        let call = pb::CallToolRequest {
            tool: request.name.into_owned(),
            arguments_json: if arguments.is_null() { String::new() } else { arguments.to_string() },
            id: format!("{}.{number}", std::process::id()),
            agent_call_id: agent_call_id.to_owned(),
            ..pb::CallToolRequest::default()
        };
        let answer = tokio::select! {
            answer = self.daemon.call(call) => answer,
            // The agent no longer waits; dropping the call notifies the daemon.
            () = context.ct.cancelled() => return Err(ErrorData::internal_error("cancelled", None)),
        };
        Ok(match answer {
            Ok(answer) if answer.ok => CallToolResult::success(vec![ContentBlock::text(answer.output)]),
            Ok(answer) => CallToolResult::error(vec![ContentBlock::text(answer.output)]),
            Err(status) => CallToolResult::error(vec![ContentBlock::text(status.message().to_owned())]),
        }
        .into())
    }
}

/// Waits until the agent has processed what is being sent to it, such as a list: a prompt that overtakes it
/// on the agent's other pipe would be answered with the old tools. The first ping may overtake it; the second
/// cannot, and the last is read only when the agent has processed everything before it. Agents that answer no
/// pings are not waited for.
async fn taken_in(agent: &Peer<RoleServer>) {
    for _ in 0..3 {
        let ping = agent.send_request(ServerRequest::PingRequest(PingRequest::default()));
        if !matches!(tokio::time::timeout(limits::MCP_PING_WAIT, ping).await, Ok(Ok(_))) {
            return;
        }
    }
}

/// Notifies the agent whenever its tools change from a revision.
pub(super) async fn tell_changes(agent: Peer<RoleServer>, daemon: Daemon, mut tools: Tools, mut told: u64) {
    loop {
        let revision = tools.borrow_and_update().revision;
        if std::mem::replace(&mut told, revision) != revision {
            if agent.notify_tool_list_changed().await.is_err() {
                return;
            }
            taken_in(&agent).await;
            daemon.note_read(revision, true).await;
        }
        if tools.changed().await.is_err() {
            return;
        }
    }
}

fn tool(offered: &pb::BridgeTool) -> Tool {
    let schema = serde_json::from_str::<Map<String, Value>>(&offered.input_schema_json).unwrap_or_default();
    let tool = Tool::new(offered.name.clone(), offered.description.clone(), Arc::new(schema));
    let mut annotations = ToolAnnotations::default();
    annotations.read_only_hint = Some(offered.read_only);
    tool.with_annotations(annotations)
}

//! One server: connected, asked for its tools, called, and restarted after it has died. Every wait is
//! bounded, and every failure becomes a message for the model.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use agent_port::toolbox::ToolOutput;
use agent_port::{HelperCommand, HelperProcess};
use reqwest::header::{HeaderName, HeaderValue};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ClientCapabilities, ClientConfig, Implementation,
    PaginatedRequestParams,
};
use rmcp::service::{NotificationContext, Peer, RoleClient, RunningService, ServiceError};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::streamable_http_client::{
    StreamableHttpClientTransport, StreamableHttpClientTransportConfig,
};
use serde_json::{Map, Value};
use tokio::sync::Mutex;

use super::{McpContext, output};
use crate::limits::{MCP_LINE_MAX_BYTES, MCP_RESTARTS_MAX, MESSAGE_MAX_CHARS, SERVER_TOOLS_MAX};
use provider_common::mcp_spec::{McpServerSpec, McpTransport, filled, values};
use provider_common::secrets::Secrets;
use provider_common::text::one_line;

/// A server of a session.
pub(super) struct McpServer {
    spec: McpServerSpec,
    ground: Arc<McpContext>,
    /// Values that were filled into its settings, which no error may contain.
    secrets: Secrets,
    line: Mutex<Option<McpConnection>>,
    /// How often it was started.
    starts: AtomicU32,
    /// It has announced changed tools.
    news: Arc<AtomicBool>,
}

/// A connection; dropping it ends the program behind it.
struct McpConnection {
    service: RunningService<RoleClient, NotificationListener>,
    held: Option<Box<dyn HelperProcess>>,
}

/// Handles a server's notifications.
struct NotificationListener {
    news: Arc<AtomicBool>,
}

impl rmcp::ClientHandler for NotificationListener {
    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.news.store(true, Ordering::Relaxed);
    }

    fn get_info(&self) -> ClientConfig {
        ClientConfig::new(
            ClientCapabilities::default(),
            Implementation::new("obey", env!("CARGO_PKG_VERSION")),
        )
    }
}

impl McpServer {
    pub(super) fn new(spec: McpServerSpec, ground: Arc<McpContext>) -> Self {
        let secrets = Secrets::new(values(&spec.reach, &ground.environment));
        Self {
            spec,
            ground,
            secrets,
            line: Mutex::default(),
            starts: AtomicU32::new(0),
            news: Arc::default(),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.spec.name
    }

    /// Returns its address, for people.
    pub(super) fn endpoint(&self) -> String {
        match &self.spec.reach {
            McpTransport::Program { command, .. } => command.clone(),
            McpTransport::Web { url, .. } => url.clone(),
        }
    }

    /// Returns whether it has announced changed tools, once.
    pub(super) fn take_news(&self) -> bool {
        self.news.swap(false, Ordering::Relaxed)
    }

    /// Restores the announcement.
    pub(super) fn put_news_back(&self) {
        self.news.store(true, Ordering::Relaxed);
    }

    /// Returns its tools.
    pub(super) async fn tools(&self) -> Result<Vec<rmcp::model::Tool>, String> {
        self.list().await.map_err(|error| self.told(&error))
    }

    /// Lists its tools page by page, within the start timeout.
    async fn list(&self) -> Result<Vec<rmcp::model::Tool>, String> {
        let wait = self.spec.start_wait;
        let listing = async {
            let peer = self.peer().await?;
            let (mut tools, mut cursor) = (Vec::new(), None);
            loop {
                let page = PaginatedRequestParams::default().with_cursor(cursor.take());
                let page = match peer.list_tools(Some(page)).await {
                    Ok(page) => page,
                    Err(error) => return Err(self.failed(&error).await),
                };
                tools.extend(page.tools);
                cursor = page.next_cursor;
                if cursor.is_none() || tools.len() > SERVER_TOOLS_MAX {
                    return Ok(tools);
                }
            }
        };
        let listed = tokio::time::timeout(wait, listing).await;
        listed.unwrap_or_else(|_| Err(format!("it was not ready within {} s", wait.as_secs())))
    }

    /// Calls one of its tools.
    pub(super) async fn call(
        &self,
        tool: String,
        arguments: Map<String, Value>,
    ) -> Result<ToolOutput, String> {
        self.ask(tool, arguments).await.map_err(|error| self.told(&error))
    }

    /// Returns an error in a form that may be shown: without secrets, and of limited length.
    fn told(&self, error: &str) -> String {
        one_line(&self.secrets.hide(error), MESSAGE_MAX_CHARS)
    }

    async fn ask(&self, tool: String, arguments: Map<String, Value>) -> Result<ToolOutput, String> {
        let peer = self.peer().await.map_err(|error| format!("the MCP server {}: {error}", self.name()))?;
        let wait = self.spec.call_wait;
        let asked = CallToolRequestParams::new(tool).with_arguments(arguments);
        match tokio::time::timeout(wait, peer.call_tool_once(asked)).await {
            Ok(Ok(CallToolResponse::Complete(result))) => Ok(output::done(result)),
            Ok(Ok(_)) => Err(format!("the MCP server {} wants more than this client gives", self.name())),
            Ok(Err(error)) => Err(format!("the MCP server {}: {}", self.name(), self.failed(&error).await)),
            Err(_) => {
                Err(format!("the MCP server {} did not answer within {} s", self.name(), wait.as_secs()))
            }
        }
    }

    /// Returns the connection to it. A server that has died is restarted, a few times.
    async fn peer(&self) -> Result<Peer<RoleClient>, String> {
        let mut line = self.line.lock().await;
        if let Some(McpConnection { service, .. }) = &*line
            && !service.peer().is_transport_closed()
        {
            return Ok(service.peer().clone());
        }
        // The rest of the previous one is removed before the next one is started.
        drop(line.take());
        if self.starts.fetch_add(1, Ordering::Relaxed) > MCP_RESTARTS_MAX {
            return Err(format!("it ended {MCP_RESTARTS_MAX} times and is not started again"));
        }
        let wait = self.spec.start_wait;
        let connected = tokio::time::timeout(wait, self.connect()).await;
        let fresh =
            connected.unwrap_or_else(|_| Err(format!("it was not ready within {} s", wait.as_secs())))?;
        let peer = fresh.service.peer().clone();
        *line = Some(fresh);
        Ok(peer)
    }

    /// Starts the program or opens the HTTP connection, and performs the handshake.
    async fn connect(&self) -> Result<McpConnection, String> {
        let ear = NotificationListener { news: Arc::clone(&self.news) };
        match &self.spec.reach {
            McpTransport::Program { .. } => {
                let program = self.program()?;
                let programs = self.ground.programs.as_ref().ok_or("no program can be started here")?;
                let (held, stream) = programs.start(program).await.map_err(|error| error.message)?;
                let (read, write) = tokio::io::split(stream);
                let transport = AsyncRwTransport::<RoleClient, _, _>::new(read, write)
                    .with_max_line_length(MCP_LINE_MAX_BYTES);
                match rmcp::serve_client(ear, transport).await {
                    Ok(service) => Ok(McpConnection { service, held: Some(held) }),
                    Err(error) => Err(with_last_words(&error.to_string(), Some(&*held))),
                }
            }
            McpTransport::Web { url, headers } => {
                let environment = &self.ground.environment;
                let mut config =
                    StreamableHttpClientTransportConfig::with_uri(filled(url, environment)?.as_str());
                for (name, value) in headers {
                    let value = filled(value, environment)?;
                    let header =
                        HeaderName::from_bytes(name.as_bytes()).map_err(|error| error.to_string())?;
                    let mut value = HeaderValue::from_str(&value).map_err(|error| error.to_string())?;
                    value.set_sensitive(true);
                    config.custom_headers.insert(header, value);
                }
                let transport =
                    StreamableHttpClientTransport::with_client(self.ground.client.clone(), config);
                match rmcp::serve_client(ear, transport).await {
                    Ok(service) => Ok(McpConnection { service, held: None }),
                    Err(error) => Err(error.to_string()),
                }
            }
        }
    }

    fn program(&self) -> Result<HelperCommand, String> {
        let McpTransport::Program { command, args, env } = &self.spec.reach else {
            return Err("it is no program".to_owned());
        };
        let given = &self.ground.environment;
        let mut environment: Vec<_> =
            given.iter().filter(|(name, _)| !env.keys().any(|key| name == key.as_str())).cloned().collect();
        for (name, value) in env {
            environment.push((name.into(), filled(value, given)?.into()));
        }
        let args =
            args.iter().map(|arg| filled(arg, given).map(Into::into)).collect::<Result<_, String>>()?;
        Ok(HelperCommand { command: filled(command, given)?.into(), args, environment })
    }

    /// Returns why a request failed.
    async fn failed(&self, error: &ServiceError) -> String {
        match error {
            ServiceError::McpError(error) => error.message.to_string(),
            ServiceError::TransportClosed | ServiceError::TransportSend(_) => {
                let line = self.line.lock().await;
                with_last_words("it ended", line.as_ref().and_then(|line| line.held.as_deref()))
            }
            other => other.to_string(),
        }
    }
}

/// Adds the last line a program printed.
fn with_last_words(what: &str, held: Option<&dyn HelperProcess>) -> String {
    let words = held.map(<dyn HelperProcess>::last_words).unwrap_or_default();
    let words = if words.is_empty() { String::new() } else { format!(" ({words})") };
    format!("{what}{words}")
}

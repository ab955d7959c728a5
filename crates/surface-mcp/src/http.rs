//! MCP over HTTP at `/mcp`, on every listener. Requests are independent and no state is kept between them, so
//! that the daemon can be replaced while clients stay connected. The caller decides what is reachable: an
//! agent reaches its own session, with all its permission requests; a user reaches the project that
//! `?project=` names.

use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::middleware::Next;
use axum::response::Response;
use domain::{Error, SessionId};
use http::request::Parts;
use http::{Method, Request};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, DiscoverResult, Implementation,
    InitializeRequestParams, InitializeResult, ListToolsResult, PaginatedRequestParams, ServerCapabilities,
    ServerConfig, Tool, ToolAnnotations,
};
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::{Map, Value};
use wire::obey::v1 as pb;

use super::{BridgeOutput, BridgeServer, limits};
use surface::peer::{self, Caller};
use surface::{access, query, status};

/// Returns the route.
pub(super) fn router(bridge: BridgeServer) -> Router {
    // Every listener already checks hosts and origins against its real addresses.
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_max_request_body_bytes(surface::limits::REST_BODY_MAX_BYTES)
        .disable_allowed_hosts();
    let server = McpHttpServer { bridge };
    let service = StreamableHttpService::new(
        move || Ok(server.clone()),
        Arc::new(NeverSessionManager::default()),
        config,
    );
    Router::new().route_service("/mcp", service).layer(axum::middleware::from_fn(read_once))
}

/// Refuses a body that two readers could read differently. What else is wrong with one is for the library to say.
async fn read_once(request: Request<Body>, next: Next) -> Response {
    if request.method() != Method::POST {
        return next.run(request).await;
    }
    let (parts, body) = request.into_parts();
    let bytes = match access::read_body(body).await {
        Ok(bytes) => bytes,
        Err(error) => return status::rest(&error),
    };
    match access::json::value(&bytes) {
        Err(error) if access::json::is_twice(&error) => status::rest(&access::not_json(&error)),
        _ => next.run(Request::from_parts(parts, Body::from(bytes))).await,
    }
}

/// On whose behalf a request is served.
enum McpCaller {
    Agents(SessionId),
    Users(Option<PathBuf>),
}

#[derive(Clone)]
struct McpHttpServer {
    bridge: BridgeServer,
}

impl McpHttpServer {
    /// Lists the tools: an agent's session has its own, a user gets those that work in a project folder.
    async fn tools(&self, whose: &McpCaller) -> Result<Vec<pb::BridgeTool>, Error> {
        Ok(match whose {
            McpCaller::Agents(session) => {
                let snapshot = self.bridge.supervisor.snapshot(session).await?;
                self.bridge.list(&snapshot).tools
            }
            McpCaller::Users(_) => self.bridge.projects_tools(),
        })
    }

    /// Returns the instructions for a client. An unusable project is reported by the first call; the client
    /// may only want to list the tools.
    async fn instructions(&self, whose: &McpCaller) -> Option<String> {
        match whose {
            McpCaller::Agents(_) => None,
            McpCaller::Users(project) => self.bridge.projects.begin(project.as_deref()).await.ok(),
        }
    }

    /// Runs a tool for an agent's session or in a user's project folder.
    async fn call(&self, whose: McpCaller, request: CallToolRequestParams) -> Result<BridgeOutput, Error> {
        let arguments_json = request.arguments.map(|map| Value::Object(map).to_string()).unwrap_or_default();
        match whose {
            McpCaller::Users(project) => {
                self.bridge.run_in(project.as_deref(), &request.name, &arguments_json).await
            }
            McpCaller::Agents(session) => {
                let call = pb::CallToolRequest {
                    tool: request.name.into_owned(),
                    arguments_json,
                    // Every request is a separate call, so nothing is deduplicated.
                    id: format!("http.{}", host::new_session_id()),
                    ..pb::CallToolRequest::default()
                };
                self.bridge.run(session, call).await
            }
        }
    }
}

impl ServerHandler for McpHttpServer {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("obey", env!("CARGO_PKG_VERSION")))
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        let whose = whose(&context)?;
        context.peer.set_peer_info(request.clone());
        let mut answer = self.negotiate_initialize(&request)?;
        answer.instructions = self.instructions(&whose).await;
        Ok(answer)
    }

    async fn discover(&self, context: RequestContext<RoleServer>) -> Result<DiscoverResult, ErrorData> {
        let whose = whose(&context)?;
        let versions = self.supported_protocol_versions().into_owned();
        let mut answer = DiscoverResult::from_server_info(versions, self.get_info());
        answer.instructions = self.instructions(&whose).await;
        Ok(answer)
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = self.tools(&whose(&context)?).await.map_err(|error| refused(&error))?;
        let size = page_size(&parts(&context)?.uri).map_err(|error| refused(&error))?;
        let (page, next) = page(&tools, request.and_then(|request| request.cursor).as_deref(), size)
            .map_err(|error| ErrorData::invalid_params(error.to_string(), None))?;
        let mut list = ListToolsResult::with_all_items(page.iter().cloned().map(tool).collect());
        list.next_cursor = next;
        Ok(list)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let call = self.call(whose(&context)?, request);
        let done = access::served_from(&parts(&context)?.extensions, call).await;
        let done = done.map_err(|error| refused(&error))?;
        let text = vec![ContentBlock::text(done.text)];
        Ok(if done.ok { CallToolResult::success(text) } else { CallToolResult::error(text) }.into())
    }
}

fn parts(context: &RequestContext<RoleServer>) -> Result<&Parts, ErrorData> {
    let parts = context.extensions.get::<Parts>();
    parts.ok_or_else(|| ErrorData::internal_error("the request came by no connection", None))
}

/// Returns who calls; a user may name the project folder in the query.
fn whose(context: &RequestContext<RoleServer>) -> Result<McpCaller, ErrorData> {
    let parts = parts(context)?;
    if let Caller::Agent(session) = peer::caller(&parts.extensions) {
        return Ok(McpCaller::Agents(session));
    }
    let mut named = query::pairs(parts.uri.query().unwrap_or_default()).into_iter();
    let project = named.find(|(name, _)| name == "project").map(|(_, folder)| PathBuf::from(folder));
    Ok(McpCaller::Users(project))
}

/// Returns how many tools a page has: what `?page_size=` says.
fn page_size(uri: &http::Uri) -> Result<usize, Error> {
    let mut named = query::pairs(uri.query().unwrap_or_default()).into_iter();
    let Some((_, text)) = named.find(|(name, _)| name == "page_size") else { return Ok(limits::TOOLS_PAGE) };
    match text.parse() {
        Ok(size) if (1..=limits::TOOLS_PAGE).contains(&size) => Ok(size),
        _ => Err(Error::invalid("page_size", format_args!("must be between 1 and {}", limits::TOOLS_PAGE))),
    }
}

/// Returns a page of tools and the cursor of the next one. A cursor is the name of the last tool that was listed, so that
/// tools that come and go meanwhile shift nothing.
fn page<'a>(
    tools: &'a [pb::BridgeTool],
    cursor: Option<&str>,
    size: usize,
) -> Result<(&'a [pb::BridgeTool], Option<String>), Error> {
    let from = match cursor {
        None => 0,
        Some(last) => match tools.iter().position(|tool| tool.name == last) {
            Some(at) => at + 1,
            None => return Err(Error::invalid("cursor", "is of no page; list the tools from the start")),
        },
    };
    let rest = &tools[from..];
    let page = &rest[..rest.len().min(size)];
    let next = page.last().filter(|_| rest.len() > page.len()).map(|tool| tool.name.clone());
    Ok((page, next))
}

fn refused(error: &Error) -> ErrorData {
    ErrorData::invalid_request(error.to_string(), None)
}

fn tool(offered: pb::BridgeTool) -> Tool {
    let schema = serde_json::from_str::<Map<String, Value>>(&offered.input_schema_json).unwrap_or_default();
    let mut annotations = ToolAnnotations::default();
    annotations.read_only_hint = Some(offered.read_only);
    Tool::new(offered.name, offered.description, Arc::new(schema)).with_annotations(annotations)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_list_every_tool_once_and_say_when_there_are_no_more() {
        let names: Vec<String> = (0..7).map(|number| format!("tool_{number}")).collect();
        let tools: Vec<pb::BridgeTool> =
            names.iter().map(|name| pb::BridgeTool { name: name.clone(), ..Default::default() }).collect();
        for size in [1, 3, 7, 8] {
            let (mut seen, mut cursor) = (Vec::new(), None);
            loop {
                let (listed, next) = page(&tools, cursor.as_deref(), size).unwrap();
                assert!(!listed.is_empty() && listed.len() <= size);
                seen.extend(listed.iter().map(|tool| tool.name.clone()));
                cursor = next;
                if cursor.is_none() {
                    break;
                }
            }
            assert_eq!(seen, names, "pages of {size}");
        }
        assert!(page(&tools, Some("gone"), 3).unwrap_err().message.starts_with("cursor"));
        let size = |uri: &'static str| page_size(&http::Uri::from_static(uri));
        assert_eq!(size("/mcp?project=/a&page_size=5").unwrap(), 5);
        assert_eq!(size("/mcp").unwrap(), limits::TOOLS_PAGE);
        assert!(size("/mcp?page_size=0").unwrap_err().message.starts_with("page_size"));
    }
}

//! MCP servers of an agent inside the daemon: started with the session, offered to its model as
//! `mcp__server__tool`, ended with it. A server that cannot be used costs its tools and not the session.
//! Which calls may be made is not decided here.

mod names;
mod output;
mod server;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::Arc;

use agent_port::HelperPrograms;
use agent_port::toolbox::ToolOutput;
use domain::event::{ServerStatus, ToolServer};
use serde_json::{Map, Value};

use crate::limits::{MCP_SCHEMA_MAX_BYTES, MCP_TOOLS_MAX, SERVER_TOOLS_MAX};
use provider_common::text::cut;
use server::McpServer;

pub(crate) use provider_common::mcp_spec::{McpServerSpec, read};

/// What servers are started and reached with.
pub(crate) struct McpContext {
    /// Absent if no program can be started here.
    pub(crate) programs: Option<Arc<dyn HelperPrograms>>,
    /// The environment of programs, in which `${NAME}` in a server's settings is looked up.
    pub(crate) environment: Vec<(OsString, OsString)>,
    pub(crate) client: reqwest::Client,
}

/// A tool as described to a model.
#[derive(Clone, Debug)]
pub(crate) struct McpTool {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) schema: Value,
    /// The server claims that it changes nothing.
    pub(crate) only_looks: bool,
    server: usize,
    /// The server's name of it.
    native: String,
}

/// The servers of one session.
#[derive(Default)]
pub(crate) struct McpServers {
    all: Vec<Arc<McpServer>>,
    tools: BTreeMap<String, McpTool>,
    /// What was last reported of each.
    told: Vec<ToolServer>,
}

/// The tool lists of servers that were asked, by index.
pub(crate) type Answers = BTreeMap<usize, Result<Vec<rmcp::model::Tool>, String>>;

/// The state of the servers, for the journal.
pub(crate) struct McpReport {
    pub(crate) servers: Vec<ToolServer>,
    /// What a person should know.
    pub(crate) warnings: Vec<String>,
}

impl McpServers {
    /// Starts servers in parallel. Reports nothing if there are none.
    pub(crate) async fn start(specs: &[McpServerSpec], ground: McpContext) -> (Self, Option<McpReport>) {
        let ground = Arc::new(ground);
        let all = specs.iter().map(|spec| Arc::new(McpServer::new(spec.clone(), Arc::clone(&ground))));
        let mut servers = Self { all: all.collect(), ..Self::default() };
        if servers.all.is_empty() {
            return (servers, None);
        }
        servers.told = servers.all.iter().map(|server| not_asked_yet(server)).collect();
        let every: Vec<usize> = (0..servers.all.len()).collect();
        let answers = servers.ask(&every).await;
        let report = servers.take_in(answers);
        (servers, Some(report))
    }

    /// Returns the servers that have announced changed tools. Each is returned once; a caller that does not
    /// ask them restores the announcement with `ask_later`.
    pub(crate) fn changed(&self) -> Vec<usize> {
        let all = self.all.iter().enumerate();
        all.filter(|(_, server)| server.take_news()).map(|(at, _)| at).collect()
    }

    pub(crate) fn ask_later(&self, which: &[usize]) {
        which.iter().filter_map(|at| self.all.get(*at)).for_each(|server| server.put_news_back());
    }

    /// Asks servers for their tools in parallel. Dropping the future cancels the requests.
    pub(crate) fn ask(&self, which: &[usize]) -> impl Future<Output = Answers> + Send + use<> {
        let asked: Vec<(usize, Arc<McpServer>)> =
            which.iter().filter_map(|at| Some((*at, Arc::clone(self.all.get(*at)?)))).collect();
        async move {
            let mut answers: Answers =
                asked.iter().map(|(at, _)| (*at, Err("it broke down".to_owned()))).collect();
            let mut asking = tokio::task::JoinSet::new();
            for (at, server) in asked {
                asking.spawn(async move { (at, server.tools().await) });
            }
            while let Some(answer) = asking.join_next().await {
                if let Ok((at, listed)) = answer {
                    answers.insert(at, listed);
                }
            }
            answers
        }
    }

    /// Replaces the tools of servers with their answers.
    pub(crate) fn take_in(&mut self, answers: Answers) -> McpReport {
        let mut warnings = Vec::new();
        self.tools.retain(|_, tool| !answers.contains_key(&tool.server));
        for (at, answer) in answers {
            let Some(told) = self.told.get_mut(at) else { continue };
            (told.status, told.tools, told.error) = match answer {
                Ok(tools) => {
                    let tools = add(&mut self.tools, at, &told.name, tools, &mut warnings);
                    (ServerStatus::Running, tools, String::new())
                }
                Err(error) => {
                    warnings.push(format!("the MCP server {} cannot be used: {error}", told.name));
                    (ServerStatus::Failed, Vec::new(), error)
                }
            };
        }
        McpReport { servers: self.told.clone(), warnings }
    }

    pub(crate) fn tools(&self) -> impl Iterator<Item = &McpTool> {
        self.tools.values()
    }

    /// Returns the tool that a model calls by this name.
    pub(crate) fn find(&self, name: &str) -> Option<&McpTool> {
        self.tools.get(name)
    }

    /// Calls a tool. Dropping the future cancels the call. An error is a message for the model.
    pub(crate) fn call(
        &self,
        tool: &McpTool,
        arguments: Map<String, Value>,
    ) -> impl Future<Output = Result<ToolOutput, String>> + Send + use<> {
        let (server, native) = (self.all.get(tool.server).cloned(), tool.native.clone());
        async move {
            let server = server.ok_or_else(|| "the server is gone".to_owned())?;
            server.call(native, arguments).await
        }
    }
}

/// A server that was not asked yet.
fn not_asked_yet(server: &McpServer) -> ToolServer {
    let (name, endpoint) = (server.name().to_owned(), server.endpoint());
    ToolServer { name, status: ServerStatus::Failed, tools: Vec::new(), endpoint, error: String::new() }
}

/// Adds a server's tools and returns those that were accepted, by the server's names.
fn add(
    tools: &mut BTreeMap<String, McpTool>,
    server: usize,
    name: &str,
    listed: Vec<rmcp::model::Tool>,
    warnings: &mut Vec<String>,
) -> Vec<String> {
    let (mut taken, mut left) = (Vec::new(), Vec::new());
    for tool in listed {
        let schema = Value::Object((*tool.input_schema).clone());
        let fits = schema.to_string().len() <= MCP_SCHEMA_MAX_BYTES;
        let shown = names::shown(name, &tool.name);
        if !fits
            || tools.len() >= MCP_TOOLS_MAX
            || taken.len() >= SERVER_TOOLS_MAX
            || tools.contains_key(&shown)
        {
            left.push(tool.name.to_string());
            continue;
        }
        taken.push(tool.name.to_string());
        tools.insert(
            shown.clone(),
            McpTool {
                name: shown,
                description: cut(tool.description.as_deref().unwrap_or_default(), MCP_SCHEMA_MAX_BYTES / 4),
                schema,
                only_looks: tool.annotations.as_ref().and_then(|hints| hints.read_only_hint).unwrap_or(false),
                server,
                native: tool.name.to_string(),
            },
        );
    }
    if !left.is_empty() {
        let count = left.len();
        left.truncate(5);
        warnings.push(format!(
            "{count} tools of the MCP server {name} are not offered (too many, too large, or of the same name): {}",
            left.join(", ")
        ));
    }
    taken
}

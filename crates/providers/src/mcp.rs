//! Servers of tools (MCP) of an agent that lives in the daemon: started with the session, offered to its model as
//! `mcp__server__tool`, ended with it. A server that cannot be used costs its tools and not the session. Which calls
//! may be made is not decided here.

mod names;
mod output;
mod server;
mod spec;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::Arc;

use domain::event::{ServerStatus, ToolServer};
use runtime::held::Programs;
use runtime::toolbox::Done;
use serde_json::{Map, Value};

use crate::limits::{MCP_SCHEMA_MAX_BYTES, MCP_TOOLS_MAX, SERVER_TOOLS_MAX};
use crate::text::cut;
use server::Server;

pub(crate) use spec::{Reach, Spec, filled, read};

/// What servers are reached with.
pub(crate) struct Ground {
    /// Absent: no program can be started here.
    pub(crate) programs: Option<Programs>,
    /// Of programs, and where `${NAME}` in a server's settings is looked up.
    pub(crate) environment: Vec<(OsString, OsString)>,
    pub(crate) client: reqwest::Client,
}

/// A tool as a model is told of it.
#[derive(Clone, Debug)]
pub(crate) struct Tool {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) schema: Value,
    /// The server says that it changes nothing.
    pub(crate) only_looks: bool,
    server: usize,
    /// As the server calls it.
    native: String,
}

/// The servers of one session.
#[derive(Default)]
pub(crate) struct Servers {
    all: Vec<Arc<Server>>,
    tools: BTreeMap<String, Tool>,
}

/// What became of the servers, for the journal.
pub(crate) struct Report {
    pub(crate) servers: Vec<ToolServer>,
    /// What a person should know.
    pub(crate) warnings: Vec<String>,
}

impl Servers {
    /// Starts servers, side by side. Nothing is reported where there are none.
    pub(crate) async fn start(specs: &[Spec], ground: Ground) -> (Self, Option<Report>) {
        let ground = Arc::new(ground);
        let all = specs.iter().map(|spec| Arc::new(Server::new(spec.clone(), Arc::clone(&ground))));
        let mut servers = Self { all: all.collect(), tools: BTreeMap::new() };
        let report = servers.read_tools().await;
        (servers, report)
    }

    /// Reads the tools again where a server has said that they are others now.
    pub(crate) async fn refresh(&mut self) -> Option<Report> {
        // Every one must be asked: asking takes the news.
        let news = self.all.iter().filter(|server| server.take_news()).count();
        if news == 0 { None } else { self.read_tools().await }
    }

    async fn read_tools(&mut self) -> Option<Report> {
        if self.all.is_empty() {
            return None;
        }
        let mut asking = tokio::task::JoinSet::new();
        for (at, server) in self.all.iter().enumerate() {
            let server = Arc::clone(server);
            asking.spawn(async move { (at, server.tools().await) });
        }
        let mut found = BTreeMap::new();
        while let Some(answer) = asking.join_next().await {
            if let Ok((at, listed)) = answer {
                found.insert(at, listed);
            }
        }
        self.tools.clear();
        let (mut listed, mut warnings) = (Vec::new(), Vec::new());
        for (at, server) in self.all.iter().enumerate() {
            let (name, endpoint) = (server.name().to_owned(), server.endpoint());
            let answer = found.remove(&at).unwrap_or_else(|| Err("it broke down".to_owned()));
            listed.push(match answer {
                Ok(tools) => {
                    let tools = add(&mut self.tools, at, &name, tools, &mut warnings);
                    ToolServer { name, status: ServerStatus::Running, tools, endpoint, error: String::new() }
                }
                Err(error) => {
                    warnings.push(format!("the MCP server {name} cannot be used: {error}"));
                    ToolServer { name, status: ServerStatus::Failed, tools: Vec::new(), endpoint, error }
                }
            });
        }
        Some(Report { servers: listed, warnings })
    }

    pub(crate) fn tools(&self) -> impl Iterator<Item = &Tool> {
        self.tools.values()
    }

    /// Returns the tool that a model calls by this name.
    pub(crate) fn find(&self, name: &str) -> Option<&Tool> {
        self.tools.get(name)
    }

    /// Calls a tool. Dropping the work takes the call back. An error is one for the model.
    pub(crate) fn call(
        &self,
        tool: &Tool,
        arguments: Map<String, Value>,
    ) -> impl Future<Output = Result<Done, String>> + Send + use<> {
        let (server, native) = (self.all.get(tool.server).cloned(), tool.native.clone());
        async move {
            let server = server.ok_or_else(|| "the server is gone".to_owned())?;
            server.call(native, arguments).await
        }
    }
}

/// Adds a server's tools and returns those that were taken, as the server calls them.
fn add(
    tools: &mut BTreeMap<String, Tool>,
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
            Tool {
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

//! `obey mcp`: the MCP server that an agent starts beside itself. It offers what the daemon offers to the agent's
//! session and passes calls on; what the tools are and who may run them is the daemon's. Standard output belongs to the
//! protocol.

mod daemon;
mod server;

use rmcp::ServiceExt as _;

use crate::args::McpArgs;
use crate::console::Console;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use daemon::Daemon;
use server::Server;

/// Serves until the agent closes its end, or the session ends.
pub(super) async fn run(console: &mut Console, args: &McpArgs) -> Result<Exit> {
    let client = console.connect().await?;
    let daemon = Daemon::new(client, args.session.clone());
    let tools = daemon.watch().await?;
    // Noted before the agent can read them: it must hear of every change after that.
    let first = tools.borrow().revision;
    let (input, output) = rmcp::transport::io::stdio();
    let server = Server::new(daemon.clone(), tools.clone());
    let served = server.serve((input, output)).await;
    let served = served.map_err(|error| Failure::failed(format!("the agent does not speak MCP: {error}")))?;
    let told = tokio::spawn(server::tell_changes(served.peer().clone(), daemon, tools, first));
    // An agent that closes its end is done.
    let _ = served.waiting().await;
    told.abort();
    Ok(Exit::OK)
}

//! `obey mcp`: the MCP server that an agent or a user's client starts. It offers the daemon's tools for the
//! agent's session or for the project, and forwards calls; the daemon decides which tools exist and who may
//! run them. Standard output belongs to the protocol.

mod daemon;
mod install;
mod server;

use rmcp::ServiceExt as _;

use cli_args::mcp::{McpArgs, McpCommand};
use config::exit::Exit;
use config::failure::{Failure, Result};
use daemon::{Daemon, ToolScope};
use server::Server;
use terminal::console::Console;

pub(super) async fn run(console: &mut Console, args: &McpArgs) -> Result<Exit> {
    match &args.command {
        Some(McpCommand::Install(args)) => install::run(console, args),
        None => serve(console, args).await,
    }
}

/// Serves until the client closes its end, or the session ends.
async fn serve(console: &mut Console, args: &McpArgs) -> Result<Exit> {
    let place = place(console, args)?;
    let client = console.connect().await?;
    let daemon = Daemon::new(client, place);
    let tools = daemon.watch().await?;
    // Recorded before the agent can read them: it must be notified of every later change.
    let first = tools.borrow().revision;
    let (input, output) = rmcp::transport::io::stdio();
    let server = Server::new(daemon.clone(), tools.clone());
    let served = server.serve((input, output)).await;
    let served =
        served.map_err(|error| Failure::failed(format!("the client does not speak MCP: {error}")))?;
    let told = tokio::spawn(server::tell_changes(served.peer().clone(), daemon, tools, first));
    // A client that closes its end is done.
    let _ = served.waiting().await;
    told.abort();
    Ok(Exit::OK)
}

/// Determines whose tools are served: those of the named session, of the agent that started us, else of a
/// folder.
fn place(console: &mut Console, args: &McpArgs) -> Result<ToolScope> {
    if let Some(session) = &args.session {
        return Ok(ToolScope::Session(session.clone()));
    }
    let own = ["OBEY_SESSION_ID", "OBEY_DAEMON_SOCKET"].map(|name| console.vars.get(name));
    if let ([Some(session), Some(socket)], None) = (own, &args.project) {
        let (session, socket) = (session.to_string_lossy().into_owned(), socket.into());
        console.global.socket = Some(socket);
        console.global.no_autostart = true;
        return Ok(ToolScope::Session(session));
    }
    let folder =
        args.project.as_ref().map_or_else(|| console.folder.clone(), |path| console.folder.join(path));
    let folder = folder
        .canonicalize()
        .map_err(|error| Failure::usage(format!("--project: {}: {error}", folder.display())))?;
    let folder = folder.into_os_string().into_string();
    folder.map(ToolScope::Project).map_err(|_| Failure::usage("--project: the folder's name is not UTF-8"))
}

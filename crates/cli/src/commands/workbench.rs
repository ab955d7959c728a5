//! The workbench on the command line: each command opens a workbench session on the current project, sends
//! one request and prints the answer. With `--json`, the answer is that of the REST interface.

mod audit;
mod catalog;
mod exec;
mod knowledge;
mod restore;

use std::path::PathBuf;

use wire::contextd::v1 as pb;

use cli_args::workbench::WorkbenchSessionArgs;
use client::connection::Client;
use client::resolve;
use config::exit::Exit;
use config::failure::Result;
use terminal::console::Console;
use terminal::output::TextStyle;

pub(super) use audit::run as audit;
pub(super) use catalog::{agent, run_agents as agents, run_skills as skills};
pub(super) use exec::run as exec;
pub(super) use knowledge::{checkpoint_context, run_checkpoints as checkpoints, run_memories as memories};
pub(super) use knowledge::{run_policies as policies, run_remediations as remediations};

/// A session of the workbench for one command.
pub(super) struct WorkbenchSession {
    client: Client,
    session_id: String,
    /// Created for this command, and ended with it.
    own: bool,
}

impl WorkbenchSession {
    /// Opens the session of a command: a given one, the calling agent's own, or a new one for the project.
    pub(super) async fn open(console: &mut Console, session_args: &WorkbenchSessionArgs) -> Result<Self> {
        let client = console.connect().await?;
        // An agent may use only its own session, which is in its environment.
        let own = console.vars.get("OBEY_SESSION_ID").and_then(|id| id.to_str()).map(str::to_owned);
        let own = own.filter(|_| session_args.project.is_none());
        let given = match &session_args.session {
            Some(typed) => Some(known(&client, typed).await?),
            None => own,
        };
        if let Some(session_id) = given {
            return Ok(Self { client, session_id, own: false });
        }
        let folder = match &session_args.project {
            Some(folder) => console.folder.join(folder),
            None => project(&client, console).await?,
        };
        let request = pb::SessionStartRequest {
            project_path: folder.to_string_lossy().into_owned(),
            ..pb::SessionStartRequest::default()
        };
        let session_id = client.bench_sessions().start(request).await?.into_inner().session_id;
        Ok(Self { client, session_id, own: true })
    }

    /// Ends the session if it was created for this command. A failure is harmless: the session expires.
    async fn close(self) {
        if self.own {
            let request =
                pb::SessionEndRequest { session_id: self.session_id, ..pb::SessionEndRequest::default() };
            let _expires = self.client.bench_sessions().end(request).await;
        }
    }

    fn session(&self) -> String {
        self.session_id.clone()
    }
}

/// Returns the root of the campaign that contains the current folder, else the folder.
async fn project(client: &Client, console: &Console) -> Result<PathBuf> {
    let campaigns = resolve::campaigns(client).await?;
    let roots = campaigns.into_iter().map(|campaign| PathBuf::from(campaign.path));
    let longest =
        roots.filter(|root| console.folder.starts_with(root)).max_by_key(|root| root.components().count());
    Ok(longest.unwrap_or_else(|| console.folder.clone()))
}

/// Returns the id of the given session.
async fn known(client: &Client, typed: &str) -> Result<String> {
    match resolve::session(client, typed).await {
        // A pure workbench session is known only to the workbench, and an agent may not list sessions; the
        // workbench decides.
        Err(failure) if failure.exit != Exit::USAGE && typed.starts_with("sess_") => Ok(typed.to_owned()),
        found => found,
    }
}

/// Sends a request with a session and closes it, whatever the answer.
macro_rules! ask {
    ($console:ident, $session_args:expr, $service:ident . $method:ident, $request:expr) => {{
        let visit = $crate::commands::workbench::WorkbenchSession::open($console, $session_args).await?;
        let request = $request(visit.session());
        let answer = visit.client.$service().$method(request).await;
        visit.close().await;
        answer?.into_inner()
    }};
}
use ask;

/// Prints an answer: as JSON, or as lines for people.
fn show(console: &mut Console, answer: &impl serde::Serialize, lines: &[String]) -> Result<()> {
    if console.out.json {
        return console.out.json(answer);
    }
    lines.iter().try_for_each(|line| console.out.line(line))
}

/// Prints that a list is empty.
fn nothing(console: &mut Console, what: &str) -> Result<()> {
    console.out.note(TextStyle::Dim, what)
}

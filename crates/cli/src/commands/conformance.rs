//! `obey conformance`: checks a running daemon from outside, clause by clause of docs/spec/conformance.md, and prints a table.
//! Works with any daemon that serves the published interfaces. Knows the clauses' ids; what is asked and expected is in
//! `clauses`, `grpc`, `agent` and `acp`, how a request is sent in `request`.

mod acp;
mod agent;
mod clauses;
mod grpc;
mod request;

use serde_json::json;

use super::session;
use cli_args::conformance::ConformanceArgs;
use client::connection::Client;
use config::exit::Exit;
use config::failure::{Failure, Result};
use terminal::console::Console;
use terminal::output::TextStyle;
use terminal::table::Table;

use clauses::{Probe, Verdict};
use request::Target;

/// Checks every clause and prints what held. Exit status 1 if one did not.
pub(super) async fn run(console: &mut Console, args: &ConformanceArgs) -> Result<Exit> {
    let (target, client, acp) = match &args.address {
        Some(address) => {
            let address = address.strip_prefix("http://").unwrap_or(address).trim_end_matches('/').to_owned();
            let client = Client::at(&address)?;
            (Target::Tcp(address), client, None)
        }
        None => {
            let client = console.connect_here().await?;
            let server = acp::AcpServer { program: console.program.clone(), socket: console.socket()? };
            (Target::Unix(server.socket.clone()), client, Some(server))
        }
    };
    let folder = ProjectFolder::make()?;
    let mut probe = Probe::new(target, client, folder.0.clone(), acp);
    if let Err(error) = probe.get("/health").await {
        return Err(Failure::usage(format!("--address: no daemon answers there: {error}")));
    }
    let mut checked = Vec::new();
    for clause in clauses::CLAUSES {
        let verdict = clauses::check(clause.id, &mut probe).await;
        checked.push((clause, verdict));
    }
    probe.end().await;
    let failed = checked.iter().filter(|(_, verdict)| matches!(verdict, Verdict::Failed(_))).count();
    let held = checked.iter().filter(|(_, verdict)| matches!(verdict, Verdict::Held)).count();
    if console.out.json {
        let rows = checked.iter().map(|(clause, verdict)| {
            json!({"id": clause.id, "clause": clause.text, "result": verdict.name(), "detail": verdict.detail()})
        });
        let rows: Vec<_> = rows.collect();
        console.out.json(&json!({"held": held, "failed": failed, "clauses": rows}))?;
    } else {
        let mut table = Table::new(&["ID", "RESULT", "CLAUSE", "DETAIL"]);
        for (clause, verdict) in &checked {
            let cells = [clause.id, verdict.name(), clause.text, verdict.detail()];
            table.row(cells.map(str::to_owned).to_vec());
        }
        session::print_table(console, &table)?;
        let skipped = checked.len() - held - failed;
        let text = format!("{held} held, {failed} failed, {skipped} skipped.");
        console.out.note(TextStyle::Dim, &text)?;
    }
    Ok(if failed == 0 { Exit::OK } else { Exit::FAILED })
}

/// The project that the checks work in; removed when dropped.
struct ProjectFolder(std::path::PathBuf);

impl ProjectFolder {
    fn make() -> Result<Self> {
        use std::os::unix::fs::DirBuilderExt as _;
        let name = format!("obey-conformance-{}", host::new_session_id());
        let folder = std::env::temp_dir().join(name);
        std::fs::DirBuilder::new().mode(0o700).create(&folder)?;
        Ok(Self(folder.canonicalize()?))
    }
}

impl Drop for ProjectFolder {
    fn drop(&mut self) {
        // What stays is a small folder among temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

//! `obey audit`: executed and rejected operations, the integrity of the record, and a self-verifying export.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use serde_json::json;
use wire::obey::v1 as pb;

use crate::local::LocalCommands;
use cli_args::workbench::AuditCommand;
use config::exit::Exit;
use config::failure::{Failure, Result};
use config::paths::PRIVATE_FILE;
use terminal::console::Console;
use terminal::output::TextStyle;

pub(in crate::commands) async fn run(
    console: &mut Console,
    command: AuditCommand,
    local: &dyn LocalCommands,
) -> Result<Exit> {
    match command {
        AuditCommand::Verify { file: None, .. } => verify(console).await,
        AuditCommand::Verify { file: Some(file), key } => {
            local.verify_audit_file(console, &file, key.as_deref())
        }
        AuditCommand::Export { output, after } => export(console, output.as_deref(), after).await,
        AuditCommand::Tail { lines, follow, session } => {
            let request = pb::ReadAuditRequest { after_seq: 0, last: lines, session_id: session, follow };
            tail(console, request).await
        }
    }
}

async fn verify(console: &mut Console) -> Result<Exit> {
    let client = console.connect().await?;
    let answer = client.audit().verify_audit(pb::VerifyAuditRequest {}).await?.into_inner();
    let exit = if answer.intact { Exit::OK } else { Exit::FAILED };
    if console.out.json {
        console.out.json(&json!({
            "intact": answer.intact,
            "entries": answer.entries,
            "broken_at": answer.broken_at,
            "reason": answer.reason,
            "problems": answer.problems,
            "head": answer.head,
            "marked": answer.marked,
            "public_key": answer.public_key,
        }))?;
        return Ok(exit);
    }
    if answer.intact {
        console.out.line(&format!("intact: {} entries", answer.entries))?;
    } else {
        console.out.styled_line(&[(TextStyle::Bad, "broken")])?;
        for problem in &answer.problems {
            console.out.styled_line(&[(TextStyle::Bad, &format!("  {problem}"))])?;
        }
    }
    let after_mark = answer.entries.saturating_sub(answer.marked);
    if after_mark > 0 {
        console
            .out
            .line(&format!("{after_mark} entries are newer than the mark; their seals alone prove them"))?;
    }
    console.out.line(&format!("head: {}", answer.head))?;
    console.out.line(&format!("key: {}", answer.public_key))?;
    Ok(exit)
}

/// Writes the export to a new file, or to standard output.
async fn export(console: &mut Console, output: Option<&Path>, after_seq: u64) -> Result<Exit> {
    let client = console.connect().await?;
    let mut stream = client.audit().export_audit(pb::ExportAuditRequest { after_seq }).await?.into_inner();
    let failed = |file: &Path, error: std::io::Error| {
        Failure::failed(format!("{} cannot be written: {error}", file.display()))
    };
    let mut file = match output {
        Some(path) => {
            let made = OpenOptions::new().write(true).create_new(true).mode(PRIVATE_FILE).open(path);
            Some((path, made.map_err(|error| failed(path, error))?))
        }
        None => None,
    };
    while let Some(message) = stream.message().await? {
        match &mut file {
            Some((path, file)) => {
                file.write_all(message.lines.as_bytes()).map_err(|error| failed(path, error))?;
            }
            None => console.out.bytes(message.lines.as_bytes())?,
        }
    }
    if let Some((path, file)) = file {
        file.sync_all().map_err(|error| failed(path, error))?;
    }
    Ok(Exit::OK)
}

async fn tail(console: &mut Console, request: pb::ReadAuditRequest) -> Result<Exit> {
    let client = console.connect().await?;
    let mut stream = client.audit().read_audit(request).await?.into_inner();
    while let Some(entry) = stream.message().await? {
        print(console, &entry)?;
    }
    Ok(Exit::OK)
}

fn print(console: &mut Console, entry: &pb::AuditEntry) -> Result<()> {
    let at = entry.at.as_ref().and_then(|at| jiff::Timestamp::new(at.seconds, at.nanos).ok());
    let at = at.map(|at| at.to_string()).unwrap_or_default();
    if console.out.json {
        return console.out.json(&json!({
            "seq": entry.seq,
            "at": at,
            "session_id": entry.session_id,
            "caller": entry.caller,
            "operation": entry.operation,
            "input": serde_json::from_str::<serde_json::Value>(&entry.input_json).unwrap_or_default(),
            "outcome": entry.outcome,
            "summary": entry.summary,
            "duration_us": entry.duration_us,
            "tier": entry.tier,
            "secrets": entry.secrets,
            "hash": entry.hash,
            "origin": entry.origin,
        }));
    }
    let secrets =
        if entry.secrets > 0 { format!(" ({} secrets removed)", entry.secrets) } else { String::new() };
    console.out.line(&format!(
        "{:>6}  {at}  {}  {}  {}  {}  {}{secrets}",
        entry.seq, entry.session_id, entry.caller, entry.operation, entry.outcome, entry.summary
    ))
}

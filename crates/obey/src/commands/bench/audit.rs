//! `obey audit`: what was done with the workbench, and whether the record is whole.

use serde_json::json;
use wire::obey::v1 as pb;

use crate::args::bench::AuditCommand;
use crate::console::Console;
use crate::exit::Exit;
use crate::failure::Result;
use crate::output::Style;

pub(in crate::commands) async fn run(console: &mut Console, command: AuditCommand) -> Result<Exit> {
    match command {
        AuditCommand::Verify => verify(console).await,
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
            "head": answer.head,
        }))?;
    } else if answer.intact {
        console.out.line(&format!("intact: {} entries", answer.entries))?;
        console.out.line(&format!("head: {}", answer.head))?;
    } else {
        let message = format!("broken at entry {}: {}", answer.broken_at, answer.reason);
        console.out.styled_line(&[(Style::Bad, &message)])?;
    }
    Ok(exit)
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
        }));
    }
    let secrets =
        if entry.secrets > 0 { format!(" ({} secrets removed)", entry.secrets) } else { String::new() };
    console.out.line(&format!(
        "{:>6}  {at}  {}  {}  {}  {}  {}{secrets}",
        entry.seq, entry.session_id, entry.caller, entry.operation, entry.outcome, entry.summary
    ))
}

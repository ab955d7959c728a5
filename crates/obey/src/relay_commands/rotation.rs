//! `obey relay rotate`, `obey relay audit` and `obey relay quota`.

use cli_args::relay::{RelayAuditArgs, RelayQuotaArgs, RelayRotateArgs};
use config::exit::Exit;
use config::failure::Result;
use serde_json::{Value, json};
use terminal::console::Console;
use terminal::output::TextStyle;
use terminal::table::Table;

use super::{failed, open, shown};

pub(super) async fn rotate(console: &mut Console, args: &RelayRotateArgs) -> Result<Exit> {
    let mut relay = open(console, &args.folder)?;
    let rotated = match &args.from {
        Some(code) => relay.follow_rotation(code).await,
        None if args.finish => relay.complete_rotation(),
        None => relay.rotate(),
    };
    let phase = rotated.map_err(failed)?;
    if console.out.json {
        console.out.json(&json!({
            "authority": phase.authority,
            "former_authority": phase.former,
            "former_until": phase.former_until.and_then(shown),
            "ca": relay.ca(),
        }))?;
        return Ok(Exit::OK);
    }
    console.out.line(&format!("authority  {}", phase.authority))?;
    if let Some(former) = &phase.former {
        console.out.line(&format!("former     {former}"))?;
    }
    let note = match phase.former {
        Some(_) => {
            "Both count now. Machines and devices go over by themselves; other clients need the new ca.pem. On the other relays of \
             a cluster: obey relay rotate --from CODE. Then, or in 30 days by itself: obey relay rotate --finish"
        }
        None => "The former authority counts no more.",
    };
    console.out.note(TextStyle::Dim, note)?;
    Ok(Exit::OK)
}

pub(super) fn audit(console: &mut Console, args: &RelayAuditArgs) -> Result<Exit> {
    let entries = open(console, &args.folder)?.audit(args.limit).map_err(failed)?;
    if console.out.json {
        let list: Vec<Value> = entries
            .iter()
            .map(|entry| {
                json!({"at": shown(entry.at), "event": entry.event, "subject": entry.subject, "detail": entry.detail})
            })
            .collect();
        console.out.json(&json!({"entries": list}))?;
        return Ok(Exit::OK);
    }
    let mut table = Table::new(&["AT", "EVENT", "SUBJECT", "DETAIL"]);
    for entry in entries {
        table.row(vec![shown(entry.at).unwrap_or_default(), entry.event, entry.subject, entry.detail]);
    }
    cli::commands::session::print_table(console, &table)?;
    Ok(Exit::OK)
}

pub(super) fn quota(console: &mut Console, args: &RelayQuotaArgs) -> Result<Exit> {
    let relay = open(console, &args.folder)?;
    if let Some(bytes) = args.bytes_per_day {
        relay.set_bytes_per_day(bytes).map_err(failed)?;
    }
    let bytes = relay.bytes_per_day().map_err(failed)?;
    if console.out.json {
        console.out.json(&json!({"bytes_per_day": bytes}))?;
        return Ok(Exit::OK);
    }
    let text = match bytes {
        0 => "each machine: as many bytes a day as it likes".to_owned(),
        bytes => format!("each machine: {bytes} bytes a day (UTC), of calls and answers together"),
    };
    console.out.line(&text)?;
    Ok(Exit::OK)
}

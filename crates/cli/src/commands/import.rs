//! `obey import`: lists conversations that agents had without this daemon, and makes sessions of them.

use serde_json::{Value, json};
use wire::obey::v1 as pb;

use cli_args::changes::ImportArgs;
use client::format;
use config::exit::Exit;
use config::failure::Result;
use terminal::console::Console;
use terminal::output::TextStyle;
use terminal::table::{Table, named};

/// Columns of a title in the list.
const TITLE_COLUMNS: usize = 50;

pub(super) async fn run(console: &mut Console, args: ImportArgs) -> Result<Exit> {
    let provider = args.provider.map(|provider| provider.name().to_owned()).unwrap_or_default();
    match args.conversation {
        Some(conversation_id) => import(console, pb::ImportRequest { conversation_id, provider }).await,
        None => list(console, pb::ListConversationsRequest { provider }).await,
    }
}

async fn list(console: &mut Console, request: pb::ListConversationsRequest) -> Result<Exit> {
    let client = console.connect().await?;
    let found = client.imports().list_conversations(request).await?.into_inner().conversations;
    if console.out.json {
        let list: Vec<Value> = found.iter().map(document).collect();
        console.out.json(&json!({"conversations": list}))?;
        return Ok(Exit::OK);
    }
    if found.is_empty() {
        console.out.note(TextStyle::Dim, "Claude Code and Codex have no conversations here.")?;
        return Ok(Exit::OK);
    }
    let mut table = Table::new(&["ID", "PROVIDER", "LAST USED", "TURNS", "SESSION", "TITLE", "FOLDER"]);
    for one in &found {
        let session = if one.session_id.is_empty() { "-".to_owned() } else { one.session_id.clone() };
        table.row(vec![
            one.id.clone(),
            one.provider.clone(),
            format::date(one.last_at.as_ref(), &console.zone),
            one.turns.to_string(),
            session,
            format::shorten(&format::one_line(&one.title), TITLE_COLUMNS),
            one.folder.clone(),
        ]);
    }
    super::session::print_table(console, &table)?;
    console.out.note(TextStyle::Dim, "Make a session of one: obey import ID")?;
    Ok(Exit::OK)
}

async fn import(console: &mut Console, request: pb::ImportRequest) -> Result<Exit> {
    let client = console.connect().await?;
    let imported = client.imports().import(request).await?.into_inner();
    if console.out.json {
        let document = json!({
            "session_id": imported.session_id,
            "name": imported.name,
            "folder": imported.folder,
            "turns": imported.turns,
            "events": imported.events,
            "already_imported": imported.already_imported,
            "truncated": imported.truncated,
        });
        console.out.json(&document)?;
        return Ok(Exit::OK);
    }
    let pairs = [
        ("Session", imported.session_id.clone()),
        ("Name", imported.name),
        ("Folder", imported.folder),
        ("Turns", imported.turns.to_string()),
    ];
    named(&pairs).iter().try_for_each(|line| console.out.line(line))?;
    if imported.already_imported {
        console.out.note(TextStyle::Dim, "The conversation belonged to this session already.")?;
    }
    if imported.truncated {
        console.out.note(TextStyle::Dim, "A part of the conversation was too long and is left out.")?;
    }
    let next = format!("Continue it: obey session send {} \"…\"", imported.session_id);
    console.out.note(TextStyle::Dim, &next)?;
    Ok(Exit::OK)
}

fn document(one: &pb::Conversation) -> Value {
    json!({
        "id": one.id,
        "provider": one.provider,
        "folder": one.folder,
        "title": one.title,
        "started_at": format::rfc3339(one.started_at.as_ref()),
        "last_at": format::rfc3339(one.last_at.as_ref()),
        "turns": one.turns,
        "session_id": if one.session_id.is_empty() { Value::Null } else { one.session_id.clone().into() },
    })
}

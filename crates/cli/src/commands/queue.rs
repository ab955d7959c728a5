//! `obey queue …`: prompts that wait for their turn.

use serde_json::json;
use wire::obey::v1 as pb;

use super::session::print_table;
use cli_args::queue::{QueueAddArgs, QueueCommand, QueueEditArgs};
use client::attachments;
use client::connection::Client;
use client::{format, once, resolve};
use config::exit::Exit;
use config::failure::{Failure, Result};
use terminal::console::Console;
use terminal::output::TextStyle;
use terminal::table::Table;

/// Columns of a prompt in the list.
const PROMPT_COLUMNS: usize = 60;

pub(super) async fn run(console: &mut Console, command: QueueCommand) -> Result<Exit> {
    match command {
        QueueCommand::Add(args) => add(console, args).await,
        QueueCommand::List(args) => {
            let (client, session_id) = session(console, &args.session).await?;
            let queue = client.queue().list(pb::ListQueuedRequest { session_id }).await?.into_inner();
            print(console, &queue)
        }
        QueueCommand::Edit(args) => edit(console, args).await,
        QueueCommand::Move(args) => {
            let (client, session_id) = session(console, &args.session).await?;
            let request = pb::MoveQueuedRequest { session_id, entry: args.entry, position: args.place };
            let queue = client.queue().r#move(request).await?.into_inner();
            print(console, &queue)
        }
        QueueCommand::Drop(args) => {
            let (client, session_id) = session(console, &args.session).await?;
            let request = pb::DropQueuedRequest { session_id, entry: args.entry };
            let queue = client.queue().drop(request).await?.into_inner();
            print(console, &queue)
        }
        QueueCommand::Pause(args) => {
            let (client, session_id) = session(console, &args.session).await?;
            let queue = client.queue().pause(pb::PauseQueueRequest { session_id }).await?.into_inner();
            print(console, &queue)
        }
        QueueCommand::Resume(args) => {
            let (client, session_id) = session(console, &args.session).await?;
            let queue = client.queue().resume(pb::ResumeQueueRequest { session_id }).await?.into_inner();
            print(console, &queue)
        }
    }
}

async fn add(console: &mut Console, args: QueueAddArgs) -> Result<Exit> {
    let text = prompt_text(console, args.prompt)?;
    let attachments = attachments::read(&args.image)?;
    let (client, session_id) = session(console, &args.session).await?;
    let request = pb::AddQueuedRequest { session_id, text, attachments, client_key: once::key() };
    let added = once::call(|| {
        let (client, request) = (client.clone(), request.clone());
        async move { client.queue().add(request).await }
    })
    .await?;
    if console.out.json {
        let value = json!({
            "session_id": request.session_id, "entry": added.entry, "turn_id": added.turn_id, "seq": added.seq,
        });
        console.out.json(&value)?;
    } else if added.turn_id.is_empty() {
        console.out.line(&format!("Queued: {} of {}", added.entry, request.session_id))?;
    } else {
        console.out.line(&format!("Sent: {} as {} of {}", added.entry, added.turn_id, request.session_id))?;
    }
    Ok(Exit::OK)
}

async fn edit(console: &mut Console, args: QueueEditArgs) -> Result<Exit> {
    let text = prompt_text(console, args.prompt)?;
    let (client, session_id) = session(console, &args.session).await?;
    let request = pb::EditQueuedRequest { session_id, entry: args.entry, text };
    let queue = client.queue().edit(request).await?.into_inner();
    print(console, &queue)
}

async fn session(console: &mut Console, typed: &str) -> Result<(Client, String)> {
    let client = console.connect().await?;
    let id = resolve::session(&client, typed).await?;
    Ok((client, id))
}

/// Returns the prompt from the command line or from standard input.
fn prompt_text(console: &mut Console, typed: Option<String>) -> Result<String> {
    let text = match typed {
        Some(text) if text != "-" => text,
        None if console.input.is_terminal() => return Err(Failure::usage("the prompt is missing")),
        _ => console.read_message()?,
    };
    if text.trim().is_empty() {
        return Err(Failure::usage("the prompt is empty"));
    }
    Ok(text)
}

fn print(console: &mut Console, queue: &pb::Queue) -> Result<Exit> {
    if console.out.json {
        for entry in &queue.entries {
            let value = json!({
                "session_id": queue.session_id, "entry": entry.id, "prompt": entry.text,
                "attachments": entry.attachments, "added_by": entry.added_by,
                "added_at": format::rfc3339(entry.added_at.as_ref()), "paused": queue.paused,
            });
            console.out.json(&value)?;
        }
        return Ok(Exit::OK);
    }
    if queue.entries.is_empty() {
        console.out.note(TextStyle::Dim, "The queue is empty.")?;
    } else {
        let mut table = Table::new(&["ENTRY", "PLACE", "PROMPT", "BY"]);
        for (place, entry) in queue.entries.iter().enumerate() {
            let prompt = format::shorten(&format::one_line(&entry.text), PROMPT_COLUMNS);
            table.row(vec![entry.id.clone(), (place + 1).to_string(), prompt, entry.added_by.clone()]);
        }
        print_table(console, &table)?;
    }
    if !queue.paused.is_empty() {
        let text = format!("Paused: {}. Go on with: obey queue resume {}", queue.paused, queue.session_id);
        console.out.note(TextStyle::Warn, &text)?;
    }
    Ok(Exit::OK)
}

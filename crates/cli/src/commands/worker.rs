//! `obey worker …`: the workers that sessions have.

use serde_json::json;
use wire::betcode::v1 as pb;

use super::session::print_table;
use cli_args::plan::{WorkerCancelArgs, WorkerCommand, WorkerListArgs, WorkerSendArgs};
use client::{format, resolve};
use config::exit::Exit;
use config::failure::{Failure, Result};
use terminal::console::Console;
use terminal::output::TextStyle;
use terminal::table::Table;

/// Columns of a prompt or a result in the list.
const TEXT_COLUMNS: usize = 48;

pub(super) async fn run(console: &mut Console, command: WorkerCommand) -> Result<Exit> {
    match command {
        WorkerCommand::List(args) => list(console, args).await,
        WorkerCommand::Send(args) => send(console, args).await,
        WorkerCommand::Cancel(args) => cancel(console, args).await,
    }
}

fn status(info: i32) -> String {
    let status = pb::SubagentStatus::try_from(info).unwrap_or_default();
    status.as_str_name().trim_start_matches("SUBAGENT_STATUS_").to_lowercase()
}

async fn list(console: &mut Console, args: WorkerListArgs) -> Result<Exit> {
    let client = console.connect().await?;
    let parent_session_id = match &args.session {
        Some(session) => resolve::session(&client, session).await?,
        None => String::new(),
    };
    let request = pb::ListSubagentsRequest { parent_session_id, ..Default::default() };
    let workers = client.subagents().list_subagents(request).await?.into_inner().subagents;
    if console.out.json {
        for worker in workers {
            let value = json!({
                "id": worker.id, "parent_session_id": worker.parent_session_id, "name": worker.name,
                "provider": worker.provider, "model": worker.model, "status": status(worker.status),
                "prompt": worker.prompt, "result": worker.result_summary, "working_directory": worker.working_directory,
                "created_at": format::rfc3339(worker.created_at.as_ref()),
                "completed_at": format::rfc3339(worker.completed_at.as_ref()),
            });
            console.out.json(&value)?;
        }
        return Ok(Exit::OK);
    }
    if workers.is_empty() {
        console.out.note(TextStyle::Dim, "No workers.")?;
        return Ok(Exit::OK);
    }
    let mut table = Table::new(&["WORKER", "NAME", "PROVIDER", "STATUS", "RESULT OR PROMPT"]);
    for worker in workers {
        let text = if worker.result_summary.is_empty() { &worker.prompt } else { &worker.result_summary };
        let text = format::shorten(&format::one_line(text), TEXT_COLUMNS);
        table.row(vec![worker.id, worker.name, worker.provider, status(worker.status), text]);
    }
    print_table(console, &table)?;
    Ok(Exit::OK)
}

async fn send(console: &mut Console, args: WorkerSendArgs) -> Result<Exit> {
    let content = match args.message {
        Some(text) if text != "-" => text,
        None if console.input.is_terminal() => return Err(Failure::usage("the message is missing")),
        _ => console.read_message()?,
    };
    let client = console.connect().await?;
    let subagent_id = resolve::session(&client, &args.worker).await?;
    let request = pb::SendToSubagentRequest { subagent_id: subagent_id.clone(), content };
    client.subagents().send_to_subagent(request).await?;
    if console.out.json {
        console.out.json(&json!({"id": subagent_id, "delivered": true}))?;
    } else {
        console.out.line(&format!("Sent to {subagent_id}"))?;
    }
    Ok(Exit::OK)
}

async fn cancel(console: &mut Console, args: WorkerCancelArgs) -> Result<Exit> {
    let client = console.connect().await?;
    let subagent_id = resolve::session(&client, &args.worker).await?;
    let request = pb::CancelSubagentRequest {
        subagent_id: subagent_id.clone(),
        reason: args.reason,
        force: args.force,
        cleanup_worktree: args.cleanup_worktree,
    };
    let ended = client.subagents().cancel_subagent(request).await?.into_inner();
    let status = status(ended.final_status);
    if console.out.json {
        console.out.json(&json!({
            "id": subagent_id, "cancelled": ended.cancelled, "status": status,
            "tool_calls_executed": ended.tool_calls_executed,
            "tool_calls_auto_approved": ended.tool_calls_auto_approved,
        }))?;
    } else {
        console.out.line(&format!("{subagent_id} {status}"))?;
    }
    Ok(Exit::OK)
}

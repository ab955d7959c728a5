//! `obey session fork`, `rename`, `archive`, `remove` and `budget`.

use serde_json::json;
use wire::obey::local::v1 as local;
use wire::obey::v1 as pb;

use super::requests;
use crate::commands::budget::{amounts, amounts_json, print_amounts};
use crate::commands::{plan, queue, worker};
use cli_args::operations::{
    ArchiveArgs, BudgetArgs, ForkArgs, OperationCommand, RemoveSessionArgs, RenameArgs,
};
use client::{format, resolve};
use config::exit::Exit;
use config::failure::Result;
use domain::ErrorCode;
use terminal::console::Console;
use terminal::output::TextStyle;

/// Runs one of the short commands.
pub(in crate::commands) async fn run(console: &mut Console, command: OperationCommand) -> Result<Exit> {
    match command {
        OperationCommand::Queue(command) => queue::run(console, command).await,
        OperationCommand::Plan(command) => plan::run(console, command).await,
        OperationCommand::Worker(command) => worker::run(console, command).await,
        OperationCommand::Requests(args) => requests::run(console, &args).await,
        OperationCommand::Approve(args) => requests::approve(console, args).await,
        OperationCommand::Deny(args) => requests::deny(console, args).await,
        OperationCommand::Answer(args) => requests::answer(console, args).await,
        OperationCommand::Fork(args) => fork(console, args).await,
        OperationCommand::Rename(args) => rename(console, &args).await,
        OperationCommand::Rm(args) => remove(console, &args).await,
    }
}

pub(super) async fn fork(console: &mut Console, args: ForkArgs) -> Result<Exit> {
    let client = console.connect().await?;
    let session_id = resolve::session(&client, &args.session).await?;
    let (seq, name) = (args.at.unwrap_or(0), args.name.unwrap_or_default());
    let request = pb::ForkSessionRequest { session_id, seq, name };
    let forked = client.session_operations().fork(request).await?.into_inner();
    if console.out.json {
        let value = json!({
            "session_id": forked.session_id, "name": forked.name, "seq": forked.seq, "resumes": forked.resumes,
        });
        console.out.json(&value)?;
        return Ok(Exit::OK);
    }
    console.out.line(&format!("Session: {}", forked.session_id))?;
    console.out.line(&format!("Name:    {}", forked.name))?;
    let how = if forked.resumes {
        "its agent resumes the conversation"
    } else {
        "its agent is told the history with the first prompt"
    };
    let note =
        format!("Forked at event {}; {how}: obey session send {} \"…\"", forked.seq, forked.session_id);
    console.out.note(TextStyle::Dim, &note)?;
    Ok(Exit::OK)
}

pub(super) async fn rename(console: &mut Console, args: &RenameArgs) -> Result<Exit> {
    let client = console.connect().await?;
    let session_id = resolve::session(&client, &args.session).await?;
    let request = pb::RenameSessionRequest { session_id: session_id.clone(), name: args.name.clone() };
    let name = client.session_operations().rename(request).await?.into_inner().name;
    if console.out.json {
        console.out.json(&json!({"session_id": session_id, "name": name}))?;
    } else {
        console.out.line(&format!("Renamed: {session_id} is {name}"))?;
    }
    Ok(Exit::OK)
}

pub(super) async fn archive(console: &mut Console, args: &ArchiveArgs) -> Result<Exit> {
    let client = console.connect().await?;
    let session_id = resolve::session(&client, &args.session).await?;
    let request = pb::ArchiveSessionRequest { session_id: session_id.clone(), undo: args.undo };
    let archived = client.session_operations().archive(request).await?.into_inner().archived;
    if console.out.json {
        console.out.json(&json!({"session_id": session_id, "archived": archived}))?;
    } else {
        console.out.line(&format!("{}: {session_id}", if archived { "Archived" } else { "Shown again" }))?;
    }
    Ok(Exit::OK)
}

pub(super) async fn remove(console: &mut Console, args: &RemoveSessionArgs) -> Result<Exit> {
    let client = console.connect().await?;
    for typed in &args.sessions {
        let session_id = resolve::session(&client, typed).await?;
        if args.force {
            let stop = local::StopSessionRequest { session_id: session_id.clone(), graceful: false };
            let stopped = client.daemon().stop_session(stop).await.map_err(config::failure::Failure::from);
            let already = ErrorCode::AlreadyStopped.to_string();
            match stopped {
                Err(failure) if failure.code.as_deref() != Some(already.as_str()) => return Err(failure),
                _ => {}
            }
        }
        let request = pb::RemoveSessionRequest { session_id: session_id.clone() };
        client.session_operations().remove(request).await?;
        if console.out.json {
            console.out.json(&json!({"session_id": session_id, "removed": true}))?;
        } else {
            console.out.line(&format!("Removed: {session_id}"))?;
        }
    }
    Ok(Exit::OK)
}

pub(super) async fn budget(console: &mut Console, args: &BudgetArgs) -> Result<Exit> {
    let client = console.connect().await?;
    let session_id = resolve::session(&client, &args.session).await?;
    let change = args.amounts.budget();
    let request = pb::SetBudgetRequest {
        session_id: session_id.clone(),
        tokens: change.tokens,
        cost_micro_usd: change.cost_micro_usd,
        work_ms: change.work_ms,
        calls: change.calls,
    };
    let mut service = client.session_operations();
    let budget = if change.is_unlimited() {
        service.get_budget(pb::GetBudgetRequest { session_id }).await?.into_inner()
    } else {
        service.set_budget(request).await?.into_inner()
    };
    print_budget(console, &budget)
}

fn print_budget(console: &mut Console, budget: &pb::BudgetStatus) -> Result<Exit> {
    let (limits, spent) = amounts!(budget);
    let resumes_at = format::rfc3339(budget.resumes_at.as_ref());
    if console.out.json {
        let mut value = amounts_json(&limits, &spent);
        value["session_id"] = json!(budget.session_id);
        value["used_up"] = json!(budget.used_up);
        value["rate_limit"] = json!(budget.rate_limit);
        value["resumes_at"] = json!(resumes_at);
        console.out.json(&value)?;
        return Ok(Exit::OK);
    }
    print_amounts(console, &limits, &spent, &budget.used_up)?;
    if let Some(at) = resumes_at {
        let text = format!("Waits for a rate limit until {at}: {}", budget.rate_limit);
        console.out.note(TextStyle::Warn, &text)?;
    }
    Ok(Exit::OK)
}

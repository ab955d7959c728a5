//! `obey session cancel`, `mode`, `stop` and `restart`.

use domain::{ErrorCode, Status};
use serde_json::json;
use wire::obey::local::v1 as local;
use wire::obey::v1 as pb;

use super::{print_state, send};
use cli_args::everyday::StopArgs;
use cli_args::session::{ModeArgs, RestartArgs, SessionStopArgs};
use client::answers;
use client::names;
use client::once;
use client::resolve;
use config::exit::Exit;
use config::failure::{Failure, Result};
use terminal::console::Console;
use terminal::output::TextStyle;

pub(super) async fn cancel(console: &mut Console, typed: &str) -> Result<Exit> {
    let client = console.connect().await?;
    let id = resolve::session(&client, typed).await?;
    let request = pb::CancelTurnRequest { session_id: id.clone(), client_key: once::key() };
    let cancelled = once::call(|| {
        let (client, request) = (client.clone(), request.clone());
        async move { client.turns().cancel_turn(request).await }
    })
    .await?
    .cancelled;
    if console.out.json {
        console.out.json(&json!({"session_id": id, "cancelled": cancelled}))?;
    } else {
        console.out.line(if cancelled { "Cancelling the turn." } else { "No turn was running." })?;
    }
    Ok(Exit::OK)
}

pub(super) async fn mode(console: &mut Console, args: &ModeArgs) -> Result<Exit> {
    let client = console.connect().await?;
    let id = resolve::session(&client, &args.session).await?;
    let mode = send::set_mode(&client, &id, args.mode).await?;
    if console.out.json {
        console.out.json(&json!({"session_id": id, "mode": mode}))?;
    } else {
        console.out.line(&format!("Mode: {mode}"))?;
    }
    Ok(Exit::OK)
}

pub(super) async fn stop(console: &mut Console, args: &SessionStopArgs) -> Result<Exit> {
    let client = console.connect().await?;
    let id = resolve::session(&client, &args.session).await?;
    if !args.force {
        let waiting = answers::list(&client, &id, false).await?;
        if let Some(request) = waiting.first() {
            let text =
                format!("{} waits for an answer; its turn gets 30 s to end (--force: none)", request.id);
            console.out.note(TextStyle::Warn, &text)?;
        }
    }
    console.out.status("ending the agent…")?;
    let request = local::StopSessionRequest { session_id: id, graceful: !args.force };
    let response = client.daemon().stop_session(request).await?.into_inner();
    console.out.hide_status()?;
    print_state(console, &response.session.unwrap_or_default())?;
    Ok(Exit::OK)
}

/// Stops several sessions, one after the other. One that cannot be stopped does not keep the others.
pub(in crate::commands) async fn stop_all(console: &mut Console, args: &StopArgs) -> Result<Exit> {
    let mut failed = None;
    for session in &args.names {
        let one = SessionStopArgs { session: session.clone(), force: args.force };
        if let Err(failure) = stop(console, &one).await
            && let Some(earlier) = failed.replace(failure)
        {
            console.out.failure(&earlier);
        }
    }
    failed.map_or(Ok(Exit::OK), Err)
}

pub(super) async fn restart(console: &mut Console, args: RestartArgs) -> Result<Exit> {
    let client = console.connect().await?;
    let id = resolve::session(&client, &args.session).await?;
    console.out.status("starting the agent…")?;
    let request =
        local::RestartSessionRequest { session_id: id, provider_config: args.config.unwrap_or_default() };
    let session = client.daemon().restart_session(request).await?.into_inner().session.unwrap_or_default();
    console.out.hide_status()?;
    print_state(console, &session)?;
    if names::status(session.status) == Some(Status::Failed) {
        return Err(Failure::coded(ErrorCode::CreateFailed, session.error_message));
    }
    Ok(Exit::OK)
}

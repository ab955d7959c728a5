//! `obey session cancel`, `mode`, `wait`, `stop` and `restart`.

use domain::{ErrorCode, EventKind, Status};
use serde_json::json;
use wire::obey::local::v1 as local;
use wire::obey::v1 as pb;

use super::{get, print_state, send};
use crate::answers;
use crate::args::session::{ModeArgs, RestartArgs, SessionStopArgs, WaitArgs};
use crate::client::Client;
use crate::console::Console;
use crate::events;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::feed::{Feed, FeedItem};
use crate::format;
use crate::names;
use crate::output::TextStyle;
use crate::resolve;

pub(super) async fn cancel(console: &mut Console, typed: &str) -> Result<Exit> {
    let client = console.connect().await?;
    let id = resolve::session(&client, typed).await?;
    let request = pb::CancelTurnRequest { session_id: id.clone() };
    let cancelled = client.turns().cancel_turn(request).await?.into_inner().cancelled;
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

/// Waits until a session is idle or has ended. The exit code is 7 if it failed.
pub(super) async fn wait(console: &mut Console, args: &WaitArgs) -> Result<Exit> {
    let client = console.connect().await?;
    let id = resolve::session(&client, &args.session).await?;
    let waiting = until_idle(&client, &id);
    match args.timeout {
        None => waiting.await?,
        Some(limit) => tokio::time::timeout(limit, waiting).await.map_err(|_| {
            Failure::failed(format!("the session {id} is still busy after {}", format::duration(limit)))
        })??,
    }
    let session = get(&client, &id).await?;
    print_state(console, &session)?;
    let failed = names::status(session.status) == Some(Status::Failed);
    Ok(if failed { Exit::TURN_FAILED } else { Exit::OK })
}

/// Waits until the session is neither starting, working nor stopping.
async fn until_idle(client: &Client, id: &str) -> Result<()> {
    let busy = |status: Option<Status>| {
        matches!(status, Some(Status::Created | Status::Starting | Status::Working | Status::Stopping))
    };
    // Read before the status, so that no change between the two is missed.
    let last = events::tail(client, id, 0, 0).await?.last;
    if !busy(names::status(get(client, id).await?.status)) {
        return Ok(());
    }
    let mut feed = Feed::follow(client, id, last);
    while let Some(item) = feed.next().await {
        match item {
            FeedItem::Event(event) => match event.kind {
                Some(EventKind::StatusChanged { to, .. }) if !busy(Some(to)) => return Ok(()),
                _ => {}
            },
            FeedItem::Failed(failure) => return Err(failure),
            FeedItem::Lost | FeedItem::Back => {}
        }
    }
    Ok(())
}

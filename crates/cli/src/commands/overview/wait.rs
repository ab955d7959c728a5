//! `obey wait`: until sessions have finished their turns. The exit code says whether a turn failed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use domain::turn::EndReason;
use domain::{ErrorCode, Status};
use tokio::time::Instant;
use wire::obey::v1 as pb;

use super::ps;
use crate::commands::budget;
use crate::commands::session::exit_of_turn;
use cli_args::session::WaitArgs;
use client::connection::Client;
use client::limits::{RECONNECT_PAUSE, RECONNECT_WAIT};
use client::{format, resolve};
use config::exit::Exit;
use config::failure::{Failure, Result};
use terminal::console::Console;
use terminal::output::TextStyle;

pub(in crate::commands) async fn run(console: &mut Console, args: &WaitArgs) -> Result<Exit> {
    let client = console.connect().await?;
    let mut ids = Vec::new();
    for typed in &args.sessions {
        ids.push(resolve::session(&client, typed).await?);
    }
    if ids.is_empty() {
        ids = busy_now(&client).await?;
        if ids.is_empty() {
            return Ok(Exit::OK);
        }
    }
    let waiting = until_finished(console, &client, &ids, args.any);
    let finished = match args.timeout {
        None => waiting.await?,
        Some(limit) => {
            tokio::time::timeout(limit, waiting).await.map_err(|_| still_busy(&args.sessions, limit))??
        }
    };
    let mut exit = Exit::OK;
    let shared_budgets = if console.out.json { budget::all(&client).await } else { Vec::new() };
    for session in &finished {
        print(console, session, &shared_budgets)?;
        // The first that failed decides.
        exit = if exit == Exit::OK { exit_of(session) } else { exit };
    }
    Ok(exit)
}

fn still_busy(typed: &[String], limit: Duration) -> Failure {
    let limit = format::duration(limit);
    match typed {
        [one] => Failure::failed(format!("the session {one} is still busy after {limit}")),
        _ => Failure::failed(format!("sessions are still busy after {limit}")),
    }
}

/// Returns the sessions whose agent has something to do.
async fn busy_now(client: &Client) -> Result<Vec<String>> {
    let sessions = client.overview().list(pb::ListOverviewRequest::default()).await?.into_inner().sessions;
    Ok(sessions.into_iter().filter(is_busy).map(|session| session.session_id).collect())
}

fn is_busy(session: &pb::SessionOverview) -> bool {
    use Status::{Created, Starting, Stopping, Working};
    matches!(Status::parse(&session.status), Some(Created | Starting | Working | Stopping))
}

/// Waits until one or all of the sessions have nothing to do. Returns those that finished, in the order given.
async fn until_finished(
    console: &mut Console,
    client: &Client,
    ids: &[String],
    any: bool,
) -> Result<Vec<pb::SessionOverview>> {
    let mut lost_since: Option<Instant> = None;
    let mut told = BTreeSet::new();
    loop {
        match watch(console, client, ids, any, (&mut lost_since, &mut told)).await {
            Err(failure) if failure.is_connection_lost() => {
                // A daemon is being replaced; sessions go on meanwhile.
                if lost_since.get_or_insert_with(Instant::now).elapsed() >= RECONNECT_WAIT {
                    return Err(failure);
                }
                tokio::time::sleep(RECONNECT_PAUSE).await;
            }
            outcome => return outcome,
        }
    }
}

async fn watch(
    console: &mut Console,
    client: &Client,
    ids: &[String],
    any: bool,
    (lost_since, told): (&mut Option<Instant>, &mut BTreeSet<String>),
) -> Result<Vec<pb::SessionOverview>> {
    let filter = pb::OverviewFilter { include_ended: true, session_ids: ids.to_vec(), ..Default::default() };
    let request = pb::WatchOverviewRequest { filter: Some(filter) };
    let mut updates = client.overview().watch(request).await?.into_inner();
    let mut known: BTreeMap<String, pb::SessionOverview> = BTreeMap::new();
    while let Some(update) = updates.message().await? {
        *lost_since = None;
        for session in update.sessions {
            known.insert(session.session_id.clone(), session);
        }
        for removed in &update.removed {
            known.remove(removed);
        }
        if let Some(gone) = ids.iter().find(|id| !known.contains_key(*id)) {
            return Err(Failure::coded(ErrorCode::SessionNotFound, format!("there is no session {gone}")));
        }
        let finished: Vec<_> =
            ids.iter().filter_map(|id| known.get(id)).filter(|one| !is_busy(one)).collect();
        if finished.len() == ids.len() || (any && !finished.is_empty()) {
            return Ok(finished.into_iter().cloned().collect());
        }
        for session in ids.iter().filter_map(|id| known.get(id)) {
            tell_need(console, session, told)?;
        }
    }
    Err(Failure::from(tonic::Status::unavailable("the stream ended before the sessions had finished")))
}

/// Says once per request that a session needs an answer before it can finish.
fn tell_need(
    console: &mut Console,
    session: &pb::SessionOverview,
    told: &mut BTreeSet<String>,
) -> Result<()> {
    for request in &session.requests {
        if told.insert(format!("{} {}", session.session_id, request.request_id)) {
            let note = format!("{} needs you: {}", session.name, format::one_line(&request.text));
            console.out.note(TextStyle::Warn, &note)?;
            console.out.note(TextStyle::Dim, &format!("  answer it: obey attach {}", session.session_id))?;
        }
    }
    Ok(())
}

/// Returns the exit code of a session that has finished: that of its last turn.
fn exit_of(session: &pb::SessionOverview) -> Exit {
    if session.status == Status::Failed.name() {
        return Exit::TURN_FAILED;
    }
    EndReason::parse(&session.last_turn).map_or(Exit::OK, exit_of_turn)
}

fn print(
    console: &mut Console,
    session: &pb::SessionOverview,
    shared_budgets: &[pb::SharedBudget],
) -> Result<()> {
    if console.out.json {
        return console.out.json(&ps::session_json(session, &ps::with_share(session, shared_budgets)));
    }
    console.out.line(&format!("Session: {}", session.session_id))?;
    console.out.line(&format!("Name:    {}", format::one_line(&session.name)))?;
    console.out.line(&format!("Status:  {}", session.status))?;
    console.out.line(&format!("State:   {}", ps::state_in_words(session)))?;
    if exit_of(session) == Exit::OK {
        return Ok(());
    }
    console.out.line(&format!("Why:     {}", format::one_line(&session.reason)))
}

//! `obey session list` and `obey session info`.

use domain::ResourceLimits;
use domain::resources::show_bytes;
use wire::obey::local::v1 as local;
use wire::obey::v1 as pb;

use super::{get_detailed, print_sessions, tokens};
use crate::commands::overview;
use crate::json;
use crate::json_types::{SessionInfoJson, SessionListJson, value};
use cli_args::session::SessionListArgs;
use client::answers;
use client::connection::Client;
use client::format;
use client::names;
use client::resolve;
use config::exit::Exit;
use config::failure::Result;
use terminal::console::Console;
use terminal::output::TextStyle;
use terminal::table::named;

pub(super) async fn run(console: &mut Console, args: &SessionListArgs) -> Result<Exit> {
    let client = console.connect().await?;
    let campaigns = resolve::campaigns(&client).await?;
    let campaign_id = match &args.campaign {
        Some(typed) => resolve::known_campaign(&campaigns, typed)?,
        None => String::new(),
    };
    let request = local::ListSessionsRequest {
        campaign_id,
        statuses: args.status.iter().map(|status| names::status_number(*status).into()).collect(),
        provider: args.provider.map_or(0, |kind| names::provider_number(kind).into()),
        // Naming a final status must not require another flag.
        include_terminated: args.all || args.status.iter().any(|status| status.is_terminal()),
    };
    let sessions = client.daemon().list_sessions(request).await?.into_inner().sessions;
    if console.out.json {
        let sessions = sessions.iter().map(json::session_typed).collect();
        console.out.json(&value(&SessionListJson { sessions }))?;
        return Ok(Exit::OK);
    }
    if sessions.is_empty() {
        let hint = if args.all { "" } else { " Those that ended: obey session list --all" };
        console.out.note(TextStyle::Dim, &format!("No sessions.{hint}"))?;
        return Ok(Exit::OK);
    }
    print_sessions(console, &sessions, &campaigns)?;
    Ok(Exit::OK)
}

/// Shown for a session whose agent has all rights of its user.
const NOT_CONTAINED: &str = "no (start it with --sandbox)";

pub(super) async fn info(console: &mut Console, typed: &str) -> Result<Exit> {
    let client = console.connect().await?;
    let id = resolve::session(&client, typed).await?;
    let super::DetailedSession { session, containment: contained, resources } =
        get_detailed(&client, &id).await?;
    let waiting = answers::list(&client, &id, false).await?;
    let scrubbing = client.events().get_scrubbing(pb::GetScrubbingRequest { session_id: id.clone() }).await?;
    let is_scrubbed = scrubbing.into_inner().events;
    let conversation = conversation_of(&client, &id).await?;
    let seen = overview::look_up(&client, std::slice::from_ref(&id)).await?.pop();
    if console.out.json {
        let printed = SessionInfoJson {
            session: json::session_typed(&session),
            containment: if contained.is_empty() { "none".to_owned() } else { contained },
            scrubbed: is_scrubbed,
            conversation_id: conversation.conversation_id,
            way_back: conversation.command,
            resources,
            overview: seen.as_ref().map(|seen| overview::session_typed(seen, &[])),
            pending_requests: waiting.iter().map(json::request_typed).collect(),
        };
        return console.out.json(&value(&printed)).map(|()| Exit::OK);
    }
    let zone = jiff::tz::TimeZone::clone(&console.zone);
    let date = |at: &Option<prost_types::Timestamp>| {
        at.as_ref().map_or_else(String::new, |at| format::date(Some(at), &zone))
    };
    let count = |number: i32| if number > 0 { number.to_string() } else { String::new() };
    let of_seen = |part: fn(&pb::SessionOverview) -> String| seen.as_ref().map(part).unwrap_or_default();
    let campaign = Some(of_seen(|seen| seen.campaign.clone())).filter(|name| !name.is_empty());
    let campaign = campaign.unwrap_or_else(|| session.campaign_id.clone());
    let pairs = [
        ("Session", session.id.clone()),
        ("Name", session.agent_name.clone()),
        ("Status", names::status_name(session.status)),
        ("State", seen.as_ref().map(shown_state).unwrap_or_default()),
        ("Error", session.error_message.clone()),
        ("Provider", names::provider(session.provider)),
        ("Model", session.model.clone()),
        ("Mode", of_seen(|seen| seen.mode.clone())),
        ("Campaign", campaign),
        ("Festival", session.festival_id.clone()),
        ("Task", session.task_id.clone()),
        ("Folder", session.working_dir.clone()),
        ("Branch", of_seen(|seen| seen.branch.clone())),
        ("Without obey", conversation.command.clone()),
        ("Tokens", shown_tokens(&session)),
        ("Cost", of_seen(|seen| seen.cost_micro_usd.map_or_else(|| "not reported".to_owned(), format::cost))),
        ("Contained", if contained.is_empty() { NOT_CONTAINED.to_owned() } else { contained }),
        ("Secrets", if is_scrubbed { "removed from events" } else { "kept in events" }.to_owned()),
        ("Limits", shown_limits(&resources)),
        ("Used", shown_use(&resources)),
        ("Process", count(session.pid)),
        ("Restarts", count(session.restart_count)),
        ("Created", date(&session.created_at)),
        ("Started", date(&session.started_at)),
        ("Active", date(&session.last_activity_at)),
        ("Ended", date(&session.ended_at)),
    ];
    named(&pairs).into_iter().try_for_each(|line| console.out.line(&line))?;
    if !waiting.is_empty() {
        console.out.line("")?;
        super::print_requests(console, &waiting, &super::names_of(seen))?;
    }
    Ok(Exit::OK)
}

fn shown_tokens(session: &local::SessionInfo) -> String {
    let used = |number: i64| format::count(u64::try_from(number).unwrap_or_default());
    let (input, output) = (used(session.tokens_input), used(session.tokens_output));
    format!("{} ({input} in, {output} out)", tokens(session))
}

/// Returns the state that people see, with its reason.
fn shown_state(seen: &pb::SessionOverview) -> String {
    let reason = format::below_folder(&format::one_line(&seen.reason), &seen.folder);
    format!("{} ({reason})", overview::state_in_words(seen))
}

/// Returns the agent's own conversation of a session.
async fn conversation_of(client: &Client, id: &str) -> Result<pb::GetConversationResponse> {
    let request = pb::GetConversationRequest { session_id: id.to_owned() };
    match client.imports().get_conversation(request).await {
        Ok(found) => Ok(found.into_inner()),
        // An older daemon that was not replaced yet.
        Err(status) if status.code() == tonic::Code::Unimplemented => {
            Ok(pb::GetConversationResponse::default())
        }
        Err(status) => Err(status.into()),
    }
}

/// Returns what a session may use and what holds it to that.
fn shown_limits(resources: &serde_json::Value) -> String {
    let Ok(limits) = serde_json::from_value::<ResourceLimits>(resources["limits"].clone()) else {
        return String::new();
    };
    let enforcement = resources["enforcement"].as_str().unwrap_or_default();
    let mut shown = format!("{limits} ({enforcement})");
    let open = resources["not_enforced"].as_array().into_iter().flatten().filter_map(|name| name.as_str());
    let open: Vec<&str> = open.collect();
    if !open.is_empty() {
        shown.push_str(&format!("; not enforced: {}", open.join(", ")));
    }
    shown
}

/// Returns what a session has used, as far as that was measured.
fn shown_use(resources: &serde_json::Value) -> String {
    let number = |key: &str| resources[key].as_u64();
    let memory = number("peak_memory_bytes").map(|bytes| format!("{} of memory at most", show_bytes(bytes)));
    let cpu = number("cpu_ms").map(|ms| format!("{}.{} s of processor time", ms / 1_000, ms % 1_000 / 100));
    let kills = number("oom_kills").filter(|kills| *kills > 0);
    let kills = kills.map(|kills| format!("{kills} killed because memory ran out"));
    [memory, cpu, kills].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

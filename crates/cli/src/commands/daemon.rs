//! Commands for the daemon itself: start in the background, stop, ping, status, version.

use std::os::fd::OwnedFd;
use std::path::Path;

use jiff::Timestamp;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde_json::json;
use wire::obey::local::v1 as local;
use wire::obey::v1::CollectGarbageRequest;

use crate::json;
use crate::json_types::{VersionJson, value};
use crate::limits;
use crate::local::LocalCommands;
use cli_args::ServeArgs;
use cli_args::everyday::StopArgs;
use client::answers;
use client::autostart::{self, Launch, Started};
use client::connection::{self, Client, unreachable_daemon};
use client::format;
use client::resolve;
use config::exit::Exit;
use config::failure::{Failure, Result};
use config::holder::{self, Holder};
use config::running::Running;
use terminal::console::{Autostart, Console};
use terminal::output::TextStyle;

/// `obey serve --detach`.
pub(super) async fn detach(
    console: &mut Console,
    args: &ServeArgs,
    local: &dyn LocalCommands,
) -> Result<Exit> {
    let options = local.serve_launch(console, args)?;
    let launch = Launch { flags: options.flags, ..console.launch(&options.socket) };
    let socket = options.socket.display();
    match autostart::start(&launch).await? {
        Started::Ready { pid, listen } if console.out.json => {
            let listen: Vec<&str> = listen.split(',').filter(|address| !address.is_empty()).collect();
            let ready = json!({"pid": pid, "socket": socket.to_string(), "listen": listen, "started": true});
            console.out.json(&ready)?;
        }
        Started::Ready { pid, listen } => {
            console.out.line(&format!("ready socket={socket} listen={listen} pid={pid}"))?;
        }
        Started::Already if console.out.json => {
            console.out.json(&json!({"socket": socket.to_string(), "started": false}))?;
        }
        Started::Already => console.out.line(&format!("The daemon runs already at {socket}."))?,
    }
    Ok(Exit::OK)
}

/// Shuts the daemon down and waits until its process has ended.
pub(super) async fn stop(console: &mut Console, args: &StopArgs) -> Result<Exit> {
    let client = match console.connect_with(Autostart::Never).await {
        Ok(client) => client,
        Err(failure) => return stop_unreachable(console, args, failure).await,
    };
    let socket = console.socket()?;
    let process = daemon_process(console, &client, &socket).await;
    let request = local::ShutdownRequest { stop_sessions: args.sessions };
    let response = client.daemon().shutdown(request).await?.into_inner();
    console.out.status("waiting for the daemon to end…")?;
    let ended = match process {
        Some(process) => in_time(move || holder::ended(&process, limits::STOP_WAIT)).await,
        None => false,
    };
    console.out.hide_status()?;
    if console.out.json {
        let result = json!({"accepted": response.accepted, "sessions_stopped": response.sessions_stopped, "ended": ended});
        console.out.json(&result)?;
        return Ok(Exit::OK);
    }
    let stopped = usize::try_from(response.sessions_stopped).unwrap_or_default();
    let agents = if args.sessions {
        format!("{} ended", format::plural(stopped, "session"))
    } else {
        "agents go on and are found again by the next daemon".to_owned()
    };
    let what = if ended { "The daemon has ended" } else { "The daemon was told to end" };
    console.out.line(&format!("{what}; {agents}."))?;
    Ok(Exit::OK)
}

/// Ends a daemon that lost its socket. It cannot be asked to stop its sessions.
async fn stop_unreachable(console: &mut Console, args: &StopArgs, failure: Failure) -> Result<Exit> {
    let Some(holder) = Holder::of(&console.paths.data_dir.join("daemon.lock")) else { return Err(failure) };
    let pid = holder.pid;
    console.out.status("waiting for the daemon to end…")?;
    let ended = in_time(move || holder.end(limits::STOP_WAIT)).await;
    console.out.hide_status()?;
    if console.out.json {
        let result = json!({"accepted": true, "sessions_stopped": 0, "ended": ended});
        console.out.json(&result)?;
        return Ok(Exit::OK);
    }
    let what = if ended { "has ended" } else { "was told to end" };
    console.out.line(&format!("The daemon (pid {pid}), which had lost its socket, {what}; agents go on."))?;
    if args.sessions {
        console
            .out
            .note(TextStyle::Warn, "To end them as well: obey ping, then again obey stop --sessions")?;
    }
    Ok(Exit::OK)
}

/// Runs a blocking wait on a blocking thread.
async fn in_time(wait: impl FnOnce() -> bool + Send + 'static) -> bool {
    tokio::task::spawn_blocking(wait).await.unwrap_or(false)
}

/// Returns a handle that becomes readable when the daemon's process ends. `None` if its process is not the
/// one behind the socket, as in another container. The process behind a socket that was passed to the daemon
/// is the one that passed it.
async fn daemon_process(console: &Console, client: &Client, socket: &Path) -> Option<OwnedFd> {
    let told = call_ping(console, client).await.ok()?.pid;
    let was_given = || Running::read(socket, told).is_some_and(|running| running.is_given_socket);
    let listener = connection::listener(socket).await?;
    let pid = (listener == told || was_given()).then_some(told)?;
    pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()
}

pub(super) async fn ping(console: &mut Console) -> Result<Exit> {
    let client = console.connect().await?;
    let began = tokio::time::Instant::now();
    let pong = call_ping(console, &client).await?;
    let took = began.elapsed();
    if console.out.json {
        console.out.json(&json::ping(&pong))?;
        return Ok(Exit::OK);
    }
    console.out.line(&format!("{} in {}", describe(&pong), format::duration(took)))?;
    Ok(Exit::OK)
}

/// Pings with a deadline: a hung daemon still accepts connections.
pub async fn call_ping(console: &Console, client: &Client) -> Result<local::PingResponse> {
    let mut daemon = client.daemon();
    match tokio::time::timeout(limits::PING_WAIT, daemon.ping(local::PingRequest {})).await {
        Ok(answer) => Ok(answer?.into_inner()),
        Err(_) => {
            let why = format!("it does not answer within {} s", limits::PING_WAIT.as_secs());
            Err(unreachable_daemon(&console.socket()?, &why))
        }
    }
}

fn describe(pong: &local::PingResponse) -> String {
    let up = format::age(pong.started_at.as_ref(), Timestamp::now());
    format!("obey {} on {}, pid {}, up {up}", pong.version, pong.hostname, pong.pid)
}

/// Prints the state of the daemon, its campaigns, sessions and requests.
pub(super) async fn status(console: &mut Console) -> Result<Exit> {
    let client = console.connect().await?;
    let pong = call_ping(console, &client).await?;
    let campaigns = resolve::campaigns(&client).await?;
    let request = local::ListSessionsRequest::default();
    let sessions = client.daemon().list_sessions(request).await?.into_inner().sessions;
    let requests = answers::list(&client, "", false).await?;
    let state = client.daemon().get_state(local::StateRequest::default()).await?.into_inner();
    let socket = console.socket()?;
    let running = Running::read(&socket, pong.pid).unwrap_or_default();
    if console.out.json {
        let list = |values: Vec<serde_json::Value>| values;
        console.out.json(&json!({
            "daemon": json::ping(&pong),
            "listen": running.addresses(),
            "campaigns": list(campaigns.iter().map(json::campaign).collect()),
            "festivals": list(state.festivals.iter().map(json::festival).collect()),
            "sessions": list(sessions.iter().map(json::session).collect()),
            "requests": list(requests.iter().map(json::request).collect()),
        }))?;
        return Ok(Exit::OK);
    }
    console.out.styled_line(&[(TextStyle::Bold, "Daemon    "), (TextStyle::Plain, &describe(&pong))])?;
    let socket = socket.display().to_string();
    console.out.styled_line(&[(TextStyle::Bold, "Socket    "), (TextStyle::Plain, &socket)])?;
    let ports = running.addresses();
    let ports = if ports.is_empty() { "none".to_owned() } else { ports.join(", ") };
    console.out.styled_line(&[(TextStyle::Bold, "Ports     "), (TextStyle::Plain, &ports)])?;
    if let Some(note) = running.port_note() {
        console.out.note(TextStyle::Warn, &note)?;
    }
    section(console, "Campaigns", campaigns.len())?;
    if !campaigns.is_empty() {
        super::campaign::print_table(console, &campaigns)?;
    }
    if !state.festivals.is_empty() {
        section(console, "Festivals", state.festivals.len())?;
        for festival in &state.festivals {
            let (id, name, status) = (&festival.id, &festival.name, &festival.status);
            let tasks = format!("{} of {} tasks", festival.completed_tasks, festival.total_tasks);
            console.out.line(&format!("{id}  {name}  {status}  {tasks}"))?;
        }
    }
    section(console, "Sessions", sessions.len())?;
    if !sessions.is_empty() {
        super::session::print_sessions(console, &sessions, &campaigns)?;
    }
    section(console, "Requests", requests.len())?;
    let known = super::session::names_by_request(&client, &requests).await?;
    super::session::print_requests(console, &requests, &known)?;
    Ok(Exit::OK)
}

pub(super) async fn collect_garbage(console: &mut Console) -> Result<Exit> {
    let client = console.connect().await?;
    let removed = client.daemon_operations().collect_garbage(CollectGarbageRequest {}).await?.into_inner();
    if console.out.json {
        let (sessions, activities) = (removed.sessions, removed.activities);
        let (events, folders) = (removed.events, removed.folders);
        console.out.json(
            &json!({"sessions": sessions, "activities": activities, "events": events, "folders": folders}),
        )?;
        return Ok(Exit::OK);
    }
    let count = |number: u64, noun: &str| format::plural(usize::try_from(number).unwrap_or(usize::MAX), noun);
    let parts = [
        count(removed.sessions, "session"),
        format!("{} of sessions", count(removed.activities, "event")),
        count(removed.events, "report"),
        count(removed.folders, "folder"),
    ];
    console.out.line(&format!("Removed: {}", parts.join(", ")))?;
    Ok(Exit::OK)
}

fn section(console: &mut Console, title: &str, count: usize) -> Result<()> {
    console.out.line("")?;
    console.out.styled_line(&[(TextStyle::Bold, title), (TextStyle::Dim, &format!(" ({count})"))])
}

/// Prints the version of this program and, if one runs, of the daemon.
pub(super) async fn version(console: &mut Console) -> Result<Exit> {
    let own = env!("CARGO_PKG_VERSION");
    // The version of this program must be printed whatever is wrong with the daemon.
    let daemon = match console.socket() {
        Ok(socket) if connection::probe(&socket).await.unwrap_or(false) => {
            call_ping(console, &Client::on(&socket)).await.ok().map(|pong| pong.version)
        }
        _ => None,
    };
    if console.out.json {
        console.out.json(&value(&VersionJson { version: own.to_owned(), daemon }))?;
        return Ok(Exit::OK);
    }
    console.out.line(&format!("obey {own}"))?;
    match daemon {
        Some(daemon) if daemon != own => {
            let warning =
                format!("The running daemon is obey {daemon}. Exchange it, agents go on: obey upgrade");
            console.out.note(TextStyle::Warn, &warning)?;
        }
        _ => {}
    }
    Ok(Exit::OK)
}

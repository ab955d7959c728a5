//! `obey upgrade`: replaces the running daemon with another program while the agents keep running. Asks it to
//! exit, waits until it has released its locks, and starts the new one the same way; if that fails, restarts
//! the old one. A daemon that a service manager runs is replaced by the manager.

mod previous;

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;
use wire::obey::local::v1 as local;

use super::daemon::call_ping;
use super::service::manager::{self, RunningManager};
use crate::limits;
use crate::programs;
use cli_args::UpgradeArgs;
use client::autostart::{self, Launch, StartDeadline, StartLock, Started};
use client::connection::{self, Client, unreachable_daemon};
use client::format;
use config::exit::Exit;
use config::failure::{Failure, Result};
use config::holder;
use config::running::Running;
use previous::Previous;
use terminal::console::Console;
use terminal::output::TextStyle;

pub(super) async fn run(console: &mut Console, args: &UpgradeArgs) -> Result<Exit> {
    let program = match &args.binary {
        Some(binary) => config::paths::absolute(binary)?,
        None => console.program.clone(),
    };
    // A program that cannot print its version must not cost us the working daemon.
    let version = version_of(&program).await?;
    let socket = console.socket()?;
    if !connection::probe(&socket).await? {
        return start_first(console, &program, &socket).await;
    }
    // Held to the end: commands that find no daemon meanwhile wait instead of starting one.
    let lock = autostart::hold(&console.paths).await?;
    let client = Client::on(&socket);
    let old = call_ping(console, &client).await?;
    let sessions = live_sessions(&client).await?;
    // From here on there may be no daemon, so Ctrl-C must not end the command.
    console.interrupts.listen();
    let began = Instant::now();
    let by = match managed(console, old.pid).await {
        Some(manager) => {
            check_program(args, &manager)?;
            console.out.status("restarting the service…")?;
            manager.restart().await?;
            Some(manager.kind())
        }
        None => {
            exchange(console, &DaemonUpgrade { program, version, old: &old, client: &client, lock: &lock })
                .await?;
            None
        }
    };
    let new = wait_for_other(console, &socket, old.pid).await?;
    let took = began.elapsed();
    let now = live_sessions(&Client::on(&socket)).await?;
    let (kept, ended): (Vec<String>, Vec<String>) = sessions.into_iter().partition(|id| now.contains(id));
    console.out.hide_status()?;
    let manager = by.map(|kind| kind.name());
    if console.out.json {
        let took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        console.out.json(&json!({
            "from": old.version, "to": new.version, "pid": new.pid, "sessions": kept.len(), "ended": ended,
            "took_ms": took_ms, "manager": manager,
        }))?;
        return Ok(Exit::OK);
    }
    let by = manager.map_or_else(String::new, |name| format!(" by {name}"));
    console.out.line(&format!(
        "obey {} → obey {} (pid {}): {} taken over{by} in {}",
        old.version,
        new.version,
        new.pid,
        format::plural(kept.len(), "session"),
        format::duration(took)
    ))?;
    for id in ended {
        console.out.note(TextStyle::Warn, &format!("{id} ended meanwhile: obey session log {id}"))?;
    }
    Ok(Exit::OK)
}

/// One replacement without a service manager.
struct DaemonUpgrade<'a> {
    program: PathBuf,
    version: String,
    old: &'a local::PingResponse,
    client: &'a Client,
    lock: &'a StartLock,
}

/// Stops the old daemon and starts the new one; on failure restarts the old one and returns the error.
async fn exchange(console: &mut Console, exchange: &DaemonUpgrade<'_>) -> Result<()> {
    let socket = console.socket()?;
    let old = exchange.old;
    let running = Running::read(&socket, old.pid).ok_or_else(|| {
        Failure::failed(format!(
            "obey {} (pid {}) did not write down how it was started",
            old.version, old.pid
        ))
        .with_hint(
            "end it and start the new one with its flags; agents go on: obey stop && obey serve --detach",
        )
    })?;
    if running.is_given_socket {
        let message = format!("the daemon's socket belongs to whoever started it (pid {})", old.pid);
        return Err(Failure::failed(message).with_hint("restart it there; agents go on"));
    }
    let previous = Previous::keep(&running, exchange.client).await?;
    let environment = previous.environment.clone();
    let mut flags = running.flags_again();
    if environment.is_none() && !running.flags.iter().any(|flag| flag == "--data-dir") {
        // Its environment cannot be read, but the data folder must be the same.
        flags.extend(["--data-dir".into(), running.data_dir.clone().into()]);
    }
    let launch = |program: &Path| Launch {
        program: program.to_owned(),
        flags: flags.clone(),
        variables: Vec::new(),
        environment: environment.clone(),
        deadline: StartDeadline::Long,
        ..console.launch(&socket)
    };
    let (new, again) = (launch(&exchange.program), launch(previous.program()));
    console.out.status("waiting for the old daemon to end…")?;
    leave(console, exchange.client, &socket).await?;
    console.out.status("starting the new daemon…")?;
    match autostart::start_holding(&new, exchange.lock).await {
        Ok(Started::Ready { .. } | Started::Already) => {
            previous.forget();
            if !running.background {
                let log = console.paths.log_file();
                let note = format!("The daemon runs in the background now; its log is {}", log.display());
                console.out.note(TextStyle::Dim, &note)?;
            }
            Ok(())
        }
        Err(failure) => {
            let why = format!("obey {} did not start: {}", exchange.version, failure.message);
            Err(match autostart::start_holding(&again, exchange.lock).await {
                Ok(_) => Failure::failed(format!(
                    "{why}\nobey {} runs again, and every session with it",
                    old.version
                )),
                Err(second) => Failure::failed(format!(
                    "{why}\nobey {} did not start again either: {}",
                    old.version, second.message
                ))
                .with_hint("agents go on; the next daemon that starts finds them: obey serve --detach"),
            })
        }
    }
}

/// Asks the daemon to exit without its sessions and waits until another one can replace it.
pub(super) async fn leave(console: &Console, client: &Client, socket: &Path) -> Result<()> {
    let pong = call_ping(console, client).await?;
    let data_dir = Running::read(socket, pong.pid).map(|running| running.data_dir);
    client.daemon().shutdown(local::ShutdownRequest { stop_sessions: false }).await?;
    let locks = [Some(socket.with_extension("lock")), data_dir.map(|folder| folder.join("daemon.lock"))];
    let released = async {
        for lock in locks.into_iter().flatten() {
            while holder::is_held(&lock) {
                tokio::time::sleep(limits::UPGRADE_LOOK).await;
            }
        }
    };
    tokio::time::timeout(limits::STOP_WAIT, released).await.map_err(|_| {
        let message = format!("the daemon (pid {}) does not end", pong.pid);
        let hint = format!("agents go on without it: kill -9 {}, then obey serve --detach", pong.pid);
        Failure::failed(message).with_hint(hint)
    })
}

/// Returns the manager that runs the daemon's process, if any.
async fn managed(console: &Console, pid: i32) -> Option<RunningManager> {
    let manager = RunningManager::find(manager::native(), &console.vars).await?;
    (manager.main_pid().await == Some(pid)).then_some(manager)
}

/// Rejects `--binary`: a manager starts the program its files name.
fn check_program(args: &UpgradeArgs, manager: &RunningManager) -> Result<()> {
    let Some(binary) = &args.binary else { return Ok(()) };
    let message = format!("the daemon is a service of {}, which chooses the program", manager.kind().name());
    let hint = format!("let the service run the other program: {} service install --now", binary.display());
    Err(Failure::usage(message).with_hint(hint))
}

/// Waits until a process other than the old one answers.
async fn wait_for_other(console: &Console, socket: &Path, old: i32) -> Result<local::PingResponse> {
    let other = async {
        loop {
            if let Ok(pong) = call_ping(console, &Client::on(socket)).await
                && pong.pid != old
            {
                return pong;
            }
            tokio::time::sleep(limits::UPGRADE_LOOK).await;
        }
    };
    let limit: Duration = client::limits::UPGRADE_START_WAIT;
    tokio::time::timeout(limit, other).await.map_err(|_| {
        let why = format!("no new daemon answers within {} s", limit.as_secs());
        unreachable_daemon(socket, &why)
            .with_hint(format!("its log: {}", manager::log_command(manager::native())))
    })
}

async fn live_sessions(client: &Client) -> Result<Vec<String>> {
    let listed = client.daemon().list_sessions(local::ListSessionsRequest::default()).await?.into_inner();
    Ok(listed.sessions.into_iter().map(|session| session.id).collect())
}

/// Runs a program's `--version`, which verifies that it is a working `obey`.
async fn version_of(program: &Path) -> Result<String> {
    let shown = program.display();
    let said = programs::ask(program, &["--version"], limits::VERSION_WAIT).await;
    let refused = |why: String| {
        Failure::usage(format!("{shown} {why}")).with_hint("the running daemon was left alone; see --binary")
    };
    let said = said.map_err(refused)?;
    let version = said.out.strip_prefix("obey ").filter(|_| said.status.success());
    version.map(str::to_owned).ok_or_else(|| refused("is no obey: it does not tell its version".to_owned()))
}

/// There is nothing to replace: starts the new daemon as any command would.
async fn start_first(console: &mut Console, program: &Path, socket: &Path) -> Result<Exit> {
    if console.global.no_autostart {
        return Err(unreachable_daemon(socket, "it does not run"));
    }
    let began = Instant::now();
    let launch =
        Launch { program: program.to_owned(), deadline: StartDeadline::Long, ..console.launch(socket) };
    autostart::start(&launch).await?;
    let client = Client::on(socket);
    let (new, sessions) = (call_ping(console, &client).await?, live_sessions(&client).await?);
    if console.out.json {
        let took_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        console.out.json(&json!({
            "from": null, "to": new.version, "pid": new.pid, "sessions": sessions.len(), "ended": [],
            "took_ms": took_ms, "manager": null,
        }))?;
        return Ok(Exit::OK);
    }
    let found = format::plural(sessions.len(), "session");
    console
        .out
        .line(&format!("No daemon ran; started obey {} (pid {}): {found} found", new.version, new.pid))?;
    Ok(Exit::OK)
}

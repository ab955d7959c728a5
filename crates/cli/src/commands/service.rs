//! `obey service`: installs the daemon as a service of the user's service manager, uninstalls it, and shows
//! its status. `files` defines the files; `manager` runs the managers' programs.

mod files;
pub(super) mod manager;

use std::fs;
use std::path::PathBuf;

use serde_json::json;

use super::upgrade;
use cli_args::{InstallArgs, ServiceArgs, ServiceCommand, ServiceManager};
use client::autostart;
use client::connection::{self, Client};
use config::exit::Exit;
use config::failure::{Failure, Result};
use files::{FileState, Service, ServiceFile};
use manager::RunningManager;
use terminal::console::Console;
use terminal::output::TextStyle;

pub(super) async fn run(console: &mut Console, command: ServiceCommand) -> Result<Exit> {
    match command {
        ServiceCommand::Install(args) => install(console, &args).await,
        ServiceCommand::Uninstall(args) => uninstall(console, &args).await,
        ServiceCommand::Status(args) => status(console, &args).await,
    }
}

fn chosen(args: &ServiceArgs) -> ServiceManager {
    args.manager.unwrap_or_else(manager::native)
}

/// Writes the files and enables the service; a file written by someone else is never overwritten.
async fn install(console: &mut Console, args: &InstallArgs) -> Result<Exit> {
    let kind = chosen(&args.service);
    let files = Service::of(console)?.files(kind);
    if args.print {
        return print(console, &files);
    }
    let places: Vec<PathBuf> = files.iter().map(|file| file.path.clone()).collect();
    refuse_foreign(&files, "it is not overwritten; `obey service install --print` shows what it would be")?;
    let mut written = Vec::new();
    for file in &files {
        if file.found()? != FileState::Same {
            file.write()?;
            written.push(file.path.display().to_string());
        }
    }
    let manager = RunningManager::find(kind, &console.vars).await;
    let mut started = false;
    if let Some(manager) = &manager {
        manager.enable().await?;
        if args.now {
            start(console, manager, &places).await?;
            started = true;
        }
    }
    let to_run = if manager.is_none() { to_run(console, kind, &places).await? } else { Vec::new() };
    let linger = if args.enable_linger { Some(manager::enable_linger(&console.vars).await) } else { None };
    if console.out.json {
        let places: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
        let linger = linger.map(|enabled| enabled.map_or_else(|why| json!({"error": why}), |()| json!(true)));
        console.out.json(&json!({
            "manager": kind.name(), "files": places, "written": written, "started": started,
            "to_run": to_run, "linger": linger,
        }))?;
        return Ok(Exit::OK);
    }
    for place in &places {
        let is_new = written.contains(&place.display().to_string());
        let what = if is_new { "Wrote" } else { "Unchanged:" };
        console.out.line(&format!("{what} {}", place.display()))?;
    }
    console.out.line(&match (&manager, started) {
        (Some(_), true) => "The service runs, and starts with every login.".to_owned(),
        (Some(_), false) => "The service starts with every login; now: obey service install --now".to_owned(),
        (None, _) => format!("{} does not answer here. To start the service, run:", kind.name()),
    })?;
    for command in &to_run {
        console.out.line(&format!("  {command}"))?;
    }
    tell_linger(console, kind, linger)?;
    Ok(Exit::OK)
}

/// Returns the commands a person must run if we cannot.
async fn to_run(console: &Console, kind: ServiceManager, files: &[PathBuf]) -> Result<Vec<String>> {
    // Two daemons cannot serve one socket.
    let first = connection::probe(&console.socket()?).await?.then(|| "obey stop".to_owned());
    Ok(first.into_iter().chain(manager::commands(kind, files)).collect())
}

fn tell_linger(
    console: &mut Console,
    kind: ServiceManager,
    linger: Option<std::result::Result<(), String>>,
) -> Result<()> {
    match linger {
        Some(Ok(())) => console.out.line("It also goes on while you are not logged in."),
        Some(Err(why)) => {
            let warning =
                format!("It ends when you log out ({why}); an administrator can run: loginctl enable-linger");
            console.out.note(TextStyle::Warn, &format!("{warning} {}", console.person()))
        }
        None if kind == ServiceManager::Systemd => {
            let hint = "It ends when you log out, unless: obey service install --enable-linger";
            console.out.note(TextStyle::Dim, hint)
        }
        None => Ok(()),
    }
}

/// Starts the service in place of a running daemon. The agents keep running.
async fn start(console: &mut Console, manager: &RunningManager, files: &[PathBuf]) -> Result<()> {
    let socket = console.socket()?;
    // No other command may start a daemon in between.
    let _lock = autostart::hold(&console.paths).await?;
    if manager.main_pid().await.is_some() {
        return manager.restart().await;
    }
    if connection::probe(&socket).await? {
        upgrade::leave(console, &Client::on(&socket), &socket).await?;
    }
    manager.start(files).await
}

/// Disables the service and removes its files.
async fn uninstall(console: &mut Console, args: &ServiceArgs) -> Result<Exit> {
    let kind = chosen(args);
    let files = Service::of(console)?.files(kind);
    refuse_foreign(&files, "remove it by hand if it is not needed")?;
    let mut there = Vec::new();
    for file in &files {
        if file.found()? != FileState::Missing {
            there.push(&file.path);
        }
    }
    if !there.is_empty() {
        let manager = RunningManager::find(kind, &console.vars).await;
        if let Some(manager) = &manager {
            manager.disable().await;
        }
        for path in &there {
            fs::remove_file(path)
                .map_err(|error| Failure::failed(format!("cannot remove {}: {error}", path.display())))?;
        }
        if let Some(manager) = &manager {
            manager.reload().await;
        }
    }
    if console.out.json {
        let removed: Vec<String> = there.iter().map(|path| path.display().to_string()).collect();
        console.out.json(&json!({"manager": kind.name(), "removed": removed}))?;
        return Ok(Exit::OK);
    }
    if there.is_empty() {
        console.out.line("No service is installed.")?;
    }
    for path in there {
        console.out.line(&format!("Removed {}", path.display()))?;
    }
    Ok(Exit::OK)
}

/// Prints the files, their state, and whether the service is enabled and running.
async fn status(console: &mut Console, args: &ServiceArgs) -> Result<Exit> {
    let kind = chosen(args);
    let mut found = Vec::new();
    for file in Service::of(console)?.files(kind) {
        let word = match file.found()? {
            FileState::Missing => "missing",
            FileState::Same => "installed",
            FileState::Different => "differs; write it anew: obey service install",
            FileState::Foreign => "written by somebody else",
        };
        found.push((file.path, word));
    }
    let manager = RunningManager::find(kind, &console.vars).await;
    let mut units = Vec::new();
    if let Some(manager) = &manager {
        let names: &[&str] = match kind {
            ServiceManager::Systemd => &manager::UNITS,
            ServiceManager::Launchd => &[manager::LABEL],
        };
        for unit in names {
            units.push((
                *unit,
                manager.says("is-enabled", unit).await,
                manager.says("is-active", unit).await,
            ));
        }
    }
    let pid = match &manager {
        Some(manager) => manager.main_pid().await,
        None => None,
    };
    let linger = if kind == ServiceManager::Systemd { manager::lingers(&console.vars).await } else { None };
    if console.out.json {
        let files: Vec<_> =
            found.iter().map(|(path, word)| json!({"path": path, "state": word.split(';').next()})).collect();
        let units: Vec<_> = units
            .iter()
            .map(|(unit, enabled, active)| json!({"unit": unit, "enabled": enabled, "active": active}))
            .collect();
        console.out.json(&json!({
            "manager": kind.name(), "answers": manager.is_some(), "files": files, "units": units,
            "pid": pid, "linger": linger,
        }))?;
        return Ok(Exit::OK);
    }
    for (path, word) in found {
        console.out.line(&format!("{}  {word}", path.display()))?;
    }
    for (unit, enabled, active) in units {
        console.out.line(&format!("{unit}  {enabled}, {active}"))?;
    }
    match pid {
        Some(pid) => console.out.line(&format!("The daemon runs as a service (pid {pid})."))?,
        None if manager.is_none() => console.out.line(&format!("{} does not answer here.", kind.name()))?,
        None => console.out.line("No daemon runs as a service.")?,
    }
    if linger == Some(false) {
        let hint = "It ends when you log out, unless: obey service install --enable-linger";
        console.out.note(TextStyle::Dim, hint)?;
    }
    Ok(Exit::OK)
}

fn print(console: &mut Console, files: &[ServiceFile]) -> Result<Exit> {
    if console.out.json {
        let files: Vec<_> = files.iter().map(|file| json!({"path": file.path, "text": file.text})).collect();
        console.out.json(&json!({"files": files}))?;
        return Ok(Exit::OK);
    }
    for (number, file) in files.iter().enumerate() {
        // Only between files: a single printed file can be saved as it is.
        if files.len() > 1 {
            let gap = if number > 0 { "\n" } else { "" };
            console.out.line(&format!("{gap}# {}", file.path.display()))?;
        }
        console.out.bytes(file.text.as_bytes())?;
    }
    Ok(Exit::OK)
}

/// Fails if one of the files was not written by us; nothing is changed then.
fn refuse_foreign(files: &[ServiceFile], remedy: &str) -> Result<()> {
    for file in files {
        if file.found()? == FileState::Foreign {
            let message = format!("{} was not written by obey", file.path.display());
            return Err(Failure::failed(message).with_hint(remedy));
        }
    }
    Ok(())
}

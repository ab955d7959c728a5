//! `obey ui`, and `obey` alone on a terminal: opens the terminal UI.

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::sync::Arc;

use cli_args::ColorWhen;
use cli_args::ui::UiArgs;
use client::connection::Client;
use client::machines::KnownMachines;
use client::resolve;
use config::exit::Exit;
use config::failure::{Failure, Result};
use terminal::console::Console;

pub(super) async fn run(console: &mut Console, args: UiArgs) -> Result<Exit> {
    let keys = keys(console)?;
    if args.keys {
        console.out.bytes(ui::print_keys(&keys)?.as_bytes())?;
        return Ok(Exit::OK);
    }
    if console.global.json {
        return Err(Failure::usage(
            "the terminal UI prints no JSON; use obey ps --json or obey session list --json",
        ));
    }
    if !args.plain && (!std::io::stdin().is_terminal() || !std::io::stdout().is_terminal()) {
        return Err(Failure::usage("the terminal UI needs a terminal"));
    }
    if !args.plain && console.vars.get("TERM").is_some_and(|term| term == "dumb") {
        return Err(Failure::usage("TERM is dumb: this terminal shows lines and no screen")
            .with_hint("obey ui --plain, or one command for each: obey ps, obey attach SESSION"));
    }
    let client = console.connect().await?;
    let session = match &args.session {
        Some(typed) => Some(resolve::session(&client, typed).await?),
        None => None,
    };
    let settings = ui::UiSettings {
        client,
        machines: other_machines(console)?,
        person: console.person(),
        folder: console.folder.clone(),
        keys,
        ascii: args.ascii,
        no_color: console.global.color == ColorWhen::Never,
        mouse: !args.no_mouse,
        notices: !args.no_notices,
        session,
        vars: console.machine()?.is_none().then(|| console.vars.clone()),
        var: |name| std::env::var(name).ok(),
    };
    if args.plain {
        ui::run_plain(settings).await?
    } else {
        ui::run(settings).await?
    }
    Ok(Exit::OK)
}

/// Returns the machines that this device is paired with; none where one machine was chosen.
fn other_machines(console: &Console) -> Result<Vec<(String, Client)>> {
    if console.machine()?.is_some() || console.global.machine.is_some() {
        return Ok(Vec::new());
    }
    let known = KnownMachines::in_folder(&console.paths).list()?;
    known
        .into_iter()
        .map(|machine| Ok((machine.name.clone(), Client::through(&Arc::new(machine))?)))
        .collect()
}

/// Reads the keys file beside the configuration file; there need not be one.
fn keys(console: &Console) -> Result<String> {
    let path: PathBuf = console.paths.config_file.with_file_name("keys");
    match std::fs::read_to_string(&path) {
        Ok(text) => {
            // What is wrong is said with the file's name.
            ui::print_keys(&text)
                .map_err(|failure| Failure::usage(format!("{}: {}", path.display(), failure.message)))?;
            Ok(text)
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(Failure::usage(format!("{}: {error}", path.display()))),
    }
}

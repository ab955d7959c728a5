//! `obey relay …`: a relay in a folder of this machine. The relay's own crate does the work.

mod rotation;

use std::path::PathBuf;

use cli_args::relay::{RelayCommand, RelayFolderArgs, RelayInitArgs, RelayJoinArgs, RelayUsersCommand};
use client::format::rfc3339;
use config::exit::Exit;
use config::failure::{Failure, Result};
use relay::{MachineRecord, Relay, UserRecord};
use serde_json::{Value, json};
use terminal::console::Console;
use terminal::output::TextStyle;
use terminal::table::Table;

pub(crate) async fn run(console: &mut Console, command: RelayCommand) -> Result<Exit> {
    match command {
        RelayCommand::Init(args) => init(console, &args),
        RelayCommand::Serve(args) => serve(console, &args).await,
        RelayCommand::Code(args) => {
            let relay = open(console, &args.folder)?;
            // `--relay` has a value for every other command.
            let is_for_relay = match console.global.relay.as_deref() {
                None => false,
                Some("") if args.user.is_none() => true,
                Some("") => return Err(Failure::usage("--relay and --user: a relay belongs to the owner")),
                Some(_) => {
                    return Err(Failure::usage(
                        "--relay: takes no value here; it asks for a code for a relay",
                    ));
                }
            };
            let (code, expires_at) = match is_for_relay {
                true => relay.relay_code().map_err(failed)?,
                false => relay.code(args.user.as_deref()).map_err(failed)?,
            };
            if console.out.json {
                console.out.json(&json!({"code": code, "expires_at": shown(expires_at)}))?;
            } else {
                console.out.line(&code)?;
                let note = match is_for_relay {
                    true => {
                        "On the other host, within ten minutes and once: obey relay join CODE --listen ADDR --nats URL"
                    }
                    false => "On the machine, within ten minutes and once: obey machine join CODE",
                };
                console.out.note(TextStyle::Dim, note)?;
            }
            Ok(Exit::OK)
        }
        RelayCommand::Join(args) => join(console, &args).await,
        RelayCommand::Users(args) => {
            let command = args.command.unwrap_or(RelayUsersCommand::List(args.folder));
            users(console, &command)
        }
        RelayCommand::Status(args) => status(console, &args).await,
        RelayCommand::Rotate(args) => rotation::rotate(console, &args).await,
        RelayCommand::Quota(args) => rotation::quota(console, &args),
        RelayCommand::Audit(args) => rotation::audit(console, &args),
        RelayCommand::Issue(args) => {
            let id = open(console, &args.folder)?.issue(&args.name, &args.out).map_err(failed)?;
            if console.out.json {
                let (cert, key, ca) =
                    (args.out.join("cert.pem"), args.out.join("key.pem"), args.out.join("ca.pem"));
                console.out.json(&json!({"machine_id": id, "cert": cert, "key": key, "ca": ca}))?;
            } else {
                console.out.line(&id)?;
                let note = format!("cert.pem, key.pem and ca.pem are in {}", args.out.display());
                console.out.note(TextStyle::Dim, &note)?;
            }
            Ok(Exit::OK)
        }
    }
}

fn init(console: &mut Console, args: &RelayInitArgs) -> Result<Exit> {
    let folder = folder(console, &args.folder);
    let created = Relay::create(&folder, args.listen, &args.host, args.nats.as_deref()).map_err(failed)?;
    show_created(console, &created, &folder)
}

async fn join(console: &mut Console, args: &RelayJoinArgs) -> Result<Exit> {
    let folder = folder(console, &args.folder);
    let joining = Relay::join(&folder, &args.code, args.listen, &args.host, &args.nats);
    let created = joining.await.map_err(failed)?;
    show_created(console, &created, &folder)
}

fn show_created(console: &mut Console, created: &relay::Created, folder: &std::path::Path) -> Result<Exit> {
    if console.out.json {
        console
            .out
            .json(&json!({"url": created.url, "ca": created.ca, "token": created.token, "dir": folder}))?;
        return Ok(Exit::OK);
    }
    console.out.line(&format!("url    {}", created.url))?;
    console.out.line(&format!("ca     {}", created.ca.display()))?;
    console.out.line(&format!("token  {}", created.token))?;
    console.out.note(TextStyle::Dim, "Serve it: obey relay serve. Add a machine: obey relay code")?;
    Ok(Exit::OK)
}

async fn serve(console: &mut Console, args: &RelayFolderArgs) -> Result<Exit> {
    start_log();
    let relay = open(console, args)?;
    let url = relay.url().map_err(failed)?;
    let mut told = Ok(());
    let ready = |address: std::net::SocketAddr| {
        told = match console.out.json {
            true => console.out.json(&json!({"url": url, "listen": address.to_string()})),
            false => console.out.line(&format!("ready relay={url} listen={address}")),
        };
    };
    relay
        .serve(
            async {
                let _signal = daemon::end_requested().await;
            },
            ready,
        )
        .await
        .map_err(failed)?;
    told?;
    Ok(Exit::OK)
}

/// Logs to standard error, as the daemon does.
fn start_log() {
    let filter = tracing_subscriber::EnvFilter::try_from_env("OBEY_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false);
    // Another log is there already in tests only.
    let _ = log.try_init();
}

fn users(console: &mut Console, command: &RelayUsersCommand) -> Result<Exit> {
    match command {
        RelayUsersCommand::List(args) => {
            let users = open(console, args)?.users();
            if console.out.json {
                let list: Vec<Value> = users.iter().map(user_json).collect();
                console.out.json(&json!({"users": list}))?;
                return Ok(Exit::OK);
            }
            let mut table = Table::new(&["NAME", "ID", "ROLE"]);
            for user in users {
                let role = if user.is_owner { "owner" } else { "user" };
                table.row(vec![user.name, user.id, role.to_owned()]);
            }
            cli::commands::session::print_table(console, &table)?;
        }
        RelayUsersCommand::Add(args) => {
            let (user, token) = open(console, &args.folder)?.add_user(&args.name).map_err(failed)?;
            if console.out.json {
                let mut value = user_json(&user);
                value["token"] = json!(token);
                console.out.json(&value)?;
            } else {
                console.out.line(&token)?;
                console.out.note(TextStyle::Dim, &format!("The token of {}, shown this once", user.name))?;
            }
        }
        RelayUsersCommand::Remove(args) => {
            let user = open(console, &args.folder)?.remove_user(&args.name).map_err(failed)?;
            if console.out.json {
                console.out.json(&user_json(&user))?;
            } else {
                console.out.line(&format!("Removed: {}", user.name))?;
            }
        }
    }
    Ok(Exit::OK)
}

async fn status(console: &mut Console, args: &RelayFolderArgs) -> Result<Exit> {
    let relay = open(console, args)?;
    let url = relay.url().map_err(failed)?;
    let machines = relay.machines();
    let live = relay.ask_status().await;
    if console.out.json {
        let list: Vec<Value> = machines.iter().map(machine_json).collect();
        let mut value =
            json!({"url": url, "ca": relay.ca(), "machines": list, "users": relay.counts().users});
        match &live {
            Ok(live) => {
                value["state"] = json!("serving");
                value["machines_online"] = json!(live.machines_online);
                value["calls_active"] = json!(live.calls_active);
                value["calls_total"] = json!(live.calls_total);
                value["bytes_to_machines"] = json!(live.bytes_to_machines);
                value["bytes_from_machines"] = json!(live.bytes_from_machines);
                value["frames_ignored"] = json!(live.frames_ignored);
                value["buffered_messages"] = json!(live.buffered_messages);
                value["nats"] = json!(Some(&live.nats).filter(|state| !state.is_empty()));
                value["relays"] = json!(live.relays);
                value["machines_elsewhere"] = json!(live.machines_elsewhere);
                value["authority"] = json!(live.authority);
                value["former_authority"] =
                    json!(Some(&live.former_authority).filter(|former| !former.is_empty()));
                value["former_until"] = json!(rfc3339(live.former_until.as_ref()));
                value["bytes_per_day"] = json!(live.bytes_per_day);
                value["calls_over_quota"] = json!(live.calls_over_quota);
            }
            Err(error) => (value["state"], value["problem"]) = (json!("not serving"), json!(error.message)),
        }
        console.out.json(&value)?;
        return Ok(Exit::OK);
    }
    match &live {
        Ok(live) => {
            let line = format!(
                "{url}: serving, {} of {} machines online, {} calls, {} waiting",
                live.machines_online, live.machines, live.calls_active, live.buffered_messages
            );
            console.out.line(&line)?;
        }
        Err(error) => console
            .out
            .line(&format!("{url}: not serving ({}); serve it: obey relay serve", error.message))?,
    }
    let mut table = Table::new(&["NAME", "ID", "LAST SEEN", "STATE"]);
    for machine in machines {
        let seen = machine.seen_at.and_then(shown).unwrap_or_else(|| "never".to_owned());
        let state = if machine.is_locked { "locked" } else { "known" };
        table.row(vec![machine.name, machine.id, seen, state.to_owned()]);
    }
    cli::commands::session::print_table(console, &table)?;
    Ok(Exit::OK)
}

/// Forgets a machine of the relay in this machine's own folder; nothing where there is no relay.
pub(crate) fn remove_machine(console: &Console, machine: &str) -> Result<Option<String>> {
    let folder = folder(console, &RelayFolderArgs::default());
    if !folder.join("relay.db").exists() {
        return Ok(None);
    }
    let relay = Relay::open(&folder).map_err(failed)?;
    Ok(relay.remove_machine(machine).ok().map(|machine| machine.id))
}

fn open(console: &Console, args: &RelayFolderArgs) -> Result<Relay> {
    Relay::open(&folder(console, args)).map_err(failed)
}

fn folder(console: &Console, args: &RelayFolderArgs) -> PathBuf {
    args.dir.as_ref().map_or_else(|| console.paths.data_dir.join("relay"), |dir| console.folder.join(dir))
}

fn user_json(user: &UserRecord) -> Value {
    json!({"id": user.id, "name": user.name, "is_owner": user.is_owner, "created_at": shown(user.created_at)})
}

fn machine_json(machine: &MachineRecord) -> Value {
    json!({
        "id": machine.id,
        "name": machine.name,
        "seen_at": machine.seen_at.and_then(shown),
        "is_locked": machine.is_locked,
    })
}

fn shown(time: domain::Timestamp) -> Option<String> {
    let (seconds, nanos) = time.seconds_and_nanos();
    rfc3339(Some(&prost_types::Timestamp { seconds, nanos }))
}

fn failed(error: domain::Error) -> Failure {
    Failure::coded(error.code, error.message)
}

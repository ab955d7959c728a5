//! `obey machine …` and `obey device join`: this machine's relay, and the machines that this device is paired with.

use std::time::Instant;

use client::format::rfc3339;
use client::machines::{self, KnownMachine, KnownMachines, THIS_MACHINE};
use config::exit::Exit;
use config::failure::{Failure, Result};
use domain::ErrorCode;
use serde_json::{Value, json};
use tonic::Request;
use wire::betcode::v1 as betcode;
use wire::betcode::v1::machine_service_client::MachineServiceClient;
use wire::obey::v1 as pb;

use crate::limits;
use crate::local::LocalCommands;
use cli_args::machine::{DeviceJoinArgs, MachineCommand, MachineJoinArgs};
use terminal::console::{Autostart, Console};
use terminal::output::TextStyle;
use terminal::table::Table;

pub(super) async fn run(
    console: &mut Console,
    command: MachineCommand,
    local: &dyn LocalCommands,
) -> Result<Exit> {
    match command {
        MachineCommand::Join(args) => join(console, args).await,
        MachineCommand::Leave => {
            let client = console.connect_here().await?;
            let left = client.relay_link().leave_relay(pb::LeaveRelayRequest {}).await?.into_inner();
            if console.out.json || left.machine_id.is_empty() {
                return show_link(console, &left);
            }
            console
                .out
                .line(&format!("Left {}; this machine is no longer {} there.", left.url, left.name))?;
            Ok(Exit::OK)
        }
        MachineCommand::List => list(console).await,
        MachineCommand::Switch { name } => switch(console, &name),
        MachineCommand::Status => {
            let client = console.connect_here().await?;
            let link = client.relay_link().get_relay_link(pb::GetRelayLinkRequest {}).await?.into_inner();
            show_link(console, &link)
        }
        MachineCommand::Remove { name } => remove(console, &name, local),
        MachineCommand::Doctor { name } => doctor(console, name.as_deref()).await,
    }
}

async fn join(console: &mut Console, args: MachineJoinArgs) -> Result<Exit> {
    let client = console.connect_here().await?;
    let request = pb::JoinRelayRequest { code: args.code, name: args.name.unwrap_or_default() };
    let link = client.relay_link().join_relay(request).await?.into_inner();
    show_link(console, &link)
}

/// Pairs this device with a machine.
pub(super) async fn join_device(console: &mut Console, args: &DeviceJoinArgs) -> Result<Exit> {
    let known = KnownMachines::in_folder(&console.paths);
    let name = args.name.clone().unwrap_or_else(host::machine::hostname);
    let machine = machines::join(&known, &args.line, &name).await?;
    if console.out.json {
        console.out.json(&known_json(&machine))?;
        return Ok(Exit::OK);
    }
    console.out.line(&format!("Paired with {} as {} ({})", machine.name, name, machine.role))?;
    console.out.note(TextStyle::Dim, &format!("Use it: obey --machine {} ps", machine.name))?;
    Ok(Exit::OK)
}

fn show_link(console: &mut Console, link: &pb::RelayLink) -> Result<Exit> {
    if console.out.json {
        console.out.json(&link_json(link))?;
        return Ok(Exit::OK);
    }
    if link.url.is_empty() {
        console.out.line("This machine has joined no relay.")?;
        console.out.note(TextStyle::Dim, "Join one: obey machine join CODE --name NAME")?;
        return Ok(Exit::OK);
    }
    console.out.line(&format!("{} ({}) at {}: {}", link.name, link.machine_id, link.url, link.state))?;
    if !link.problem.is_empty() {
        console.out.line(&link.problem)?;
    }
    Ok(Exit::OK)
}

/// Shows how this machine is connected, and the devices whose keys are kept here, where agents may find them. Pages keep theirs in
/// the memory of a tab.
fn examine_link(console: &mut Console, link: &pb::RelayLink, devices: &[pb::Device]) -> Result<Exit> {
    let is_good = link.url.is_empty() || link.state == "online";
    let exit = if is_good { Exit::OK } else { Exit::FAILED };
    let here: Vec<&pb::Device> =
        devices.iter().filter(|device| device.key_is_kept_here && device.proof != "page").collect();
    if console.out.json {
        let mut value = link_json(link);
        value["ok"] = json!(is_good);
        let shown = |device: &&pb::Device| json!({"name": device.name, "role": device.role, "may_answer": device.may_answer});
        value["devices_kept_here"] = here.iter().map(shown).collect();
        console.out.json(&value)?;
        return Ok(exit);
    }
    show_link(console, link)?;
    for device in here {
        let what = match device.may_answer {
            true => "may answer requests although its key is kept on this machine (--same-host)",
            false => "answers no requests, because its key is kept on this machine",
        };
        console.out.line(&format!("device {} {what}", device.name))?;
    }
    Ok(exit)
}

fn link_json(link: &pb::RelayLink) -> Value {
    json!({
        "relay": some(&link.url),
        "machine_id": some(&link.machine_id),
        "name": some(&link.name),
        "state": link.state,
        "problem": some(&link.problem),
        "certificate_expires_at": rfc3339(link.certificate_expires_at.as_ref()),
        "connected_at": rfc3339(link.connected_at.as_ref()),
        "plain": link.plain,
        "heartbeat_micros": link.heartbeat_micros,
    })
}

async fn list(console: &mut Console) -> Result<Exit> {
    let known = KnownMachines::in_folder(&console.paths);
    let (paired, current) = (known.list()?, known.current()?);
    let mut rows = Vec::new();
    // All at once: a relay that is gone holds up nobody.
    let asking: Vec<_> = paired.into_iter().map(|machine| tokio::spawn(ask(machine))).collect();
    for asked in asking {
        rows.push(asked.await.map_err(|error| Failure::failed(error.to_string()))?);
    }
    let own = own_machine(console).await;
    if console.out.json {
        let list: Vec<Value> = rows
            .iter()
            .map(|(machine, found)| {
                let mut value = known_json(machine);
                value["current"] = json!(current.as_deref() == Some(machine.name.as_str()));
                match found {
                    Ok(found) => {
                        value["status"] = json!(status_name(found));
                        value["hostname"] = json!(found.hostname);
                        value["last_seen"] = json!(rfc3339(found.last_seen.as_ref()));
                        value["buffered_messages"] = json!(found.buffered_messages);
                    }
                    Err(problem) => {
                        (value["status"], value["problem"]) = (json!("unreachable"), json!(problem))
                    }
                }
                value
            })
            .chain(own.as_ref().map(|own| own_json(own, current.is_none())))
            .collect();
        console.out.json(&json!({"machines": list}))?;
        return Ok(Exit::OK);
    }
    if rows.is_empty() && own.is_none() {
        let note = "Paired with no machine. On the machine: obey device add --role operator; here: obey device join LINE";
        console.out.note(TextStyle::Dim, note)?;
        return Ok(Exit::OK);
    }
    let mut table = Table::new(&["NAME", "ID", "STATUS", "ROLE", "LAST SEEN", "RELAY"]);
    for (machine, found) in rows {
        let (status, seen) = match &found {
            Ok(found) => {
                (status_name(found).to_owned(), rfc3339(found.last_seen.as_ref()).unwrap_or_default())
            }
            Err(_) => ("unreachable".to_owned(), String::new()),
        };
        let mark = if current.as_deref() == Some(machine.name.as_str()) { "* " } else { "" };
        let name = format!("{mark}{}", machine.name);
        table.row(vec![name, machine.machine_id, status, machine.role, seen, machine.relay]);
    }
    if let Some((machine, link)) = own {
        let mark = if current.is_none() { "* " } else { "" };
        let status = if link.url.is_empty() { "online" } else { &link.state };
        let name = format!("{mark}{} (this)", machine.name);
        table.row(vec![name, machine.id, status.to_owned(), "user".to_owned(), String::new(), link.url]);
    }
    super::session::print_table(console, &table)?;
    Ok(Exit::OK)
}

/// Asks the daemon of this machine who it is; nothing where none runs.
async fn own_machine(console: &mut Console) -> Option<(betcode::Machine, pb::RelayLink)> {
    let socket = console.socket().ok()?;
    let launch = console.launch(&socket);
    let client = console.connect_starting(Autostart::Never, launch).await.ok()?;
    let mut machines = MachineServiceClient::new(client.channel());
    let listed = machines.list_machines(betcode::ListMachinesRequest::default()).await.ok()?;
    let machine = listed.into_inner().machines.into_iter().next()?;
    let link = client.relay_link().get_relay_link(pb::GetRelayLinkRequest {}).await.ok()?.into_inner();
    Some((machine, link))
}

fn own_json((machine, link): &(betcode::Machine, pb::RelayLink), is_current: bool) -> Value {
    json!({
        "name": machine.name,
        "machine_id": machine.id,
        "this": true,
        "current": is_current,
        "relay": some(&link.url),
        "role": "user",
        "status": if link.url.is_empty() { "online" } else { &link.state },
        "hostname": machine.hostname,
    })
}

/// Asks a machine's relay how the machine is.
pub(super) async fn ask(
    machine: KnownMachine,
) -> (KnownMachine, std::result::Result<betcode::Machine, String>) {
    let asking = async {
        let relay = machine.relay().map_err(|failure| failure.message)?;
        let mut request = Request::new(betcode::GetMachineRequest { machine_id: machine.machine_id.clone() });
        let bearer =
            format!("Bearer {}", machine.token).parse().map_err(|_| "the token cannot be sent".to_owned())?;
        request.metadata_mut().insert("authorization", bearer);
        let found = MachineServiceClient::new(relay.channel).get_machine(request).await;
        found.map(tonic::Response::into_inner).map_err(|status| status.message().to_owned())
    };
    let found = tokio::time::timeout(limits::MACHINE_LIST_WAIT, asking).await;
    let found = found.unwrap_or_else(|_| Err("the relay does not answer in time".to_owned()));
    (machine, found)
}

fn status_name(machine: &betcode::Machine) -> &'static str {
    match machine.status() {
        betcode::MachineStatus::Online => "online",
        betcode::MachineStatus::Connecting => "connecting",
        betcode::MachineStatus::Offline | betcode::MachineStatus::Unspecified => "offline",
    }
}

fn switch(console: &mut Console, name: &str) -> Result<Exit> {
    let known = KnownMachines::in_folder(&console.paths);
    let previous = known.current()?.unwrap_or_else(|| THIS_MACHINE.to_owned());
    if name != THIS_MACHINE {
        known.find(name, console.relay()?)?;
    }
    known.switch(name)?;
    if console.out.json {
        console.out.json(&json!({"machine": name, "previous": previous}))?;
    } else {
        console.out.line(&format!("Commands go to {name} now."))?;
    }
    Ok(Exit::OK)
}

fn remove(console: &mut Console, name: &str, local: &dyn LocalCommands) -> Result<Exit> {
    let known = KnownMachines::in_folder(&console.paths);
    let paired = known.find(name, console.relay()?).ok();
    let at_relay = local.remove_machine(console, name)?;
    if let Some(machine) = &paired {
        known.remove(machine)?;
    }
    let Some(id) = at_relay.clone().or_else(|| paired.as_ref().map(|machine| machine.machine_id.clone()))
    else {
        let message = format!("neither this device nor a relay here knows a machine {name:?}");
        return Err(Failure::coded(ErrorCode::MachineNotFound, message));
    };
    if console.out.json {
        let value = json!({"name": name, "machine_id": id, "at_relay": at_relay.is_some(), "pairing": paired.is_some()});
        console.out.json(&value)?;
    } else {
        let what =
            if at_relay.is_some() { "the relay has forgotten it" } else { "this device has forgotten it" };
        console.out.line(&format!("Removed {name}: {what}"))?;
    }
    Ok(Exit::OK)
}

/// Measures the way to a machine, hop by hop.
async fn doctor(console: &mut Console, name: Option<&str>) -> Result<Exit> {
    let Some(name) = name else {
        let client = console.connect_here().await?;
        let link = client.relay_link().get_relay_link(pb::GetRelayLinkRequest {}).await?.into_inner();
        let listed = client.devices().list_devices(pb::ListDevicesRequest {}).await?.into_inner();
        return examine_link(console, &link, &listed.devices);
    };
    let known = KnownMachines::in_folder(&console.paths);
    let machine = std::sync::Arc::new(known.find(name, console.relay()?)?);
    let mut hops: Vec<(&str, std::result::Result<u128, String>)> = Vec::new();
    let began = Instant::now();
    let (_, found) = ask(KnownMachine::clone(&machine)).await;
    let relay = found.as_ref().map(|_| began.elapsed().as_micros()).map_err(Clone::clone);
    let is_there = found.as_ref().is_ok_and(|found| found.status() == betcode::MachineStatus::Online);
    hops.push(("relay", relay));
    if is_there {
        let client = client::connection::Client::through(&machine)?;
        for hop in ["sealed connection", "call"] {
            let began = Instant::now();
            let ping = client.daemon().ping(wire::obey::local::v1::PingRequest::default()).await;
            hops.push((
                hop,
                ping.map(|_| began.elapsed().as_micros()).map_err(|status| status.message().to_owned()),
            ));
        }
    } else if found.is_ok() {
        hops.push(("machine", Err("it is not connected to the relay".to_owned())));
    }
    let is_good = hops.iter().all(|(_, result)| result.is_ok());
    if console.out.json {
        let list: Vec<Value> = hops
            .iter()
            .map(|(hop, result)| match result {
                Ok(micros) => {
                    json!({"hop": hop, "ok": true, "micros": u64::try_from(*micros).unwrap_or(u64::MAX)})
                }
                Err(problem) => json!({"hop": hop, "ok": false, "problem": problem}),
            })
            .collect();
        console.out.json(&json!({"machine": machine.name, "ok": is_good, "hops": list}))?;
    } else {
        for (hop, result) in hops {
            match result {
                Ok(micros) => console.out.line(&format!("ok    {hop}: {:.1} ms", micros as f64 / 1_000.0))?,
                Err(problem) => console.out.line(&format!("fails {hop}: {problem}"))?,
            }
        }
    }
    Ok(if is_good { Exit::OK } else { Exit::FAILED })
}

fn known_json(machine: &KnownMachine) -> Value {
    json!({
        "name": machine.name,
        "machine_id": machine.machine_id,
        "relay": machine.relay,
        "role": machine.role,
        "device_id": machine.device_id,
    })
}

fn some(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}

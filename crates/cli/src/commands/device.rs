//! `obey device …`: devices on other machines that may call the daemon.

use std::fs::{DirBuilder, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

use serde_json::{Value, json};
use wire::obey::v1 as pb;

use cli_args::DeviceAddArgs;
use client::format::rfc3339;
use config::exit::Exit;
use config::failure::{Failure, Result};
use config::paths::PRIVATE_FILE;
use terminal::console::Console;
use terminal::output::TextStyle;
use terminal::table::Table;

pub(super) async fn add(console: &mut Console, args: DeviceAddArgs) -> Result<Exit> {
    let Some(name) = args.name else {
        return invite(console, pb::InviteDeviceRequest { role: args.role, same_host: args.same_host }).await;
    };
    if let Some(folder) = &args.certificate {
        // Before there is a device whose key would be lost.
        for file in files(folder, &name) {
            if file.exists() {
                return Err(Failure::usage(format!("{} exists already", file.display())));
            }
        }
    }
    let expires_at = args.expires.map(|wait| {
        let (seconds, nanos) = host::clock::now().after(wait).seconds_and_nanos();
        prost_types::Timestamp { seconds, nanos }
    });
    let certificate = args.certificate.is_some();
    let request = pb::AddDeviceRequest { name, role: args.role, expires_at, certificate };
    let client = console.connect_here().await?;
    let added = client.devices().add_device(request).await?.into_inner();
    let device = added.device.unwrap_or_default();
    let mut value = shown(&device);
    if let Some(folder) = &args.certificate {
        let [certificate, key] = files(folder, &device.name);
        if let Err(error) = write(folder, [(&certificate, &added.certificate_pem), (&key, &added.key_pem)]) {
            let _gone = client.devices().revoke_device(pb::RevokeDeviceRequest { device: device.id }).await;
            return Err(Failure::usage(format!("{} cannot be written: {error}", folder.display())));
        }
        if !console.out.json {
            console.out.line(&certificate.display().to_string())?;
            console.out.line(&key.display().to_string())?;
            let note = format!("The certificate and key of {} ({})", device.name, device.role);
            console.out.note(TextStyle::Dim, &note)?;
            return Ok(Exit::OK);
        }
        (value["certificate_file"], value["key_file"]) = (json!(certificate), json!(key));
    } else if !console.out.json {
        console.out.line(&added.token)?;
        let note = format!(
            "The token of {} ({}), shown this once; it is sent as Authorization: Bearer TOKEN",
            device.name, device.role
        );
        console.out.note(TextStyle::Dim, &note)?;
        return Ok(Exit::OK);
    } else {
        value["token"] = json!(added.token);
    }
    console.out.json(&value)?;
    Ok(Exit::OK)
}

/// Prints a line with which a device pairs.
async fn invite(console: &mut Console, request: pb::InviteDeviceRequest) -> Result<Exit> {
    let role = request.role.clone();
    let client = console.connect_here().await?;
    let invited = client.relay_link().invite_device(request).await?.into_inner();
    if console.out.json {
        let expires_at = rfc3339(invited.expires_at.as_ref());
        console.out.json(&json!({"line": invited.line, "role": role, "expires_at": expires_at}))?;
        return Ok(Exit::OK);
    }
    console.out.line(&invited.line)?;
    let note = "On the device, within ten minutes and once: obey device join LINE";
    console.out.note(TextStyle::Dim, note)?;
    Ok(Exit::OK)
}

pub(super) async fn list(console: &mut Console) -> Result<Exit> {
    let client = console.connect_here().await?;
    let devices = client.devices().list_devices(pb::ListDevicesRequest {}).await?.into_inner().devices;
    if console.out.json {
        let list: Vec<Value> = devices.iter().map(shown).collect();
        console.out.json(&json!({"devices": list}))?;
        return Ok(Exit::OK);
    }
    if devices.is_empty() {
        console.out.note(TextStyle::Dim, "No devices. Add one with: obey device add NAME --role viewer")?;
        return Ok(Exit::OK);
    }
    let mut table = Table::new(&["NAME", "ID", "ROLE", "PROOF", "EXPIRES", "LAST SEEN", "FROM", "KEY"]);
    for device in devices {
        let expires = rfc3339(device.expires_at.as_ref()).unwrap_or_else(|| "never".to_owned());
        let seen = rfc3339(device.seen_at.as_ref()).unwrap_or_else(|| "never".to_owned());
        let key = match (device.key_is_kept_here, device.may_answer) {
            (false, _) => "elsewhere",
            (true, true) => "here",
            (true, false) => "here, answers nothing",
        };
        let key = key.to_owned();
        table.row(vec![
            device.name,
            device.id,
            device.role,
            device.proof,
            expires,
            seen,
            device.seen_from,
            key,
        ]);
    }
    super::session::print_table(console, &table)?;
    Ok(Exit::OK)
}

pub(super) async fn revoke(console: &mut Console, device: &str) -> Result<Exit> {
    let client = console.connect_here().await?;
    let request = pb::RevokeDeviceRequest { device: device.to_owned() };
    let device = client.devices().revoke_device(request).await?.into_inner().device.unwrap_or_default();
    if console.out.json {
        console.out.json(&shown(&device))?;
    } else {
        console.out.line(&format!("Revoked: {} ({})", device.name, device.role))?;
    }
    Ok(Exit::OK)
}

/// Returns the certificate's file and the key's.
fn files(folder: &Path, name: &str) -> [std::path::PathBuf; 2] {
    [folder.join(format!("{name}.pem")), folder.join(format!("{name}.key"))]
}

/// Writes files that nobody else can read.
fn write(folder: &Path, files: [(&std::path::PathBuf, &String); 2]) -> std::io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    for (path, text) in files {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(PRIVATE_FILE).open(path)?;
        file.write_all(text.as_bytes())?;
    }
    Ok(())
}

fn shown(device: &pb::Device) -> Value {
    json!({
        "id": device.id,
        "name": device.name,
        "role": device.role,
        "proof": device.proof,
        "added_at": rfc3339(device.added_at.as_ref()),
        "expires_at": rfc3339(device.expires_at.as_ref()),
        "seen_at": rfc3339(device.seen_at.as_ref()),
        "seen_from": Some(&device.seen_from).filter(|from| !from.is_empty()),
        "key_is_kept_here": device.key_is_kept_here,
        "may_answer": device.may_answer,
    })
}

//! `obey web`: prints the address of the page with a code that works once, and opens it in a browser where there is one.

use std::process::{Command, Stdio};

use qrcode::QrCode;
use qrcode::render::unicode;
use serde_json::json;
use wire::obey::v1 as pb;

use cli_args::web::{PairArgs, WebArgs, WebCommand};
use client::format::rfc3339;
use config::exit::Exit;
use config::failure::Result;
use terminal::console::Console;
use terminal::output::TextStyle;

pub(super) async fn run(console: &mut Console, args: &WebArgs) -> Result<Exit> {
    match &args.command {
        Some(WebCommand::Pair(args)) => pair(console, args).await,
        None => open(console, args).await,
    }
}

/// Prints the address for this machine and opens it.
async fn open(console: &mut Console, args: &WebArgs) -> Result<Exit> {
    let (url, expires_at) = create_code(console, pb::CreateCodeRequest::default(), "k").await?;
    let is_opened = !args.no_open && !console.out.json && has_desktop() && start_browser(&url);
    if console.out.json {
        console.out.json(&json!({ "url": url, "expires_at": expires_at }))?;
        return Ok(Exit::OK);
    }
    console.out.line(&url)?;
    let note = match is_opened {
        true => "The page opens in the browser. The address works once, within a minute.",
        false => "Open it in a browser on this machine. The address works once, within a minute.",
    };
    console.out.note(TextStyle::Dim, note)?;
    Ok(Exit::OK)
}

/// Prints the address for another device, and for its camera.
async fn pair(console: &mut Console, args: &PairArgs) -> Result<Exit> {
    let request = pb::CreateCodeRequest { role: args.role.clone(), pair: true };
    let (url, expires_at) = create_code(console, request, "pair").await?;
    if console.out.json {
        console.out.json(&json!({ "url": url, "role": args.role, "expires_at": expires_at }))?;
        return Ok(Exit::OK);
    }
    if let Ok(code) = QrCode::new(url.as_bytes()) {
        let picture = code.render::<unicode::Dense1x2>().quiet_zone(true).build();
        for line in picture.lines() {
            console.out.line(line)?;
        }
    }
    console.out.line(&url)?;
    let note = format!(
        "It works once, within two minutes, and gives the role {}. obey device revoke takes it back.",
        args.role
    );
    console.out.note(TextStyle::Dim, &note)?;
    Ok(Exit::OK)
}

/// Returns an address with a new code behind the `#`, and when the code ends.
async fn create_code(
    console: &mut Console,
    request: pb::CreateCodeRequest,
    word: &str,
) -> Result<(String, Option<String>)> {
    let client = console.connect().await?;
    let created = client.pages().create_code(request).await?.into_inner();
    let address = created.addresses.first().map_or("", String::as_str);
    Ok((format!("{address}/#{word}={}", created.code), rfc3339(created.expires_at.as_ref())))
}

/// Whether a browser that is started here is in front of the person who typed.
fn has_desktop() -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    !is_set("SSH_CONNECTION") && (cfg!(target_os = "macos") || is_set("DISPLAY") || is_set("WAYLAND_DISPLAY"))
}

fn start_browser(url: &str) -> bool {
    let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let mut command = Command::new(opener);
    command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().is_ok()
}

//! `obey mcp install`: adds one entry to the configuration of an agent or editor, and changes nothing else.
//! Clients and their files are in `clients`, the formats in `json` and `toml`; this file reads, writes and
//! reports.

mod clients;
mod file;
mod json;
mod toml;

use domain::ErrorCode;
use serde_json::json;

use crate::limits;
use cli_args::mcp::{McpInstallArgs, McpScope};
use clients::{Entry, Format, McpClientConfig};
use config::exit::Exit;
use config::failure::{Failure, Result};
use file::ConfigFile;
use terminal::console::Console;

/// How a file was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Made,
    Changed,
    Removed,
    /// The file was already as wanted.
    None,
}

/// Adds or removes the entry. If another program changes the file meanwhile, it tries again.
pub(super) fn run(console: &mut Console, args: &McpInstallArgs) -> Result<Exit> {
    let client = McpClientConfig::of(args.client);
    let path = client.file(args.scope, &console.vars, console.paths.home.as_deref(), &console.folder)?;
    let entry = Entry { command: command(console, args.scope)?, args: words(console)? };
    if args.print {
        return print(console, &client, &path, &entry);
    }
    let mut left = limits::INSTALL_RETRIES_MAX;
    let change = loop {
        let file = ConfigFile::read(&path)?;
        let wanted = edited(&client, &file, (!args.uninstall).then_some(&entry))?;
        let Some(text) = wanted else { break Change::None };
        // The client may write its file at any moment; its changes must not be lost.
        if file.replace(&text, args.scope == McpScope::User)? {
            break match (args.uninstall, file.exists()) {
                (true, _) => Change::Removed,
                (false, true) => Change::Changed,
                (false, false) => Change::Made,
            };
        }
        left -= 1;
        if left == 0 {
            let message = format!("{} is being written all the time; nothing was changed", path.display());
            return Err(Failure::failed(message).with_hint("end the client and try again"));
        }
    };
    report(console, &client, &path, change, args.uninstall)
}

/// Returns the new content of the file, or `None` if it is already as wanted.
fn edited(client: &McpClientConfig, file: &ConfigFile, entry: Option<&Entry>) -> Result<Option<String>> {
    let broken = |problem: String| {
        let message = format!("{}: {problem}; nothing was changed", file.path().display());
        Failure::coded(ErrorCode::ConfigInvalid, message).with_hint("mend the file, or move it away")
    };
    let text = file.text();
    let wanted = match (client.format, entry) {
        (Format::Toml, Some(entry)) => toml::set(text, entry),
        (Format::Toml, None) => toml::remove(text),
        (Format::Json { container, .. }, Some(entry)) => json::set(text, container, &client.json(entry)),
        (Format::Json { container, .. }, None) => json::remove(text, container),
    };
    let wanted = wanted.map_err(broken)?;
    Ok(Some(wanted).filter(|wanted| wanted != text))
}

/// Returns the program as the client should call it. A user's settings belong to this machine; those of a
/// project are shared with people who have the program at another path.
fn command(console: &Console, scope: McpScope) -> Result<String> {
    if scope == McpScope::Project {
        return Ok("obey".to_owned());
    }
    let program = console.program.clone().into_os_string().into_string();
    program.map_err(|_| Failure::failed("the path of this program is not UTF-8"))
}

/// Returns the arguments; a socket given here is passed on.
fn words(console: &Console) -> Result<Vec<String>> {
    let mut words = vec!["mcp".to_owned()];
    if let Some(socket) = &console.global.socket {
        let socket = config::paths::absolute(socket)?.into_os_string().into_string();
        let socket = socket.map_err(|_| Failure::usage("--socket: the path is not UTF-8"))?;
        words.extend(["--socket".to_owned(), socket]);
    }
    Ok(words)
}

/// Prints the entry without writing it.
fn print(
    console: &mut Console,
    client: &McpClientConfig,
    path: &std::path::Path,
    entry: &Entry,
) -> Result<Exit> {
    let text = match client.format {
        Format::Toml => toml::set("", entry),
        Format::Json { container, .. } => json::set("", container, &client.json(entry)),
    };
    let text = text.map_err(Failure::failed)?;
    if console.out.json {
        console.out.json(&json!({"client": client.name, "path": path, "text": text}))?;
        return Ok(Exit::OK);
    }
    console.out.note(terminal::output::TextStyle::Dim, &format!("{}:", path.display()))?;
    console.out.bytes(text.as_bytes())?;
    Ok(Exit::OK)
}

fn report(
    console: &mut Console,
    client: &McpClientConfig,
    path: &std::path::Path,
    change: Change,
    uninstall: bool,
) -> Result<Exit> {
    if console.out.json {
        let changed = change != Change::None;
        console.out.json(
            &json!({"client": client.name, "path": path, "installed": !uninstall, "changed": changed}),
        )?;
        return Ok(Exit::OK);
    }
    let (name, path) = (client.title, path.display());
    let line = match change {
        Change::Made => format!("{name} will find obey: made {path}"),
        Change::Changed => format!("{name} will find obey: added to {path}"),
        Change::Removed => format!("Taken out of {path}"),
        Change::None if uninstall => format!("obey is not in {path}"),
        Change::None => format!("obey is in {path} already"),
    };
    console.out.line(&line)?;
    if !uninstall {
        console.out.note(terminal::output::TextStyle::Dim, client.next)?;
    }
    Ok(Exit::OK)
}

//! `obey doctor`: checks everything the daemon needs and says how to repair problems. Changes nothing and
//! starts nothing.

mod agents;
mod bundle;
mod certificates;
mod clock;
mod database;
mod devices;
mod locks;
mod machine;
mod memory;
mod ports;
mod programs;
mod projects;
mod reachable;
mod repositories;
mod sandbox;
mod scrubbing;
mod user_files;

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use wire::obey::local::v1::PingResponse;

use crate::limits;
use cli::commands::daemon::call_ping;
use cli::json_types::{self, DoctorJson, FindingJson, FindingStateJson};
use cli_args::doctor::DoctorArgs;
use client::connection::{self, Client};
use client::format;
use config::exit::Exit;
use config::failure::{Failure, Result};
use config::file::{self, Config, Flags};
use config::paths;
use config::running::Running;
use terminal::console::Console;
use terminal::output::TextStyle;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Ok,
    /// Works, but with restrictions.
    Warning,
    Broken,
}

/// The result of one check.
#[derive(Debug)]
struct Finding {
    check: &'static str,
    state: State,
    message: String,
    /// How to repair it; empty if nothing is wrong.
    repair: String,
}

impl Finding {
    fn ok(check: &'static str, message: impl Into<String>) -> Self {
        Self { check, state: State::Ok, message: message.into(), repair: String::new() }
    }

    fn warning(check: &'static str, message: impl Into<String>, repair: impl Into<String>) -> Self {
        Self { check, state: State::Warning, message: message.into(), repair: repair.into() }
    }

    fn broken(check: &'static str, message: impl Into<String>, repair: impl Into<String>) -> Self {
        Self { check, state: State::Broken, message: message.into(), repair: repair.into() }
    }
}

pub(super) async fn run(console: &mut Console, args: &DoctorArgs) -> Result<Exit> {
    let findings = examine(console).await;
    let broken = findings.iter().any(|finding| finding.state == State::Broken);
    print(console, &findings)?;
    if let Some(file) = &args.bundle {
        let file = console.folder.join(file);
        let socket = console.socket().unwrap_or_else(|_| console.paths.socket.clone());
        bundle::write(console, &file, &json_types::value(&printed(&findings)), &socket)?;
        let message = format!("Wrote {}; look at it before you send it: tar -xOf {0}", file.display());
        console.out.note(TextStyle::Dim, &message)?;
    }
    Ok(if broken { Exit::FAILED } else { Exit::OK })
}

/// Runs all checks, in the order in which they are printed.
async fn examine(console: &Console) -> Vec<Finding> {
    let (configuration, config) = configuration(console);
    let mut findings = vec![configuration];
    let socket = match console.socket() {
        Ok(socket) => socket,
        // The finding about the configuration contains the reason; the default path is the best guess.
        Err(_) => console.paths.socket.clone(),
    };
    let data_dir = config
        .data_dir
        .as_deref()
        .map_or_else(|| console.paths.data_dir.clone(), |path| console.paths.expand(path));
    let listening = connection::probe(&socket).await;
    let runs = matches!(listening, Ok(true));
    findings.push(socket_folder(&socket));
    findings.push(socket_file(&socket, runs));
    let mut answers = None;
    findings.push(match listening {
        Ok(true) => match call_ping(console, &Client::on(&socket)).await {
            Ok(pong) => version(answers.insert(pong)),
            Err(failure) => silent(console, failure),
        },
        Ok(false) => Finding::ok("daemon", "does not run; the next command starts it"),
        Err(failure) => {
            Finding::broken("daemon", failure.message, "end the process behind the socket: obey stop")
        }
    });
    // A daemon may have been started with its own data folder.
    let running = answers.as_ref().and_then(|pong| Running::read(&socket, pong.pid));
    findings.extend(running.as_ref().and_then(stepped_over));
    let served = running.as_ref().map(Running::addresses).unwrap_or_default();
    let data_dir = running.map_or(data_dir, |running| running.data_dir);
    let folders = [socket.parent().unwrap_or(Path::new("/")), &data_dir, &console.paths.state_dir];
    findings.extend(locks::examine(distinct(folders), runs));
    let client = answers.is_some().then(|| Client::on(&socket));
    findings.extend(agents::examine(&data_dir, client.as_ref()).await);
    findings.push(ports::examine(&config, runs, &served));
    findings.extend(certificates::examine(&config, &console.paths));
    findings.push(data_folder(&data_dir));
    findings.extend(database::examine(&data_dir).await);
    findings.extend(user_files::examine(console, &socket, &data_dir).await);
    findings.extend(disk_space(&data_dir));
    findings.push(machine::examine_open_files());
    findings.push(clock::examine(&data_dir, client.as_ref()).await);
    findings.extend(programs::examine(console, &config, client.as_ref()).await);
    findings.push(machine::examine_git(console).await);
    findings.push(sandbox::examine(console, &config).await);
    if let Some(client) = &client {
        findings.extend(sandbox::examine_agents(client).await);
        findings.extend(sandbox::examine_limits(client).await);
        findings.extend(repositories::examine(client).await);
    }
    if let Some(client) = &client {
        findings.extend(devices::examine(client).await);
        findings.extend(projects::examine(client).await);
    }
    findings.extend(reachable::examine(&config, &data_dir).await);
    findings.push(scrubbing::examine(&config, client.as_ref()).await);
    findings.push(memory::examine(&config, &data_dir).await);
    findings.extend(memory::examine_qdrant(&config, &data_dir).await);
    findings
}

/// Reports which port the daemon uses if the default one was taken.
fn stepped_over(running: &Running) -> Option<Finding> {
    let remedy = "choose a port of your own: listen = [\"127.0.0.1:PORT\"] in config.toml";
    running.port_note().map(|note| Finding::warning("port", note, remedy))
}

/// Removes duplicates, because two of the folders may be the same.
fn distinct(folders: [&Path; 3]) -> Vec<&Path> {
    let mut seen: Vec<&Path> = Vec::new();
    for folder in folders {
        if !seen.contains(&folder) {
            seen.push(folder);
        }
    }
    seen
}

/// Loads the configuration; if it is invalid, the other checks use the defaults.
fn configuration(console: &Console) -> (Finding, Config) {
    let loaded = paths::config_file(None, &console.vars, &console.paths).and_then(|file| {
        let text = file::read_file(&file)?;
        let loaded =
            file::load(text.as_deref().map(|text| (file.as_path(), text)), &console.vars, &Flags::default())?;
        daemon::check(&loaded)?;
        let from = if text.is_some() {
            file.display().to_string()
        } else {
            format!("defaults (no {})", file.display())
        };
        Ok((from, loaded))
    });
    match loaded {
        Ok((from, config)) => (Finding::ok("config", from), config),
        Err(failure) => (
            Finding::broken(
                "config",
                failure.message,
                "mend the file: obey config edit; every key: obey config show",
            ),
            Config::default(),
        ),
    }
}

/// Checks that the socket's folder is private.
fn socket_folder(socket: &Path) -> Finding {
    const CHECK: &str = "socket folder";
    let folder = socket.parent().unwrap_or(Path::new("/"));
    if !folder.exists() {
        return Finding::ok(CHECK, format!("{} will be made at the first start", folder.display()));
    }
    if let Some(finding) = open_to_others(CHECK, folder) {
        return finding;
    }
    Finding::ok(CHECK, folder.display().to_string())
}

/// Finds a folder that the daemon refuses because others may enter it, by the rule that the daemon itself has.
fn open_to_others(check: &'static str, folder: &Path) -> Option<Finding> {
    let problem = surface::server::folder::private(folder, "the daemon refuses it").err()?;
    let repair = format!("chmod 700 {0}, or remove it where it is not yours", folder.display());
    Some(Finding::broken(check, problem.message, repair))
}

/// Checks the socket's file; without a daemon, an existing one is stale.
fn socket_file(socket: &Path, runs: bool) -> Finding {
    const CHECK: &str = "socket";
    let shown = socket.display();
    let Ok(meta) = fs::symlink_metadata(socket) else {
        return Finding::ok(CHECK, format!("{shown} is not there"));
    };
    if !meta.file_type().is_socket() {
        return Finding::broken(CHECK, format!("{shown} is no socket"), format!("rm {shown}"));
    }
    if meta.uid() != paths::uid() {
        return Finding::broken(
            CHECK,
            format!("{shown} belongs to uid {}", meta.uid()),
            "use --socket with a path of your own",
        );
    }
    // Connecting requires write permission, and on some systems not even that.
    if meta.permissions().mode() & 0o077 != 0 {
        let mode = meta.permissions().mode() & 0o777;
        return Finding::broken(
            CHECK,
            format!("others may use {shown} (mode {mode:o})"),
            format!("chmod 600 {shown}"),
        );
    }
    if !runs {
        let message = format!("{shown} is left over from a daemon that is gone");
        return Finding::warning(CHECK, message, "the next start replaces it: obey serve --detach");
    }
    Finding::ok(CHECK, shown.to_string())
}

fn version(pong: &PingResponse) -> Finding {
    let own = env!("CARGO_PKG_VERSION");
    if pong.version == own {
        return Finding::ok("daemon", format!("obey {own}, pid {}", pong.pid));
    }
    let message = format!("obey {} (pid {}) runs, this command is obey {own}", pong.version, pong.pid);
    Finding::warning("daemon", message, "exchange it; agents go on: obey upgrade")
}

fn silent(console: &Console, failure: Failure) -> Finding {
    let log = console.paths.log_file();
    let repair = format!("look at {}; end it with: obey stop, or kill its process", log.display());
    Finding::broken("daemon", failure.message, repair)
}

/// Checks that the data folder exists, or can be created, and is writable.
fn data_folder(folder: &Path) -> Finding {
    const CHECK: &str = "data folder";
    let shown = folder.display();
    if !folder.exists() {
        let parent = folder.ancestors().find(|ancestor| ancestor.exists()).unwrap_or(Path::new("/"));
        if rustix::fs::access(parent, rustix::fs::Access::WRITE_OK).is_err() {
            let message = format!("{shown} cannot be made: {} is not writable", parent.display());
            return Finding::broken(CHECK, message, "set data_dir in config.toml or XDG_DATA_HOME");
        }
        return Finding::ok(CHECK, format!("{shown} will be made at the first start"));
    }
    if let Some(finding) = open_to_others(CHECK, folder) {
        return finding;
    }
    if rustix::fs::access(folder, rustix::fs::Access::WRITE_OK).is_err() {
        return Finding::broken(CHECK, format!("{shown} is not writable"), format!("chmod u+rwx {shown}"));
    }
    Finding::ok(CHECK, shown.to_string())
}

/// Warns if little disk space is left.
fn disk_space(folder: &Path) -> Option<Finding> {
    const CHECK: &str = "disk space";
    let existing = folder.ancestors().find(|ancestor| ancestor.exists())?;
    let space = rustix::fs::statvfs(existing).ok()?;
    let free = space.f_bavail.saturating_mul(space.f_frsize);
    let message = format!("{} free at {}", format::size(free), existing.display());
    Some(if free < limits::DISK_LOW_BYTES {
        Finding::warning(CHECK, message, "make room; the daemon refuses work when its disk is full")
    } else {
        Finding::ok(CHECK, message)
    })
}

/// Returns the findings as programs read them.
fn printed(findings: &[Finding]) -> DoctorJson {
    let finding = |finding: &Finding| FindingJson {
        check: finding.check.to_owned(),
        state: match finding.state {
            State::Ok => FindingStateJson::Ok,
            State::Warning => FindingStateJson::Warning,
            State::Broken => FindingStateJson::Broken,
        },
        message: finding.message.clone(),
        repair: finding.repair.clone(),
    };
    DoctorJson { findings: findings.iter().map(finding).collect() }
}

fn print(console: &mut Console, findings: &[Finding]) -> Result<()> {
    if console.out.json {
        return console.out.json(&json_types::value(&printed(findings)));
    }
    let width = findings.iter().map(|finding| finding.check.len()).max().unwrap_or(0);
    for finding in findings {
        let (mark, style) = match finding.state {
            State::Ok => ("✓", TextStyle::Good),
            State::Warning => ("!", TextStyle::Warn),
            State::Broken => ("✗", TextStyle::Bad),
        };
        let text = format!(" {:<width$}  {}", finding.check, finding.message);
        console.out.styled_line(&[(style, mark), (TextStyle::Plain, &text)])?;
        if !finding.repair.is_empty() {
            console.out.line(&format!("  {:<width$}  → {}", "", finding.repair))?;
        }
    }
    Ok(())
}

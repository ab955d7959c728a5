//! `obey doctor`: checks everything the daemon needs and says how to repair problems. Changes nothing and
//! starts nothing.

mod agents;
mod clock;
mod locks;
mod memory;
mod sandbox;
mod scrubbing;

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use serde_json::json;
use wire::obey::local::v1::PingResponse;

use super::daemon::call_ping;
use crate::client::{self, Client};
use crate::config::{self, Config, Flags};
use crate::console::Console;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::format;
use crate::limits;
use crate::output::TextStyle;
use crate::paths;
use crate::programs;
use crate::running::Running;
use crate::serve;

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

pub(super) async fn run(console: &mut Console) -> Result<Exit> {
    let findings = examine(console).await;
    let broken = findings.iter().any(|finding| finding.state == State::Broken);
    print(console, &findings)?;
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
    let listening = client::probe(&socket).await;
    let runs = matches!(listening, Ok(true));
    findings.push(socket_folder(console, &socket));
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
    let data_dir = running.map_or(data_dir, |running| running.data_dir);
    let folders = [socket.parent().unwrap_or(Path::new("/")), &data_dir, &console.paths.state_dir];
    findings.extend(locks::examine(distinct(folders), runs));
    let client = answers.is_some().then(|| Client::on(&socket));
    findings.extend(agents::examine(&data_dir, client.as_ref()).await);
    findings.push(data_folder(&data_dir));
    findings.extend(disk_space(&data_dir));
    findings.push(clock::examine(&data_dir, client.as_ref()).await);
    let claude = Wanted {
        check: "claude",
        configured: config.claude_code.binary.as_deref(),
        section: "claude_code",
        package: "@anthropic-ai/claude-code",
    };
    let codex = Wanted {
        check: "codex",
        configured: config.codex.binary.as_deref(),
        section: "codex",
        package: "@openai/codex",
    };
    findings.push(agent_program(console, &claude).await);
    findings.push(agent_program(console, &codex).await);
    findings.push(sandbox::examine(console, &config).await);
    if let Some(client) = &client {
        findings.extend(sandbox::examine_agents(client).await);
        findings.extend(sandbox::examine_limits(client).await);
    }
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
    let loaded = serve::config_file(None, &console.vars, &console.paths).and_then(|file| {
        let text = config::read_file(&file)?;
        let loaded = config::load(
            text.as_deref().map(|text| (file.as_path(), text)),
            &console.vars,
            &Flags::default(),
        )?;
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
            Finding::broken("config", failure.message, "mend the file; docs/config.md describes every key"),
            Config::default(),
        ),
    }
}

/// Checks that the socket's folder is private.
fn socket_folder(console: &Console, socket: &Path) -> Finding {
    const CHECK: &str = "socket folder";
    let folder = socket.parent().unwrap_or(Path::new("/"));
    if !folder.exists() {
        return Finding::ok(CHECK, format!("{} will be made at the first start", folder.display()));
    }
    // A folder chosen by the user may be shared; the default one belongs to the daemon only.
    match paths::check_private(folder) {
        Ok(()) => Finding::ok(CHECK, folder.display().to_string()),
        Err(problem) if socket == console.paths.socket => Finding::broken(
            CHECK,
            problem,
            format!("chmod 700 {0}, or remove it where it is not yours", folder.display()),
        ),
        Err(problem) => Finding::warning(CHECK, problem, "put the socket into a folder of your own"),
    }
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
    if let Err(problem) = paths::check_private(folder) {
        return Finding::broken(CHECK, problem, format!("chmod 700 {shown}"));
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

/// A program that sessions need, as the configuration names it.
struct Wanted<'a> {
    check: &'static str,
    configured: Option<&'a Path>,
    section: &'static str,
    package: &'static str,
}

/// Checks that an agent's program is installed and prints its version.
async fn agent_program(console: &Console, wanted: &Wanted<'_>) -> Finding {
    let Wanted { check, configured, section, package } = *wanted;
    let name = configured.map_or(check.into(), Path::to_string_lossy);
    let Some(program) = console.vars.find_program(&name) else {
        let repair = format!("npm install -g {package}, or set `binary` under [{section}] in config.toml");
        return Finding::warning(check, format!("{name} was not found on PATH"), repair);
    };
    let shown = program.display();
    match programs::ask(&program, &["--version"], limits::VERSION_WAIT).await {
        Ok(said) if said.status.success() => Finding::ok(check, format!("{} at {shown}", said.out)),
        Ok(said) => {
            Finding::broken(check, format!("{shown} --version failed: {}", said.status), "install it again")
        }
        Err(problem) => Finding::broken(check, format!("{shown} --version {problem}"), "install it again"),
    }
}

fn print(console: &mut Console, findings: &[Finding]) -> Result<()> {
    if console.out.json {
        let list: Vec<_> = findings
            .iter()
            .map(|finding| {
                let state = match finding.state {
                    State::Ok => "ok",
                    State::Warning => "warning",
                    State::Broken => "broken",
                };
                json!({"check": finding.check, "state": state, "message": finding.message, "repair": finding.repair})
            })
            .collect();
        return console.out.json(&json!({"findings": list}));
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

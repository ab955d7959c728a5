//! `obey doctor`: looks at everything the daemon needs and says how to repair what is wrong. Changes nothing and
//! starts nothing.

use std::fs::{self, File};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::Stdio;

use rustix::fs::FlockOperation;
use serde_json::json;

use super::daemon::call_ping;
use crate::client::{self, Client};
use crate::config::{self, Config, Flags};
use crate::console::Console;
use crate::exit::Exit;
use crate::failure::Result;
use crate::format;
use crate::limits;
use crate::output::Style;
use crate::paths;
use crate::serve;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Ok,
    /// Works, but not everything will.
    Warning,
    Broken,
}

/// One thing that was looked at.
#[derive(Debug)]
struct Finding {
    check: &'static str,
    state: State,
    message: String,
    /// How to repair it; empty where nothing is wrong.
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

async fn examine(console: &Console) -> Vec<Finding> {
    let (configuration, config) = configuration(console);
    let mut findings = vec![configuration];
    let socket = match console.socket() {
        Ok(socket) => socket,
        // The configuration's finding says why; the usual place is the best guess.
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
    findings.push(match listening {
        Ok(true) => daemon(console, &socket).await,
        Ok(false) => Finding::ok("daemon", "does not run; the next command starts it"),
        Err(failure) => {
            Finding::broken("daemon", failure.message, "end the process behind the socket: obey stop")
        }
    });
    findings.extend(locks(&socket, &data_dir, &console.paths.state_dir, runs));
    findings.push(data_folder(&data_dir));
    findings.extend(disk_space(&data_dir));
    findings.push(claude(console, &config).await);
    findings
}

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

fn socket_folder(console: &Console, socket: &Path) -> Finding {
    const CHECK: &str = "socket folder";
    let folder = socket.parent().unwrap_or(Path::new("/"));
    if !folder.exists() {
        return Finding::ok(CHECK, format!("{} will be made at the first start", folder.display()));
    }
    // A folder the user chose may be shared; the usual one is the daemon's alone.
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
    // Connecting needs the right to write.
    if meta.permissions().mode() & 0o022 != 0 {
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

async fn daemon(console: &Console, socket: &Path) -> Finding {
    const CHECK: &str = "daemon";
    let own = env!("CARGO_PKG_VERSION");
    match call_ping(console, &Client::on(socket)).await {
        Ok(pong) if pong.version == own => Finding::ok(CHECK, format!("obey {own}, pid {}", pong.pid)),
        Ok(pong) => {
            let message =
                format!("obey {} (pid {}) runs, this command is obey {own}", pong.version, pong.pid);
            Finding::warning(CHECK, message, "exchange it; agents go on: obey stop && obey serve --detach")
        }
        Err(failure) => {
            let log = console.paths.log_file();
            let repair = format!("look at {}; end it with: obey stop, or kill its process", log.display());
            Finding::broken(CHECK, failure.message, repair)
        }
    }
}

/// Locks end with their holder, so one that is held while no daemon answers means a daemon that hangs.
fn locks(socket: &Path, data_dir: &Path, state_dir: &Path, runs: bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    for folder in [socket.parent().unwrap_or(Path::new("/")), data_dir, state_dir] {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        for path in
            entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|ext| ext == "lock"))
        {
            let Ok(file) = File::open(&path) else { continue };
            let held = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_err();
            if held && !runs {
                let message = format!("{} is held, but no daemon answers", path.display());
                let repair = format!("find its holder and end it: fuser -v {}", path.display());
                findings.push(Finding::broken("lock", message, repair));
            }
        }
    }
    findings
}

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

async fn claude(console: &Console, config: &Config) -> Finding {
    const CHECK: &str = "claude";
    let name = config.claude_code.binary.as_deref().map_or("claude".into(), Path::to_string_lossy);
    let Some(program) = console.vars.find_program(&name) else {
        let repair =
            "npm install -g @anthropic-ai/claude-code, or set `binary` under [claude_code] in config.toml";
        return Finding::warning(CHECK, format!("{name} was not found on PATH"), repair);
    };
    let run = tokio::process::Command::new(&program)
        .arg("--version")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .output();
    let shown = program.display();
    match tokio::time::timeout(limits::VERSION_WAIT, run).await {
        Ok(Ok(output)) if output.status.success() => {
            let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
            Finding::ok(CHECK, format!("{version} at {shown}"))
        }
        Ok(Ok(output)) => {
            Finding::broken(CHECK, format!("{shown} --version failed: {}", output.status), "install it again")
        }
        Ok(Err(error)) => {
            Finding::broken(CHECK, format!("{shown} cannot be run: {error}"), "install it again")
        }
        Err(_) => Finding::broken(CHECK, format!("{shown} --version does not end"), "install it again"),
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
            State::Ok => ("✓", Style::Good),
            State::Warning => ("!", Style::Warn),
            State::Broken => ("✗", Style::Bad),
        };
        let text = format!(" {:<width$}  {}", finding.check, finding.message);
        console.out.styled_line(&[(style, mark), (Style::Plain, &text)])?;
        if !finding.repair.is_empty() {
            console.out.line(&format!("  {:<width$}  → {}", "", finding.repair))?;
        }
    }
    Ok(())
}

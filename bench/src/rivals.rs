//! The rivals: fetched from their registry at fixed versions, started in folders of their own, with the same stub behind them.
//! What cannot be had is left out by name.

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::http1;
use crate::machine;

/// A package and the program in it.
struct Package {
    name: &'static str,
    version: &'static str,
    program: &'static str,
}

const SANDBOX_AGENT: Package = Package {
    name: "@sandbox-agent/cli",
    version: "0.4.2",
    program: "@sandbox-agent/cli-linux-x64/bin/sandbox-agent",
};

const OPENCODE: Package =
    Package { name: "opencode-ai", version: "1.18.33", program: "opencode-linux-x64/bin/opencode" };

/// How long a rival may take to answer after its start.
const START_WAIT: Duration = Duration::from_secs(60);

/// Installs a package unless it is there; returns its program, or why it cannot be had.
fn fetch(package: &Package) -> Result<PathBuf> {
    let cache = match std::env::var_os("OBEY_BENCH_CACHE") {
        Some(folder) => PathBuf::from(folder),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../.cache/peers"),
    };
    let folder = cache.join(format!("{}-{}", package.name.replace('/', "_"), package.version));
    let program = folder.join("node_modules").join(package.program);
    if !program.exists() {
        println!("   fetching {} {}", package.name, package.version);
        std::fs::create_dir_all(&folder)?;
        let wanted = format!("{}@{}", package.name, package.version);
        let npm = Command::new("npm")
            .args(["install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix"])
            .arg(&folder)
            .arg(&wanted)
            .output()
            .context("npm is not installed")?;
        ensure!(npm.status.success(), "npm: {}", String::from_utf8_lossy(&npm.stderr));
        ensure!(program.exists(), "{wanted} has no program for this platform");
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755))?;
    }
    Ok(program)
}

/// A server with a folder of its own. Dropping it ends it, its agents, and its folder.
pub(crate) struct Rival {
    child: Child,
    /// What it was started with, to be started again.
    command: Command,
    health: &'static str,
    pub(crate) port: u16,
    /// From running the program to its first answer.
    pub(crate) started: Duration,
    home: PathBuf,
    sessions: u64,
}

impl Rival {
    fn start(
        name: &str,
        home: PathBuf,
        port: u16,
        mut command: Command,
        health: &'static str,
    ) -> Result<Self> {
        let log = std::fs::File::create(home.join("log"))?;
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("HOME", &home);
        command.current_dir(&home).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).process_group(0);
        let began = Instant::now();
        let child = command.spawn().with_context(|| name.to_owned())?;
        let mut rival = Self { child, command, health, port, started: Duration::ZERO, home, sessions: 0 };
        http1::wait_for(port, health, START_WAIT).with_context(|| rival.log())?;
        rival.started = began.elapsed();
        Ok(rival)
    }

    /// sandbox-agent, with the stub as the agent it calls `mock`.
    pub(crate) fn sandbox_agent() -> Result<Self> {
        let program = fetch(&SANDBOX_AGENT)?;
        let home = folder("sandbox-agent")?;
        let agents = home.join(".local/share/sandbox-agent/bin/agent_processes");
        std::fs::create_dir_all(&agents)?;
        let agent = agents.join("mock-acp");
        std::fs::write(
            &agent,
            format!("#!/bin/sh\nexec {} acp-agent\n", std::env::current_exe()?.display()),
        )?;
        std::fs::set_permissions(&agent, std::fs::Permissions::from_mode(0o755))?;
        let port = http1::free_port()?;
        let mut command = Command::new(program);
        command.args(["server", "-p", &port.to_string(), "--no-token", "--no-telemetry"]);
        Self::start("sandbox-agent", home, port, command, "/v1/health")
    }

    /// opencode, with a model server of the OpenAI API behind it.
    pub(crate) fn opencode(base_url: &str) -> Result<Self> {
        let program = fetch(&OPENCODE)?;
        let home = folder("opencode")?;
        let limit = json!({"context": 2_000_000, "output": 2_000_000});
        let config = json!({"autoupdate": false, "share": "disabled", "snapshot": false, "model": "stub/stub",
            "small_model": "stub/stub", "enabled_providers": ["stub"],
            "provider": {"stub": {"npm": "@ai-sdk/openai-compatible", "name": "stub",
                "options": {"baseURL": base_url, "apiKey": "x"},
                "models": {"stub": {"name": "stub", "limit": limit}}}}});
        std::fs::create_dir_all(home.join(".config/opencode"))?;
        std::fs::write(home.join(".config/opencode/opencode.json"), config.to_string())?;
        let port = http1::free_port()?;
        let mut command = Command::new("env");
        for off in ["AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS", "SHARE"] {
            command.arg(format!("OPENCODE_DISABLE_{off}=1"));
        }
        command.arg(program).args(["serve", "--port", &port.to_string(), "--hostname", "127.0.0.1"]);
        Self::start("opencode", home, port, command, "/global/health")
    }

    /// Kills the server and starts it again at the same port.
    pub(crate) fn crash_and_restart(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        self.child = self.command.spawn()?;
        http1::wait_for(self.port, self.health, START_WAIT)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.home.join("log")).unwrap_or_default()
    }

    /// Starts an agent and a conversation of the Agent Client Protocol.
    pub(crate) fn open_acp(&mut self) -> Result<AcpSession> {
        self.sessions += 1;
        let path = format!("/v1/acp/s{}", self.sessions);
        let start = json!({"protocolVersion": 1, "clientCapabilities": {}});
        rpc(self.port, &format!("{path}?agent=mock"), 1, "initialize", &start)?;
        let opened = rpc(self.port, &path, 2, "session/new", &json!({"cwd": self.home, "mcpServers": []}))?;
        let id = opened["result"]["sessionId"].as_str().context("no session")?.to_owned();
        Ok(AcpSession { port: self.port, path, id })
    }
}

/// A conversation behind a rival.
#[derive(Clone)]
pub(crate) struct AcpSession {
    port: u16,
    path: String,
    id: String,
}

impl AcpSession {
    /// Opens a stream of what the agent says.
    pub(crate) fn follow(&self) -> Result<std::net::TcpStream> {
        http1::events(self.port, &self.path)
    }

    /// Sends a prompt; the answer comes with the end of the turn, so it is waited for elsewhere.
    pub(crate) fn prompt(&self, text: String) -> std::thread::JoinHandle<Result<Value>> {
        let session = self.clone();
        std::thread::spawn(move || {
            let prompt = json!({"sessionId": session.id, "prompt": [{"type": "text", "text": text}]});
            rpc(session.port, &session.path, 3, "session/prompt", &prompt)
        })
    }
}

fn rpc(port: u16, path: &str, id: u64, method: &str, params: &Value) -> Result<Value> {
    let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
    let answer = http1::call(port, "POST", path, Some(&message))?;
    ensure!(answer.get("error").is_none(), "{method}: {answer}");
    Ok(answer)
}

fn folder(name: &str) -> Result<PathBuf> {
    let home = std::env::temp_dir().join(format!("obey-bench-{name}-{}", std::process::id()));
    // Left by a run that was killed.
    let _ = std::fs::remove_dir_all(&home);
    std::fs::create_dir_all(&home)?;
    Ok(home)
}

impl Drop for Rival {
    fn drop(&mut self) {
        machine::kill_group(self.child.id());
        // An error means that it has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.home);
    }
}

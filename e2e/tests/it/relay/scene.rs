//! A relay that serves, machines that joined it and devices that paired, as a person sets them up.

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use e2e::cli::{Cli, Output, Running};
use e2e::daemon::Daemon;
use e2e::deadline::{deadline, within};
use e2e::tools;
use e2e::world::World;
use rustix::process::Signal;
use serde_json::Value;

/// A relay in a world of its own.
pub(super) struct RelayScene {
    pub(super) world: World,
    pub(super) address: SocketAddr,
    pub(super) token: String,
    pub(super) ca: String,
    serving: Option<Running>,
}

/// A daemon that joined.
pub(super) struct Machine {
    pub(super) world: World,
    pub(super) daemon: Daemon,
    pub(super) id: String,
}

impl RelayScene {
    pub(super) async fn start() -> Result<Self> {
        Self::start_with(&[]).await
    }

    pub(super) async fn start_with(more: &[&str]) -> Result<Self> {
        let address = free_address()?;
        let listen = address.to_string();
        let words: Vec<&str> = ["relay", "init", "--listen", &listen].iter().chain(more).copied().collect();
        Self::made(address, &words).await
    }

    /// Starts a relay in a world that is there.
    pub(super) async fn start_in(world: World) -> Result<Self> {
        let address = free_address()?;
        Self::made_in(world, address, &["relay", "init", "--listen", &address.to_string()]).await
    }

    /// Makes a relay that is one with another.
    #[cfg(feature = "nats")]
    pub(super) async fn join(other: &RelayScene, nats: &str) -> Result<Self> {
        let code = word(&other.cli().json(&["relay", "code", "--relay"]).await?, "code")?;
        let address = free_address()?;
        let words = ["relay", "join", &code, "--listen", &address.to_string(), "--nats", nats];
        Self::made(address, &words).await
    }

    async fn made(address: SocketAddr, words: &[&str]) -> Result<Self> {
        Self::made_in(World::new()?, address, words).await
    }

    /// Makes a relay in a world that is there.
    pub(super) async fn made_in(world: World, address: SocketAddr, words: &[&str]) -> Result<Self> {
        let made = Cli::new(&world).json(words).await?;
        let serving = Self::serve(&world).await?;
        Ok(Self {
            world,
            address,
            token: word(&made, "token")?,
            ca: word(&made, "ca")?,
            serving: Some(serving),
        })
    }

    async fn serve(world: &World) -> Result<Running> {
        let mut serving = Cli::new(world).spawn(&["relay", "serve"]).await?;
        serving.wait_for_line("the ready line", |line| line.starts_with("ready relay=")).await?;
        Ok(serving)
    }

    pub(super) async fn kill(&mut self) -> Result<()> {
        self.end(Signal::KILL).await.map(drop)
    }

    /// Ends the relay in order. Returns what it wrote.
    pub(super) async fn terminate(&mut self) -> Result<Output> {
        self.end(Signal::TERM).await
    }

    async fn end(&mut self, signal: Signal) -> Result<Output> {
        let serving = self.serving.take().context("the relay does not run")?;
        serving.signal(signal);
        serving.finish().await
    }

    /// Sends a signal to the relay's process.
    pub(super) fn signal(&self, signal: Signal) {
        if let Some(serving) = &self.serving {
            serving.signal(signal);
        }
    }

    pub(super) fn pid(&self) -> Result<i32> {
        self.serving.as_ref().and_then(Running::pid).context("the relay does not run")
    }

    /// Serves the relay again after its end.
    pub(super) async fn serve_again(&mut self) -> Result<()> {
        self.serving = Some(Self::serve(&self.world).await?);
        Ok(())
    }

    /// Kills the relay and serves it again.
    pub(super) async fn kill_and_serve(&mut self) -> Result<()> {
        self.kill().await?;
        self.serve_again().await
    }

    pub(super) fn cli(&self) -> Cli {
        Cli::new(&self.world)
    }

    pub(super) async fn code(&self) -> Result<String> {
        word(&self.cli().json(&["relay", "code"]).await?, "code")
    }

    /// Calls a machine until the head of the answer has these words.
    pub(super) async fn until(&self, machine: &Machine, words: &str) -> Result<()> {
        let began = Instant::now();
        loop {
            let told = self.post(machine, "betcode.v1.AgentService/ListSessions", &[]).await?;
            if told.contains(words) {
                return Ok(());
            }
            let is_late = began.elapsed() >= deadline();
            ensure!(!is_late, "{told}\n{}", self.cli().run(&["relay", "status"]).await?.stdout);
        }
    }

    /// Waits until so many machines are connected to this relay.
    pub(super) async fn online_is(&self, count: u64) -> Result<()> {
        let began = Instant::now();
        loop {
            let status = self.cli().json(&["relay", "status"]).await?;
            if status["machines_online"] == count {
                return Ok(());
            }
            ensure!(began.elapsed() < deadline(), "{status}");
        }
    }

    /// Starts a daemon that joins under a name.
    pub(super) async fn machine(&self, name: &str, plain: &str) -> Result<Machine> {
        self.machine_with(name, plain, &self.code().await?).await
    }

    pub(super) async fn machine_with(&self, name: &str, plain: &str, code: &str) -> Result<Machine> {
        self.machine_in(World::new()?, name, plain, code).await
    }

    /// The same in a world that is there.
    pub(super) async fn machine_in(
        &self,
        world: World,
        name: &str,
        plain: &str,
        code: &str,
    ) -> Result<Machine> {
        world.set_env("OBEY_RELAY_PLAIN", plain);
        let daemon = Daemon::start(&world).await?;
        let joined = Cli::new(&world).json(&["machine", "join", code, "--name", name]).await?;
        ensure!(joined["state"] == "online", "{joined}\n{}", daemon.log());
        Ok(Machine { world, daemon, id: word(&joined, "machine_id")? })
    }

    /// Makes a gRPC call to a machine with curl, and returns the head of the answer in lower case.
    pub(super) async fn post(&self, machine: &Machine, method: &str, message: &[u8]) -> Result<String> {
        self.post_trusting(&self.ca, machine, method, message).await
    }

    /// The same as a client that trusts a file.
    pub(super) async fn post_trusting(
        &self,
        ca: &str,
        machine: &Machine,
        method: &str,
        message: &[u8],
    ) -> Result<String> {
        let length = u32::try_from(message.len())?.to_be_bytes();
        let body = [&[0][..], &length, message].concat();
        let file = self.world.path("message");
        std::fs::write(&file, body)?;
        let mut command = tokio::process::Command::from(self.world.command("curl"));
        command.args(["-sS", "--http2", "--cacert", ca, "-D", "-", "-o", "/dev/null"]);
        for header in [
            format!("authorization: Bearer {}", self.token),
            format!("x-machine-id: {}", machine.id),
            "content-type: application/grpc".to_owned(),
            "te: trailers".to_owned(),
            "grpc-timeout: 4S".to_owned(),
        ] {
            command.args(["-H", &header]);
        }
        command.args(["--data-binary", &format!("@{}", file.display())]);
        command.arg(format!("https://{}/{method}", self.address)).kill_on_drop(true);
        let output = within("the answer", command.output()).await??;
        let head = String::from_utf8_lossy(&output.stdout).to_lowercase();
        Ok(if head.is_empty() { String::from_utf8_lossy(&output.stderr).into_owned() } else { head })
    }

    /// Returns how betcode's Python client reaches a machine in the clear.
    pub(super) fn plain_address(&self, machine: &Machine) -> String {
        let target = serde_json::json!({
            "address": self.address.to_string(), "ca": self.ca, "token": self.token, "machine": machine.id,
        });
        format!("relay={target}")
    }
}

impl Machine {
    pub(super) fn cli(&self) -> Cli {
        Cli::new(&self.world)
    }

    /// Asks for the connection to the relay until it is as it should be.
    pub(super) async fn link_until(&self, is_good: impl Fn(&Value) -> bool) -> Result<Value> {
        let began = Instant::now();
        loop {
            let link = self.cli().json(&["machine", "status"]).await?;
            if is_good(&link) {
                return Ok(link);
            }
            ensure!(began.elapsed() < deadline(), "{link}\n{}", self.daemon.log());
        }
    }

    /// Waits until this machine has connected again after a connection that began at this time.
    pub(super) async fn online_after(&self, before: &Value) -> Result<Value> {
        let is_new = |link: &Value| link["connected_at"] != before["connected_at"];
        self.link_until(|link| link["state"] == "online" && is_new(link)).await
    }

    /// Pairs a device whose key is kept on this machine. (All worlds are on one host, so every device is.)
    pub(super) async fn device_here(&self, name: &str, role: &str, more: &[&str]) -> Result<World> {
        let words: Vec<&str> = ["device", "add", "--role", role].iter().chain(more).copied().collect();
        let invited = self.cli().json(&words).await?;
        let world = World::new()?;
        Cli::new(&world).json(&["device", "join", &word(&invited, "line")?, "--name", name]).await?;
        Ok(world)
    }

    /// Pairs a device in a world of its own.
    pub(super) async fn device(&self, name: &str, role: &str) -> Result<World> {
        self.device_here(name, role, &["--same-host"]).await
    }
}

/// Returns an address that is freed at once; nobody else takes a port that was just given out.
fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

/// Starts `obey connect` and returns where it listens.
pub(super) async fn connect(device: &World, machine: &str) -> Result<(Running, String)> {
    connected(device, &["--json", "connect", machine, "--listen", "127.0.0.1:0"]).await
}

/// The same through another address of the relay.
pub(super) async fn connect_through(
    device: &World,
    machine: &str,
    relay: SocketAddr,
) -> Result<(Running, String)> {
    let url = format!("https://{relay}");
    connected(device, &["--json", "--relay", &url, "connect", machine, "--listen", "127.0.0.1:0"]).await
}

async fn connected(device: &World, words: &[&str]) -> Result<(Running, String)> {
    let mut running = Cli::new(device).spawn(words).await?;
    let line = running.wait_for_line("where it listens", |line| line.contains("\"listen\"")).await?;
    let told: Value = serde_json::from_str(&line)?;
    Ok((running, word(&told, "listen")?))
}

/// Runs a script of `tests/python` to its end.
pub(super) async fn python(world: &World, script: &str, arguments: &[String]) -> Result<bool> {
    let Some((python, stubs)) = tools::python()? else { return Ok(false) };
    let script = tools::repository().join("e2e/tests/python").join(script);
    let mut command = tokio::process::Command::from(world.command(python));
    command.arg(script).args(arguments).env("PYTHONPATH", stubs).kill_on_drop(true);
    let output = within("the end of the script", command.output()).await??;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    ensure!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
    Ok(true)
}

pub(super) fn published() -> String {
    let path: PathBuf = tools::repository().join("e2e/tests/published/betcode_v1.proto");
    path.display().to_string()
}

pub(super) fn word(value: &Value, key: &str) -> Result<String> {
    Ok(value[key].as_str().with_context(|| format!("no {key} in {value}"))?.to_owned())
}

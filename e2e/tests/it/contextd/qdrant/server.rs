//! A Qdrant server of a test: the published contract, served by `tests/qdrant/server.py`. It can be stopped and started
//! again behind an address that stays the same.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use anyhow::{Context, Result, ensure};
use e2e::deadline;
use e2e::processes;
use e2e::tools;
use e2e::world::World;
use rustix::process::Signal;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};

/// The address clients know, and the server behind it while there is one.
pub(super) struct Server {
    python: PathBuf,
    calls: PathBuf,
    address: SocketAddr,
    /// The port of the running server; 0: connections are closed at once.
    port: Arc<AtomicU16>,
    running: Option<Child>,
}

impl Server {
    /// Starts a server with further options of the script. `None` means that the test must end now, as for
    /// [`tools::claude`].
    pub(super) async fn start(world: &World, options: &[&str]) -> Result<Option<Server>> {
        let Some(python) = tools::qdrant()? else { return Ok(None) };
        // A port that was free may be somebody else's by the time the server starts again; this one stays ours.
        let door = TcpListener::bind("127.0.0.1:0").await?;
        let address = door.local_addr()?;
        let port = Arc::new(AtomicU16::new(0));
        tokio::spawn(attend(door, Arc::clone(&port)));
        let calls = world.path("qdrant-calls");
        let mut server = Server { python, calls, address, port, running: None };
        server.start_again(options).await?;
        Ok(Some(server))
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(super) async fn start_again(&mut self, options: &[&str]) -> Result<()> {
        let script = tools::repository().join("e2e/tests/qdrant/server.py");
        let mut command = Command::new(&self.python);
        command.arg(script).arg("0").arg(&self.calls).args(options).kill_on_drop(true);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut lines = BufReader::new(child.stdout.take().context("no output")?).lines();
        let line = deadline::within("Qdrant listens", lines.next_line()).await??.context("Qdrant ended")?;
        self.port.store(line.trim().parse().with_context(|| line.clone())?, Ordering::SeqCst);
        self.running = Some(child);
        Ok(())
    }

    /// Stops the server; what it keeps in no folder is gone.
    pub(super) async fn stop(&mut self) -> Result<()> {
        self.port.store(0, Ordering::SeqCst);
        let mut child = self.running.take().context("Qdrant does not run")?;
        drop(child.stdin.take());
        let status = deadline::within("Qdrant ends", child.wait()).await??;
        ensure!(status.success(), "Qdrant: {status}");
        Ok(())
    }

    /// Has the server stand still, or go on.
    pub(super) fn hold(&self, held: bool) {
        if let Some(pid) = self.running.as_ref().and_then(Child::id).and_then(|pid| i32::try_from(pid).ok()) {
            processes::signal(pid, if held { Signal::STOP } else { Signal::CONT });
        }
    }

    /// Returns how often something was asked of it.
    pub(super) fn calls(&self, name: &str) -> usize {
        self.all_calls().iter().filter(|call| call["call"] == name).count()
    }

    pub(super) fn all_calls(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.calls).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }
}

/// Carries bytes between whoever connects and the server that runs then.
async fn attend(door: TcpListener, port: Arc<AtomicU16>) {
    while let Ok((mut client, _)) = door.accept().await {
        let port = port.load(Ordering::SeqCst);
        if port == 0 {
            continue;
        }
        tokio::spawn(async move {
            if let Ok(mut server) = TcpStream::connect(("127.0.0.1", port)).await {
                // Either side may go at any moment; the other is told by the end of its connection.
                let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
            }
        });
    }
}

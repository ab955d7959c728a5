//! The daemon under test: starts `obey serve` in a world, learns from its own words when it serves, stops it in every
//! way a daemon can end. Knows the command line and the line `ready …`, nothing of the protocols.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::Signal;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::Child;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::clients::Clients;
use crate::deadline::{within, within_time};
use crate::processes;
use crate::world::World;

/// Lines of standard output that may wait to be read by the test.
const LINES_MAX: usize = 1024;
/// How long the log of a daemon that ended may take to be read.
const DRAIN_TIME: Duration = Duration::from_secs(1);

/// A running daemon. Dropping it kills the daemon itself; the world kills what the daemon started.
pub struct Daemon {
    world: World,
    options: Vec<String>,
    child: Option<Child>,
    socket: PathBuf,
    listen: Vec<SocketAddr>,
    log: Log,
    /// What reads the daemon's output into the log.
    readers: Vec<JoinHandle<()>>,
}

impl Daemon {
    /// Starts the daemon on the world's socket and a free loopback port, and waits until it serves.
    pub async fn start(world: &World) -> Result<Daemon> {
        Daemon::start_with(world, &[]).await
    }

    /// As `start`, with further options for `obey serve`.
    pub async fn start_with(world: &World, options: &[&str]) -> Result<Daemon> {
        let mut daemon = Daemon {
            world: world.clone(),
            options: options.iter().map(|option| (*option).to_owned()).collect(),
            child: None,
            socket: PathBuf::new(),
            listen: Vec::new(),
            log: Log::default(),
            readers: Vec::new(),
        };
        daemon.launch().await?;
        Ok(daemon)
    }

    /// The socket the daemon said it serves.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// The addresses the daemon said it listens on.
    pub fn listen(&self) -> &[SocketAddr] {
        &self.listen
    }

    /// The daemon's process id; `None` after it ended.
    pub fn pid(&self) -> Option<i32> {
        self.child.as_ref().and_then(Child::id).map(|pid| pid as i32)
    }

    /// Everything the daemon wrote so far, over all its starts.
    pub fn log(&self) -> String {
        self.log.text()
    }

    /// gRPC clients over the daemon's socket, on a connection of their own.
    pub async fn clients(&self) -> Result<Clients> {
        Clients::connect(&self.socket).await.with_context(|| self.log_for_people())
    }

    /// Kills the daemon as a crash would. What it started lives on.
    pub async fn kill9(&mut self) -> Result<ExitStatus> {
        self.end(Signal::KILL).await
    }

    /// Asks the daemon to end and waits until it did.
    pub async fn terminate(&mut self) -> Result<ExitStatus> {
        self.end(Signal::TERM).await
    }

    /// Waits until the daemon ends by itself, for example after `Shutdown`.
    pub async fn wait(&mut self) -> Result<ExitStatus> {
        let Some(mut child) = self.child.take() else { bail!("the daemon does not run") };
        let status = within("the daemon's end", child.wait()).await;
        self.drain().await;
        status.with_context(|| self.log_for_people())?.context("waiting for the daemon")
    }

    /// Starts the daemon again after it ended, or ends it politely first. The port changes, the socket stays.
    pub async fn restart(&mut self) -> Result<()> {
        if self.child.is_some() {
            self.terminate().await?;
        }
        self.launch().await
    }

    /// Waits until no process of the world is left, the daemon included: call it after the daemon ended.
    pub async fn assert_no_descendants(&self) -> Result<()> {
        self.world.assert_no_process_left().await.with_context(|| self.log_for_people())
    }

    async fn end(&mut self, signal: Signal) -> Result<ExitStatus> {
        if let Some(pid) = self.pid() {
            processes::signal(pid, signal);
        }
        self.wait().await
    }

    async fn launch(&mut self) -> Result<()> {
        let mut child = tokio::process::Command::from(self.world.command(self.world.obey()?))
            .args(["serve", "--listen", "127.0.0.1:0"])
            .args(&self.options)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("starting obey serve")?;
        let (lines, mut said) = mpsc::channel(LINES_MAX);
        self.readers.extend(child.stderr.take().map(|stderr| self.log.read(stderr, None)));
        self.readers.extend(child.stdout.take().map(|stdout| self.log.read(stdout, Some(lines))));
        self.child = Some(child);
        let ready = within("the daemon's ready line", async {
            while let Some(line) = said.recv().await {
                if let Some(ready) = line.strip_prefix("ready ") {
                    return Ok(ready.to_owned());
                }
            }
            bail!("the daemon ended before it served")
        })
        .await
        .flatten();
        if ready.is_err() {
            self.drain().await;
        }
        let ready = ready.with_context(|| self.log_for_people())?;
        self.read_ready(&ready).with_context(|| format!("reading the ready line {ready:?}"))
    }

    fn read_ready(&mut self, ready: &str) -> Result<()> {
        self.listen.clear();
        for word in ready.split_whitespace() {
            match word.split_once('=') {
                Some(("socket", path)) => self.socket = path.into(),
                Some(("listen", addresses)) => {
                    let addresses = addresses
                        .split(',')
                        .filter(|address| !address.is_empty() && !address.starts_with("tls://"));
                    self.listen = addresses.map(str::parse).collect::<Result<_, _>>()?;
                }
                // Later versions may say more.
                _ => {}
            }
        }
        anyhow::ensure!(!self.socket.as_os_str().is_empty(), "it names no socket");
        Ok(())
    }

    /// Lets the log catch up with a daemon that ended. Bounded, because whoever inherited its output may live on.
    async fn drain(&mut self) {
        for reader in self.readers.drain(..) {
            let _ = within_time("the end of the log", DRAIN_TIME, reader).await;
        }
    }

    fn log_for_people(&self) -> String {
        format!("the daemon's log:\n{}", self.log())
    }
}

/// Gathers what the daemon writes.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<String>>);

impl Log {
    fn text(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads lines until the writer ends; passes them on too where somebody listens.
    fn read(
        &self,
        from: impl AsyncRead + Unpin + Send + 'static,
        to: Option<mpsc::Sender<String>>,
    ) -> JoinHandle<()> {
        let log = self.clone();
        tokio::spawn(async move {
            let mut lines = BufReader::new(from).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                {
                    let mut text = log.0.lock().unwrap_or_else(PoisonError::into_inner);
                    text.push_str(&line);
                    text.push('\n');
                }
                if let Some(to) = &to {
                    // Nobody listens after the ready line; the log has it all the same.
                    let _ = to.try_send(line);
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;
    use crate::world::with_fake_obey;

    const SERVING: &str = "#!/bin/sh
echo \"got $*\" >&2
echo \"ready socket=$XDG_RUNTIME_DIR/obey/daemon.sock listen=127.0.0.1:4242,[::1]:4243\"
exec tail -f /dev/null
";

    #[tokio::test]
    async fn a_daemon_is_started_killed_and_started_again() -> Result<()> {
        let world = with_fake_obey(SERVING)?;
        let mut daemon = Daemon::start_with(&world, &["--log-level", "debug"]).await?;
        assert_eq!(daemon.socket(), world.socket());
        assert_eq!(daemon.listen(), ["127.0.0.1:4242".parse()?, "[::1]:4243".parse()?]);
        let first = daemon.pid();
        assert_eq!(daemon.kill9().await?.signal(), Some(9));
        daemon.assert_no_descendants().await?;
        daemon.restart().await?;
        assert_ne!(daemon.pid(), first);
        assert_eq!(daemon.terminate().await?.signal(), Some(15));
        daemon.assert_no_descendants().await?;
        assert!(
            daemon.log().contains("got serve --listen 127.0.0.1:0 --log-level debug"),
            "{}",
            daemon.log()
        );
        Ok(())
    }

    #[tokio::test]
    async fn a_daemon_that_does_not_start_shows_its_log() -> Result<()> {
        let world = with_fake_obey("#!/bin/sh\necho 'no disk' >&2\nexit 1\n")?;
        let Err(error) = Daemon::start(&world).await else { bail!("it started") };
        let error = format!("{error:#}");
        assert!(error.contains("no disk") && error.contains("ended before it served"), "{error}");
        Ok(())
    }
}

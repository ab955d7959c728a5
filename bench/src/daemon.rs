//! The daemon under test: the real `obey` of the same build, in its own folder, with this program as its
//! agents.
//!
//! How this works without support in the daemon: the daemon starts shims and scripted agents by its own path,
//! recorded at its start, so that a daemon whose file was replaced starts those of the new version. The
//! benchmark therefore replaces the file once the daemon is ready. This program then receives both calls; the
//! shim's call is passed on to the real `obey`.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use wire::obey::local::v1 as local;
use wire::obey::v1 as pb;

use crate::machine;
use crate::peer::Peer;

const REAL: &str = "obey.real";

/// Called as the shim or as a sandbox stage: becomes the real one.
pub(crate) fn become_shim() -> Result<()> {
    let real = std::env::current_exe()?.with_file_name(REAL);
    let error = Command::new(&real).args(std::env::args_os().skip(1)).exec();
    Err(error).with_context(|| real.display().to_string())
}

/// The emitter alone, without anything in between.
pub(crate) fn agent_alone() -> Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("scripted-agent");
    Ok(command)
}

/// Parses a command line; its words contain no spaces.
pub(crate) fn command_line(line: &str) -> Command {
    let mut words = line.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words);
    command
}

/// Sessions that are created concurrently.
const AT_A_TIME: usize = 8;

async fn create(peer: Peer, campaign_id: String) -> Result<Session> {
    let request = local::CreateSessionRequest {
        campaign_id,
        provider: local::SessionProvider::Scripted.into(),
        ..local::CreateSessionRequest::default()
    };
    let created =
        peer.daemon.clone().create_session(request).await?.into_inner().session.context("no session")?;
    let agent = u32::try_from(created.pid)?;
    let shim = machine::parent(agent)?;
    Ok(Session { id: created.id, shim })
}

/// The folder of one daemon. Dropping it removes everything, including running agents.
pub(crate) struct Home {
    root: PathBuf,
    socket_dir: PathBuf,
    daemon: Option<Child>,
    /// Shims that hold agents.
    shims: Vec<u32>,
    /// Serve on a port and keep the real program: for measurements that need no agents.
    on_port: bool,
    address: Option<SocketAddr>,
}

/// A session with an agent.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) id: String,
    pub(crate) shim: u32,
}

impl Home {
    /// Creates the folder; nothing runs yet.
    pub(crate) fn new(name: &str) -> Result<Self> {
        let own = std::env::current_exe()?;
        let target = own.parent().and_then(Path::parent).context("no target folder")?;
        let root = target.join("bench-run").join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir_all(root.join("bin"))?;
        // The paths of sockets must be short.
        let socket_dir = std::env::temp_dir().join(format!("obey-bench-{name}-{}", std::process::id()));
        std::fs::DirBuilder::new().mode(0o700).create(&socket_dir)?;
        // Not below this repository: the daemon would look at all of it with every turn.
        std::fs::create_dir(socket_dir.join("project"))?;
        let home = Self { root, socket_dir, daemon: None, shims: Vec::new(), on_port: false, address: None };
        let real = own.with_file_name("obey");
        std::fs::hard_link(&real, home.bin(REAL))
            .with_context(|| format!("{}: build it first", real.display()))?;
        std::fs::write(
            home.root.join("config.toml"),
            "[sessions]\nmax_active = 10000\n[acp]\nmax_sessions = 1000\n",
        )?;
        Ok(home)
    }

    /// Adds lines to the configuration of the daemon's next start.
    pub(crate) fn configure(&self, lines: &str) -> Result<()> {
        use std::io::Write as _;
        let mut file = std::fs::OpenOptions::new().append(true).open(self.root.join("config.toml"))?;
        Ok(file.write_all(lines.as_bytes())?)
    }

    fn bin(&self, name: &str) -> PathBuf {
        self.root.join("bin").join(name)
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.socket_dir.join("d.sock")
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.root.join("data").join("daemon.db")
    }

    /// Starts the daemon and waits for its ready line; returns how long that took.
    pub(crate) fn start(&mut self) -> Result<Duration> {
        self.put(&self.bin(REAL))?;
        let log = std::fs::OpenOptions::new().create(true).append(true).open(self.root.join("log"))?;
        let mut command = Command::new(self.bin("obey"));
        command.arg("--socket").arg(self.socket()).args(["serve", "--listen"]);
        command.args([if self.on_port { "none,127.0.0.1:0" } else { "none" }, "--config"]);
        command.arg(self.root.join("config.toml")).arg("--data-dir").arg(self.root.join("data"));
        command.env("XDG_RUNTIME_DIR", &self.socket_dir);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        let began = Instant::now();
        let mut daemon = command.spawn()?;
        let mut line = String::new();
        BufReader::new(daemon.stdout.take().context("no stdout")?).read_line(&mut line)?;
        let took = began.elapsed();
        self.daemon = Some(daemon);
        if !line.starts_with("ready ") {
            bail!("the daemon did not become ready: {line:?}; {}", self.log());
        }
        if self.on_port {
            let address = line.trim_end().rsplit_once(" listen=").map(|(_, address)| address.parse());
            self.address = Some(address.context("the daemon names no address")??);
        } else {
            self.put(&std::env::current_exe()?)?;
        }
        Ok(took)
    }

    /// Makes the daemon serve on a port from its next start on.
    pub(crate) fn listen_on_a_port(&mut self) {
        self.on_port = true;
    }

    pub(crate) fn address(&self) -> Result<SocketAddr> {
        self.address.context("the daemon has no port")
    }

    /// The only project of this folder.
    pub(crate) fn project(&self) -> PathBuf {
        self.socket_dir.join("project")
    }

    /// Puts a program where the daemon looks for its own.
    fn put(&self, program: &Path) -> Result<()> {
        let next = self.bin("next");
        std::fs::hard_link(program, &next)?;
        Ok(std::fs::rename(next, self.bin("obey"))?)
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.root.join("log")).unwrap_or_default()
    }

    pub(crate) fn pid(&self) -> Result<u32> {
        Ok(self.daemon.as_ref().context("no daemon runs")?.id())
    }

    /// The command line of a person, in the project.
    pub(crate) fn cli(&self) -> Command {
        let mut command = Command::new(self.bin(REAL));
        command.arg("--no-autostart").arg("--socket").arg(self.socket()).current_dir(self.project());
        command.env("OBEY_CONFIG", self.root.join("config.toml")).stdin(Stdio::null());
        command
    }

    /// The command an editor would start.
    pub(crate) fn acp(&self) -> Command {
        let mut command = Command::new(self.bin(REAL));
        command.arg("--socket").arg(self.socket()).args(["acp", "--no-autostart", "--provider", "scripted"]);
        command.env("OBEY_CONFIG", self.root.join("config.toml"));
        command
    }

    /// The same with any agent of the Agent Client Protocol.
    pub(crate) fn acp_with(&self, config: &serde_json::Value) -> Command {
        let mut command = Command::new(self.bin(REAL));
        command.arg("--socket").arg(self.socket()).args(["acp", "--no-autostart", "--provider", "acp"]);
        command.args(["--config", &config.to_string()]).env("OBEY_CONFIG", self.root.join("config.toml"));
        command
    }

    /// Kills the daemon like a crash; its agents keep running.
    pub(crate) fn crash(&mut self) -> Result<()> {
        if let Some(mut daemon) = self.daemon.take() {
            daemon.kill()?;
            daemon.wait()?;
        }
        Ok(())
    }

    /// Stops the daemon gracefully; its agents keep running.
    pub(crate) fn end(&mut self) -> Result<()> {
        if let Some(mut daemon) = self.daemon.take() {
            if let Some(pid) = i32::try_from(daemon.id()).ok().and_then(rustix::process::Pid::from_raw) {
                rustix::process::kill_process(pid, rustix::process::Signal::TERM)?;
            }
            daemon.wait()?;
        }
        Ok(())
    }

    /// Connects a client.
    pub(crate) async fn peer(&self) -> Result<Peer> {
        Peer::connect(&self.socket()).await
    }

    /// Registers its project.
    pub(crate) async fn campaign(&self, peer: &Peer) -> Result<String> {
        let path = self.project().display().to_string();
        let request = pb::AddCampaignRequest { path, ..pb::AddCampaignRequest::default() };
        Ok(peer.campaigns.clone().add_campaign(request).await?.into_inner().id)
    }

    /// Starts a session with an emitter as its agent.
    pub(crate) async fn session(&mut self, peer: &Peer, campaign: &str) -> Result<Session> {
        let created = create(peer.clone(), campaign.to_owned()).await.with_context(|| self.log())?;
        self.shims.push(created.shim);
        Ok(created)
    }

    /// Starts many sessions, a few at a time.
    pub(crate) async fn sessions(
        &mut self,
        peer: &Peer,
        campaign: &str,
        count: usize,
    ) -> Result<Vec<Session>> {
        let mut sessions = Vec::with_capacity(count);
        let mut creating = tokio::task::JoinSet::new();
        while sessions.len() < count {
            while creating.len() < AT_A_TIME && sessions.len() + creating.len() < count {
                creating.spawn(create(peer.clone(), campaign.to_owned()));
            }
            if let Some(created) = creating.join_next().await {
                let created = created?.with_context(|| self.log())?;
                self.shims.push(created.shim);
                sessions.push(created);
            }
        }
        Ok(sessions)
    }

    /// Starts a daemon, a project and one session in a new folder.
    pub(crate) async fn with_session(name: &str) -> Result<(Self, Peer, Session)> {
        let mut home = Self::new(name)?;
        home.start()?;
        let peer = home.peer().await?;
        let campaign = home.campaign(&peer).await?;
        let session = home.session(&peer, &campaign).await?;
        Ok((home, peer, session))
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        if let Some(daemon) = &mut self.daemon {
            // An error means that it has already ended.
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
        for shim in &self.shims {
            machine::kill(*shim);
        }
        let _ = std::fs::remove_dir_all(&self.socket_dir);
        let _ = std::fs::remove_dir_all(&self.root);
    }
}

/// The running floor.
pub(crate) struct Floor {
    child: Child,
    socket: PathBuf,
    pub(crate) started: Duration,
}

impl Floor {
    pub(crate) fn start() -> Result<Self> {
        let socket = std::env::temp_dir().join(format!("obey-bench-floor-{}.sock", std::process::id()));
        // Left by a previous floor.
        let _ = std::fs::remove_file(&socket);
        let began = Instant::now();
        let mut child = Command::new(std::env::current_exe()?)
            .arg("floor")
            .arg(&socket)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("no stdout")?).read_line(&mut line)?;
        Ok(Self { child, socket, started: began.elapsed() })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) async fn peer(&self) -> Result<Peer> {
        Peer::connect(&self.socket).await
    }
}

impl Drop for Floor {
    fn drop(&mut self) {
        // Its emitter ends with its input.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.socket);
    }
}

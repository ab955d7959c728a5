//! A world with a daemon that is killed and started again, and the sessions that must not notice. Knows how to start,
//! kill, connect and look; decides nothing about when.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;
use tokio::sync::watch;
use wire::obey::local::v1 as pb;
use wire::obey::v1 as own;

use super::memory;
use crate::clients::{Clients, collect};
use crate::daemon::Daemon;
use crate::deadline::within;
use crate::processes;
use crate::world::World;

/// The campaign every crew has.
pub const CAMPAIGN: &str = "faults";

/// The daemon that serves now, as its clients see it.
#[derive(Clone)]
pub struct Served {
    /// Counts the starts.
    pub start: u64,
    pub clients: Clients,
    /// When its process was started, on both clocks.
    pub since: Instant,
    pub since_wall: SystemTime,
}

/// A world, its daemon, and a way for tasks to learn about a new one.
pub struct Crew {
    pub daemon: Daemon,
    pub world: World,
    served: watch::Sender<Served>,
    /// The most memory any daemon so far had used when it was last looked at.
    most_memory: u64,
}

impl Crew {
    /// Starts a daemon in a world and registers the world's project.
    pub async fn start(world: World) -> Result<Crew> {
        let (since, since_wall) = (Instant::now(), SystemTime::now());
        let daemon = Daemon::start(&world).await?;
        let mut clients = daemon.clients().await?;
        let path = world.project().display().to_string();
        let campaign = own::AddCampaignRequest { path, name: CAMPAIGN.into(), ..Default::default() };
        clients.campaigns.add_campaign(campaign).await?;
        let served = watch::Sender::new(Served { start: 1, clients, since, since_wall });
        Ok(Crew { daemon, world, served, most_memory: 0 })
    }

    /// The daemon that serves now.
    pub fn served(&self) -> Served {
        self.served.borrow().clone()
    }

    pub fn clients(&self) -> Clients {
        self.served.borrow().clients.clone()
    }

    /// Tells of every new daemon.
    pub fn watch(&self) -> watch::Receiver<Served> {
        self.served.subscribe()
    }

    /// The most memory a daemon of this crew was seen to use.
    pub fn most_memory(&self) -> u64 {
        self.most_memory
    }

    /// Notes how much memory the daemon has used so far.
    pub fn weigh(&mut self) {
        if let Some(most) = self.daemon.pid().and_then(|pid| memory::most(pid).ok()) {
            self.most_memory = self.most_memory.max(most);
        }
    }

    /// Kills the daemon as a crash would.
    pub async fn kill(&mut self) -> Result<()> {
        self.weigh();
        self.daemon.kill9().await?;
        Ok(())
    }

    /// Starts the next daemon and tells everyone. Returns how long it took to serve.
    pub async fn restart(&mut self) -> Result<Duration> {
        let (since, since_wall) = (Instant::now(), SystemTime::now());
        self.daemon.restart().await?;
        let ready = since.elapsed();
        let clients = self.daemon.clients().await?;
        self.served.send_modify(|served| {
            *served = Served { start: served.start + 1, clients, since, since_wall };
        });
        Ok(ready)
    }

    /// Kills the daemon and starts the next one.
    pub async fn crash(&mut self) -> Result<Duration> {
        self.kill().await?;
        self.restart().await
    }

    /// Starts a daemon and kills it this long after, whatever it was doing then: coming back is the most delicate
    /// part of its life.
    pub async fn start_and_kill(&self, after: Duration) -> Result<()> {
        let mut child = tokio::process::Command::from(self.world.command(self.world.obey()?))
            .args(["serve", "--listen", "127.0.0.1:0"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        tokio::time::sleep(after).await;
        child.start_kill()?;
        let status = within("the end of a killed daemon", child.wait()).await??;
        ensure!(status.code().is_none(), "a daemon ended by itself while it started: {status}");
        Ok(())
    }

    /// Creates a session of the scripted agent that asks nobody.
    pub async fn create(&self) -> Result<pb::SessionInfo> {
        self.create_with(|_| {}).await
    }

    /// Creates a session as `change` wants it.
    pub async fn create_with(
        &self,
        change: impl FnOnce(&mut pb::CreateSessionRequest),
    ) -> Result<pb::SessionInfo> {
        let mut request = pb::CreateSessionRequest {
            campaign_id: CAMPAIGN.into(),
            provider: pb::SessionProvider::Scripted.into(),
            provider_config: HashMap::from([("permission_mode".into(), "autonomous".into())]),
            ..Default::default()
        };
        change(&mut request);
        let created = self.clients().local.create_session(request).await?.into_inner();
        created.session.context("the answer names no session")
    }

    pub async fn info(&self, id: &str) -> Result<pb::SessionInfo> {
        let request = pb::GetSessionRequest { session_id: id.into() };
        Ok(self.clients().local.get_session(request).await?.into_inner())
    }

    /// Sends a prompt and returns once it is accepted.
    pub async fn prompt(&self, id: &str, text: &str) -> Result<(), tonic::Status> {
        prompt(&self.clients(), id, text, false).await
    }

    /// The journal from its beginning to now.
    pub async fn journal(&self, id: &str) -> Result<Vec<own::Event>> {
        let request = own::ReadEventsRequest { session_id: id.into(), ..Default::default() };
        collect(self.clients().events.read_events(request).await?.into_inner()).await
    }

    /// Where the folders of running agents are.
    pub fn agents_dir(&self) -> PathBuf {
        self.world.path("data/obey/agents")
    }

    /// Ends every session and the daemon, and asserts that nothing is left: no process, no folder, no socket.
    pub async fn close(mut self) -> Result<()> {
        self.weigh();
        let request = pb::ShutdownRequest { stop_sessions: true };
        self.clients().local.shutdown(request).await?;
        self.daemon.wait().await?;
        self.daemon.assert_no_descendants().await?;
        let left = folders(&self.agents_dir());
        ensure!(left.is_empty(), "folders of agents were left: {left:?}");
        ensure!(!self.world.socket().exists(), "the daemon's socket was left");
        Ok(())
    }
}

/// Sends a prompt, or with `steer` a word to the running turn.
pub async fn prompt(clients: &Clients, id: &str, text: &str, steer: bool) -> Result<(), tonic::Status> {
    let request =
        own::PromptRequest { session_id: id.into(), text: text.into(), steer, ..Default::default() };
    clients.turns.clone().prompt(request).await?;
    Ok(())
}

/// The folders of agents, as names.
pub fn folders(agents_dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(agents_dir).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// The process that holds a session's agent, as the folder of its newest run says.
pub fn shim_pid(agents_dir: &Path, id: &str) -> Option<i32> {
    let run = |name: &String| name.strip_prefix(id)?.strip_prefix('.')?.parse::<u64>().ok();
    let newest = folders(agents_dir).into_iter().filter(|name| run(name).is_some()).max_by_key(run)?;
    let text = std::fs::read_to_string(agents_dir.join(newest).join("lock")).ok()?;
    text.trim().parse().ok().filter(|pid| processes::alive(*pid))
}

/// Sends a signal to the daemon itself.
pub fn signal_daemon(daemon: &Daemon, signal: Signal) {
    if let Some(pid) = daemon.pid() {
        processes::signal(pid, signal);
    }
}

//! The gateway itself: connecting to one, and starting one if none runs. A gateway serves all sessions, and
//! other programs too; one that was started here ends with the daemon's provider, and is reaped.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use host::process_tree::{self, MARK_VARIABLE, TreeMark, mark_of};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use crate::limits::{CONNECT_WAIT, GATEWAY_START_WAIT};

/// The default address of a gateway.
pub(super) const USUAL_URL: &str = "ws://127.0.0.1:18789";

pub(super) type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// Opens a connection; an error says why not.
pub(super) async fn open(url: &str) -> Result<Socket, String> {
    provider_common::tls::use_ring();
    match tokio::time::timeout(CONNECT_WAIT, connect_async(url)).await {
        Ok(Ok((socket, _))) => Ok(socket),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("it does not answer in time".to_owned()),
    }
}

/// Returns whether a gateway's address is on this machine, so that it sees the same files and programs.
pub(super) fn is_here(url: &str) -> bool {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let place = rest.split(['/', '?']).next().unwrap_or_default();
    let host = match place.strip_prefix('[') {
        Some(six) => six.split(']').next().unwrap_or_default(),
        None => place.split(':').next().unwrap_or_default(),
    };
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The gateway that was started here, if any. Shared by all sessions.
#[derive(Default)]
pub(super) struct StartedGateway {
    held: Mutex<Option<Child>>,
    /// Marks all processes of a gateway, so that they are recognised after a crash of the daemon that started
    /// it.
    mark: Option<TreeMark>,
}

impl StartedGateway {
    /// Takes a folder of the daemon, which must stay the same from one daemon to the next.
    pub(super) fn marked_by(folder: Option<&Path>) -> Self {
        let mark = folder.and_then(|folder| {
            let made = std::fs::create_dir_all(folder).and_then(|()| mark_of(folder));
            made.inspect_err(|error| tracing::warn!(%error, "a gateway that is started cannot be marked"))
                .ok()
        });
        Self { held: Mutex::default(), mark }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Child>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends it with all its processes; the first one may have handed over to another.
    pub(super) fn end(&self) {
        let held = self.lock().take();
        self.end_all(held.as_ref());
    }

    fn end_all(&self, held: Option<&Child>) {
        let group = held.and_then(Child::id).and_then(|id| i32::try_from(id).ok());
        if let Some(group) = group.and_then(rustix::process::Pid::from_raw) {
            // A process that has already ended need not be killed.
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        if let Some(mark) = &self.mark {
            process_tree::kill_marked(mark);
        }
    }

    /// Returns whether a gateway is starting that does not answer yet.
    fn is_starting(&self, held: Option<&mut Child>) -> bool {
        match held {
            Some(child) => matches!(child.try_wait(), Ok(None)),
            // A gateway of an earlier daemon. A process that is older than a start takes and does not answer
            // is no working gateway: it hangs, or it is what a dead gateway's agent left.
            None => {
                self.mark.as_ref().and_then(process_tree::age).is_some_and(|age| age < GATEWAY_START_WAIT)
            }
        }
    }
}

impl Drop for StartedGateway {
    fn drop(&mut self) {
        // A gateway that an earlier daemon left is not ended by a process that only checked for it.
        if self.lock().is_some() {
            self.end();
        }
    }
}

/// How a session reaches its gateway.
pub(super) struct Gateway {
    url: String,
    /// The gateway program; `None` if none may be started.
    program: Option<PathBuf>,
    environment: Vec<(OsString, OsString)>,
    started: Arc<StartedGateway>,
}

impl Gateway {
    pub(super) fn new(
        url: String,
        program: Option<PathBuf>,
        environment: Vec<(OsString, OsString)>,
        started: Arc<StartedGateway>,
    ) -> Self {
        Self { url, program, environment, started }
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// Connects; an error says why not.
    pub(super) async fn connect(&self) -> Result<Socket, String> {
        open(&self.url).await
    }

    /// Returns whether the gateway was started here.
    pub(super) fn is_ours(&self) -> bool {
        self.started.lock().is_some() || self.started.mark.as_ref().and_then(process_tree::age).is_some()
    }

    /// Starts a gateway on this machine if none answers. Returns whether one is starting.
    pub(super) async fn start(&self) -> Result<bool, String> {
        let port = self
            .url
            .strip_prefix("ws://127.0.0.1:")
            .and_then(|rest| rest.trim_end_matches('/').parse::<u16>().ok());
        let (Some(program), Some(port)) = (&self.program, port) else { return Ok(false) };
        // Sessions that lost the same gateway come here together; only one of them starts it.
        let mut held = self.started.lock();
        if self.started.is_starting(held.as_mut()) {
            return Ok(true);
        }
        self.started.end_all(held.take().as_ref());
        let mark = self.started.mark.as_ref().map(|mark| (MARK_VARIABLE, mark.value()));
        let child = Command::new(program)
            .args(["gateway", "run", "--port", &port.to_string()])
            .env_clear()
            .envs(self.environment.iter().cloned())
            .envs(mark)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("{} cannot be started: {error}", program.display()))?;
        *held = Some(child);
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A gateway whose program is a script that records each start.
    fn gateway(folder: &Path, script: &str, started: &Arc<StartedGateway>) -> Gateway {
        let program = folder.join("openclaw");
        let text = format!("#!/bin/sh\necho begun >> {}\n{script}\n", folder.join("starts").display());
        std::fs::write(&program, text).unwrap();
        std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let path = std::env::var_os("PATH").unwrap_or_default();
        let environment = vec![("PATH".into(), path)];
        Gateway::new("ws://127.0.0.1:9".into(), Some(program), environment, Arc::clone(started))
    }

    async fn until(what: &str, mut look: impl FnMut() -> bool) {
        let seen = async {
            while !look() {
                tokio::task::yield_now().await;
            }
        };
        let seen = tokio::time::timeout(std::time::Duration::from_secs(30), seen).await;
        seen.unwrap_or_else(|_| panic!("no {what}"));
    }

    fn starts(folder: &Path) -> usize {
        std::fs::read_to_string(folder.join("starts")).unwrap_or_default().lines().count()
    }

    #[tokio::test]
    async fn one_that_a_dead_daemon_left_is_known_and_ended_by_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("data/openclaw");
        let first = Arc::new(StartedGateway::marked_by(Some(&place)));
        let script = "sleep 1000 & exec sleep 1000";
        assert!(gateway(folder.path(), script, &first).start().await.unwrap());
        until("start", || starts(folder.path()) == 1).await;
        // A killed daemon does not clean up.
        let pid = first.lock().as_ref().and_then(Child::id).unwrap();
        std::mem::forget(first);
        let second = Arc::new(StartedGateway::marked_by(Some(&place)));
        let joined = gateway(folder.path(), script, &second);
        assert!(joined.is_ours() && joined.start().await.unwrap());
        assert!(second.lock().is_none(), "a second one was started");
        second.end();
        // It was a child of this process, which reaps it as init does for a dead daemon's.
        let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap());
        rustix::process::waitpid(pid, rustix::process::WaitOptions::empty()).ok();
        until("end of its processes", || !joined.is_ours()).await;
        assert_eq!(starts(folder.path()), 1);
    }

    #[tokio::test]
    async fn one_that_died_is_started_again_whatever_its_agent_left() {
        let folder = tempfile::tempdir().unwrap();
        let started = Arc::new(StartedGateway::marked_by(Some(&folder.path().join("openclaw-data"))));
        let dies = gateway(folder.path(), "sleep 1000 & exit 1", &started);
        assert!(dies.start().await.unwrap());
        let has_died = || started.lock().as_mut().is_some_and(|child| !matches!(child.try_wait(), Ok(None)));
        until("death", has_died).await;
        assert!(dies.is_ours(), "what it left is ours");
        let lives = gateway(folder.path(), "exec sleep 1000", &started);
        assert!(lives.start().await.unwrap());
        until("second start", || starts(folder.path()) == 2).await;
        started.end();
    }

    #[test]
    fn this_machine_is_known_by_its_address() {
        for url in ["ws://127.0.0.1:18789", "wss://localhost:1/x", "ws://[::1]:5", "ws://127.0.0.2"] {
            assert!(is_here(url), "{url}");
        }
        for url in ["ws://box.example:1", "wss://10.0.0.1", "ws://127.0.0.1.example", "ws://localhost.evil"] {
            assert!(!is_here(url), "{url}");
        }
    }
}

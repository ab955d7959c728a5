//! The gateway itself: connecting to one, and starting one where none runs. A gateway serves all sessions, and other
//! programs too; one that was started here ends with the daemon's provider, and is reaped.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use runtime::process::tree::{self, MARK_VARIABLE, Mark, mark_of};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use crate::limits::CONNECT_WAIT;

/// Where the gateway is that every installation has.
pub(super) const USUAL_URL: &str = "ws://127.0.0.1:18789";

pub(super) type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// Opens a connection; an error says why not.
pub(super) async fn open(url: &str) -> Result<Socket, String> {
    crate::tls::use_ring();
    match tokio::time::timeout(CONNECT_WAIT, connect_async(url)).await {
        Ok(Ok((socket, _))) => Ok(socket),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("it does not answer in time".to_owned()),
    }
}

/// Returns whether a gateway's address is this machine's, so that what is here is there as well.
pub(super) fn is_here(url: &str) -> bool {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let place = rest.split(['/', '?']).next().unwrap_or_default();
    let host = match place.strip_prefix('[') {
        Some(six) => six.split(']').next().unwrap_or_default(),
        None => place.split(':').next().unwrap_or_default(),
    };
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The gateway that was started here, if one was. Shared by all sessions.
#[derive(Default)]
pub(super) struct Started {
    held: Mutex<Option<Child>>,
    /// Marks all processes of a gateway, so that they are known after a crash of the daemon that started it.
    mark: Option<Mark>,
}

impl Started {
    /// With a folder of the daemon's own, which must stay the same from one daemon to the next.
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

    /// Returns whether a gateway of ours runs, this daemon's or one that a former daemon left.
    fn is_alive(&self) -> bool {
        let held = self.lock().as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)));
        held || self.mark.as_ref().is_some_and(tree::is_alive)
    }

    /// Ends it with all its processes; the first one may have handed the work to another.
    pub(super) fn end(&self) {
        let held = self.lock().take();
        let group = held.as_ref().and_then(Child::id).and_then(|id| i32::try_from(id).ok());
        if let Some(group) = group.and_then(rustix::process::Pid::from_raw) {
            // What is gone already needs no killing.
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        if let Some(mark) = &self.mark {
            tree::kill_marked(mark);
        }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // What a former daemon left is not ended by somebody who only looked.
        if self.lock().is_some() {
            self.end();
        }
    }
}

/// How a session reaches its gateway.
pub(super) struct Gateway {
    url: String,
    /// The program that can be a gateway; none where one must not be started.
    program: Option<PathBuf>,
    environment: Vec<(OsString, OsString)>,
    started: Arc<Started>,
}

impl Gateway {
    pub(super) fn new(
        url: String,
        program: Option<PathBuf>,
        environment: Vec<(OsString, OsString)>,
        started: Arc<Started>,
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
        self.started.lock().is_some() || self.started.mark.as_ref().is_some_and(tree::is_alive)
    }

    /// Starts a gateway on this machine. Returns whether one is on its way.
    pub(super) async fn start(&self) -> Result<bool, String> {
        let port = self
            .url
            .strip_prefix("ws://127.0.0.1:")
            .and_then(|rest| rest.trim_end_matches('/').parse::<u16>().ok());
        let (Some(program), Some(port)) = (&self.program, port) else { return Ok(false) };
        if self.started.is_alive() {
            return Ok(true);
        }
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
        *self.started.lock() = Some(child);
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gateway(folder: &Path, started: Arc<Started>) -> Gateway {
        let program = folder.join("openclaw");
        if !program.exists() {
            std::fs::write(&program, "#!/bin/sh\nsleep 1000 & exec sleep 1000\n").unwrap();
            std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        Gateway::new("ws://127.0.0.1:9".into(), Some(program), vec![("PATH".into(), path)], started)
    }

    #[tokio::test]
    async fn one_that_a_dead_daemon_left_is_known_and_ended_by_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("data/openclaw");
        let first = Arc::new(Started::marked_by(Some(&place)));
        assert!(gateway(folder.path(), Arc::clone(&first)).start().await.unwrap());
        // Whoever is killed does not tidy up.
        let pid = first.lock().as_ref().and_then(Child::id).unwrap();
        std::mem::forget(first);
        let second = Arc::new(Started::marked_by(Some(&place)));
        let joined = gateway(folder.path(), Arc::clone(&second));
        assert!(joined.is_ours() && joined.start().await.unwrap());
        assert!(second.lock().is_none(), "a second one was started");
        second.end();
        // It was a child of this very process, which reaps it as the system does for a daemon's that died.
        let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap());
        rustix::process::waitpid(pid, rustix::process::WaitOptions::empty()).ok();
        let gone = async {
            while joined.is_ours() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(std::time::Duration::from_secs(30), gone).await.expect("its processes end");
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

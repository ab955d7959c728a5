//! The gateway itself: connecting to one, and starting one where none runs. A gateway serves all sessions, and other
//! programs too; one that was started here ends with the daemon's provider, and is reaped.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};

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
pub(super) type Started = Arc<Mutex<Option<Held>>>;

/// A gateway with all its processes: its first one may have handed the work to another.
pub(super) struct Held(Child);

impl Drop for Held {
    fn drop(&mut self) {
        let group =
            self.0.id().and_then(|id| i32::try_from(id).ok()).and_then(rustix::process::Pid::from_raw);
        if let Some(group) = group {
            // What is gone already needs no killing.
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
    }
}

/// How a session reaches its gateway.
pub(super) struct Gateway {
    url: String,
    /// The program that can be a gateway; none where one must not be started.
    program: Option<PathBuf>,
    environment: Vec<(OsString, OsString)>,
    started: Started,
}

impl Gateway {
    pub(super) fn new(
        url: String,
        program: Option<PathBuf>,
        environment: Vec<(OsString, OsString)>,
        started: Started,
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
        self.started.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Starts a gateway on this machine. Returns whether one is on its way.
    pub(super) async fn start(&self) -> Result<bool, String> {
        let port = self
            .url
            .strip_prefix("ws://127.0.0.1:")
            .and_then(|rest| rest.trim_end_matches('/').parse::<u16>().ok());
        let (Some(program), Some(port)) = (&self.program, port) else { return Ok(false) };
        let mut started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Held(child)) = started.as_mut()
            && matches!(child.try_wait(), Ok(None))
        {
            return Ok(true);
        }
        let child = Command::new(program)
            .args(["gateway", "run", "--port", &port.to_string()])
            .env_clear()
            .envs(self.environment.iter().cloned())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("{} cannot be started: {error}", program.display()))?;
        *started = Some(Held(child));
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::is_here;

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

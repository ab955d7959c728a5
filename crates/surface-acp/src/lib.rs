//! The surface of the Agent Client Protocol (version 1): an editor's lines in, a session's updates out.
//!
//! A connection is one editor. It may live in a program of its own ([`start`]) or come to the daemon over the socket
//! ([`routes`]); both are the same code. It keeps what a connection is (who is at the other end, which sessions are open
//! on it, which of its prompts wait for an answer) and nothing that outlives it.
//!
//! ```text
//!   lines ──▶ connection ──▶ talk (one per session, in order) ──▶ supervisor
//!                                                                     │ journal
//!   lines ◀── outbox (bounded) ◀── feed (one per session) ◀───────────┘
//! ```

mod client_requests;
mod connection;
mod editor_tools;
mod event_log;
mod feed;
mod from_wire;
pub mod limits;
mod lines;
mod modes;
mod notify;
mod outbox;
mod presence;
mod questions;
mod resume;
mod resume_state;
mod rpc;
mod service;
mod session_stream;
mod sessions;
mod state;
mod to_wire;
mod tools;
#[cfg(test)]
mod transcript;
#[cfg(test)]
#[path = "../../surface/transcript/session.rs"]
mod transcript_session;
mod watch;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use domain::{Error, ErrorCode, ProviderKind};
use runtime::Supervisor;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{mpsc, watch as channel};
use tokio::task::JoinHandle;

use connection::{AcpCaller, AcpConnection, ConnectionEnding, ResumableConnection};
pub use notify::{NotificationSourceKind as NotifyKind, forward};
pub use outbox::OutputFrame;
use presence::OpenSessions;
pub use resume_state::{NoteChanges, Notes};
pub use service::routes;
pub use state::SessionStatus;

/// What the sessions of a connection are like unless the client says otherwise.
#[derive(Clone, Debug)]
pub struct AcpSessionDefaults {
    pub provider: ProviderKind,
    /// Empty: the provider's own.
    pub model: String,
    /// Id of a mode; empty: supervised.
    pub mode: String,
    /// Wins over what a mode says.
    pub provider_config: BTreeMap<String, String>,
    pub environment: BTreeMap<String, String>,
    /// Agents go on when the connection ends.
    pub keep: bool,
    pub max_sessions: usize,
    /// A turn that was silent for this long is ended; none: never.
    pub idle_timeout: Option<Duration>,
    /// How often silence and the notify file are looked at.
    pub polling_interval: Duration,
    /// Where the agent's own notifications are written to.
    pub notify: Option<NotificationSource>,
    /// A file to which what happens on the connection is written.
    pub evidence: Option<PathBuf>,
    /// Agents are given what the editor offers as tools. They reach those over the supervisor's socket, so where nobody
    /// serves the bridge there (`surfaces::bridge`) they are not.
    pub lends_tools: bool,
}

/// A source of notifications.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotificationSource {
    pub path: PathBuf,
    pub kind: NotifyKind,
}

impl Default for AcpSessionDefaults {
    fn default() -> Self {
        Self {
            provider: ProviderKind::Codex,
            model: String::new(),
            mode: String::new(),
            provider_config: BTreeMap::new(),
            environment: BTreeMap::new(),
            keep: false,
            max_sessions: limits::ACP_SESSIONS_MAX,
            idle_timeout: None,
            polling_interval: limits::ACP_POLLING_INTERVAL,
            notify: None,
            evidence: None,
            lends_tools: false,
        }
    }
}

/// Everything a server of its own needs: the sessions, and the two ends of a pipe.
pub struct RuntimeConfig {
    pub supervisor: Supervisor,
    pub defaults: AcpSessionDefaults,
    pub input: Box<dyn AsyncRead + Send + Unpin>,
    pub output: Box<dyn AsyncWrite + Send + Unpin>,
}

/// A running server of one connection.
pub struct RuntimeServer {
    ending: channel::Sender<ConnectionEnding>,
    serving: Option<JoinHandle<()>>,
    writing: Option<JoinHandle<()>>,
}

/// Serves one client. When this returns, its lines are read. Must be called on a tokio runtime.
pub async fn start(config: RuntimeConfig) -> Result<RuntimeServer, Error> {
    // Fails now rather than at the first prompt.
    config.supervisor.providers().get(config.defaults.provider)?;
    let (ending, is_ending) = channel::channel(ConnectionEnding::Open);
    let (pieces, input) = mpsc::channel(limits::ACP_INPUT_READY_MAX);
    let (connection, frames) = AcpConnection::new(
        config.supervisor,
        config.defaults,
        OpenSessions::default(),
        ResumableConnection::default(),
        AcpCaller::user(),
    );
    tokio::spawn(read(config.input, pieces));
    let writing = tokio::spawn(write(frames, config.output));
    let serving = tokio::spawn(connection.run(input, is_ending));
    Ok(RuntimeServer { ending, serving: Some(serving), writing: Some(writing) })
}

impl RuntimeServer {
    /// Cancels what runs, ends every agent of this connection and waits for that, 5 s at most.
    pub async fn stop(&mut self) -> Result<(), Error> {
        self.ending.send_replace(ConnectionEnding::Stop);
        let ended = tokio::time::timeout(limits::ACP_STOP_WAIT, self.ended()).await;
        ended.map_err(|_| {
            let seconds = limits::ACP_STOP_WAIT.as_secs();
            Error::new(ErrorCode::StopTimedOut, format!("the connection did not end within {seconds} s"))
        })
    }

    /// Waits until the client has left and everything it started has ended.
    pub async fn ended(&mut self) {
        if let Some(serving) = &mut self.serving {
            // Fails only when the task broke down; then there is nothing more to wait for.
            let _broken = serving.await;
            self.serving = None;
        }
        if let Some(writing) = self.writing.take() {
            // A client that does not read its last lines must not keep the server.
            let _late = tokio::time::timeout(limits::ACP_POLLING_INTERVAL, writing).await;
        }
    }
}

/// Hands on what the client sends until it ends or nobody wants it.
async fn read(mut from: Box<dyn AsyncRead + Send + Unpin>, pieces: mpsc::Sender<Bytes>) {
    let mut buffer = vec![0; limits::ACP_READ_BYTES];
    while let Ok(count) = from.read(&mut buffer).await {
        if count == 0 || pieces.send(Bytes::copy_from_slice(&buffer[..count])).await.is_err() {
            return;
        }
    }
}

/// Writes what there is for the client, and flushes it each time.
async fn write(mut frames: mpsc::Receiver<OutputFrame>, mut to: Box<dyn AsyncWrite + Send + Unpin>) {
    while let Some(frame) = frames.recv().await {
        match frame {
            OutputFrame::Lines(lines, _) => {
                if to.write_all(&lines).await.is_err() || to.flush().await.is_err() {
                    return;
                }
            }
            OutputFrame::Log { level, message } => log(level, &message),
            OutputFrame::End | OutputFrame::Leave => return,
        }
    }
}

/// Says on standard error what a connection says about itself.
pub fn log(level: &str, message: &str) {
    match level {
        "error" => tracing::error!("{message}"),
        "warn" => tracing::warn!("{message}"),
        "info" => tracing::info!("{message}"),
        _ => tracing::debug!("{message}"),
    }
}

/// What all connections of a daemon share.
#[derive(Clone)]
struct Shared {
    supervisor: Supervisor,
    presence: OpenSessions,
    leaving: Arc<channel::Receiver<bool>>,
}

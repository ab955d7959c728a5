//! The surface of the Agent Client Protocol (version 1): it reads an editor's lines and sends it a session's
//! updates.
//!
//! A connection is one editor. It is served either in a process of its own ([`start`]) or by the daemon over
//! its socket ([`routes`]); both run the same code. This module owns what belongs to a connection (the
//! client, the sessions open on it, the prompts that wait for an answer) and must not keep anything that
//! outlives the connection.
//!
//! ```text
//!   lines ──▶ connection ──▶ session stream (one per session, in order) ──▶ supervisor
//!                                                                               │ journal
//!   lines ◀── outbox (bounded) ◀── feed (one per session) ◀─────────────────────┘
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
mod session_settings;
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

/// Defaults for the sessions of a connection. The client can override them.
#[derive(Clone, Debug)]
pub struct AcpSessionDefaults {
    pub provider: ProviderKind,
    /// Empty: the provider's default model.
    pub model: String,
    /// The id of a mode; empty: that of the folder's campaign, else the daemon's default.
    pub mode: String,
    /// Overrides the entries that the mode sets.
    pub provider_config: BTreeMap<String, String>,
    /// What sessions take over of the editor's environment.
    pub caller_environment: BTreeMap<String, String>,
    pub environment: BTreeMap<String, String>,
    /// Keep the agents running when the connection ends.
    pub keep: bool,
    pub max_sessions: usize,
    /// A turn without output for this long is ended; `None`: never.
    pub idle_timeout: Option<Duration>,
    /// How often idle time and the notify file are checked.
    pub polling_interval: Duration,
    /// Where the agent writes its own notifications.
    pub notify: Option<NotificationSource>,
    /// The file that receives a log of what happens on the connection.
    pub evidence: Option<PathBuf>,
    /// Offer the editor's abilities to the agents as tools. Agents call these tools over the supervisor's
    /// socket, so this must be false where that socket does not serve the bridge (`surfaces::bridge`).
    pub lends_tools: bool,
}

/// The file or FIFO that notifications are read from.
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
            caller_environment: BTreeMap::new(),
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

/// What a standalone server needs: the supervisor, and the two ends of a pipe.
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

/// Starts serving one client. The input is being read when this returns. Must be called on a tokio runtime.
pub async fn start(config: RuntimeConfig) -> Result<RuntimeServer, Error> {
    // An unknown provider fails here rather than at the first prompt.
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
    /// Cancels what runs, stops every agent of this connection and waits for that, for 5 s at most.
    pub async fn stop(&mut self) -> Result<(), Error> {
        self.ending.send_replace(ConnectionEnding::Stop);
        let ended = tokio::time::timeout(limits::ACP_STOP_WAIT, self.ended()).await;
        ended.map_err(|_| {
            let seconds = limits::ACP_STOP_WAIT.as_secs();
            Error::new(ErrorCode::StopTimedOut, format!("the connection did not end within {seconds} s"))
        })
    }

    /// Waits until the client has disconnected and everything it started has ended.
    pub async fn ended(&mut self) {
        if let Some(serving) = &mut self.serving {
            // `await` fails only if the task panicked; then there is nothing left to wait for.
            let _broken = serving.await;
            self.serving = None;
        }
        if let Some(writing) = self.writing.take() {
            // A client that does not read its last lines must not keep the server alive.
            let _late = tokio::time::timeout(limits::ACP_POLLING_INTERVAL, writing).await;
        }
    }
}

/// Forwards the client's bytes until end of input, or until the receiver is dropped.
async fn read(mut from: Box<dyn AsyncRead + Send + Unpin>, pieces: mpsc::Sender<Bytes>) {
    let mut buffer = vec![0; limits::ACP_READ_BYTES];
    while let Ok(count) = from.read(&mut buffer).await {
        if count == 0 || pieces.send(Bytes::copy_from_slice(&buffer[..count])).await.is_err() {
            return;
        }
    }
}

/// Writes the output frames to the client and flushes after each one.
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

/// Writes a connection's log message to standard error.
pub fn log(level: &str, message: &str) {
    match level {
        "error" => tracing::error!("{message}"),
        "warn" => tracing::warn!("{message}"),
        "info" => tracing::info!("{message}"),
        _ => tracing::debug!("{message}"),
    }
}

/// State shared by all connections of a daemon.
#[derive(Clone)]
struct Shared {
    supervisor: Supervisor,
    presence: OpenSessions,
    leaving: Arc<channel::Receiver<bool>>,
}

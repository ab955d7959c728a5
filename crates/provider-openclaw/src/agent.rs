//! One conversation at the gateway, as an agent inside the daemon: a task that keeps a connection, reconnects
//! when it is lost, and reports the loss meanwhile (OBEY-2032). Its MCP servers are registered when it starts
//! and removed when it ends. What frames mean is in `frames`.

use std::time::Duration;

use agent_port::InProcessAgent;
use domain::event::{Attachment, Level};
use domain::{AgentEvent, AgentInput, Error, ErrorCode};
use futures_util::{SinkExt as _, StreamExt as _};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Message;

use super::config_writer::ConfigWriter;
use super::frames::{FrameEffects, GatewayConversation, lost};
use super::gateway::{Gateway, Socket};
use super::servers::GatewayServer;
use crate::limits::{
    GATEWAY_BACK_WAIT, GATEWAY_FAREWELL_WAIT, GATEWAY_LEAVE_WAIT, GATEWAY_RUN_GAP, GATEWAY_START_WAIT,
    GATEWAY_USAGE_WAIT, INBOX_MAX, RETRY_BASE_WAIT, RETRY_MAX_WAIT,
};
use provider_common::attachment;

/// The MCP servers that a conversation has at its gateway.
#[derive(Clone)]
pub(super) struct GatewayTools {
    pub(super) registry: ConfigWriter,
    pub(super) url: String,
    pub(super) token: String,
    pub(super) servers: Vec<GatewayServer>,
}

impl GatewayTools {
    /// Registers them at the gateway.
    async fn come(&self) -> Result<(), String> {
        let all = self.servers.iter().map(|server| (server.name.clone(), Some(server.definition.clone())));
        self.registry.change(&self.url, &self.token, all.collect()).await
    }

    /// Removes them from the gateway.
    async fn go(&self) {
        let all = self.servers.iter().map(|server| (server.name.clone(), None));
        if let Err(reason) = self.registry.change(&self.url, &self.token, all.collect()).await {
            // What is left is harmless: it is enabled only for a conversation that has ended.
            tracing::warn!(
                url = self.url,
                reason,
                "servers of an ended session stay in the gateway's configuration"
            );
        }
    }
}

/// The agent as its session holds it.
pub(super) struct OpenclawAgent {
    worker: Option<(GatewayConversation, Gateway)>,
    tools: GatewayTools,
    /// The channel for reports, while its servers are registered at the gateway.
    events: Option<mpsc::WeakSender<AgentEvent>>,
    inbox: mpsc::Sender<AgentInput>,
    waiting: Option<mpsc::Receiver<AgentInput>>,
    task: Option<JoinHandle<()>>,
}

impl OpenclawAgent {
    pub(super) fn new(conversation: GatewayConversation, gateway: Gateway, tools: GatewayTools) -> Self {
        let (inbox, waiting) = mpsc::channel(INBOX_MAX);
        let worker = Some((conversation, gateway));
        Self { worker, tools, events: None, inbox, waiting: Some(waiting), task: None }
    }
}

impl InProcessAgent for OpenclawAgent {
    fn start(&mut self, events: mpsc::Sender<AgentEvent>) {
        if let (Some((conversation, gateway)), Some(inbox)) = (self.worker.take(), self.waiting.take()) {
            let tools = self.tools.clone();
            self.events = (!tools.servers.is_empty()).then(|| events.downgrade());
            let worker =
                OpenclawWorker { conversation, gateway, tools, inbox, events, runs: 0, lost_since: None };
            self.task = Some(tokio::spawn(worker.live()));
        }
    }

    fn check(&self, input: &AgentInput) -> Result<(), Error> {
        match input {
            AgentInput::Prompt { attachments, .. } => {
                attachments.iter().try_for_each(|file| part(file).map(drop))
            }
            AgentInput::SetModel(_) => {
                Err(Error::invalid("model", "the gateway's model is chosen when the session is created"))
            }
            AgentInput::Compact => {
                Err(Error::new(ErrorCode::WrongState, "OpenClaw compacts its conversations by itself"))
            }
            AgentInput::Steer { .. }
            | AgentInput::Interrupt
            | AgentInput::Decide { .. }
            | AgentInput::Answer { .. }
            | AgentInput::ToolResult { .. }
            | AgentInput::Tools(_)
            | AgentInput::SetMode(_)
            | AgentInput::Leave => Ok(()),
        }
    }

    fn send(&mut self, input: AgentInput) -> Result<(), Error> {
        self.inbox.try_send(input).map_err(|_| {
            Error::new(ErrorCode::DeliveryFailed, "the agent inside the daemon does not take anything in")
        })
    }

    fn stop(&mut self) {
        let Some(task) = self.task.take() else { return };
        let events = self.events.take().map(|events| events.upgrade());
        let (inbox, tools) = (self.inbox.clone(), self.tools.clone());
        tokio::spawn(async move {
            // The agent counts as ended when nothing can send reports any more. For a limited time that is
            // delayed until its work at the gateway has ended, and its servers are removed, which is not
            // possible while it works.
            let _open = events;
            let abort = task.abort_handle();
            let left = async {
                let _ = inbox.send(AgentInput::Leave).await;
                task.await
            };
            if tokio::time::timeout(GATEWAY_FAREWELL_WAIT, left).await.is_err() {
                abort.abort();
            }
            if !tools.servers.is_empty() {
                let going = tokio::spawn(async move { tools.go().await });
                let _ = tokio::time::timeout(GATEWAY_LEAVE_WAIT, going).await;
            }
        });
    }

    /// Its conversation continues at the gateway, with its servers.
    fn detach(&mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
        }
    }
}

impl Drop for OpenclawAgent {
    fn drop(&mut self) {
        self.detach();
    }
}

/// Returns a file in the gateway's format.
fn part(file: &Attachment) -> Result<serde_json::Value, Error> {
    attachment::bytes(file)?;
    let content = attachment::base64_text(file);
    Ok(
        serde_json::json!({"type": "file", "mimeType": file.media_type, "fileName": file.name, "content": content}),
    )
}

/// The session has ended, or stops the agent.
struct SessionGone;

struct OpenclawWorker {
    conversation: GatewayConversation,
    gateway: Gateway,
    tools: GatewayTools,
    inbox: mpsc::Receiver<AgentInput>,
    events: mpsc::Sender<AgentEvent>,
    runs: u64,
    lost_since: Option<Instant>,
}

impl OpenclawWorker {
    async fn live(mut self) {
        // The error only says that the session has ended, so there is no one to report it to.
        let _ = self.work().await;
    }

    async fn work(&mut self) -> Result<(), SessionGone> {
        let mut socket = self.first_connection().await?;
        loop {
            self.converse(&mut socket).await?;
            socket = self.come_back().await?;
        }
    }

    /// Connects; starts a gateway if none runs and one can be started.
    async fn first_connection(&mut self) -> Result<Socket, SessionGone> {
        match self.gateway.connect().await {
            Ok(socket) => return Ok(socket),
            Err(reason) => match self.gateway.start().await {
                Ok(true) => {}
                Ok(false) => return self.give_up(reason).await,
                Err(reason) => return self.give_up(reason).await,
            },
        }
        self.notice(Level::Info, "starting an OpenClaw gateway".to_owned()).await?;
        let until = Instant::now() + GATEWAY_START_WAIT;
        loop {
            match self.gateway.connect().await {
                Ok(socket) => return Ok(socket),
                Err(reason) if Instant::now() >= until => return self.give_up(reason).await,
                Err(_) => tokio::time::sleep(RETRY_BASE_WAIT).await,
            }
        }
    }

    async fn give_up<T>(&mut self, reason: String) -> Result<T, SessionGone> {
        let message = format!(
            "no OpenClaw gateway at {}: {reason}; start one with `openclaw gateway run`, or name another with \
             provider_config.gateway_url",
            self.gateway.url()
        );
        self.emit(AgentEvent::Broken { code: Some(ErrorCode::ProviderNotReady), message }).await?;
        // A broken agent is ended by its session.
        std::future::pending().await
    }

    /// Forwards frames and inputs until the connection is lost.
    async fn converse(&mut self, socket: &mut Socket) -> Result<(), SessionGone> {
        let (mut over_at, mut unsure_at, mut heard_at) = (None, None, Instant::now());
        loop {
            let mut out = FrameEffects::default();
            over_at = self.conversation.is_over().then(|| over_at.unwrap_or_else(Instant::now));
            unsure_at = self.conversation.is_unsure().then(|| unsure_at.unwrap_or_else(Instant::now));
            tokio::select! {
                biased;
                input = self.inbox.recv(), if self.conversation.is_connected => self.take_input(input, &mut out)?,
                () = since(over_at, GATEWAY_USAGE_WAIT) => self.conversation.settle(&mut out),
                () = since(unsure_at, GATEWAY_RUN_GAP) => self.conversation.look(&mut out),
                message = socket.next() => match message {
                    Some(Ok(Message::Text(text))) => {
                        heard_at = Instant::now();
                        self.conversation.take(text.as_str(), &mut out);
                    }
                    Some(Ok(Message::Close(_)) | Err(_)) | None => return Ok(()),
                    // The library answers pings.
                    Some(Ok(_)) => heard_at = Instant::now(),
                },
                // Last: messages that have already arrived count as received.
                () = since(Some(heard_at), self.conversation.silence()) => return Ok(()),
            }
            if self.conversation.is_connected {
                self.lost_since = None;
            }
            let register = out.register;
            if !self.carry_out(socket, out).await? {
                return Ok(());
            }
            if self.conversation.has_left() {
                return Err(SessionGone);
            }
            if register {
                let mut out = FrameEffects::default();
                self.conversation.registered(self.tools.come().await, &mut out);
                heard_at = Instant::now();
                if !self.carry_out(socket, out).await? {
                    return Ok(());
                }
            }
        }
    }

    /// Sends reports and frames. Returns whether the connection still works.
    async fn carry_out(&mut self, socket: &mut Socket, out: FrameEffects) -> Result<bool, SessionGone> {
        for event in out.events {
            self.emit(event).await?;
        }
        for frame in out.frames {
            // A silent peer may also not read.
            let sent =
                tokio::time::timeout(self.conversation.silence(), socket.send(Message::text(frame))).await;
            if !matches!(sent, Ok(Ok(()))) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn take_input(&mut self, input: Option<AgentInput>, out: &mut FrameEffects) -> Result<(), SessionGone> {
        match input {
            None => return Err(SessionGone),
            Some(AgentInput::Prompt { text, attachments }) => {
                let attachments = attachments.iter().filter_map(|file| part(file).ok()).collect();
                let run = self.name();
                out.events.push(AgentEvent::TurnStarted);
                self.conversation.prompt(&text, attachments, run, out);
            }
            Some(AgentInput::Steer { text }) => {
                let name = self.name();
                self.conversation.steer(&text, &name, out);
            }
            Some(AgentInput::Interrupt) => self.conversation.interrupt(out),
            Some(AgentInput::Decide { native, decision, message, .. }) => {
                self.conversation.decide(&native, decision, &message, out);
            }
            // No client would see what it continues to do.
            Some(AgentInput::Leave) => self.conversation.leave(out),
            // Modes are ours: the gateway asks, and is answered. Tools of clients reach it through the
            // bridge.
            Some(
                AgentInput::Answer { .. }
                | AgentInput::ToolResult { .. }
                | AgentInput::Tools(_)
                | AgentInput::SetMode(_)
                | AgentInput::SetModel(_)
                | AgentInput::Compact,
            ) => {}
        }
        Ok(())
    }

    /// Returns a new run id: the gateway accepts an id once, also across restarts of the daemon.
    fn name(&mut self) -> String {
        use std::hash::{BuildHasher as _, RandomState};
        self.runs += 1;
        let random = RandomState::new().hash_one(self.runs);
        format!("{}-{}-{random:016x}", self.conversation.key, self.runs)
    }

    /// Reconnects, and reports the loss until that succeeds.
    async fn come_back(&mut self) -> Result<Socket, SessionGone> {
        self.conversation.lose();
        let since = *self.lost_since.get_or_insert_with(Instant::now);
        if self.conversation.has_begun() {
            let code = ErrorCode::ConnectionLost;
            let message = format!("{code}: the connection to the OpenClaw gateway is lost; coming back");
            self.emit(AgentEvent::Waits { code, message }).await?;
        }
        let mut wait = RETRY_BASE_WAIT;
        loop {
            self.pause(wait.mul_f64(0.5 + chance() / 2.0)).await?;
            wait = (wait * 2).min(RETRY_MAX_WAIT);
            match self.gateway.connect().await {
                Ok(socket) => return Ok(socket),
                Err(reason) if since.elapsed() >= GATEWAY_BACK_WAIT && self.conversation.is_at_work() => {
                    let mut out = FrameEffects::default();
                    self.conversation.fail(lost(&reason), &mut out);
                    for event in out.events {
                        self.emit(event).await?;
                    }
                }
                // A gateway that was started here is restarted.
                Err(_) if self.gateway.is_ours() => drop(self.gateway.start().await),
                Err(_) => {}
            }
        }
    }

    /// Waits. New prompts are refused meanwhile; messages to a run are kept.
    async fn pause(&mut self, wait: Duration) -> Result<(), SessionGone> {
        let until = Instant::now() + wait;
        loop {
            let mut out = FrameEffects::default();
            tokio::select! {
                () = tokio::time::sleep_until(until) => return Ok(()),
                input = self.inbox.recv() => match input {
                    None | Some(AgentInput::Leave) => return Err(SessionGone),
                    Some(AgentInput::Prompt { .. }) => {
                        out.events.push(AgentEvent::TurnStarted);
                        out.events.push(AgentEvent::TurnEnded {
                            reason: domain::turn::EndReason::Failed,
                            text: String::new(),
                            error: lost("nobody answers there"),
                        });
                    }
                    // It has ended for the caller; the gateway is informed after the reconnect.
                    Some(AgentInput::Interrupt) => {
                        self.conversation.interrupt(&mut FrameEffects::default());
                        self.conversation.fail(String::new(), &mut out);
                    }
                    // So it is of messages and decisions.
                    other @ Some(
                        AgentInput::Steer { .. }
                        | AgentInput::Decide { .. }
                        | AgentInput::Answer { .. }
                        | AgentInput::ToolResult { .. }
                        | AgentInput::Tools(_)
                        | AgentInput::SetMode(_)
                        | AgentInput::SetModel(_)
                        | AgentInput::Compact,
                    ) => self.take_input(other, &mut out)?,
                },
            }
            for event in out.events {
                self.emit(event).await?;
            }
        }
    }

    async fn emit(&self, event: AgentEvent) -> Result<(), SessionGone> {
        self.events.send(event).await.map_err(|_| SessionGone)
    }

    async fn notice(&self, level: Level, message: String) -> Result<(), SessionGone> {
        self.emit(AgentEvent::Notice { level, message }).await
    }
}

/// Returns a random number between 0 and 1: all sessions lost the same gateway at the same time and must not
/// reconnect together.
fn chance() -> f64 {
    use std::hash::{BuildHasher as _, RandomState};
    let random = RandomState::new().hash_one(0) >> 11;
    random as f64 / (1_u64 << 53) as f64
}

/// Waits until some time after an instant; forever if there is none.
async fn since(at: Option<Instant>, wait: Duration) {
    match at {
        Some(at) => tokio::time::sleep_until(at + wait).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
